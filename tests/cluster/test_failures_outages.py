"""Webhook and gatekeeper stopped, frozen or not yet trusted, under both failure policies: what still works.

Each test is one row of docs/failure-matrix.md. What is asked: creates in three namespaces, a waiting gang whose queue
is created during the outage, a running gang, and the gate removed by a tenant and by a cluster administrator.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from deploy.local.cluster import Cluster
from tests.cluster import breaking, submissions
from tests.cluster.breaking import LONG, VOLCANO, bound, fate, held, heal, listed, member, must, pods, queue, queues
from tests.cluster.calls import Caller
from tests.cluster.conftest import wait_until


def stop_webhook(cluster: Cluster) -> None:
    cluster.processes["webhook"].kill()


def stop_gatekeeper(cluster: Cluster) -> None:
    """In order: its successor need not wait for the lease, which other tests do (test_failures_leaders.py)."""
    cluster.processes["gatekeeper"].stop()


def stop_both(cluster: Cluster) -> None:
    stop_webhook(cluster)
    stop_gatekeeper(cluster)


def freeze_webhook(cluster: Cluster) -> None:
    cluster.processes["webhook"].pause()


def freeze_gatekeeper(cluster: Cluster) -> None:
    cluster.processes["gatekeeper"].pause()


def take_bundle(cluster: Cluster) -> None:
    """As at an install: applied, and no gatekeeper has led yet."""
    stop_gatekeeper(cluster)
    breaking.without_bundle(Caller(cluster.kubeconfig))


OUTAGES: dict[str, Callable[[Cluster], None]] = {
    "webhook-stopped": stop_webhook,
    "gatekeeper-stopped": stop_gatekeeper,
    "both-stopped": stop_both,
    "webhook-frozen": freeze_webhook,
    "gatekeeper-frozen": freeze_gatekeeper,
    "caBundle-empty": take_bundle,
}
NOT_ASKED = ("webhook-stopped", "both-stopped", "webhook-frozen", "caBundle-empty")  # the webhook gives no answer
WITHOUT_LEADER = ("gatekeeper-stopped", "both-stopped", "gatekeeper-frozen", "caBundle-empty")


def expected(outage: str, policy: str) -> dict[str, str]:
    """The row of the matrix."""
    without = {"Fail": ("call fails", "call fails"), "Ignore": ("refused", "passes")}
    named, alone = without[policy] if outage in NOT_ASKED else ("held", "held")
    return {
        "create of a pod that names its group": named,
        "create of a pod that only the webhook knows to hold": alone,
        "create in a namespace without label": "passes",
        "create in kube-system": "passes",
        "gate removed by a tenant": "refused",
        "gate removed by a cluster administrator": "passes",
        "waiting gang, once its queue is there": "waits" if outage in WITHOUT_LEADER else "starts",
        "running gang": "runs",
    }


@dataclass
class Scene:
    """Who asks, where, and what ran and waited before the outage. Frozen webhooks make each call take seconds."""

    cluster: Cluster
    admin: Caller
    tenant: Caller
    gang: str
    plain: str

    def furnish(self) -> None:
        must(self.admin.create(breaking.jobs(self.gang), breaking.job("running", self.gang, 2)))
        for policy in ("Fail", "Ignore"):
            group = submissions.podgroup(VOLCANO, f"waiting-{policy}".lower(), 2, self.gang, queue=self.queue(policy))
            must(self.admin.create(breaking.podgroups(self.gang), group))
            for name in (f"waiting-{policy}-{i}".lower() for i in range(2)):
                must(self.admin.create(pods(self.gang), member(name, self.gang, group["metadata"]["name"])))
            must(self.admin.create(pods(self.gang), member(f"freed-{policy}".lower(), self.gang, "of-nobody")))
        wait_until(lambda: bound(self.admin, self.gang, "running") == 2, what="the running gang")

    def queue(self, policy: str) -> str:
        return f"{self.gang}-{policy}".lower()

    def ask(self, policy: str, alone: str, seconds: float) -> dict[str, str]:
        """The row as it is; `alone` is known from setting the policy, and a gang has `seconds` to start."""
        serial, freed = policy.lower(), pods(self.gang, f"freed-{policy}".lower())
        lone = submissions.template("lone", LONG)
        return {
            "create of a pod that names its group": fate(
                self.tenant.create(pods(self.gang), member(f"new-{serial}", self.gang, "of-nobody"))
            ),
            "create of a pod that only the webhook knows to hold": alone,
            "create in a namespace without label": self.lone(f"lone-{serial}", self.plain),
            "create in kube-system": fate(
                self.admin.create(pods("kube-system"), submissions.pod(f"{self.gang}-{serial}", "kube-system", lone))
            ),
            "gate removed by a tenant": fate(self.tenant.patch(freed, breaking.LIFT)),
            "gate removed by a cluster administrator": fate(self.admin.patch(freed, breaking.LIFT)),
            "waiting gang, once its queue is there": self.waiting(policy, seconds),
            "running gang": "runs" if bound(self.admin, self.gang, "running") == 2 else "lost",
        }

    def lone(self, name: str, namespace: str) -> str:
        pod = submissions.pod(name, namespace, submissions.template("lone", LONG))
        return fate(self.admin.create(pods(namespace), pod))

    def waiting(self, policy: str, seconds: float) -> str:
        """Create the queue that the gang names, and see."""
        must(self.admin.create(queues(), queue(self.queue(policy))))
        group, end = f"waiting-{policy}".lower(), time.monotonic() + seconds
        while time.monotonic() < end:
            if bound(self.admin, self.gang, group) == 2:
                return "starts"
            threading.Event().wait(0.1)
        return "waits" if held(self.admin, self.gang, group) == 2 else "torn"


@pytest.fixture(scope="module", params=OUTAGES)
def outage(request: pytest.FixtureRequest, victim_cluster: Cluster) -> Iterator[tuple[str, Scene]]:
    admin = Caller(victim_cluster.kubeconfig)
    with breaking.space(admin) as gang, breaking.space(admin, None) as plain:
        scene = Scene(victim_cluster, admin, breaking.tenant_of(victim_cluster, admin, gang), gang, plain)
        try:
            scene.furnish()
            OUTAGES[request.param](victim_cluster)
            yield request.param, scene
        finally:
            breaking.failure_policy(admin, "Fail")
            heal(victim_cluster)
            for policy in ("Fail", "Ignore"):
                admin("DELETE", queues(scene.queue(policy)))
                admin("DELETE", pods("kube-system", f"{gang}-{policy}".lower()))


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_during_an_outage(outage: tuple[str, Scene], policy: str) -> None:
    what, scene = outage
    row = expected(what, policy)
    breaking.failure_policy(scene.admin, policy)
    alone = scene.lone(f"lone-{policy}".lower(), scene.gang)
    if policy == "Ignore" and alone == "call fails":  # the API server went by the policy before this one
        alone = wait_until(lambda: (found := scene.lone("lone-again", scene.gang)) != "call fails" and found)
    assert scene.ask(policy, alone, 2.0 if what in WITHOUT_LEADER else 25.0) == row


def test_after_an_outage(outage: tuple[str, Scene]) -> None:
    """All parts are started or thawed: creates are held again and the gangs whose queue came meanwhile start."""
    _, scene = outage
    heal(scene.cluster)
    breaking.failure_policy(scene.admin, "Fail")
    for policy in ("Fail", "Ignore"):
        scene.admin.create(queues(), queue(scene.queue(policy)))  # there already where the test above ran

    def create() -> bool:
        pod = member(f"after-{len(listed(scene.admin, pods(scene.gang)))}", scene.gang, "of-nobody")
        return fate(scene.tenant.create(pods(scene.gang), pod)) == "held"

    wait_until(create, what="a create that is held")
    for group in ("waiting-fail", "waiting-ignore"):
        wait_until(lambda group=group: bound(scene.admin, scene.gang, group) == 2, what=group)
    assert bound(scene.admin, scene.gang, "running") == 2
    assert breaking.has_bundle(scene.admin)
