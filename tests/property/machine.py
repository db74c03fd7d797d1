"""Everything that may happen to gangs, in any order, and what must hold after each step.

Rules are the world's events (tests.property.cluster); decide() and the writes of lift_plan.plan() drive it. Writes of
a pass are answered one by one in any order, other events fall between them, and a crash forgets those that are left.
Snapshots are never stale: that is the gatekeeper's promise, held elsewhere. The names I1 to I11 are those of the
design's promises.
"""

from collections import Counter

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy import names
from policy.gatekeeper.flights import Flights
from policy.names import Reason
from policy.rules import lifecycle
from policy.rules.decide import decide
from policy.rules.lift_plan import LiftPatch, plan, terms
from policy.rules.membership.identity import Identity
from policy.rules.conclusions import Decision, Group, Outcome, Pull
from policy.rules.model import (
    Config,
    Lifted,
    NamespaceFacts,
    NodeFacts,
    OwnerFacts,
    PodFacts,
    PodGroupFacts,
    QueueFacts,
    Shape,
    Snapshot,
)
from policy.rules.recall import Recall
from policy.rules.objects import LabelSelector, NodeSelectorTerm, PodAffinityTerm, SelectorRequirement
from policy.rules.quantity import NANO
from tests.property.cluster import GPU, GRACE, Cluster, Job, named, requested

LATER = 1000.0  # seconds: more than any bind timeout here, and more than the longest pause
LONELY = {"app": "lonely"}


def _shape(gpu: int, **fields: object) -> Shape:
    return Shape(requests={GPU: gpu * NANO}, **fields)  # type: ignore[arg-type]


PLAIN = [_shape(1), _shape(1), _shape(2), _shape(4)]
ODD = [
    _shape(1, node_selector={"zone": "a"}),
    _shape(2, node_terms=(NodeSelectorTerm((SelectorRequirement("zone", "In", ("b",)),)),)),
    _shape(1, host_ports=("TCP/80/0.0.0.0",)),
    _shape(1, alone_on_node=(PodAffinityTerm(names.HOSTNAME_LABEL, LabelSelector(LONELY)),)),
    _shape(1, priority=5),
]
SHAPES = st.sampled_from([*PLAIN, *PLAIN, *PLAIN, *ODD])
TEAMS = ("red", "blue")
TEAM = st.sampled_from(TEAMS)
NAME = st.sampled_from(["g1", "g1", "g1", "g2"])
QUEUE = st.sampled_from(["left", "left", "right", ""])  # two below "top", and the default one, which nobody limits
LIMITED = st.sampled_from(["left", "right", "top"])
FOREIGN = "example.com/quota"
FEW = st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8])
PICK = st.integers(0, 1 << 16)


def _event(name: str, *args: st.SearchStrategy) -> st.SearchStrategy[tuple]:
    return st.tuples(st.just(name), *args)


TENANT_EVENTS = st.one_of(
    _event("delete_pod", PICK, st.booleans()),
    _event("delete_pod", PICK, st.just(True)),
    _event("open_foreign_gate", PICK),
    _event("outsider", st.sampled_from(PLAIN), QUEUE),
    _event("write_podgroup", TEAM, NAME, FEW, QUEUE),
    _event("delete_podgroup", TEAM, NAME),
    _event("forge_owner", TEAM, st.sampled_from(PLAIN), PICK),
    _event("forge_podgroup", PICK),
)
OPERATOR_EVENTS = st.one_of(
    _event("capability", LIMITED, st.integers(0, 16)),
    _event("queue_state", LIMITED, st.sampled_from(["Open", "Open", "Closed"])),
    _event("quota", st.integers(0, 16)),
    _event("set_node", PICK, st.booleans(), st.sampled_from([True, True, False])),
    _event("add_node", st.sampled_from([2, 4, 8])),
    _event("remove_node", PICK),
    _event("relabel", TEAM, st.sampled_from([names.Policy.GANG, names.Policy.GANG, names.Policy.HYBRID, ""])),
    _event("escape_hatch", PICK),
    _event("resume", PICK),
)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = Cluster()
        self.config = Config()
        self.flights = Flights()
        self.recall = Recall()
        self.pending: list[tuple[str, LiftPatch]] = []  # group and write, not answered yet
        self.pulls: list[tuple[OwnerFacts, Pull]] = []  # writes to owners, in their order, not answered yet
        self.later = 0  # times that it was left alone for LATER
        self.whole: set[str] = set()  # keys of groups that had minMember on nodes, one of which is there still
        self.there: dict[str, set[str]] = {}  # uids of the members that were there when the lift began, by group
        self.states: dict[str, lifecycle.State] = {}
        self.released: set[str] = set()  # pods let go where gangs are asked for no more
        self.excused: dict[str, int] = {}  # by queue: GPUs above capability that were not our doing

    # --- the beginning ---------------------------------------------------------------------------------------

    @initialize(
        sizes=st.lists(st.sampled_from([2, 4, 8, 8]), min_size=2, max_size=4),
        quota=st.sampled_from([0, 0, 8, 14]),
        minimum=st.integers(1, 4),
        preempted_give_back=st.booleans(),
    )
    def build(self, sizes: list[int], quota: int, minimum: int, preempted_give_back: bool = False) -> None:
        self.config = Config(preempted_give_back=preempted_give_back)
        for number, gpus in enumerate(sizes):
            self._node(f"n{number}", gpus)
        for team in (*TEAMS, "free"):
            self.world.namespaces[team] = NamespaceFacts(team, "" if team == "free" else names.Policy.GANG)
            self._write_podgroup(team, "g1", minimum, "")
        if quota:
            self.world.hard["red"], self.world.used["red"] = quota, 0
        for name, capability, parent in (("top", 10, ""), ("left", 8, "top"), ("right", 6, "top")):
            self.world.queues[name] = QueueFacts(name, {GPU: capability * NANO}, parent)

    def _node(self, name: str, gpus: int) -> None:
        zone = "ab"[int(name[1:]) % 2]
        amounts = {GPU: gpus * NANO, "pods": 20 * NANO}
        self.world.nodes[name] = NodeFacts(name, amounts, {"zone": zone})

    # --- gangs -----------------------------------------------------------------------------------------------

    @rule(
        team=TEAM,
        count=FEW,
        more=st.sampled_from([0, 0, 4]),
        shape=SHAPES,
        queue=QUEUE,
        group=st.sampled_from(["", "", "", "g1", "g1", "g2"]),
        minimum=st.none() | FEW,
        gates=st.sampled_from([(), (), (), (), (), (FOREIGN,)]),
        wave=st.sampled_from([1, 4, 8, 8]),
        lever=st.sampled_from([True, True, False]),
    )
    def submit(self, team, count, more, shape, queue, group, minimum, gates, wave, lever=True) -> None:
        """A Job; the controller makes the first wave of its pods."""
        job = Job(
            uid=f"j{len(self.world.jobs)}",
            namespace=team,
            parallelism=count,
            completions=count + more,
            shape=shape,
            created=self.world.now,
            queue=queue,
            group=group,
            minimum=minimum if minimum is None else min(minimum, count),
            gates=gates,
            labels=LONELY if shape.alone_on_node else {},
            lever=lever,
        )
        self.world.jobs[job.uid] = job
        self._sync(job, wave)

    @rule(team=TEAM, name=NAME, shape=SHAPES, count=FEW)
    def bare_pods(self, team: str, name: str, shape: Shape, count: int) -> None:
        """Pods without a controller that name a PodGroup."""
        for _ in range(count):
            self.world.create(team, shape, group=named(team, name), labels=LONELY if shape.alone_on_node else {})
        if not self.world.managed(team):
            self._excuse()

    # --- controllers, scheduler, kubelet, time ---------------------------------------------------------------

    @rule(pick=PICK, most=FEW)
    @precondition(lambda self: self.world.jobs)
    def sync(self, pick: int, most: int) -> None:
        self._sync(self._pick(self.world.jobs.values(), pick), most)

    def _sync(self, job: Job, most: int) -> None:
        self.world.sync(job, most)
        if not self.world.managed(job.namespace):
            self._excuse()  # nobody holds these, and they may name a queue

    @rule(most=st.sampled_from([1, 3, 100]))
    def schedule(self, most: int) -> None:
        self.world.schedule(most)

    @rule(pick=PICK, phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]), count=FEW)
    @precondition(lambda self: self._running())
    def finish(self, pick: int, phase: str, count: int) -> None:
        for _ in range(min(count, len(self._running()))):
            self.world.change(self._pick(self._running(), pick), phase=phase)

    def _running(self) -> list[str]:
        return [p.uid for p in self.world.pods.values() if p.phase == "Running"]

    @rule(pick=PICK)
    @precondition(lambda self: self._running())
    def lose(self, pick: int) -> None:
        """A pod is gone with no farewell, and its controller is slow to make another."""
        pod = self.world.pods.pop(self._pick(self._running(), pick))
        self.work()
        if pod.owner in self.world.jobs:
            self._sync(self.world.jobs[pod.owner], 1)

    @rule(pick=PICK)
    @precondition(lambda self: self._running())
    def stand_still(self, pick: int) -> None:
        """A pod is gone, and nobody makes another for longer than a lifted one would be waited for."""
        self.world.pods.pop(self._pick(self._running(), pick))
        self.world.now += 200.0
        self.run_pass(0, pick)

    @rule(seconds=st.sampled_from([1.0, 40.0, 200.0]))
    def wait(self, seconds: float) -> None:
        """Terminating pods are gone after their grace, and the quota controller counts anew."""
        self.world.now += seconds
        if seconds > GRACE:
            self.world.reap()
            self.world.recount()

    @rule(pick=PICK, shape=st.sampled_from(PLAIN), answered=st.sampled_from([0, 1, 100]))
    @precondition(lambda self: self._running())
    def preempt(self, pick: int, shape: Shape, answered: int) -> None:
        """A pod of higher priority comes, and the scheduler makes room for it where most of the others are."""
        siblings = Counter(self.world.pods[uid].owner for uid in self._running())
        uid = self._pick(sorted(self._running(), key=lambda uid: -siblings[self.world.pods[uid].owner]), pick % 3)
        self.world.preempt(uid, self.world.create("free", shape) if answered else None)
        self._excuse()
        self.run_pass(answered, pick)

    # --- trouble ---------------------------------------------------------------------------------------------

    @rule(event=TENANT_EVENTS)
    def tenant(self, event: tuple) -> None:
        """Somebody with rights in one namespace."""
        name, *args = event
        getattr(self, f"_{name}")(*args)

    @rule(event=OPERATOR_EVENTS)
    def operator(self, event: tuple) -> None:
        """Somebody with rights over the cluster."""
        name, *args = event
        getattr(self, f"_{name}")(*args)
        self._excuse()

    def _write_podgroup(self, team: str, name: str, minimum: int, queue: str) -> None:
        uid = f"pg-{team}-{name}"
        self.world.podgroups[team, name] = PodGroupFacts(names.VOLCANO_API, team, name, uid, 1.0, minimum, queue)

    def _delete_podgroup(self, team: str, name: str) -> None:
        self.world.podgroups.pop((team, name), None)

    def _forge_owner(self, team: str, shape: Shape, pick: int) -> None:
        """Pods that claim a Job of the other team as their controller, as many as would start it."""
        strangers = [j for j in self.world.jobs.values() if j.namespace != team]
        if strangers:
            job = self._pick(strangers, pick)
            for _ in range(job.size):
                self.world.create(team, shape, group=Identity("Job", team, job.uid, job.uid), owner=job.uid)

    def _forge_podgroup(self, pick: int) -> None:
        """Under the name that ours would have, with a size and a queue of the tenant's liking."""
        if self.world.jobs:
            job = self._pick(self.world.jobs.values(), pick)
            name = names.OWN_PODGROUP_PREFIX + job.uid
            forged = PodGroupFacts(names.VOLCANO_API, job.namespace, name, f"pg-{name}", 0.0, 1, "nowhere")
            self.world.podgroups[job.namespace, name] = forged

    def _delete_pod(self, pick: int, again: bool) -> None:
        """Often the controller makes another before the first is gone."""
        if self.world.pods:
            pod = self.world.pods[self._pick(sorted(self.world.pods), pick)]
            self.world.delete(pod.uid)
            if again and pod.owner in self.world.jobs:
                self._sync(self.world.jobs[pod.owner], 1)

    def _outsider(self, shape: Shape, queue: str) -> None:
        """A pod where no gangs are asked for; it may take a place that was planned for others."""
        self.world.create("free", shape, queue=queue)
        self._excuse()

    def _open_foreign_gate(self, pick: int) -> None:
        held = [p.uid for p in self.world.pods.values() if p.foreign_gates]
        if held:
            self.world.change(self._pick(held, pick), foreign_gates=())

    def _capability(self, name: str, gpus: int) -> None:
        self.world.queues[name] = msgspec.structs.replace(self.world.queues[name], capability={GPU: gpus * NANO})

    def _queue_state(self, name: str, state: str) -> None:
        self.world.queues[name] = msgspec.structs.replace(self.world.queues[name], state=state)

    def _quota(self, gpus: int) -> None:
        if "red" in self.world.hard:
            self.world.hard["red"] = gpus

    def _set_node(self, pick: int, cordoned: bool, ready: bool) -> None:
        node = self._pick(self.world.nodes.values(), pick)
        self.world.nodes[node.name] = msgspec.structs.replace(node, cordoned=cordoned, ready=ready)

    def _add_node(self, gpus: int) -> None:
        if len(self.world.nodes) < 5:
            self._node(next(n for n in map("n{}".format, range(9)) if n not in self.world.nodes), gpus)

    def _remove_node(self, pick: int) -> None:
        if len(self.world.nodes) > 1:
            self.world.remove_node(self._pick(sorted(self.world.nodes), pick))

    def _relabel(self, team: str, policy: str) -> None:
        self.world.namespaces[team] = NamespaceFacts(team, policy)

    def _escape_hatch(self, pick: int) -> None:
        """An admin frees a pod by hand: no lift of ours has begun by that."""
        held = [p.uid for p in self.world.pods.values() if p.gated]
        if held:
            self.world.change(self._pick(held, pick), gated=False)

    def _resume(self, pick: int) -> None:
        """Somebody resumes what we suspended."""
        suspended = [job for job in self.world.jobs.values() if job.suspended]
        if suspended:
            job = self._pick(suspended, pick)
            job.suspended = job.by_us = False
            job.version += 1

    # --- ganggate --------------------------------------------------------------------------------------------

    @rule()
    def work(self) -> None:
        """A pass whose writes are all answered."""
        self.run_pass(100, 0)

    @rule(answered=st.sampled_from([0, 1, 2, 5]), pick=PICK)
    def run_pass(self, answered: int, pick: int) -> None:
        """Decide and plan; some of the writes are answered at once."""
        self.world.now += 1.0
        snapshot = self.world.snapshot(self.flights)
        outcome = decide(snapshot, self.config, self.world.now, self.recall)
        self._check(snapshot, outcome)
        for decision in outcome.decisions:
            if decision.action == "lift":
                self._start(outcome.groups[decision.group], decision)
        for decision in outcome.decisions:
            self._queue(snapshot, decision)
        for _ in range(min(answered, len(self.pending) + len(self.pulls))):
            self.answer(pick)

    def _queue(self, snapshot: Snapshot, decision: Decision) -> None:
        """Upon one version of an owner one write, as the levers do."""
        for pull in decision.pulls:
            owner = snapshot.owners[pull.uid]
            if not any(seen.uid == owner.uid for seen, _ in self.pulls):
                self.pulls.append((owner, pull))

    def _start(self, group: Group, decision: Decision) -> None:
        if any(key == group.key for key, _ in self.pending):
            return  # one plan a group at a time, as the lifter does
        self._begins(group)
        patches = [w for w in plan(group, decision, self.world.now) if isinstance(w, LiftPatch)]
        self.flights.assume(patches, terms(group, decision, self.world.now))
        self.pending += [(group.key, patch) for patch in patches]
        if decision.reason is Reason.RELEASED:
            self.released |= {patch.uid for patch in patches}

    def _begins(self, group: Group) -> None:
        """A lift begins again where nobody who is left has run, as can be told: none is bound, or none was lost."""
        present = {m.uid for m in group.members}
        before = self.there.get(group.key, present)
        if not group.bound or (before <= present and group.key not in self.whole):
            self.there[group.key] = present

    @rule(pick=PICK)
    @precondition(lambda self: self.pending or self.pulls)
    def answer(self, pick: int) -> None:
        """One write reaches the API server: any of the lifts under way, or the next to an owner."""
        chosen = pick % (len(self.pending) + bool(self.pulls))
        if chosen == len(self.pending):
            self.world.pull(*self.pulls.pop(0))
            return
        _, patch = self.pending.pop(chosen)
        self.world.patch(patch)
        self.flights.forget(patch.uid)

    @rule()
    @precondition(lambda self: self.pending or self.pulls)
    def crash(self) -> None:
        """The writes that are left are never sent, and nobody remembers them, nor who was preempted."""
        self.pending.clear()
        self.pulls.clear()
        self.world.fallen.clear()
        self.flights = Flights()
        self.recall = Recall()
        self.states.clear()

    # --- what must hold --------------------------------------------------------------------------------------

    def _check(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """What one pass owes."""
        self._every_group_is_answered(snapshot, outcome)
        books = self._books(snapshot)
        for decision in outcome.decisions:
            group = outcome.groups[decision.group]
            if decision.action == "lift":
                self._fits(snapshot, books, group, decision)
            self._may_be_given_back(group, decision)
            state = self.states.get(group.key, lifecycle.State.NEW)
            self.states[group.key] = lifecycle.advance(state, decision.seen).to
        self._begun_come_first(snapshot, outcome)

    def _every_group_is_answered(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """I11, and that no gated pod is forgotten (I7)."""
        told = [d.group for d in outcome.decisions]
        assert len(told) == len(set(told)) == len(outcome.groups), "I11: one decision a group"
        assert all(d.reason and d.message and d.numbers for d in outcome.decisions), "I11: a reason with numbers"
        held = sorted(p.uid for p in snapshot.pods if p.gated and p.live)
        assert held == sorted(m.uid for g in outcome.groups.values() for m in g.gated), "I7: each gated pod is judged"

    def _books(self, snapshot: Snapshot) -> dict[str, int]:
        """GPUs free by node: what is bound, and what is promised by a lift."""
        free = {n.name: n.allocatable[GPU] // NANO for n in snapshot.nodes}
        for pod in snapshot.pods:
            at = pod.node or (pod.pin if pod.lifted else "")
            if at in free and not pod.over:
                free[at] -= requested(pod.shape)
        return free

    def _fits(self, snapshot: Snapshot, books: dict[str, int], group: Group, decision: Decision) -> None:
        """I1: at least minMember exist, and each has a node that takes it beside everything promised."""
        if decision.reason is Reason.RELEASED:
            assert not self.world.managed(group.identity.namespace)
            return
        members = {m.uid: m for m in group.members}
        assert decision.places.keys() <= {m.uid for m in group.gated}
        assert all(m.deleted is None and not m.over for m in group.members), "I1: a member that is going"
        assert not any(members[uid].foreign_gates for uid in decision.places), "ours is lifted last"
        started = len(decision.places) + sum(1 for m in group.members if not m.gated)
        if not group.begun:
            assert started >= self._declared(group, snapshot), "I1: fewer than minMember"
        for uid, node in decision.places.items():
            pod = members[uid]
            assert node in books, "I1: no such node"
            assert self.world.takes(self.world.nodes[node], pod.shape), "I1: the node does not take it"
            books[node] -= requested(pod.shape)
            assert books[node] >= 0, "I1: the node is promised to others"

    def _may_be_given_back(self, group: Group, decision: Decision) -> None:
        """What has run whole is never torn by us, but where preemption has torn it and the operator asks for it."""
        for pull in decision.pulls:
            if pull.suspend and pull.claim is not None and pull.claim.why in ("bind", "preempted"):
                assert group.bound < group.need, "given back although it runs"
            if pull.suspend and pull.claim is not None and pull.claim.why == "bind":
                assert group.key not in self.whole or not group.bound, "given back although it ran whole"
            if pull.suspend and pull.claim is not None and pull.claim.why == "preempted":
                assert self.config.preempted_give_back, "nobody asked for that"

    @invariant()
    def what_happened_is_remembered(self) -> None:
        """By the world, for promises about what was: of which groups somebody is left that ran beside minMember."""
        found: dict[str, list[PodFacts]] = {}
        for pod in self.world.pods.values():
            if pod.group and pod.lifted and pod.deleted is None and pod.phase != "Failed":
                found.setdefault(pod.group.key, []).append(pod)
        live = {key: pods for key, pods in found.items() if any(p.live for p in pods)}
        bound = {key: sum(1 for p in pods if p.node) for key, pods in live.items()}
        least = {key: max(p.lifted.min for p in pods if p.lifted) for key, pods in live.items()}
        left = {key for key in self.whole & live.keys() if any(p.node and p.live for p in live[key])}
        self.whole = left | {key for key in live if bound[key] >= least[key]}

    def _kept_for_good(self, group: Group) -> bool:
        """Whether it neither runs nor ever will, although it could be given back: nobody was lost since its lift began."""
        if not group.begun or group.bound >= group.need or group.key in self.whole or not self._managed(group):
            return False
        owned = {o.uid for o in group.owners if o.lever and not (o.claim and o.claim.foreign)}
        whole = self.there[group.key] <= {m.uid for m in group.members}
        return whole and all(m.owner in owned for m in group.members) and bool(owned)

    def _managed(self, group: Group) -> bool:
        return self.world.managed(group.identity.namespace)

    def _declared(self, group: Group, snapshot: Snapshot) -> int:
        """What somebody with a right to say so has said, less what is done."""
        identity = group.identity
        if identity.kind == "Job":
            job = self.world.jobs[identity.uid]
            assert job.namespace == identity.namespace, "a forged owner starts nothing"
            return max(1, (job.minimum or job.size) - self._done(snapshot, {job.uid}))
        if identity.kind == "Pod":
            return 1
        owners = {
            j.uid for j in self.world.jobs.values() if (j.namespace, j.group) == (identity.namespace, identity.name)
        }
        podgroup = self.world.podgroups[identity.namespace, identity.name]
        return max(1, podgroup.min_member - self._done(snapshot, owners))

    def _done(self, snapshot: Snapshot, owners: set[str]) -> int:
        return sum(1 for p in snapshot.pods if p.owner in owners and p.phase == "Succeeded")

    def _begun_come_first(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """I8: what was begun is answered first, and as if nothing new were there."""
        owed = [d for d in outcome.decisions if self._owes(outcome.groups[d.group])]
        assert owed == list(outcome.decisions[: len(owed)]), "I8: begun groups come first"
        if not owed:
            return
        begun = {m.uid for g in outcome.groups.values() if g.begun for m in g.members}
        old = tuple(p for p in snapshot.pods if p.uid in begun or not p.gated or not self.world.managed(p.namespace))
        alone = decide(msgspec.structs.replace(snapshot, pods=old), self.config, self.world.now)
        answers = {d.group: (d.action, sorted(d.places)) for d in alone.decisions}
        for decision in owed:
            assert answers[decision.group] == (decision.action, sorted(decision.places)), "I8: something new came first"

    def _owes(self, group: Group) -> bool:
        return bool(group.short) and self.world.managed(group.identity.namespace)

    @invariant()
    def capability_holds(self) -> None:
        """I2: no queue is above its capability by our doing, over every interleaving and crash."""
        for name, queue in self.world.queues.items():
            over = max(0, self._allocated(name) - queue.capability[GPU] // NANO)
            assert over <= self.excused.get(name, 0), f"I2: queue {name} is {over} above its capability"

    def _excuse(self) -> None:
        """After an event that is not ours: what is above capability now, promises included, is not our doing."""
        for name, queue in self.world.queues.items():
            promised = self._allocated(name) + self._owed(name)
            self.excused[name] = max(0, promised - queue.capability[GPU] // NANO)

    def _allocated(self, queue: str) -> int:
        """GPUs of pods that were lifted, are being lifted, or name the queue themselves and belong to no group."""
        flying = {patch.uid: msgspec.json.decode(patch.body) for _, patch in self.pending}
        found = 0
        for pod in self.world.pods.values():
            if pod.over or pod.uid in self.released or (pod.gated and pod.uid not in flying):
                continue
            lifted = pod.lifted
            if pod.uid in flying:
                text = flying[pod.uid]["metadata"]["annotations"][names.ANNOTATION_LIFTED]
                lifted = msgspec.json.decode(text, type=Lifted)
            named_by_pod = "" if pod.group else pod.queue
            found += requested(pod.shape) * self._is_below(lifted.queue if lifted else named_by_pod, queue)
        return found

    def _owed(self, queue: str) -> int:
        """GPUs of begun groups that are still to be lifted, at most."""
        groups: dict[str, list[PodFacts]] = {}
        for pod in self.world.pods.values():
            if pod.live and pod.group and pod.lifted and not pod.gated:
                groups.setdefault(pod.group.key, []).append(pod)
        return sum(
            max(0, max(m.lifted.min for m in members if m.lifted) - len(members)) * 4  # the largest shape
            for members in groups.values()
            if any(m.lifted and self._is_below(m.lifted.queue, queue) for m in members)
        )

    def _is_below(self, name: str, queue: str) -> bool:
        return queue == name or (queue == "top" and name in ("left", "right"))

    def teardown(self) -> None:
        """Left alone, it comes to rest, and then nobody waits for what is there (I10, and that lifts end: I8)."""
        if not self.world.namespaces:
            return
        self._come_to_rest()
        while self._moves_later():
            self._come_to_rest()
        snapshot = self.world.snapshot(self.flights)
        outcome = decide(snapshot, self.config, self.world.now, self.recall)
        self._check(snapshot, outcome)
        read_back = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
        assert decide(read_back, self.config, self.world.now).decisions == outcome.decisions, "I9"
        for decision in outcome.decisions:
            assert decision.action != "lift", "it does not come to rest"
            self._has_cause(snapshot, outcome.groups[decision.group], decision)

    def _come_to_rest(self) -> None:
        rounds = 0
        while self._settle():
            rounds += 1
            assert rounds < 40, "it does not come to rest"

    def _moves_later(self) -> bool:
        """Whether anything happens once every limit and every pause has passed."""
        self.later += 1
        assert self.later < 10, "it does not come to rest"
        self.world.now += LATER
        return self._settle()

    def _settle(self) -> bool:
        """Everybody does what is to do; tell whether there was anything."""
        before = self._state()
        self.run_pass(100, 0)
        while self.pending or self.pulls:
            self.answer(0)
        self.world.schedule()
        self.what_happened_is_remembered()
        self.world.reap()
        self.world.recount()
        for job in self.world.jobs.values():
            self.world.sync(job, 100)
        self._excuse()
        self.what_happened_is_remembered()
        return self._state() != before

    def _state(self) -> tuple:
        succeeded = {uid: (job.succeeded, job.suspended) for uid, job in self.world.jobs.items()}
        return dict(self.world.pods), succeeded, dict(self.world.used)

    def _has_cause(self, snapshot: Snapshot, group: Group, decision: Decision) -> None:
        """What was begun is finished, and a group that waits for nodes would really not find them."""
        if self._owes(group) and group.gated:
            assert decision.action == "hold", "I8: a lift that was begun is not finished"
        assert not self._kept_for_good(group), f"I10: {decision.message}, neither bound nor given back"
        if group.suspended:
            assert all(o.held or o.over for o in group.owners), "I8: a group that is half given back"
        if decision.reason is not Reason.NODES_SHORT:
            return
        members = group.gated[: max(1, group.short or group.minimum - len(group.members) + len(group.gated))]
        if (
            not members
            or len({id(m.shape) for m in members}) > 1
            or members[0].shape.host_ports
            or members[0].shape.alone_on_node
        ):
            return  # several classes, and who may stand beside whom: tests.property.test_rules_placement
        need = requested(members[0].shape)
        books = self._books(snapshot)
        nodes = (n for n in snapshot.nodes if self.world.takes(n, members[0].shape))
        fit = sum(max(0, books[n.name]) // need for n in nodes)
        wanted = len(members) if group.short or not group.begun else 1
        assert fit < wanted, f"I10: {decision.message}, but {fit} of {wanted} fit"

    @staticmethod
    def _pick(items, pick: int):
        listed = list(items)
        return listed[pick % len(listed)]


class Crowded(Machine):
    """Small Jobs that want the same few places in their queues; nodes are plenty and nobody makes trouble."""

    tenant = operator = bare_pods = wait = None

    @initialize()
    def build(self) -> None:
        Machine.build(self, sizes=[8, 8, 8, 8], quota=0, minimum=1)

    @rule(team=TEAM, count=st.integers(1, 3), queue=st.sampled_from(["left", "right"]))
    def submit(self, team: str, count: int, queue: str) -> None:
        Machine.submit(self, team, count, 0, PLAIN[0], queue, "", None, (), 8)

    @rule()
    def farewell(self) -> None:
        """What runs is deleted, and made again while it still goes."""
        for uid in self._running():
            self.world.delete(uid)
        for job in self.world.jobs.values():
            self._sync(job, 8)
