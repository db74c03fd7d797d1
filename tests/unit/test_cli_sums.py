"""The sums that `why` prints are those of the decision: for random clusters, the line that is short says what it says.

A promise of the command line: nobody is shown arithmetic other than the gatekeeper's own.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from policy import names
from policy.cli import books
from policy.rules import account
from policy.rules.decide import decide
from policy.rules.model import Config
from tests.unit.rules_facts import GPU, NOW, job, lifted, nodes, pod, pods, queue, quota, shape, snapshot

SMALL = shape(gpu=1)
LARGE = shape(gpu=3, cpu="2")


@st.composite
def clusters(draw):
    """Up to six Jobs, part created, some running, in one namespace with a quota and a queue under another."""
    jobs, members = [], []
    for i in range(draw(st.integers(1, 6))):
        size, like = draw(st.integers(1, 6)), draw(st.sampled_from([SMALL, LARGE]))
        made = draw(st.integers(0, size))
        created = float(draw(st.integers(1, 3)))
        jobs.append(job(f"j{i}", size, like=like, created=created, queue="low"))
        own = pods(made, f"j{i}", job=f"j{i}", like=like, queue="low")
        running = made == size and draw(st.booleans())
        members += [lifted(p, "n0", size) for p in own] if running else own
    members += [pod(f"o{i}", gated=False, node="n1", like=SMALL) for i in range(draw(st.integers(0, 4)))]
    hard, used = draw(st.integers(1, 40)), draw(st.integers(0, 40))
    return snapshot(
        nodes=nodes(draw(st.integers(0, 4))),
        jobs=jobs,
        pods=members,
        quotas=[quota(requests_gpu=str(hard), pods="30", used={"requests_gpu": str(used)})]
        if draw(st.booleans())
        else [],
        queues=[
            queue("low", "high", gpu=str(draw(st.integers(1, 30)))),
            queue("high", gpu=str(draw(st.integers(1, 30)))),
        ],
    )


def explained(facts):
    outcome = decide(facts, Config(), NOW)
    for decision in outcome.decisions:
        yield outcome.groups[decision.group], decision, books.before(facts, outcome, decision.group, NOW)


def starting(group):
    return group.gated[: max(1, group.need - sum(1 for m in group.members if not m.gated))]


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_a_quota_that_is_short_is_short_by_the_decision_s_own_numbers(facts):
    for group, decision, ledger in explained(facts):
        lines = {f"quota/{line.quota}/{line.key}": line for line in account.quota_lines(ledger, group)}
        if decision.limiter.startswith("quota/"):
            line = lines[decision.limiter]
            assert line.short > 0 or line.whole > line.hard
            assert (line.need, line.free, line.hard) == tuple(
                decision.numbers[name] for name in ("needNano", "freeNano", "hardNano")
            ) or decision.reason is names.Reason.NEVER_FITS
        elif decision.reason is names.Reason.FORMING:
            assert not any(line.short for line in lines.values())


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_a_queue_that_is_short_is_short_by_the_decision_s_own_numbers(facts):
    for group, decision, ledger in explained(facts):
        if decision.reason is names.Reason.QUEUE_CAPABILITY_SHORT:
            lines = account.level_lines(ledger, group, starting(group))
            line = next(x for x in lines if f"queue/{x.queue}/{x.resource}" == decision.limiter)
            assert line.short > 0
            assert (line.need, line.free, line.capability) == tuple(
                decision.numbers[name] for name in ("needNano", "freeNano", "capabilityNano")
            )


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_nodes_are_short_exactly_where_the_decision_says_so(facts):
    for group, decision, ledger in explained(facts):
        if not group.gated or group.missing or decision.state not in ("Waiting", "Forming"):
            continue
        short = account.nodes_short(ledger, starting(group))
        if decision.action == "lift":
            assert short is None
        elif decision.limiter == "nodes":
            assert short is not None
            assert (short.wanted, short.fit) == (decision.numbers["wanted"], decision.numbers["fit"])


def test_what_is_allocated_is_counted_once_at_every_level():
    facts = snapshot(
        nodes=nodes(1),
        jobs=[job("j", 2)],
        pods=[lifted(p, "n0", 2) for p in pods(2, job="j", like=LARGE, queue="low")],
        queues=[queue("low", "high", gpu="9"), queue("high", gpu="9")],
    )
    ledger = books.charged(facts, decide(facts, Config(), NOW), NOW)
    for name in ("low", "high"):
        line = next(x for x in account.queue_lines(ledger, name) if x.resource == GPU)
        assert (line.allocated, line.free) == (6 * 10**9, 3 * 10**9)
