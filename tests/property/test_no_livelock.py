"""Groups that compete for one quota: whatever happened before, once the world runs fairly all of them finish.

A small world around decide(): Job controllers that make one pod at a time while the quota lets them, suspended Jobs that
lose their pods, levers that are written one by one and may be lost in a crash, strangers that resume a Job. The chaos
comes first, drawn at random; then every controller and the gatekeeper take turns, and everybody must get through.
"""

import os
from dataclasses import dataclass, field, replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.rules.deadlock import MOST_TIMES
from policy.rules.decide import decide
from policy.rules.model import Claim, Config
from tests.unit.rules_facts import NS, job, nodes, pod, quota, snapshot

RUNS = int(os.environ.get("GANGGATE_RUNS", "200"))
RUN_ROUNDS = 3  # that a started group takes
FAIR_ROUNDS = 400


@dataclass
class Gang:
    uid: str
    size: int
    created: float
    deadline: int | None = None
    lever: bool = True
    pods: dict[str, float] = field(default_factory=dict)  # name -> created
    suspended: bool = False
    claim: Claim | None = None
    by_us: bool = False
    running: int = 0  # rounds left
    done: bool = False
    serial: int = 0


@dataclass
class World:
    gangs: list[Gang]
    hard: int
    now: float = 1000.0

    @property
    def used(self):
        return sum(len(g.pods) for g in self.gangs)

    def make_pod(self, gang):
        """One create by the Job's controller."""
        if not (gang.suspended or gang.running or gang.done) and len(gang.pods) < gang.size and self.used < self.hard:
            gang.serial += 1
            gang.pods[f"{gang.uid}-{gang.serial}"] = self.now

    def snapshot(self):
        owners, pods = [], []
        for gang in self.gangs:
            if gang.done:
                continue
            owners.append(self._owner(gang))
            for name, created in gang.pods.items():
                item = pod(name, job=gang.uid, created=created)
                pods.append(_started(item, gang.size) if gang.running else item)
        used = {"requests_gpu": self.used}
        return snapshot(jobs=owners, pods=pods, nodes=nodes(16), quotas=[quota(requests_gpu=self.hard, used=used)])

    def _owner(self, gang):
        ours = gang.suspended and gang.by_us and gang.claim is not None and not gang.claim.ended
        return job(
            gang.uid,
            gang.size,
            created=gang.created,
            lever=("spec", "suspend") if gang.lever else (),
            deadline=gang.deadline,
            held=gang.suspended,
            claim=gang.claim,
            ours=ours,
        )

    def decide(self, writes):
        """A pass of the gatekeeper, of whose writes to owners only so many arrive before it dies."""
        outcome = decide(self.snapshot(), Config(), self.now)
        by_uid = {g.uid: g for g in self.gangs}
        for decision in outcome.decisions:
            for pull in decision.pulls:
                if writes > 0 and pull.claim is not None:
                    writes -= 1
                    _pull(by_uid[pull.uid], pull)
            if decision.action == "lift":
                by_uid[decision.group.rpartition("/")[2]].running = RUN_ROUNDS

    def advance(self):
        self.now += 1
        for gang in self.gangs:
            if gang.running:
                gang.running -= 1
                if not gang.running:
                    gang.done, gang.pods = True, {}


def _started(item, size):
    from policy.rules.model import Lifted

    return msgspec.structs.replace(item, gated=False, lifted=Lifted(size, 1.0, "default"), node="n0")


def _pull(gang, pull):
    gang.claim = pull.claim
    if pull.suspend is not None:
        gang.suspended, gang.by_us = pull.suspend, pull.suspend
    if gang.suspended and not gang.running:
        gang.pods = {}


@st.composite
def worlds(draw):
    sizes = draw(st.lists(st.integers(1, 8), min_size=2, max_size=8))
    gangs = [
        Gang(f"g{i}", size, created=float(i), deadline=draw(st.sampled_from([None, None, 60])))
        for i, size in enumerate(sizes)
    ]
    return World(gangs, max(max(sizes), draw(st.integers(1, 12))))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["make", "make", "make", "pass", "crash", "time", "stranger"]), st.integers(0, 7)),
    max_size=40,
)


@settings(max_examples=RUNS, deadline=None)
@given(worlds(), EVENTS)
def test_everybody_gets_through(world, events):
    for kind, number in events:
        _happen(world, kind, world.gangs[number % len(world.gangs)], number)
    for round_ in range(FAIR_ROUNDS):
        if all(g.done for g in world.gangs):
            break
        for turn in range(8):  # controllers make their pods in turn: the interleaving that deadlocks
            for gang in world.gangs[turn % 2 :] + world.gangs[: turn % 2]:
                world.make_pod(gang)
        world.decide(writes=99)
        world.advance()
    stuck = [replace(g, pods={}) for g in world.gangs if not g.done]
    assert not stuck, f"after {round_} fair rounds: {stuck}"
    assert max(g.claim.times if g.claim else 0 for g in world.gangs) <= MOST_TIMES


def _happen(world, kind, gang, number):
    match kind:
        case "make":
            world.make_pod(gang)
        case "pass":
            world.decide(writes=99)
        case "crash":
            world.decide(writes=number % 2)
        case "time":
            world.advance()
        case "stranger":  # resumes what we suspended, of one gang: two that are taken over may hold each other up
            if world.gangs[0].suspended:
                world.gangs[0].suspended = world.gangs[0].by_us = False


def test_without_the_cure_they_do_not(monkeypatch):
    """The machine can fail: with the cure taken away, the known recipe stands still."""
    monkeypatch.setattr("policy.rules.deadlock.cures", lambda contenders: {})
    world = World([Gang("a", 4, 1.0), Gang("b", 4, 2.0)], 5)
    for _ in range(50):
        for gang in world.gangs * 4:
            world.make_pod(gang)
        world.decide(writes=99)
        world.advance()
    assert not any(g.done for g in world.gangs)
    assert {NS} == {o.namespace for o in world.snapshot().owners.values()}
