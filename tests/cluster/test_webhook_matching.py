"""Which calls the registrations send to the webhook: nobody listens, so what is sent fails and says where it went.

Without the CEL policies, which would refuse first. The same tests show the cluster with the webhook down.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local import manifests
from policy import names
from policy.rules.membership.identify import NAMING_ANNOTATIONS, NAMING_LABELS
from tests.cluster.admission import BINPACK, FREE, GANG, HYBRID, LIFT, PLAIN, World, bare_world, owner
from tests.cluster.calls import Answer
from tests.cluster.conftest import MakeCluster, wait_until

WEBHOOKS = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "webhooks.yaml"
BARE = {"schedulingGates": []}
PLACED = BARE | {"nodeName": "node-0"}
PODS = {
    "gated": {},
    "gated and named": {"annotations": {names.GROUP_NAME: "a"}},
    "lifted": {"spec": BARE, "labels": {names.LABEL_GROUP: "a"}, "annotations": {names.ANNOTATION_LIFTED: "a"}},
    "of Volcano": {"spec": BARE | {"schedulerName": "volcano"}},
    "of a node": {"spec": PLACED},
    "held by a finalizer": {"finalizers": ["example.com/wait"]},
}


@pytest.fixture(scope="module")
def world(make_cluster: MakeCluster) -> Iterator[World]:
    with bare_world(make_cluster) as world:
        world.paths = {
            (namespace, what): world.pod(namespace, **fields)
            for namespace in (GANG, HYBRID, BINPACK, FREE)
            for what, fields in PODS.items()
        }
        port = world.cluster.ports["webhook"]
        world.cluster.kubectl.apply(manifests.by_url(each, port) for each in manifests.read(WEBHOOKS))
        for path in ("/mutate/gang", "/validate/gang"):
            wait_until(lambda path=path: sent(probe(world, path)), what=path)
        wait_until(lambda: sent(world.tenant.patch(gated(world, FREE) + "?dryRun=All", LIFT)), what="gate removal")
        yield world


def probe(world: World, path: str) -> Answer:
    """A dry run that the mutating entry fails, or spares so that the validating one does."""
    mirror = {"spec": PLACED, "annotations": {names.MIRROR_ANNOTATION: "x"}} if "validate" in path else {}
    return world.create(world.tenant, GANG, **mirror)


def gated(world: World, namespace: str) -> str:
    return world.paths[namespace, "gated"]


def sent(answer: Answer) -> str | None:
    """The path of the webhook that the call went to, or None where it went to none."""
    if answer.ok:
        return None
    assert "failed calling webhook" in answer.message, answer.body
    url = answer.message.split('Post "')[1].split("?")[0]
    return "/" + "/".join(url.split("/")[3:])


# --- CREATE --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("namespace", "policy"), [(GANG, "gang"), (HYBRID, "hybrid"), (BINPACK, "binpack")])
def test_creates_go_to_the_path_of_the_policy(world: World, namespace: str, policy: str) -> None:
    assert sent(world.create(world.tenant, namespace)) == f"/mutate/{policy}"
    assert sent(world.create(world.admin, namespace)) == f"/mutate/{policy}"


@pytest.mark.parametrize("namespace", [FREE, PLAIN])
def test_creates_elsewhere_go_nowhere(world: World, namespace: str) -> None:
    assert sent(world.create(world.tenant, namespace)) is None


def test_the_system_is_left_out_even_when_labelled(world: World) -> None:
    assert world.admin.patch(
        "/api/v1/namespaces/kube-system", {"metadata": {"labels": {names.NAMESPACE_POLICY: "gang"}}}
    ).ok
    assert sent(world.create(world.admin, "kube-system")) is None


@pytest.mark.parametrize("annotations", [{}, {names.MIRROR_ANNOTATION: "x"}])
def test_pods_placed_by_a_node_are_spared(world: World, annotations: dict[str, str]) -> None:
    assert sent(world.create(world.node, spec=PLACED, annotations=annotations)) is None
    assert sent(world.create(world.tenant, spec=PLACED)) == "/mutate/gang"
    assert sent(world.create(world.node)) == "/mutate/gang"


def test_a_mirror_pod_of_a_tenant_is_judged_though_not_mutated(world: World) -> None:
    mirror = {names.MIRROR_ANNOTATION: "x"}
    assert sent(world.create(world.tenant, spec=PLACED, annotations=mirror)) == "/validate/gang"


def test_pods_of_a_daemonset_are_spared_by_requester(world: World) -> None:
    daemon = owner("DaemonSet", "apps/v1")
    assert sent(world.create(world.daemons, ownerReferences=daemon)) is None
    assert sent(world.create(world.tenant, ownerReferences=daemon)) == "/mutate/gang"
    assert sent(world.create(world.daemons, ownerReferences=owner("ReplicaSet", "apps/v1"))) == "/mutate/gang"
    assert sent(world.create(world.daemons, ownerReferences=owner("DaemonSet", "acme.io/v1"))) == "/mutate/gang"


def test_the_exempt_label_spares_only_what_a_holder_of_lift_creates(world: World) -> None:
    exempt = {"labels": {names.LABEL_EXEMPT: "true"}}
    assert sent(world.create(world.lifter, GANG, **exempt)) is None
    assert sent(world.create(world.admin, HYBRID, **exempt)) is None
    assert sent(world.create(world.lifter, HYBRID, **exempt)) == "/mutate/hybrid"
    assert sent(world.create(world.tenant, GANG, **exempt)) == "/mutate/gang"
    assert sent(world.create(world.lifter, GANG)) == "/mutate/gang"


# --- UPDATE --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", PODS)
def test_ordinary_updates_go_nowhere(world: World, what: str) -> None:
    path = world.paths[GANG, what]
    assert sent(world.tenant.patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}})) is None
    assert sent(world.node.patch(f"{path}/status", {"status": {"message": "x"}})) is None


OURS = [
    ("labels", names.LABEL_GROUP),
    ("labels", names.LABEL_EXEMPT),
    ("annotations", names.ANNOTATION_LIFTED),
]
NAMED = [*(("annotations", key) for key in NAMING_ANNOTATIONS), *(("labels", key) for key in NAMING_LABELS)]


@pytest.mark.parametrize(("field", "key"), [*OURS, *NAMED])
def test_changes_of_what_is_ours_are_sent(world: World, field: str, key: str) -> None:
    change = {"metadata": {field: {key: "b"}}}
    for namespace, policy in ((GANG, "gang"), (HYBRID, "hybrid"), (BINPACK, "binpack")):
        for what in ("gated", "gated and named", "lifted"):
            assert sent(world.tenant.patch(world.paths[namespace, what], change)) == f"/validate/{policy}"
    dry = "?dryRun=All"
    assert sent(world.lifter.patch(world.paths[GANG, "gated"] + dry, change)) is None
    assert sent(world.tenant.patch(world.paths[FREE, "gated"] + dry, change)) is None
    volcano = sent(world.tenant.patch(world.paths[GANG, "of Volcano"] + dry, change))
    assert volcano == ("/validate/gang" if (field, key) in OURS else None)


def test_removing_a_name_is_a_change(world: World) -> None:
    none = {"metadata": {"annotations": {names.GROUP_NAME: None}}}
    assert sent(world.tenant.patch(world.paths[GANG, "gated and named"], none)) == "/validate/gang"


@pytest.mark.parametrize("namespace", [GANG, BINPACK, FREE])
def test_gate_removal_is_sent_from_every_namespace(world: World, namespace: str) -> None:
    assert sent(world.tenant.patch(gated(world, namespace), LIFT)) == "/validate/gate-removal"
    assert sent(world.admin.patch(gated(world, namespace) + "?dryRun=All", LIFT)) is None


def test_the_lift_patch_of_a_holder_passes_with_the_webhook_down(world: World) -> None:
    marks = {names.ANNOTATION_LIFTED: "x", names.GROUP_NAME: "ganggate-1", names.QUEUE_NAME: "default"}
    lift = LIFT | {"metadata": {"annotations": marks}}
    assert sent(world.lifter.patch(gated(world, GANG) + "?dryRun=All", lift)) is None


def test_a_pod_that_is_being_deleted_is_not_sent(world: World) -> None:
    path = world.paths[GANG, "held by a finalizer"]
    assert world.tenant("DELETE", path).ok
    changes: dict[str, Any] = {"metadata": {"labels": {names.LABEL_GROUP: "b"}, "annotations": {names.QUEUE_NAME: "b"}}}
    assert sent(world.tenant.patch(path, LIFT | changes)) is None
    assert sent(world.tenant.patch(path, {"metadata": {"finalizers": None}})) is None
