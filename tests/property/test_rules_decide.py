"""decide() over any snapshot: total, one answer for each, the same answer each time, and nothing but its arguments."""

import builtins
import logging
import os
import random
import socket
import subprocess
import sys
import textwrap
import time

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.rules.decide import decide
from policy.rules.lift_plan import LiftPatch, Report, plan
from policy.rules.model import Config, Snapshot
from policy.rules.settings import AutoscaledPool
from tests.property.snapshots import NOW, snapshots

CONFIG = Config()
BURST = AutoscaledPool("burst", allocatable={"nvidia.com/gpu": 8})
OTHERS = [Config(placement=False), Config(max_waiting_groups_per_namespace=1), Config(autoscaled_pools=(BURST,))]
many = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@many
@given(snapshots())
def test_every_group_has_one_answer_with_a_reason_and_numbers(snapshot):
    """I11; and I7: no gated pod is forgotten."""
    outcome = decide(snapshot, CONFIG, NOW)
    assert sorted(d.group for d in outcome.decisions) == sorted(outcome.groups)
    for decision in outcome.decisions:
        assert decision.message and decision.numbers
        assert (decision.position > 0) <= (decision.action == "hold")
        assert bool(decision.places) is (decision.action == "lift")
    held = sorted(p.uid for p in snapshot.pods if p.gated and p.live)
    assert held == sorted(m.uid for g in outcome.groups.values() for m in g.gated)


@many
@given(snapshots(), st.randoms())
def test_the_order_in_which_things_are_listed_is_nothing_to_it(snapshot, order):
    """Watches deliver in any order, and dictionaries keep the order in which they were filled."""
    assert decide(shuffled(snapshot, order), CONFIG, NOW) == decide(snapshot, CONFIG, NOW)


def shuffled(snapshot, order):
    def mixed(value):
        if isinstance(value, tuple):
            return tuple(order.sample(value, len(value)))
        if isinstance(value, str):
            return value
        return dict(order.sample(list(value.items()), len(value)))

    return Snapshot(**{f: mixed(getattr(snapshot, f)) for f in Snapshot.__struct_fields__})


@many
@given(snapshots())
def test_a_snapshot_that_was_written_down_gives_the_same_answers_in_the_same_words(snapshot):
    """I9."""
    read_back = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
    assert read_back == snapshot
    assert decide(read_back, CONFIG, NOW) == decide(snapshot, CONFIG, NOW)


@many
@given(snapshots())
def test_it_changes_nothing_that_it_is_given(snapshot):
    before = msgspec.json.encode(snapshot)
    decide(snapshot, CONFIG, NOW)
    assert msgspec.json.encode(snapshot) == before


@many
@given(snapshots())
def test_each_lift_is_planned_as_a_report_and_one_patch_for_each_place(snapshot):
    outcome = decide(snapshot, CONFIG, NOW)
    for decision in outcome.decisions:
        first, *patches = plan(outcome.groups[decision.group], decision, NOW)
        assert first == Report(decision.group)
        assert {p.uid: p.node for p in patches} == decision.places
        for patch in patches:
            assert isinstance(patch, LiftPatch)
            assert msgspec.json.decode(patch.body)["metadata"]["uid"] == patch.uid


@many
@given(snapshots(), st.sampled_from(OTHERS))
def test_settings_change_answers_and_never_their_number(snapshot, config):
    assert len(decide(snapshot, config, NOW).decisions) == len(decide(snapshot, CONFIG, NOW).decisions)


@many
@given(snapshots())
def test_what_is_decided_once_is_decided_again(snapshot):
    """No memory of earlier passes."""
    first = decide(snapshot, CONFIG, NOW)
    decide(Snapshot(), CONFIG, NOW + 1)
    assert decide(snapshot, CONFIG, NOW) == first


# --- nothing but its arguments ---------------------------------------------------------------------------------


def forbidden(*_args, **_kwargs):
    raise AssertionError("the rules looked at the world")


WORLD = [
    (builtins, "open"),
    (builtins, "print"),
    (builtins, "input"),
    *((time, name) for name in ("time", "monotonic", "perf_counter", "time_ns", "sleep")),
    *((random, name) for name in ("random", "choice", "shuffle", "randint")),
    (socket, "socket"),
    (os, "open"),
    (os, "getenv"),
    (logging.Logger, "_log"),
    (subprocess, "Popen"),
]


@pytest.fixture(scope="module")
def some():
    """Snapshots drawn beforehand: Hypothesis itself looks at clocks."""
    drawn: list = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(snapshots())
    def draw(snapshot):
        drawn.append(snapshot)

    draw()
    return drawn


def test_it_works_with_the_world_forbidden(some, monkeypatch):
    with monkeypatch.context() as patch:
        for owner, name in WORLD:
            patch.setattr(owner, name, forbidden)
        found = [decide(snapshot, CONFIG, NOW) for snapshot in some]
        writes = [w for o in found for d in o.decisions for w in plan(o.groups[d.group], d, NOW)]
    assert found == [decide(snapshot, CONFIG, NOW) for snapshot in some]
    assert writes


SCRIPT = """
    import sys
    import msgspec
    from policy.rules.decide import decide
    from policy.rules.lift_plan import plan
    from policy.rules.model import Config, Snapshot

    ours = [name for name in sys.modules if name.partition(".")[0] in ("policy", "webhook", "certs", "deploy")]
    strangers = [n for n in ours if n not in ("policy", "policy.names") and not n.startswith("policy.rules")]
    assert not strangers, strangers
    assert "kubernetes" not in sys.modules
    snapshots = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Snapshot])

    def refuse(event, args):
        if event.partition(".")[0] in ("open", "os", "socket", "subprocess", "shutil", "tempfile", "urllib", "import"):
            refused.append((event, args))

    refused = []
    sys.addaudithook(refuse)
    outcomes = [decide(snapshot, Config(), {now}) for snapshot in snapshots]
    [list(plan(o.groups[d.group], d, {now})) for o in outcomes for d in o.decisions]
    told = [[d.message for d in o.decisions] for o in outcomes]
    seen = list(refused)
    assert not seen, seen
    sys.stdout.buffer.write(msgspec.json.encode(told))
"""


def test_it_works_in_a_process_of_its_own_that_opens_nothing(some):
    """A saved snapshot replays on a laptop, without a cluster, in the same words (promise I9)."""
    script = textwrap.dedent(SCRIPT).replace("{now}", str(NOW))
    done = subprocess.run(
        [sys.executable, "-c", script], input=msgspec.json.encode(some), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    told = [[d.message for d in decide(snapshot, CONFIG, NOW).decisions] for snapshot in some]
    assert msgspec.json.decode(done.stdout) == told
