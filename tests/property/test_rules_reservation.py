"""I5: nothing that is lifted pushes the start of a reserved group back; and who is let by is gone by then.

Small clusters with every kind of end: pods that have met half of their deadline, that have none, gangs that state one.
Every pass is followed by its lifts, taken in at once, and by the next pass, now and when the next pod is gone.
"""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.names import Reason
from policy.rules import reservation
from policy.rules.decide import decide
from policy.rules.model import Config, Lifted, QueueFacts
from tests.unit.rules_facts import NOW, job, lifted, nodes, pod, queue, shape, snapshot

CONFIG = Config(max_waiting_groups_per_namespace=1000)
ENDS = st.sampled_from([0, 5, 10, 20, 40, 80])
QUEUES = st.sampled_from(["", "q", "q", "r"])


@st.composite
def worlds(draw):
    count = draw(st.integers(1, 3))
    free = {f"n{i}": 4 for i in range(count)}
    running = []
    for number in range(draw(st.integers(0, 6))):
        name, gpus = draw(st.sampled_from(sorted(free))), draw(st.integers(1, 4))
        if free[name] >= gpus:
            free[name] -= gpus
            running.append(_runs(number, name, gpus, draw(ENDS), draw(QUEUES)))
    jobs, waiting = [], []
    for number in range(draw(st.integers(2, 6))):
        made, members = _waits(number, draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(ENDS), draw(QUEUES))
        jobs.append(made)
        waiting += members
    world = snapshot(nodes=nodes(count, gpu=4), jobs=jobs, pods=[*running, *waiting])
    limits = {"q": queue("q", gpu=str(draw(st.integers(1, 8)))), "r": QueueFacts("r")}
    return msgspec.structs.replace(world, queues=limits)


def _runs(number, node, gpus, left, queue):
    timed = {"started": NOW - 50.0, "lasts": 50 + left} if left else {}
    made = pod(f"r{number}", like=shape(gpu=gpus), job=f"before-{number}", queue=queue, **timed)
    return lifted(made, node, queue=queue)  # each a group of its own: members of one group are in one queue


def _waits(number, count, gpus, lasts, queue):
    uid = f"g{number}"
    made = job(uid, count, like=shape(gpu=gpus), created=float(number), queue=queue)
    members = [
        pod(f"{uid}-{i}", like=shape(gpu=gpus), job=uid, created=float(number), lasts=lasts, queue=queue)
        for i in range(count)
    ]
    return made, members


def _on_two_nodes(running, waiting, limit=1):
    """Of 4 GPUs each; `limit` is what queue q may have."""
    jobs, members = zip(*waiting, strict=True)
    world = snapshot(nodes=nodes(2, gpu=4), jobs=jobs, pods=[*running, *(p for each in members for p in each)])
    return msgspec.structs.replace(world, queues={"q": queue("q", gpu=str(limit)), "r": QueueFacts("r")})


def starts(outcome, now):
    """By group, when it is to start at the latest."""
    return {
        d.group: now + d.numbers["startsIn"]
        for d in outcome.decisions
        if "startsIn" in d.numbers and d.reason is not Reason.BEHIND_RESERVATION
    }


def after(world, outcome, now):
    """The lifts of a pass, taken in, bound and running."""
    places = {uid: (node, d) for d in outcome.decisions if d.action == "lift" for uid, node in d.places.items()}
    pods = []
    for each in world.pods:
        if each.uid in places:
            node, decision = places[each.uid]
            mark = Lifted(decision.need, now, outcome.groups[decision.group].queue)
            each = msgspec.structs.replace(each, gated=False, lifted=mark, pin=node, node=node, started=now)
        pods.append(each)
    return msgspec.structs.replace(world, pods=tuple(pods))


def at(world, now):
    """Who has met the deadline is gone."""
    left = tuple(p for p in world.pods if p.gated or not p.lasts or p.started + p.lasts > now)
    return msgspec.structs.replace(world, pods=left)


def next_end(world, now):
    return min((p.started + p.lasts for p in world.pods if not p.gated and p.lasts), default=now + 1000.0)


def never_pushed_back(world):
    now, told = NOW, {}
    for _ in range(12):
        outcome = decide(world, CONFIG, now)
        found = starts(outcome, now)
        for group, latest in told.items():
            lifted_now = any(d.group == group and d.action == "lift" for d in outcome.decisions)
            assert lifted_now or now <= latest, f"I5: {group} was to start by {latest}, it is {now}"
            if group in found:
                assert found[group] <= latest, f"I5: {group} was to start by {latest}, now by {found[group]}"
        told = found
        world = msgspec.structs.replace(after(world, outcome, now), ahead=outcome.ahead)
        if not any(d.action == "lift" for d in outcome.decisions):
            now = next_end(world, now)
            world = at(world, now)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_reservation_is_never_pushed_back(world):
    never_pushed_back(world)


def test_who_was_told_first_stays_first():
    """By shares g2 came before the older g1: looked at by age in the next pass, g1 would take the node g2 was told of."""
    waiting = [_waits(0, 1, 3, 5, ""), _waits(1, 1, 1, 0, "q"), _waits(2, 1, 2, 0, "")]
    never_pushed_back(_on_two_nodes([_runs(0, "n1", 3, 10, "q")], waiting))


def test_who_was_told_first_stays_first_where_the_other_could_start_sooner():
    """When n0 is free the queue of the older g1 is too, but n0 is g2's by then: g1 was told of n1, which is free later."""
    running = [_runs(0, "n0", 3, 5, "r"), _runs(1, "n1", 3, 10, "r"), _runs(2, "n1", 1, 5, "q")]
    waiting = [_waits(1, 1, 2, 0, "q"), _waits(2, 1, 3, 0, "")]
    never_pushed_back(_on_two_nodes(running, waiting, limit=2))


def test_who_holds_a_node_keeps_it():
    """g0 starts on n1 at once: beside it n1 is the tighter place for g1, but what is left of it was promised to g2."""
    waiting = [_waits(0, 1, 3, 10, ""), _waits(1, 1, 1, 0, "q"), _waits(2, 1, 3, 0, "")]
    never_pushed_back(_on_two_nodes([_runs(0, "n0", 1, 5, "q"), _runs(1, "n0", 2, 20, "")], waiting))


def everybody_is_gone_in_time(patch):
    patch.setattr(reservation.Reservations, "hindered", lambda self, group, members: [])


def ends_of_the_lifted_are_forgotten(patch):
    found = reservation.end_of
    patch.setattr(reservation, "end_of", lambda pod, owners, now: now if pod.gated else found(pod, owners, now))


def queues_lend_for_ever(patch):
    patch.setattr(reservation.Reservations, "over", lambda *_: None)


@pytest.mark.parametrize("promise", [everybody_is_gone_in_time, ends_of_the_lifted_are_forgotten, queues_lend_for_ever])
def test_a_broken_promise_is_found(promise, monkeypatch):
    promise(monkeypatch)

    @settings(
        max_examples=2000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(worlds())
    def run(world):
        never_pushed_back(world)

    with pytest.raises(AssertionError, match="I5"):
        run()
