"""A gatekeeper without one of its rights, for as long as a test needs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster.breaking import must
from tests.cluster.calls import Caller
from tests.cluster.conftest import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = f"{RBAC}/clusterroles/ganggate-gatekeeper"
ACCOUNT = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:ganggate-gatekeeper"
ROLE = f"{RBAC}/namespaces/{names.SYSTEM_NAMESPACE}/roles/ganggate-gatekeeper"


@contextmanager
def lacking(admin: Caller, group: str, resource: str, verb: str) -> Iterator[None]:
    """The gatekeeper without that verb on that resource, from when the API server knows it."""
    kept = {path: must(admin("GET", path)) for path in (CLUSTER_ROLE, ROLE)}
    for path, role in kept.items():
        put(admin, path, role, [part for rule in role["rules"] for part in without(rule, group, resource, verb)])
    wait_until(lambda: not may(admin, group, resource, verb), what=f"no {verb} on {resource}")
    try:
        yield
    finally:
        for path, role in kept.items():
            put(admin, path, role, role["rules"])
        wait_until(lambda: may(admin, group, resource, verb), what=f"{verb} on {resource}")


def without(rule: dict, group: str, resource: str, verb: str) -> list[dict]:
    """The rule, in two where it gives the verb on more than that resource."""
    if group not in rule["apiGroups"] or resource not in rule["resources"]:
        return [rule]
    others = rule | {"resources": [r for r in rule["resources"] if r != resource]}
    left = rule | {"resources": [resource], "verbs": [v for v in rule["verbs"] if v != verb]}
    return [each for each in (others, left) if each["resources"] and each["verbs"]]


def put(admin: Caller, path: str, role: dict, rules: list[dict]) -> None:
    metadata = {key: value for key, value in role["metadata"].items() if key != "resourceVersion"}
    must(admin("PUT", path, role | {"metadata": metadata, "rules": rules}))


def may(admin: Caller, group: str, resource: str, verb: str) -> bool:
    """What the authorizer answers for the gatekeeper."""
    asked = {"namespace": names.SYSTEM_NAMESPACE, "group": group, "resource": resource, "verb": verb}
    asked |= {"name": names.LEASE_NAME} if resource == "leases" else {}
    review = {"spec": {"user": ACCOUNT, "resourceAttributes": asked}}
    return must(admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review))["status"]["allowed"]


def restart(cluster: Cluster, *, wait: bool = False) -> None:
    """A watch that is open outlives the right to it, until it ends within five minutes: start anew."""
    cluster.processes["gatekeeper"].stop()
    cluster.start_gatekeeper(wait=wait)
