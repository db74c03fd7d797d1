"""Room is kept for the first group that does not fit, where ends are known; nobody behind it can delay it."""

import datetime as dt
import math

import msgspec
import pytest

from policy.names import Reason
from policy.rules.decide import decide
from policy.rules.model import Config, PodFacts
from policy.rules.reservation import end_of
from tests.unit.rules_facts import NOW, job, lifted, nodes, pod, queue, shape, snapshot


def clock(seconds):
    return dt.datetime.fromtimestamp(NOW + seconds, dt.UTC).strftime("%H:%M:%S UTC")


def runs(name, node, left=None, gpu=1, **fields):
    """A pod that runs, and is gone in so many seconds at the latest."""
    timed = {} if left is None else {"started": NOW - 100.0, "lasts": 100 + left}
    return lifted(pod(name, like=shape(gpu=gpu), job="before", **timed, **fields), node, queue=fields.get("queue", ""))


def waits(name, count, gpu=1, created=1.0, lasts=0, **fields):
    """A gang that is there, and its Job."""
    owner = {"queue": fields["queue"]} if "queue" in fields else {}
    made = job(name, count, like=shape(gpu=gpu), created=created, **owner)
    return made, [
        pod(f"{name}-{i}", like=shape(gpu=gpu), job=name, created=created, lasts=lasts, **fields) for i in range(count)
    ]


def judged(running, *waiting, config=Config(), **more):
    world = snapshot(
        nodes=nodes(2, gpu=4),
        jobs=[made for made, _ in waiting],
        pods=[*running, *(p for _, those in waiting for p in those)],
    )
    decisions = decide(msgspec.structs.replace(world, **more), config, NOW).decisions
    return {d.group.rpartition("/")[2]: d for d in decisions if not d.group.endswith("/before")}


FULL = [runs("a", "n0", 60, gpu=4), runs("b", "n1", 500, gpu=1)]  # n1 has 3 of 4 left
BIG = waits("big", 2, gpu=4)  # needs both nodes whole


def test_the_first_that_does_not_fit_is_told_by_when_it_starts():
    found = judged(FULL, BIG)["big"]
    assert (found.action, found.reason) == ("hold", Reason.NODES_SHORT)
    assert found.message.endswith(f"; starts by {clock(500)} at the latest, when what is in its way has ended")


def test_who_ends_before_may_go_ahead():
    found = judged(FULL, BIG, waits("short", 1, created=2.0, lasts=500))
    assert found["short"].action == "lift"


@pytest.mark.parametrize("lasts", [0, 501])
def test_who_would_delay_it_waits_behind_it_by_name(lasts):
    found = judged(FULL, BIG, waits("long", 1, created=2.0, lasts=lasts))["long"]
    assert (found.action, found.reason, found.limiter) == ("hold", Reason.BEHIND_RESERVATION, "group/Job/team/big")
    assert found.message == (
        f"1 pod would fit now, but Job big, ahead of it, is to start by {clock(500)}, "
        "and nothing says that they will have ended by then"
    )
    assert found.numbers["startsIn"] == 500


def test_whoever_uses_none_of_its_nodes_goes_ahead():
    found = judged(FULL, waits("big", 1, gpu=4), waits("long", 1, created=2.0))
    assert found["big"].message.endswith("at the latest, when what is in its way has ended")  # n0, in 60 s
    assert found["long"].action == "lift"
    assert set(found["long"].places.values()) == {"n1"}


def test_who_does_not_fit_anyway_hears_of_the_nodes():
    assert judged(FULL, BIG, waits("other", 1, gpu=4, created=2.0))["other"].reason is Reason.NODES_SHORT


def test_only_one_is_ahead_on_the_same_nodes():
    found = judged(FULL, BIG, waits("next", 2, gpu=4, created=2.0))
    assert "at the latest" not in found["next"].message


def test_without_an_end_nothing_is_kept():
    running = [runs("a", "n0", 60, gpu=4), runs("b", "n1", gpu=1)]
    found = judged(running, BIG, waits("long", 1, created=2.0))
    assert "at the latest" not in found["big"].message
    assert found["long"].action == "lift"


def test_where_nobody_wants_it_nothing_is_kept():
    found = judged(FULL, BIG, waits("long", 1, created=2.0), config=Config(reservations=False))
    assert found["long"].action == "lift"


def test_terminating_pods_end_when_they_end():
    running = [runs("a", "n0", gpu=4, deleted=NOW + 30), runs("b", "n1", 20, gpu=1)]
    assert f"starts by {clock(30)}" in judged(running, BIG)["big"].message


def test_what_is_lifted_in_this_pass_counts():
    """`early` goes first, on n1 and for 700 s: the one behind it starts no sooner."""
    found = judged(FULL, waits("early", 1, created=0.5, lasts=700), BIG)
    assert found["early"].action == "lift"
    assert f"starts by {clock(700)}" in found["big"].message


# --- queues --------------------------------------------------------------------------------------------------


def test_a_queue_that_is_full_has_its_own_head():
    """q takes 4 GPUs: big waits for all of them, and nobody of q may outlast that; others may."""
    running = [runs("a", "n0", 60, gpu=1, queue="q")]
    limited = {"q": queue("q", gpu="4"), "r": queue("r")}
    found = judged(
        running,
        waits("big", 4, queue="q"),
        waits("long", 1, created=2.0, queue="q"),
        waits("brief", 1, created=2.0, queue="q", lasts=60),
        waits("other", 1, created=2.0, queue="r"),
        queues=limited,
    )
    assert found["big"].reason is Reason.QUEUE_CAPABILITY_SHORT
    assert f"starts by {clock(60)}" in found["big"].message
    assert (found["long"].action, found["long"].reason) == ("hold", Reason.BEHIND_RESERVATION)
    assert found["brief"].action == "lift"
    assert found["other"].action == "lift"


def test_what_a_queue_can_spare_is_spared_once():
    running = [runs("a", "n0", 60, gpu=2, queue="q")]
    found = judged(
        running,
        waits("big", 4, queue="q"),
        waits("one", 1, created=2.0, queue="q"),
        waits("two", 1, created=3.0, queue="q"),
        queues={"q": queue("q", gpu="5")},
    )
    assert [found[name].action for name in ("big", "one", "two")] == ["hold", "lift", "hold"]
    assert found["two"].reason is Reason.BEHIND_RESERVATION


# --- drain ---------------------------------------------------------------------------------------------------


def test_a_group_that_has_waited_long_enough_holds_the_nodes_nearest_to_free():
    running = [runs("a", "n0", gpu=3), runs("b", "n1", gpu=1)]
    config = Config(drain_after_seconds=600.0)
    found = judged(running, waits("big", 1, gpu=4), waits("small", 1, created=2.0), config=config)
    assert found["big"].message.endswith("; 1 node kept free for it as they become so")
    assert set(found["small"].places.values()) == {"n0"}
    young = judged(running, waits("big", 1, gpu=4, created=NOW - 1), config=config)
    assert "kept free" not in young["big"].message


# --- ends ----------------------------------------------------------------------------------------------------


def owner(**fields):
    return msgspec.structs.replace(job("o", 1), **fields)


@pytest.mark.parametrize(
    ("fields", "owners", "end"),
    [
        ({}, (), math.inf),
        ({"lasts": 10}, (), NOW + 10),
        ({"lasts": 10, "started": NOW - 4}, (), NOW + 6),
        ({"lasts": 10, "deleted": NOW + 3}, (), NOW + 3),
        ({}, (owner(deadline=50, started=NOW - 20),), NOW + 60),
        ({}, (owner(deadline=50),), NOW + 80),
        ({}, (owner(deadline=50, started=NOW - 20, held=True),), NOW + 80),  # resuming begins it anew
        ({"lasts": 10}, (owner(deadline=50, started=NOW - 20),), NOW + 10),
        ({}, (owner(),), math.inf),
    ],
)
def test_when_a_pod_is_gone_at_the_latest(fields, owners, end):
    assert end_of(PodFacts("u", "team", "p", shape(), **fields), owners, NOW) == end


def test_members_above_the_minimum_do_not_pass_the_one_ahead():
    """An elastic group that runs would take every GPU that comes free, for ever."""
    owner = job("elastic", 1, possible=8, created=0.5)
    first = lifted(pod("e-0", job="elastic", created=0.5), "n1", minimum=1)
    more = [pod(f"e-{i}", job="elastic", created=0.5) for i in range(1, 4)]
    world = snapshot(
        nodes=nodes(2, gpu=4),
        jobs=[owner, BIG[0]],
        pods=[runs("a", "n0", 60, gpu=4), runs("b", "n1", 500, gpu=1), first, *more, *BIG[1]],
    )
    assert decide(world, Config(), NOW).ahead == {}  # e-0 runs for ever: nothing is known of when BIG starts
    first = msgspec.structs.replace(first, started=NOW, lasts=200)
    world = msgspec.structs.replace(world, pods=tuple(first if p.name == "e-0" else p for p in world.pods))
    for ahead, growth in (({}, 2), ({"Job/team/big": ("n0",)}, 0)):
        outcome = decide(msgspec.structs.replace(world, ahead=ahead), Config(), NOW)
        lifts = {d.group: len(d.places) for d in outcome.decisions if d.action == "lift"}
        assert lifts == ({"Job/team/elastic": growth} if growth else {})
    told = next(d for d in outcome.decisions if d.group == "Job/team/elastic")
    assert told.reason is Reason.BEHIND_RESERVATION
