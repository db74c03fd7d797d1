"""Fixtures of files that have a cluster of their own, their fixture `arena`; and one whose settings can be written anew."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.local.cluster import Cluster
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, namespace_in, take_down


@contextmanager
def configured(
    make_cluster: MakeCluster, folders: pytest.TempPathFactory, settings: str = "", *, nodes: int, gpus: int
) -> Iterator[Cluster]:
    """A cluster whose add-on reads these settings (YAML) from a file, `cluster.settings.addon_config`."""
    path = folders.mktemp("settings") / "settings.yaml"
    path.write_text(settings)
    made = make_cluster(nodes=nodes, gpus=gpus, addon_config=path)
    yield made
    take_down(made)


@pytest.fixture
def admin(arena: Cluster) -> Caller:
    return Caller(arena.kubeconfig)


@pytest.fixture
def gang(arena: Cluster) -> Iterator[str]:
    """A namespace that asks for gangs; its pods are gone at the end."""
    with namespace_in(arena, "gang") as name:
        yield name
