"""Owners of kinds that ganggate has no file for: looked up where it may, told of in the settings."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking, submissions
from tests.cluster.arenas import admin, configured
from tests.cluster.breaking import bound, hears, held, must, pods
from tests.cluster.calls import Caller
from tests.cluster.conftest import MakeCluster, holds_for, wait_until
from tests.cluster.rights import RBAC, restart
from tests.cluster.victims import gang

__all__ = ["admin", "gang"]

GROUP = "example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRAINING = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Training",
    "plural": "trainings",
    "parts": [{"each": "spec.groups", "replicas": "size", "minimum": "least"}],
    "roleLabel": "example.com/role",
    "suspend": "spec.suspend",
}


def definition(kind: str, plural: str, *, scales: bool) -> dict[str, Any]:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": scale} if scales else {},
    }
    if scales:
        number = {"type": "object", "properties": {"size": {"type": "integer"}}}
        properties = {"spec": number, "status": number}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names_of = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    spec = {"group": GROUP, "names": names_of, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


def grant(admin: Caller, name: str, verbs: list[str], *resources: str) -> None:
    """A right for the gatekeeper, as docs/owners.md tells its operator to give it."""
    body = {
        "metadata": {"name": name, "labels": {names.LABEL_AGGREGATE: "true"}},
        "rules": [{"apiGroups": [GROUP], "resources": list(resources), "verbs": verbs}],
    }
    must(admin.create(f"{RBAC}/clusterroles", body))


@pytest.fixture(scope="module")
def arena(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 4 GPUs; a second kind is told of in its settings once it is there."""
    with configured(make_cluster, tmp_path_factory, nodes=1, gpus=4) as made:
        for kind, plural, scales in (("Fleet", "fleets", True), ("Training", "trainings", False)):
            must(Caller(made.kubeconfig).create(CRDS, definition(kind, plural, scales=scales)))
            made.kubectl("wait", "--for=condition=established", f"crd/{plural}.{GROUP}", "--timeout=30s")
        yield made


def owner(admin: Caller, gang: str, kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of that kind; the reference to it that its pods carry."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "o"}, "spec": spec}
    made = must(admin.create(f"/apis/{GROUP}/v1/namespaces/{gang}/{plural}", body))
    return {k: made[k] for k in ("apiVersion", "kind")} | {
        "name": "o",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


def member(admin: Caller, gang: str, name: str, reference: dict[str, Any], role: str = "", gpus: int = 1) -> None:
    labels = {"example.com/role": role} if role else {}
    found = submissions.pod(name, gang, submissions.template("o", breaking.LONG, labels=labels, gpus=gpus))
    found["metadata"]["ownerReferences"] = [reference]
    must(admin.create(pods(gang), found))


def test_an_owner_that_may_not_be_read_leaves_its_pods_alone_and_one_that_may_makes_a_group(
    arena: Cluster, admin: Caller, gang: str
) -> None:
    must(admin.create(pods(gang), submissions.pod("full", gang, submissions.template("full", breaking.LONG, gpus=3))))
    wait_until(lambda: bound(admin, gang, "full") == 1, what="what takes the room")
    fleet = owner(admin, gang, "Fleet", "fleets", {"size": 2})
    member(admin, gang, "a", fleet, gpus=2)
    note = hears(admin, gang, "a", names.Reason.NODES_SHORT)
    assert 'it stands alone, since the size of Fleet o cannot be read: fleets.example.com "o" is forbidden' in note
    grant(admin, "fleets", ["get"], "fleets", "fleets/scale")
    note = hears(admin, gang, "a", names.Reason.FORMING, timeout=60)
    assert note.startswith("1 of 2 pods exist; waiting for 1 more (spec.replicas of Fleet o)")
    member(admin, gang, "b", fleet, gpus=2)
    must(admin("DELETE", pods(gang, "full")))
    wait_until(lambda: bound(admin, gang, "o") == 2, what="both on a node")


def test_a_kind_of_the_settings_is_held_whole_also_without_gpus(arena: Cluster, admin: Caller, gang: str) -> None:
    grant(admin, "trainings", ["get", "list", "watch", "patch"], "trainings")
    arena.settings.addon_config.write_text(yaml.safe_dump({"ownerKinds": [TRAINING]}))
    arena.processes["webhook"].stop()
    arena.start_webhook()
    restart(arena, wait=True)
    groups = [{"name": "lead", "size": 1}, {"name": "work", "size": 3, "least": 1}]
    training = owner(admin, gang, "Training", "trainings", {"groups": groups})
    member(admin, gang, "w0", training, "work", gpus=0)
    member(admin, gang, "w1", training, "work", gpus=0)
    note = hears(admin, gang, "w1", names.Reason.FORMING)
    assert note.startswith("2 of 2 pods exist; waiting for 1 more: 1 lead (spec.groups.size of Training o)")
    holds_for(lambda: held(admin, gang) == 2, 1, "a worker stood in for the leader")
    member(admin, gang, "l0", training, "lead", gpus=0)
    wait_until(lambda: bound(admin, gang) == 3, what="the leader and its workers")
