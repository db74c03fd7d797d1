"""The scheduler is the oracle: where we say that a gang fits, all of its pods are bound; for one kind it is the rest too.

Gangs are placed by policy.rules beside pods that stand already, then released: pinned to their nodes, or, where they
are of one kind, left to the scheduler, which must then bind all of them, or exactly as many as we say that fit.
"""

import os
import random
from collections import Counter
from dataclasses import dataclass

import msgspec
import pytest

from deploy.local import nodes
from policy import names
from policy.rules import facts
from policy.rules.lift_plan import pinned_terms
from policy.rules.objects import Node, Pod
from policy.rules.placement import place
from policy.rules.pool import Pool, columns_of
from policy.rules.shortage import NodesShort
from policy.rules.verdict import unverifiable
from tests.cluster import placement_cases
from tests.cluster.calls import MERGE, Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.cluster.placement_cases import CASE

CASES = int(os.environ.get("GANGGATE_PLACEMENTS", "40"))
SEED = int(os.environ.get("GANGGATE_SEED", "1"))
BATCH = 84  # side by side
SPACES = ("gangs", "others")


@pytest.fixture(scope="module")
def cluster(make_cluster):
    made = make_cluster(nodes=0, addon=False)
    admin = Caller(made.kubeconfig)
    for space in SPACES:
        assert admin.create("/api/v1/namespaces", {"metadata": {"name": space}}).ok
        wait_until(lambda: admin("GET", f"/api/v1/namespaces/{space}/serviceaccounts/default").ok)
    yield made
    made.down()


@dataclass
class World:
    """One cluster, and what is said of it by one list."""

    admin: Caller

    def pods(self):
        return {item["metadata"]["name"]: item for item in self.admin("GET", "/api/v1/pods").body["items"]}

    def nodes(self):
        return self.admin("GET", "/api/v1/nodes").body["items"]

    def build(self, cases):
        """Nodes that are ready, pods that stand on them, and gangs behind our gate."""
        for machine in (n for c in cases for n in c.nodes):
            assert self.admin.create("/api/v1/nodes", machine).ok
        wait_until(lambda: all(map(nodes.schedulable, self.nodes())), timeout=60, what="nodes")
        for pod in (p for c in cases for p in (*c.standing, *c.gang)):
            answer = self.admin.create(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
            assert answer.ok, answer
        for each in cases:
            for pod in each.standing:
                if pod["metadata"]["name"] in each.going:
                    assert self.admin("DELETE", path(pod)).ok

    def clear(self, cases):
        for each in cases:
            for pod in each.standing:
                if pod["metadata"]["name"] in each.going:
                    self.admin.patch(path(pod), {"metadata": {"finalizers": None}}, MERGE)
        for space in SPACES:
            self.admin("DELETE", f"/api/v1/namespaces/{space}/pods", {"gracePeriodSeconds": 0})
        wait_until(lambda: not self.pods(), timeout=60, what="pods")
        self.admin("DELETE", f"/api/v1/nodes?labelSelector={CASE}")
        wait_until(lambda: not self.nodes(), timeout=60, what="nodes")

    def release(self, pod, node):
        spec = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
        if node:
            required = {"nodeSelectorTerms": [msgspec.to_builtins(t) for t in pinned_terms(pod, node)]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        answer = self.admin.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", {"spec": spec})
        assert answer.ok, answer


def path(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


@dataclass
class Claim:
    """What we say of one gang."""

    case: placement_cases.Case
    fit: int  # how many of it will be bound
    exact: bool = True

    def bound(self, pods):
        return sum(bool(pods[p["metadata"]["name"]]["spec"].get("nodeName")) for p in self.case.gang)

    def whole(self):
        return self.fit == len(self.case.gang)

    def met(self, pods):
        return self.bound(pods) >= self.fit

    def passed(self, pods):
        """More are bound than fit."""
        limit = self.fit if self.exact else len(self.case.gang) - 1
        return not self.whole() and self.bound(pods) > limit


def judged(world, cases, count):
    """Place every gang by the rules, release those about which something can be said, and tell what."""
    seen = {name: facts.pod(msgspec.convert(item, Pod)) for name, item in world.pods().items()}
    machines = [facts.node(msgspec.convert(item, Node)) for item in world.nodes()]
    pool = Pool(machines, columns_of(p.shape.requests for p in seen.values()))
    pool.charge_all(([p.node], [p]) for p in seen.values() if p.node and not p.over)
    for case in cases:
        gang = [seen[p["metadata"]["name"]] for p in case.gang]
        if unverifiable(gang):
            count["cannot verify"] += 1
            continue
        found, alike = place(pool, gang), all(p.shape == gang[0].shape for p in gang)
        if isinstance(found, NodesShort):
            count["do not fit"] += 1
            if alike:
                yield from left_to_it(world, case, gang, found.fit, count)
            continue
        free = alike and not case.pinned and not gang[0].shape.beside
        count["fit, left to the scheduler" if free else "fit, pinned"] += 1
        for pod in gang:
            world.release(pod, "" if free else found[pod.uid])
        yield Claim(case, len(gang))


def left_to_it(world, case, gang, fit, count):
    """A gang that does not fit, without a plan: of those that want one node the first picks it, good or bad."""
    count["do not fit, and the scheduler bound no more either"] += 1
    for pod in gang:
        world.release(pod, "")
    beside = bool(gang[0].shape.beside)
    yield Claim(case, 0 if beside else fit, exact=not beside)


def test_what_fits_is_bound_whole_and_what_does_not_is_not(cluster):
    world = World(Caller(cluster.kubeconfig))
    draw, count, serial = random.Random(SEED), Counter(), 0
    while count["fit, pinned"] + count["fit, left to the scheduler"] + count["do not fit"] < CASES:
        cases = [placement_cases.case(draw, serial + i, SPACES) for i in range(BATCH)]
        serial += len(cases)
        world.build(cases)
        claims = list(judged(world, cases, count))
        wait_until(lambda: all_met(world, claims), timeout=60)
        holds_for(lambda: none_passed(world, claims), 1.0)
        world.clear(cases)
    print(f"{serial} gangs: {', '.join(f'{n} {what}' for what, n in sorted(count.items()))}")
    assert count["fit, pinned"] > 0 and count["do not fit"] > 0


def none_passed(world, claims):
    pods = world.pods()
    passed = [
        (c.case.number, f"{c.bound(pods)} bound, {c.fit} of {len(c.case.gang)} fit") for c in claims if c.passed(pods)
    ]
    assert not passed, passed
    return True


def all_met(world, claims):
    pods = world.pods()
    unmet = [(c.case.number, f"{c.bound(pods)} of {c.fit} bound") for c in claims if not c.met(pods)]
    assert not unmet, unmet
    return True
