"""The API server is the oracle: what we say that a pod costs, and whether a group's rest fits, is what it does."""

import os
import random

import msgspec
import pytest

from policy.rules import facts, namespace_quota, owner_facts
from policy.rules.conclusions import Absent
from policy.rules.membership.job import FAMILY
from policy.rules.model import Snapshot
from policy.rules.objects import Job, LimitRange, Pod, ResourceQuota, RuntimeClass
from policy.rules.template import Sizes
from tests.cluster import oracle
from tests.cluster.calls import Caller
from tests.cluster.conftest import wait_until

PODS = int(os.environ.get("GANGGATE_ORACLE_PODS", "500"))
GROUPS = int(os.environ.get("GANGGATE_ORACLE_GROUPS", "50"))
SEED = int(os.environ.get("GANGGATE_SEED", "1"))
PER_NAMESPACE = 50
FORBIDDEN, INVALID = 403, 422
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}


@pytest.fixture(scope="module")
def admin(make_cluster):
    made = make_cluster(nodes=0, addon=False)
    call = Caller(made.kubeconfig)
    for value, name in enumerate(oracle.CLASSES, 1):
        body = {"metadata": {"name": name}, "value": value}
        assert call.create("/apis/scheduling.k8s.io/v1/priorityclasses", body).ok
    vm = {"metadata": {"name": oracle.RUNTIME}, "handler": "vm", "overhead": {"podFixed": OVERHEAD}}
    assert call.create("/apis/node.k8s.io/v1/runtimeclasses", vm).ok
    yield call
    made.down()


class Space:
    """One namespace with its quotas."""

    def __init__(self, admin, name, quotas, limit_range=None):
        self.admin, self.path, self.limit_range = admin, f"/api/v1/namespaces/{name}", limit_range
        assert admin.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
        wait_until(lambda: admin("GET", f"{self.path}/serviceaccounts/default").ok)
        if limit_range:
            assert admin.create(f"{self.path}/limitranges", limit_range).ok
        for quota in quotas:
            answer = admin.create(f"{self.path}/resourcequotas", quota)
            assert answer.ok, answer
        wait_until(lambda: all(q.status.hard for q in self._quotas()), what="status of every quota")

    def _quotas(self):
        items = self.admin("GET", f"{self.path}/resourcequotas").body["items"]
        return [msgspec.convert(item, ResourceQuota) for item in items]

    def quotas(self):
        return {q.metadata.name: facts.quota(q) for q in self._quotas()}

    def create(self, pod):
        """The pod as it was stored, or the refusal. A conflict of quota writes is no answer."""
        while True:
            answer = self.admin.create(f"{self.path}/pods", pod)
            if answer.code != 409:
                return answer

    def end(self):
        self.admin("DELETE", self.path)


def shape(body):
    return facts.pod(msgspec.convert(body, Pod)).shape


def test_what_a_pod_costs_is_what_the_api_server_charges(admin):
    draw = random.Random(SEED)
    made = refused = 0
    wrong = []
    serial = 0
    while made < PODS:
        serial += 1
        space = Space(admin, f"cost-{SEED}-{serial}", [oracle.quota(draw, f"q{i}", tight=False) for i in range(3)])
        before = space.quotas()
        for _ in range(PER_NAMESPACE):
            pod = oracle.pod(draw, stated=draw.choice((0.3, 1.0, 1.0)))
            answer = space.create(pod)
            if answer.code == INVALID:
                continue
            found = shape(answer.body) if answer.ok else template_shape(pod, None)
            if not answer.ok:
                refused += 1
                demanded = any(demands(q, found) for q in before.values())
                wrong += [] if demanded else [(pod, answer.body["message"])]
                continue
            made += 1
            after = space.quotas()
            for name, quota in after.items():
                wrong += [(pod, name, *item) for item in charged(quota, before[name], after[name], found)]
            before = after
        space.end()
    print(f"{made} pods charged, {refused} refused for want of a statement, {len(wrong)} differences")
    assert not wrong, wrong[:3]


def charged(quota, before, after, found):
    """Keys whose change is not what we say that the pod costs."""
    cost = namespace_quota.cost(found) if namespace_quota.matches(quota, found) else {}
    moved = {key: after.used.get(key, 0) - before.used.get(key, 0) for key in quota.hard}
    return [(key, amount, cost.get(key, 0)) for key, amount in moved.items() if amount != cost.get(key, 0)]


def demands(quota, found):
    return namespace_quota.matches(quota, found) and any(namespace_quota.demands(key, found) for key in quota.hard)


def template_shape(pod, limit_range):
    """The shape of a pod that nobody has seen, as an owner's template tells it."""
    raw = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": {"template": pod}}
    owner = owner_facts.owner(FAMILY)(msgspec.convert(raw, Job))
    ranges = ()
    if limit_range:
        item = msgspec.convert({**limit_range, "metadata": {"name": "defaults", "namespace": "n"}}, LimitRange)
        ranges = (facts.limit_range(item),)
    classes = {name: value for value, name in enumerate(oracle.CLASSES, 1)}
    found = Snapshot(limit_ranges=ranges, overheads={oracle.RUNTIME: OVERHEAD}, priority_classes=classes)
    return Sizes(found).of(owner, owner.parts[0])


def test_whether_the_rest_of_a_group_fits_is_what_the_api_server_says(admin):
    draw = random.Random(SEED + 1000)
    wrong, fitting, groups, serial = [], 0, 0, 0
    while groups < GROUPS:
        serial += 1
        defaults = oracle.limit_range(draw) if draw.random() < 0.5 else None
        quotas = [oracle.quota(draw, f"q{i}", tight=True) for i in range(draw.randint(1, 3))]
        space = Space(admin, f"fit-{SEED}-{serial}", quotas, defaults)
        pod, size = oracle.pod(draw, stated=draw.choice((0.4, 1.0))), draw.randint(1, 6)
        answer = one_group(space, draw, pod, size)
        space.end()
        if answer is None:
            continue
        ours, theirs = answer
        groups += 1
        fitting += theirs
        wrong += [] if ours == theirs else [(ours, theirs, pod, quotas, defaults)]
    print(f"{groups} groups, {fitting} fit, {len(wrong)} differences")
    assert 0 < fitting < groups
    assert not wrong, wrong[:2]


def one_group(space, draw, pod, size):
    """(we say that the rest fits, the API server takes it); None where the pod is no pod or comes with nothing left."""
    present = draw.randint(0, size - 1)
    found = template_shape(pod, space.limit_range)
    for _ in range(present):
        answer = space.create(pod)
        if not answer.ok:
            return None
        found = shape(answer.body)
    rest = [Absent(found, size - present)]
    ours = not any(list(namespace_quota.shortages(q, rest, {}, {})) for q in space.quotas().values())
    answers = [space.create(pod) for _ in range(size - present)]
    if any(answer.code == INVALID or "LimitRange" in str(answer.body) for answer in answers):
        return None
    return ours, all(answer.ok for answer in answers)
