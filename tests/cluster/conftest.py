"""What all cluster tests share: one cluster with the add-on, namespaces of their own, polling with a deadline.

Every cluster is tied to this process: if it is killed, the next run cleans them away.
"""

import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from deploy.local import teardown
from deploy.local.cluster import Cluster
from deploy.local.errors import NotFoundError
from deploy.local.kubectl import Kubectl
from deploy.local.paths import home
from deploy.local.settings import Settings

T = TypeVar("T")
POLL_SECONDS = 0.1
VICTIM_SETTINGS = "bindTimeoutSeconds: 5\nmaxWaitingGroupsPerNamespace: 5\nquotaPatienceSeconds: 5\n"
MakeCluster = Callable[..., Cluster]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of few tests are those that take long: they come first, so that no worker is left alone with one."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: counts[item.path])


def wait_until(check: Callable[[], T], *, timeout: float = 60.0, what: str = "") -> T:
    """What `check` answers as soon as that is true; fails, with the last answer, after `timeout` seconds.

    An AssertionError of `check` counts as not yet, and is the failure when time runs out.
    """
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while True:
        late = time.monotonic() > deadline
        try:
            if answer := check():
                return answer
            failure = f"{what or check}: still {answer!r} after {timeout:g} s"
        except AssertionError as error:
            if late:
                raise
            failure = str(error)
        assert not late, failure
        pause.wait(POLL_SECONDS)


def holds_for(check: Callable[[], Any], seconds: float, what: str = "") -> None:
    """Fail as soon as `check` is not true during the next `seconds`."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < deadline:
        assert check(), what or f"{check} did not hold"
        pause.wait(POLL_SECONDS)


@contextmanager
def namespace_in(cluster: Cluster, policy: str | None = None, **annotations: str) -> Iterator[str]:
    """A fresh namespace in which pods can be created at once; its pods are gone at the end."""
    kubectl, name = cluster.kubectl, f"t-{uuid.uuid4().hex[:8]}"
    labels = {"scheduling-policy": policy} if policy else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    kubectl.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    try:
        yield name
    finally:
        empty(kubectl, name)


def empty(kubectl: Kubectl, namespace: str) -> None:
    """Delete a namespace and wait until its pods hold no node and no quota any more."""
    kubectl("delete", "namespace", namespace, "--wait=false")
    wait_until(
        lambda: not kubectl.json("get", "pods", "-n", namespace)["items"], timeout=60, what=f"pods of {namespace}"
    )


@pytest.fixture(scope="session")
def make_cluster() -> Iterator[MakeCluster]:
    """Bring up a cluster of the given settings; all are taken down when the session ends, however it ends."""
    teardown.reap(home())
    made: list[Cluster] = []

    def make(**settings: Any) -> Cluster:
        name = settings.pop("name", f"test-{os.getpid()}-{len(made)}")
        fresh = Cluster(Settings(name=name, tied=True, **settings))
        made.append(fresh)
        fresh.up()
        return fresh

    yield make
    for cluster in made:
        take_down(cluster)


def take_down(cluster: Cluster) -> None:
    """Take a cluster down unless its test has done so."""
    try:
        cluster.down()
    except NotFoundError:
        return


@pytest.fixture(scope="session")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """The cluster with the add-on that most tests share: 8 nodes of 8 GPUs. Leave it as you found it."""
    return make_cluster()


@pytest.fixture(scope="module")
def arena(make_cluster: MakeCluster) -> Iterator[Cluster]:
    """Four nodes of 8 GPUs for the tests of one file: groups that compete for quotas."""
    made = make_cluster(nodes=4, gpus=8)
    yield made
    take_down(made)


@pytest.fixture(scope="session")
def victim_cluster(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster whose parts the tests of failures break and heal; a lifted gang has 5 s to be bound, 5 groups may wait."""
    settings = tmp_path_factory.mktemp("victim") / "settings.yaml"
    settings.write_text(VICTIM_SETTINGS)
    return make_cluster(addon_config=settings)


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """`kubectl(*arguments) -> str` and `kubectl.json(*arguments)`, as administrator."""
    return cluster.kubectl


@pytest.fixture
def gang_namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace labelled scheduling-policy=gang."""
    with namespace_in(cluster, "gang") as name:
        yield name


@pytest.fixture
def plain_namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace that ganggate does not look at."""
    with namespace_in(cluster) as name:
        yield name
