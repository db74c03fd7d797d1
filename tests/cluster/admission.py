"""A bare cluster with namespaces of each policy and people of different rights, for the tests of admission.

The people: `tenant` is admin of the namespaces, `writer` may also patch pods/status (a grant that happens), `lifter`
holds the verb in GANG and PLAIN, `node` is a kubelet, `daemons` the daemon-set controller, `admin` a cluster
administrator. Each has a client certificate of its own.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster.calls import Answer, Caller
from tests.cluster.conftest import MakeCluster, take_down, wait_until

GANG, HYBRID, BINPACK, PLAIN, FREE = "p-gang", "p-hybrid", "p-binpack", "p-plain", "p-unlabelled"
LABELS = {GANG: "gang", HYBRID: "hybrid", BINPACK: "binpack", PLAIN: None, FREE: None}
GATES = [{"name": names.GATE}]
LIFT = {"spec": {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}}
OTHER_GATE = "example.com/other"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_serial = itertools.count()


class World:
    """The cluster, who calls it, and the pods that a test makes there."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = Caller(cluster.kubeconfig)
        self.tenant, self.writer, self.lifter = (self.someone(name) for name in ("tenant", "writer", "lifter"))
        self.node = self.someone("system:node:node-0", names.NODES_GROUP)
        self.paths: dict[tuple[str, str], str] = {}  # of pods made ahead, by namespace and what they show
        self.daemons = self.someone("system:serviceaccount:kube-system:daemon-set-controller")

    def someone(self, user: str, *groups: str) -> Caller:
        return Caller(self.cluster.kubeconfig_for(user, groups))

    def pod(self, namespace: str = GANG, **fields: Any) -> str:
        """Path of a new pod, made by the administrator."""
        answer = self.create(self.admin, namespace, **fields)
        assert answer.ok, answer.message
        return f"/api/v1/namespaces/{namespace}/pods/{answer.body['metadata']['name']}"

    def create(self, who: Caller, namespace: str = GANG, **fields: Any) -> Answer:
        return who.create(f"/api/v1/namespaces/{namespace}/pods", pod(**fields))


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod of one container; gated by us unless `spec` says otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{next(_serial)}", **metadata},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], "schedulingGates": GATES} | (spec or {}),
    }


def owner(kind: str = "Job", api: str = "batch/v1", controller: bool = True) -> list[dict[str, Any]]:
    return [{"apiVersion": api, "kind": kind, "name": "train", "uid": "1-2-3", "controller": controller}]


@contextmanager
def bare_world(make_cluster: MakeCluster) -> Iterator[World]:
    """A cluster of one node without ganggate, with the namespaces and rights of this page."""
    cluster = make_cluster(nodes=1, addon=False)
    try:
        world = World(cluster)
        _furnish(world)
        yield world
    finally:
        take_down(cluster)


def _furnish(world: World) -> None:
    role(world.admin, "p-lift", names.DOMAIN, names.LIFT_RESOURCE, names.LIFT_VERB)
    role(world.admin, "p-status", "", "pods/status", "patch")
    for namespace, policy in LABELS.items():
        assert world.admin.create("/api/v1/namespaces", namespace_object(namespace, policy)).ok
        for user in ("tenant", "writer", "lifter"):
            grant(world.admin, "admin", user, namespace)
        grant(world.admin, "p-status", "writer", namespace)
    for namespace in (GANG, PLAIN):
        grant(world.admin, "p-lift", "lifter", namespace)
    kubelets = binding("system:node", "Group", names.NODES_GROUP) | {"kind": "ClusterRoleBinding"}
    assert world.admin.create(f"{RBAC}/clusterrolebindings", kubelets).ok
    for namespace in LABELS:
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_until(lambda path=account: world.admin("GET", path).ok, what=account)


def namespace_object(name: str, policy: str | None) -> dict[str, Any]:
    labels = {names.NAMESPACE_POLICY: policy} if policy is not None else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def role(admin: Caller, name: str, group: str, resource: str, verb: str) -> None:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
    body = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    assert admin.create(f"{RBAC}/clusterroles", body).ok


def grant(admin: Caller, name: str, user: str, namespace: str) -> None:
    path = f"{RBAC}/namespaces/{namespace}/rolebindings"
    assert admin.create(path, binding(name, "User", user)).ok


def binding(name: str, subject: str, who: str) -> dict[str, Any]:
    return {
        "kind": "RoleBinding",
        "metadata": {"name": f"{name}-{who}".replace(":", "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject, "name": who}],
    }
