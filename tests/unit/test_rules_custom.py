"""Kinds of owners that the settings add, and those of which only the replicas are known."""

import msgspec
import pytest

from policy.rules import owner_facts
from policy.rules.membership import custom, families
from policy.rules.membership.custom import Custom, OwnerKind, OwnerPart

GPU = {"nvidia.com/gpu": 1}
TEMPLATE = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [{"resources": {"requests": GPU}}]}}
TRAINING = {
    "apiVersion": "example.com/v1",
    "kind": "Training",
    "plural": "trainings",
    "parts": [
        {"replicas": "spec.leader.replicas", "template": "spec.leader.template", "role": "Leader"},
        {"each": "spec.groups", "replicas": "size", "minimum": "least", "template": "template"},
    ],
    "roleLabel": "example.com/role",
    "suspend": "spec.run.suspend",
    "finished": {"field": "status.phase", "values": ["Done"]},
}


def kind(**changes):
    return msgspec.convert(TRAINING | changes, OwnerKind)


def facts(spec, status=None, of=None):
    body = {"metadata": {"name": "t", "namespace": "team", "uid": "u"}, "spec": spec, "status": status or {}}
    return owner_facts.owner(custom.family(of or kind()))(msgspec.convert(body, Custom))


def parts(found):
    return [(p.role, p.count, p.minimum) for p in found.parts]


def test_parts_are_read_where_the_settings_say():
    groups = [{"name": "Worker", "size": 4, "least": 2, "template": TEMPLATE}, {"name": "ps"}]
    found = facts({"leader": {"template": TEMPLATE}, "groups": groups})
    assert parts(found) == [("leader", 1, 1), ("worker", 4, 2), ("ps", 1, 1)]
    assert found.parts[1].shape.requests == {"nvidia.com/gpu": 10**9}
    assert (found.size.minimum, found.size.possible) == (4, 6)
    assert found.size.source == "spec.leader.replicas, spec.groups.size"
    assert (found.kind, found.api_version, found.problem, found.over, found.held) == (
        "Training",
        "example.com/v1",
        "",
        False,
        False,
    )


def test_a_map_of_parts_is_named_by_its_keys():
    found = facts({"leader": {"replicas": 0}, "groups": {"Worker": {"size": 2}}})
    assert parts(found) == [("leader", 0, 0), ("worker", 2, 2)]


def test_the_lever_is_the_field_that_suspends():
    assert facts({}).lever == ("spec", "run", "suspend")
    assert facts({"run": {"suspend": True}}).held
    assert facts({}, of=kind(suspend="")).lever == ()


@pytest.mark.parametrize(
    ("status", "over"),
    [
        ({"phase": "Done"}, True),
        ({"phase": "Running"}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, True),
        ({"conditions": [{"type": "Failed", "status": "False"}, "x"]}, False),
        ({"conditions": "x"}, False),
    ],
)
def test_what_is_over_makes_no_pods(status, over):
    assert facts({}, status).over is over


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"leader": {"replicas": -1}}, "spec.leader.replicas: -1 is no number of pods"),
        ({"leader": {"replicas": True}}, "spec.leader.replicas: True is no number of pods"),
        ({"leader": {"replicas": 2**31}}, "spec.leader.replicas: 2147483648 is no number of pods"),
        ({"leader": {"replicas": "x" * 200}}, f"spec.leader.replicas: 'x{'x' * 98}… is no number of pods"),
        ({"groups": "many"}, "spec.groups: 'many' is no list and no map"),
        ({"groups": [{"name": "a", "size": 1.5}]}, "spec.groups[a].size: 1.5 is no number of pods"),
        (
            {"leader": {"template": {"spec": {"containers": 3}}}},
            "spec.leader.template: Expected `array`, got `int` - at `$.spec.containers`",
        ),
    ],
)
def test_what_cannot_be_read_is_named(spec, problem):
    found = facts(spec)
    assert found.problem == problem
    assert found.parts == ()


def test_an_item_that_is_no_object_is_one_pod():
    assert parts(facts({"leader": {"replicas": 0}, "groups": [None, "x"]})) == [
        ("leader", 0, 0),
        ("0", 1, 1),
        ("1", 1, 1),
    ]


def test_roles_are_told_by_the_label_whatever_its_case():
    family = custom.family(kind())
    assert family.role({"example.com/role": "Worker"}) == "worker"
    assert not family.plain
    assert custom.family(kind(parts=[{"replicas": "spec.replicas"}], roleLabel="")).plain


def test_of_a_kind_that_nobody_told_of_the_replicas_count():
    body = {"metadata": {"name": "c", "uid": "u"}, "spec": {"replicas": 3, "template": TEMPLATE}}
    found = owner_facts.owner(custom.met("apps.example.com", "v1", "Clones", "clones"))(msgspec.convert(body, Custom))
    assert (found.kind, found.size.minimum, found.lever, found.api) == ("Clones", 3, (), "apps.example.com")
    assert found.parts[0].shape.requests == {"nvidia.com/gpu": 10**9}


# --- settings that cannot be used ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"apiVersion": "v1"}, "apiVersion: 'v1': must be group/version"),
        ({"apiVersion": "a/b/c"}, "apiVersion: 'a/b/c': must be group/version"),
        ({"kind": "a/b"}, "kind: 'a/b': must be a name"),
        ({"plural": ""}, "plural: '': must be a name"),
        ({"parts": []}, "parts: needs one at least"),
        ({"parts": [{"replicas": "spec..x"}]}, "parts.replicas: 'spec..x': must be fields joined by dots"),
        ({"parts": [{"replicas": "a", "each": "b[0]"}]}, "parts.each: 'b[0]': must be fields joined by dots"),
        ({"suspend": ".spec"}, "suspend: '.spec': must be fields joined by dots"),
        ({"finished": {"field": "", "values": []}}, "finished.field: '': must be fields joined by dots"),
        ({"roleLabel": ""}, "roleLabel: is needed to tell members of several parts apart"),
        ({"colour": 1}, "Object contains unknown field `colour`"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_value(changes, problem):
    with pytest.raises(msgspec.ValidationError) as told:
        kind(**changes)
    assert problem in str(told.value)


@pytest.mark.parametrize(
    "added",
    [
        (OwnerKind("batch/v2", "Job", "jobs"),),
        (OwnerKind("example.com/v1", "A", "as"), OwnerKind("example.com/v2", "A", "as")),
    ],
)
def test_a_kind_that_is_known_already_is_no_addition(added):
    with pytest.raises(ValueError, match="is known already, or stands there twice"):
        families.kinds(added)


def test_a_part_needs_its_replicas():
    assert families.kinds(()) is families.KNOWN
    found = families.kinds((OwnerKind("example.com/v1", "A", "as", (OwnerPart("spec.n"),)),))
    assert found.of("example.com", "A").source == "spec.n"
    assert found.of("batch", "Job") is families.KNOWN.of("batch", "Job")
