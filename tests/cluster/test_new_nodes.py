"""Nodes that are not there yet, live: made by an autoscaler, or known to a driver of devices only."""

from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import backlog
from tests.cluster.arenas import admin, configured, gang
from tests.cluster.backlog import GPU
from tests.cluster.breaking import LONG, bound, hears, held, jobs, must
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, holds_for, wait_until

__all__ = ["admin", "gang"]

SETTINGS = f"autoscaledPools: [{{name: burst, labels: {{pool: burst}}, allocatable: {{{GPU}: 8}}}}]"


@pytest.fixture(scope="module")
def arena(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 8 GPUs, and the word that an autoscaler makes others."""
    with configured(make_cluster, tmp_path_factory, SETTINGS, nodes=1, gpus=8) as made:
        yield made


def test_a_gang_is_let_go_for_nodes_that_an_autoscaler_is_to_make(arena: Cluster, admin: Caller, gang: str) -> None:
    body = backlog.job("wide", gang, 2, LONG, gpus=8)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "burst"}
    must(admin.create(jobs(gang), body))
    note = hears(admin, gang, "wide", names.Reason.ADMITTED)
    assert note.endswith("2 pods without a node yet: an autoscaler is to make it (burst)")
    wait_until(lambda: held(admin, gang) == 0, what="both without their gates")
    assert bound(admin, gang) == 0
    for node in arena.add_nodes(2, gpus=8):
        arena.kubectl("label", "node", node, "pool=burst")
    wait_until(lambda: bound(admin, gang) == 2, what="both on the new nodes")


def test_who_fits_on_no_node_of_the_pool_never_starts(admin: Caller, gang: str) -> None:
    body = backlog.job("huge", gang, 2, LONG, gpus=9)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "burst"}
    must(admin.create(jobs(gang), body))
    hears(admin, gang, "huge", names.Reason.NEVER_FITS)
    holds_for(lambda: held(admin, gang) == 2, 2, "a gate was opened")


def test_what_a_device_class_provides_is_left_to_the_scheduler(admin: Caller, gang: str) -> None:
    """No node tells of it; a class that comes later is believed at once."""
    body = backlog.job("fpga", gang, 2, LONG, gpus=0)
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"example.com/fpga": "1"}}
    must(admin.create(jobs(gang), body))
    hears(admin, gang, "fpga", names.Reason.NEVER_FITS)
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "fpga"},
        "spec": {
            "extendedResourceName": "example.com/fpga",
            "selectors": [{"cel": {"expression": 'device.driver == "fpga.example.com"'}}],
        },
    }
    must(admin.create("/apis/resource.k8s.io/v1/deviceclasses", made))
    note = hears(admin, gang, "fpga", names.Reason.ADMITTED)
    assert "placement cannot be verified (example.com/fpga of a DeviceClass)" in note
    wait_until(lambda: held(admin, gang) == 0, what="both without their gates")
