"""What the gatekeeper sees is late, and of each kind differently: whom it lets give back does not depend on that.

Trainings of several Jobs share a quota that holds one of them. Pods, Jobs and quotas are watched one by one, each view
some quarters of a second behind the API server and catching up as it likes. Job controllers make pods one at a time, in
any order, and count those that are done late. Nobody crashes, so each training gives its pods back once at most.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.rules import suspension
from policy.rules.conclusions import Outcome, Pull
from policy.rules.decide import decide
from policy.rules.model import Config, Lifted, OwnerFacts, PodFacts, Snapshot
from policy.rules.template import digest
from tests.unit.rules_facts import job, nodes, pod, podgroup, quota, snapshot

RUNS = int(os.environ.get("GANGGATE_RUNS", "200")) // 2
TICK = 0.25  # seconds
RUN_SECONDS = 2.0
MOST_SECONDS = 120.0
PARTS = {"chief": 1, "ps": 2, "worker": 2}
SIZE = sum(PARTS.values())


@dataclass
class Job:
    """As its controller has it; `facts` are what the API server shows."""

    facts: OwnerFacts
    count: int
    backs_off_until: float = 0.0
    refusals: int = 0
    counted: float = 0.0  # when its controller notices that it is done; 0: it is not


@dataclass
class View:
    """One kind's watch: what it showed at each tick, and how far its reader is."""

    late: int  # ticks, at most
    shown: list[object] = field(default_factory=list)
    at: int = 0

    def read(self, chance: Random) -> object:
        newest = len(self.shown) - 1
        self.at = chance.randint(max(self.at, newest - self.late), newest)
        return self.shown[self.at]


@dataclass
class World:
    chance: Random
    trainings: tuple[str, ...]
    late: int
    now: float = 1000.0
    jobs: dict[str, Job] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    in_flight: dict[str, tuple[str, Lifted]] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    serial: int = 0

    def __post_init__(self) -> None:
        self.views = [View(self.late) for _ in range(3)]
        for name in self.trainings:
            for part, count in PARTS.items():
                like = pod("x", of=name)
                owner = job(f"{name}-{part}", count, lever=("spec", "suspend"), version="0", group=like.group)
                created = float(int(self.now + self.chance.random()))
                self.jobs[owner.uid] = Job(msgspec.structs.replace(owner, created=created), count)

    # --- the cluster -----------------------------------------------------------------------------------------

    def mine(self, one: Job) -> list[PodFacts]:
        return [p for p in self.pods.values() if p.owner == one.facts.uid]

    @property
    def used(self) -> int:
        return sum(1 for p in self.pods.values() if not p.over)

    def controllers(self) -> None:
        for uid in self.chance.sample(sorted(self.jobs), len(self.jobs)):
            for _ in range(self.chance.randint(0, 2)):
                self.sync(self.jobs[uid])

    def sync(self, one: Job) -> None:
        """One create, or the end of what is suspended; refused by the quota it backs off, longer each time."""
        owner = one.facts
        if owner.held:
            for made in self.mine(one):
                del self.pods[made.uid]
        elif not owner.over and self.now >= one.backs_off_until and len(self.mine(one)) < one.count:
            if self.used >= SIZE:
                one.refusals += 1
                one.backs_off_until = self.now + min(8.0, 1.0 * (1 << one.refusals - 1))
                return
            self.serial += 1
            made = pod(f"{owner.uid}-{self.serial}", of=owner.group.name, owner=owner.uid, created=float(int(self.now)))
            self.pods[made.uid] = made

    def kubelets(self) -> None:
        """What is lifted is bound at once and runs; a Job whose pods are all done is over some time later."""
        for uid, found in list(self.pods.items()):
            if found.lifted and not found.node:
                self.pods[uid] = msgspec.structs.replace(found, node=found.pin, phase="Running")
                self.started[uid] = self.now
            elif found.phase == "Running" and self.now >= self.started[uid] + RUN_SECONDS + self.chance.random():
                self.pods[uid] = msgspec.structs.replace(found, phase="Succeeded")
        for one in self.jobs.values():
            done = [p for p in self.mine(one) if p.phase == "Succeeded"]
            if len(done) == one.count and not one.counted:
                one.counted = self.now + self.chance.random() * self.late * TICK
            if one.counted and self.now >= one.counted:
                one.facts = msgspec.structs.replace(one.facts, over=True, version=one.facts.version + "c")

    # --- the gatekeeper --------------------------------------------------------------------------------------

    def seen(self) -> Snapshot:
        owners = tuple(one.facts for one in self.jobs.values())
        for view, truth in zip(self.views, (tuple(self.pods.values()), owners, self.used), strict=True):
            view.shown.append(truth)
        pods, jobs, used = (view.read(self.chance) for view in self.views)
        flying = [self._flying(p) for p in pods]
        quotas = [quota(requests_gpu=SIZE, used={"requests_gpu": used})]
        groups = [podgroup(name, SIZE) for name in self.trainings]
        return snapshot(pods=flying, jobs=jobs, nodes=nodes(4), quotas=quotas, podgroups=groups)

    def _flying(self, found: PodFacts) -> PodFacts:
        """What was patched is known to be, before its watch tells."""
        if found.uid not in self.in_flight or not found.gated:
            return found
        node, lifted = self.in_flight[found.uid]
        return msgspec.structs.replace(found, gated=False, lifted=lifted, pin=node)

    def work(self) -> Outcome:
        found = self.seen()
        outcome = decide(found, Config(), self.now)
        for decision in outcome.decisions:
            self.told.append(f"{self.now} {decision.group} {decision.action} {decision.message}")
            for pull in decision.pulls:
                self.pull(found.owners[pull.uid], pull)
            if decision.action == "lift":
                for uid, node in decision.places.items():
                    self.lift(uid, node, decision.need)
        return outcome

    def lift(self, uid: str, node: str, need: int) -> None:
        lifted = Lifted(need, self.now, "default", {}, SIZE, self.now)
        self.in_flight[uid] = node, lifted
        if uid in self.pods:
            self.pods[uid] = msgspec.structs.replace(self.pods[uid], gated=False, lifted=lifted, pin=node)

    def pull(self, seen: OwnerFacts, pull: Pull) -> None:
        """One write upon one version; refused where the owner has changed since."""
        one = self.jobs[pull.uid]
        if self.tried.get(pull.uid) == seen.version or self.chance.random() < 0.2:  # the rest waits its turn
            return
        self.tried[pull.uid] = seen.version
        if seen.version != one.facts.version:
            return
        change: dict[str, object] = {"version": f"{self.now}", "woken": self.now}
        one.backs_off_until = 0.0
        if pull.claim is not None:
            held = one.facts.held if pull.suspend is None else pull.suspend
            claim = msgspec.structs.replace(pull.claim, template=digest(one.facts.parts[0].template))
            change |= {"held": held, "ours": held and not claim.ended, "claim": claim, "woken": one.facts.woken}
            one.refusals = 0
        one.facts = msgspec.structs.replace(one.facts, **change)

    def live(self) -> Iterator[float]:
        """Until everything is done."""
        while not all(one.facts.over for one in self.jobs.values()):
            yield self.now
            self.controllers()
            self.work()
            self.kubelets()
            self.now += TICK

    @property
    def times(self) -> dict[str, int]:
        return {uid: one.facts.claim.times if one.facts.claim else 0 for uid, one in self.jobs.items()}


def lived(chance: Random, trainings: tuple[str, ...], late: int) -> World:
    world = World(chance, trainings, late)
    for now in world.live():
        assert now < 1000.0 + MOST_SECONDS, world.told[-20:]
    return world


@settings(max_examples=RUNS, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 4), st.sampled_from([("a", "b"), ("a", "b"), ("a", "b", "c")]))
def test_each_gives_back_once_at_most(seed, late, trainings):
    world = lived(Random(seed), trainings, late)
    assert max(world.times.values()) <= 1, "\n".join(world.told)


def every(seeds: int) -> Iterator[World]:
    return (lived(Random(seed), ("a", "b", "c"), late=seed % 5) for seed in range(seeds))


@pytest.mark.parametrize("rule", ["going_back", "half_resumed"])
def test_without_these_rules_some_do_again_and_again(monkeypatch, rule):
    monkeypatch.setattr(suspension, rule, lambda *_: 0.0)
    assert any(max(world.times.values()) > 1 for world in every(200))
