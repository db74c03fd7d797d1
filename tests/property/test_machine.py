"""The promises under everything that may happen; and that the machine sees a promise being broken.

GANGGATE_RUNS runs of at most 30 steps (default 1,000) from GANGGATE_SEED (default 0).
"""

import math
import os

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from policy.rules import (
    charges,
    begun,
    binding,
    grouping,
    ledger,
    lift_plan,
    placement,
    pool,
    recovery,
)
from policy.rules import decide as deciding
from policy.rules.conclusions import Group, Outcome
from policy.rules.model import Config, PodFacts
from tests.property import machine
from tests.property.machine import Crowded, Machine

RUNS = int(os.environ.get("GANGGATE_RUNS", "1000"))
SEED = int(os.environ.get("GANGGATE_SEED", "0"))
STEPS = 30
RUNS_TO_FIND = 4000  # each was found within 400 when it was written


def run(runs, *phases, of=Machine):
    chosen = settings(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=phases or (Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(SEED)(of), settings=chosen)


def test_the_promises_hold():
    run(RUNS)


def test_the_promises_hold_where_queues_are_full():
    run(RUNS // 5, of=Crowded)


def nodes_forget_what_is_lifted(patch):
    charge = pool.Pool.charge_all

    def bound_alone(self, placed):
        pairs = [(node, pod) for nodes, pods in placed for node, pod in zip(nodes, pods, strict=True) if pod.node]
        charge(self, [([node], [pod]) for node, pod in pairs])

    patch.setattr(pool.Pool, "charge_all", bound_alone)


def nodes_forget_what_this_pass_has_placed(patch):
    patch.setattr(pool.Pool, "book", lambda self, row, pod: None)
    patch.setattr(pool.Pool, "refund", lambda self, row, pod: None)


def one_gate_of_a_gang_is_lifted(patch):
    patch.setattr(Group, "first", property(lambda self: self.gated[:1]))


def what_terminates_is_a_member(patch):
    patch.setattr(PodFacts, "live", property(lambda self: not self.over))


def forged_owners_are_believed(patch):
    patch.setattr(grouping.Index, "owner_of", lambda self, identity: self.snapshot.owners.get(identity.uid))


def queues_are_not_charged(patch):
    patch.setattr(ledger.Ledger, "charge_queue", lambda self, queue, requests: None)


def queues_forget_what_terminates(patch):
    patch.setattr(charges, "_queue_of", lambda snapshot, pod, groups: "")


def the_room_of_a_begun_lift_is_given_away(patch):
    patch.setattr(ledger.Ledger, "keep", lambda self, group: None)


def ancestors_do_not_limit(patch):
    def chain(queues, name):
        yield from [queues[name]] if name in queues else []

    patch.setattr(ledger.queue_capacity, "chain", chain)


def every_gate_is_removed(patch):
    body = lift_plan.body

    def all_gates(*args):
        changed = msgspec.json.decode(body(*args))
        changed["spec"]["schedulingGates"] = [{"$patch": "replace"}]
        return msgspec.json.encode(changed)

    patch.setattr(lift_plan, "body", all_gates)


def the_pin_takes_the_place_of_other_terms(patch):
    pinned = lift_plan.pinned_terms

    def bare(pod, node):
        shape = msgspec.structs.replace(pod.shape, node_terms=())
        return pinned(msgspec.structs.replace(pod, shape=shape), node)

    patch.setattr(lift_plan, "pinned_terms", bare)


def new_groups_come_before_begun_ones(patch):
    decide = machine.decide

    def by_age(*args):
        found = decide(*args)
        order = list(found.groups)
        return Outcome(tuple(sorted(found.decisions, key=lambda d: order.index(d.group))), found.groups)

    patch.setattr(machine, "decide", by_age)


def nobody_finishes_what_was_begun(patch):
    patch.setattr(deciding, "_finish", begun.settled)


def a_group_is_left_without_answer(patch):
    decide = machine.decide

    def all_but_one(*args):
        found = decide(*args)
        return Outcome(found.decisions[:2] + found.decisions[3:], found.groups)

    patch.setattr(machine, "decide", all_but_one)


def who_does_not_fit_blocks_those_behind(patch):
    place = placement.place

    def strictly(books, pods, shut):
        found = books.__dict__.get("blocked") or place(books, pods, shut)
        if isinstance(found, placement.NodesShort):
            books.__dict__["blocked"] = found
        return found

    patch.setattr(placement, "place", strictly)


def what_ran_is_torn(patch):
    patch.setattr(binding, "may_have_run", lambda group: False)


def what_cannot_be_bound_is_kept(patch):
    patch.setattr(begun, "recovered", lambda desk, group, decision: decision)


def a_node_that_is_gone_is_waited_for(patch):
    """Not even the bind timeout ends that."""
    patch.setattr(binding.Standing, "due", property(lambda self: math.inf))
    patch.setattr(binding, "_never", lambda pod, nodes: "")


def preemption_tears_unasked(patch):
    torn = recovery._torn

    def eager(snapshot, group, fallen, told, config, now):
        return torn(snapshot, group, fallen, told, Config(preempted_give_back=True), now)

    patch.setattr(recovery, "_torn", eager)


BROKEN = {
    nodes_forget_what_is_lifted: "I1: the node is promised to others",
    nodes_forget_what_this_pass_has_placed: "I1: the node is promised to others",
    one_gate_of_a_gang_is_lifted: "I1: fewer than minMember",
    what_terminates_is_a_member: "I1: a member that is going",
    forged_owners_are_believed: "a forged owner starts nothing",
    queues_are_not_charged: "I2: queue",
    queues_forget_what_terminates: "I2: queue",
    the_room_of_a_begun_lift_is_given_away: "I2: queue",
    ancestors_do_not_limit: "I2: queue top",
    every_gate_is_removed: "I3: our gate, by name",
    the_pin_takes_the_place_of_other_terms: "I3: terms are added to",
    new_groups_come_before_begun_ones: "I8: begun groups come first",
    nobody_finishes_what_was_begun: "I8: a lift that was begun",
    a_group_is_left_without_answer: "I11: one decision a group",
    who_does_not_fit_blocks_those_behind: "I10",
    what_ran_is_torn: "given back although it ran whole",
    what_cannot_be_bound_is_kept: "I10: .* neither bound nor given back",
    a_node_that_is_gone_is_waited_for: "I10: .* neither bound nor given back",
    preemption_tears_unasked: "nobody asked for that",
}


@pytest.mark.parametrize("promise", BROKEN, ids=lambda promise: promise.__name__)
def test_a_broken_promise_is_found(promise, monkeypatch):
    promise(monkeypatch)
    crowded = BROKEN[promise].startswith("I2")  # takes queues that are full
    with pytest.raises(AssertionError, match=BROKEN[promise]):
        run(RUNS_TO_FIND, Phase.generate, of=Crowded if crowded else Machine)
