"""Reports of the gatekeeper as read back: the newest on a group's objects, ours only; and whether anybody leads."""

import doctest

import msgspec
import pytest

from policy import names
from policy.cli import leadership, reports, wording
from policy.cli.reports import CONDITION, EVENT, Event, Report
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.lease import Record
from policy.rules.grouping import groups_of
from policy.rules.objects import PodGroup
from tests.unit.rules_facts import job, pod, podgroup, snapshot


def event(uid, reason, at, *, controller=names.CONTROLLER, series=None, **fields):
    raw = {
        "eventTime": at,
        "reportingController": controller,
        "reason": reason,
        "note": f"note of {reason}",
        "regarding": {"uid": uid},
        "series": {"lastObservedTime": series} if series else None,
        **fields,
    }
    return msgspec.convert(raw, Event)


def condition(uid, *told):
    conditions = [
        {"type": "Unschedulable", "status": "True", "reason": r, "message": f"says {r}", "lastTransitionTime": at}
        for r, at in told
    ]
    return msgspec.convert({"metadata": {"uid": uid}, "status": {"conditions": conditions}}, PodGroup)


def newest(*items):
    found = {}
    for uid, report in reports._reports(items):
        reports.keep_newest(found, uid, report)
    return found


def test_the_newest_of_events_and_conditions_wins_by_object():
    found = newest(
        event("u", "GangForming", "1970-01-01T00:00:10.000000Z"),
        condition("u", ("NodesShort", "1970-01-01T00:00:30Z")),
        event("u", "NamespaceQuotaShort", "1970-01-01T00:00:20.000000Z"),
        event("v", "GangAdmitted", "1970-01-01T00:00:05.000000Z"),
    )
    assert found == {
        "u": Report(CONDITION, "NodesShort", "says NodesShort", 30.0),
        "v": Report(EVENT, "GangAdmitted", "note of GangAdmitted", 5.0),
    }


def test_a_repeated_event_is_as_new_as_its_last_occurrence():
    found = newest(event("u", "GangForming", "1970-01-01T00:00:10Z", series="1970-01-01T00:01:00Z"))
    assert found["u"].at == 60.0


def test_what_others_say_is_not_ours():
    assert newest(event("u", "FailedScheduling", "1970-01-01T00:00:10Z", controller="default-scheduler")) == {}
    assert newest(condition("u", ("NotEnoughResources", "1970-01-01T00:00:30Z"))) == {}, "Volcano's own"


def test_a_group_s_reports_are_those_on_its_objects():
    facts = snapshot(
        jobs=[job("j", 2)],
        podgroups=[podgroup("ganggate-j", 2, uid="pg", controller="j", ours=True)],
        pods=[pod("p", job="j")],
    )
    (group,) = groups_of(facts).values()
    assert list(reports.uids(group)) == ["pg", "j", "team/p"]
    told = {"pg": Report(EVENT, "a", "", 1.0), "team/p": Report(EVENT, "b", "", 2.0), "x": Report(EVENT, "c", "", 9.0)}
    assert reports.of_group(told, group).reason == "b"
    assert reports.of_group({}, group) is None


def test_one_of_several_owners_of_a_named_group_is_not_asked():
    """Its events may be about another group that it has a part in."""
    from policy.rules.membership.identity import PODGROUP, Identity

    facts = snapshot(
        jobs=[job("half", 1, group=Identity(PODGROUP, "team", "ring"))],
        podgroups=[podgroup("ring", 2, uid="pg")],
        pods=[pod("p", of="ring", job="half")],
    )
    (group,) = groups_of(facts).values()
    assert list(reports.uids(group)) == ["pg", "team/p"]


class Refusing:
    """A client that answers every call with one error."""

    def __init__(self, status):
        self.status = status

    def request(self, *_, **__):
        raise ApiError(self.status, "Because", "message")


def test_a_report_that_may_not_be_read_is_none():
    (group,) = groups_of(snapshot(jobs=[job("j", 1)])).values()
    assert reports.last(Refusing(403), group) is None
    assert reports.in_namespace(Refusing(403), "team")[1] == (
        "podgroups.scheduling.volcano.sh",
        "podgroups.scheduling.x-k8s.io",
        "podgroups.scheduling.sigs.k8s.io",
        "events.events.k8s.io",
    )


@pytest.mark.parametrize(
    "record, said",
    [
        (Record("one", renew_time="1970-01-01T00:01:00.000000Z"), ""),
        (Record("one", renew_time="1970-01-01T00:00:00.000000Z"), "Lease x was last renewed 1m40s ago by one"),
        (Record("", renew_time="1970-01-01T00:01:00.000000Z"), "Lease x has no holder"),
        (Record(None), "Lease x has no holder"),
        (Record("one"), "Lease x was last renewed 1m40s ago by one"),
    ],
)
def test_whether_anybody_leads(record, said):
    told = leadership.judged(record, "Lease x", 100.0)
    assert (said in told) if said else (told == "")


def test_a_lease_that_is_absent_is_said_and_one_that_is_hidden_is_not():
    assert leadership.silence(Refusing(404), 0.0).startswith("no gatekeeper has ever led here")
    assert leadership.silence(Refusing(403), 0.0) == ""


def test_wording_keeps_its_own_examples():
    assert doctest.testmod(wording) == (0, doctest.testmod(wording).attempted)
    assert doctest.testmod(wording).attempted >= 3
