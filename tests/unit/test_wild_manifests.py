"""Manifests as users and controllers write them, and the groups that they must give.

Each file in wild/ holds one family as a list of entries:

    name: what the case is about
    objects: manifests; `{copies: N, of: manifest}` stands for N of them, `$i` in it for 0, 1, ..., `$n` for 1, 2, ...
    expect: the groups; what is left out has its usual value (see _wanted), and no other group may be there
    passes, refused: by pod, why the webhook lets it pass ungated or refuses it; any other new pod must be gated
    config: of both processes; requester: [user, groups] that creates the pods

Metadata that the API server would fill in is filled in here: uid (kind/name), creationTimestamp, namespace; the uid of
an ownerReference in the same way. A pod without status is new: it goes through the webhook, and is seen as that leaves
it. Where the design (sections 3 and 4) and the code disagree, the design's answer stands here.
"""

import collections
import json
import pathlib

import msgspec
import pytest
import yaml

from policy import names
from policy.gatekeeper.lookup import is_other
from policy.rules import facts, objects, owner_facts
from policy.rules.decide import decide
from policy.rules.grouping import groups_of
from policy.rules.membership import custom, families
from policy.rules.model import Config, Snapshot
from tests.unit.webhook_support import ALICE, applied
from webhook import eligibility, mutate
from webhook.config import Config as WebhookConfig

WILD = pathlib.Path(__file__).parent / "wild"
BORN = "2026-11-29T08:00:00Z"
NOW = facts.epoch("2026-11-29T09:00:00Z")
NS = "team"
GANG = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "labels": {"scheduling-policy": "gang"}}}
PODGROUPS = (names.VOLCANO_API, names.COSCHEDULING_API, names.COSCHEDULING_OLD_API)
CLUSTER_SCOPED = {"Namespace", "Queue"}
# Written down because users and controllers do; of the table, or read when a pod of theirs is held, are none of them.
UNREAD = {
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps.kruise.io", "CloneSet"),
    ("example.com", "Training"),
    ("argoproj.io", "Workflow"),
    ("batch", "CronJob"),
    ("kubeflow.org", "Notebook"),
    ("ray.io", "RayService"),
    ("scheduling.k8s.io", "PodGroup"),
    ("serving.knative.dev", "Service"),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
    ("tekton.dev", "TaskRun"),
}
ENTRY = {"name", "objects", "expect", "passes", "refused", "config", "requester"}
USUAL = {"namespace": NS, "part": "", "later": 0, "queue": "default", "members": 0, "problem": ""}
OPTIONAL = {
    "missing",
    "waits",
    "possible",
    "roles",
    "reason",
    "note",
    "absent",
}  # compared where an entry states them; missing always


ENTRIES = [
    (path.stem, entry)
    for path in sorted(WILD.glob("*.yaml"))
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
]
CASES = [pytest.param(entry, id=f"{stem}-{entry['name']}") for stem, entry in ENTRIES]


# --- from manifests to a Snapshot ----------------------------------------------------------------------------


class World:
    """What the gatekeeper sees of an entry's objects, and what the webhook said about the new pods."""

    def __init__(self, entry):
        self.entry = entry
        self.verdicts = {}  # on new pods, by their name in the manifest
        self.namespaces, self.owners, self.queues = {}, {}, {}
        self.pods, self.podgroups = [], []
        self.config = msgspec.convert(entry.get("config", {}), WebhookConfig)
        self.unsized = {}
        every = [(plain, raw) for plain in (GANG, *entry["objects"]) for raw in copies(plain)]
        for plain, raw in sorted(every, key=lambda pair: pair[1]["kind"] != "Namespace"):  # pods need their policy
            self._add(plain, filled(raw))

    def _add(self, plain, raw):
        group, kind = raw["apiVersion"].rpartition("/")[0], raw["kind"]
        family = self.config.kinds.of(group, kind)
        if (group, kind) in UNREAD and family is None and (group, kind) not in families.ALONE:
            if "replicas" in raw.get("spec", {}):
                family = custom.met(group, raw["apiVersion"].rpartition("/")[2], kind, f"{kind.lower()}s")
            else:
                self.unsized[raw["metadata"]["uid"]] = f"the size of {kind} {raw['metadata']['name']} cannot be read"
        if family is not None:
            found = owner_facts.owner(family)(msgspec.convert(raw, family.type))
            assert found.uid not in self.owners, "every owner has its own uid"
            self.owners[found.uid] = found
        elif kind == "Namespace":
            self.namespaces[raw["metadata"]["name"]] = facts.namespace(msgspec.convert(raw, objects.Namespace))
        elif kind == "PodGroup" and group in PODGROUPS:
            self.podgroups.append(facts.podgroup(msgspec.convert(raw, objects.PodGroup), group))
        elif (group, kind) == (names.VOLCANO_API, "Queue"):
            self.queues[raw["metadata"]["name"]] = facts.queue(msgspec.convert(raw, objects.Queue))
        elif (group, kind) == ("", "Pod"):
            self._add_pod(plain.get("of", plain)["metadata"]["name"], raw)
        else:
            assert (group, kind) in UNREAD, f"{kind} of {group!r}: a slip of the pen?"

    def _add_pod(self, name, raw):
        policy = self.namespaces[raw["metadata"]["namespace"]].policy
        admitted = raw if "status" in raw or not policy else self._admitted(name, raw, policy)
        if admitted is not None:
            self.pods.append(facts.pod(msgspec.convert(admitted, objects.Pod)))

    def _admitted(self, name, raw, policy):
        user, groups = self.entry.get("requester", ALICE)
        asked = eligibility.Facts(raw["metadata"]["namespace"], user, tuple(groups), names.Policy(policy), self.config)
        change = mutate.change(msgspec.convert(raw, objects.Pod), asked)
        verdict = type(change.verdict), getattr(change.verdict, "why", "")
        assert self.verdicts.setdefault(name, verdict) == verdict, "copies are treated alike"
        return None if verdict[0] is eligibility.Refusal else applied(raw, change.operations)

    def why(self, kind):
        return {name: str(why) for name, (found, why) in self.verdicts.items() if found is kind}

    @property
    def snapshot(self):
        for pod in self.pods:  # those that are not there are looked for in vain
            if pod.above and is_other(pod.above, self.config.kinds) and pod.above.uid not in self.owners:
                self.unsized.setdefault(pod.above.uid, f"{pod.above.kind} {pod.above.name} cannot be found")
        return Snapshot(
            pods=tuple(self.pods),
            namespaces=self.namespaces,
            owners=self.owners,
            podgroups=tuple(self.podgroups),
            queues=self.queues,
            kinds=self.config.owner_kinds,
            unsized=self.unsized,
        )


def copies(item):
    if "copies" not in item:
        return [item]
    text = json.dumps(item["of"])
    assert "$i" in text or "$n" in text, "copies need names of their own"
    return [json.loads(text.replace("$i", str(i)).replace("$n", str(i + 1))) for i in range(item["copies"])]


def filled(raw):
    """The manifest with the metadata that the API server, and a controller for its pods, would have written."""
    given = raw.get("metadata", {})
    usual = {"uid": f"{raw['kind']}/{given['name']}", "creationTimestamp": BORN}
    if raw["kind"] not in CLUSTER_SCOPED:
        usual["namespace"] = NS
    references = [{"uid": f"{r['kind']}/{r['name']}"} | r for r in given.get("ownerReferences", ())]
    return raw | {"metadata": usual | given | {"ownerReferences": references}}


# --- from groups to what entries say -------------------------------------------------------------------------


def _wanted(row):
    assert set(row) <= {"kind", "name", "minimum", *USUAL, *OPTIONAL}, "an expectation that nobody looks at"
    full = USUAL | row
    if "roles" in full:
        full["roles"] = dict(sorted(full["roles"].items()))
    return {"missing": max(0, full["minimum"] - full["members"])} | full


def _told(group, snapshot, wanted):
    every = {
        "kind": group.identity.kind,
        "name": group.identity.name,
        "namespace": group.identity.namespace,
        "part": group.identity.part,
        "minimum": group.minimum,
        "missing": group.missing,
        "possible": group.possible,
        "later": sum(absent.count for absent in group.later),
        "waits": group.waits,
        "queue": group.queue,
        "members": len(group.members),
        "roles": dict(sorted(collections.Counter(m.role for m in group.members).items())),
        "problem": group.problem.reason.value if group.problem else "",
        "note": group.note,
        "absent": dict(sorted((absent.role, absent.count) for absent in group.absent)),
    }
    if wanted.get("waits", "") in group.waits:
        every["waits"] = wanted.get("waits", "")  # a part of the text is enough
    if "reason" in wanted:
        every["reason"] = next(
            d.reason.value for d in decide(snapshot, Config(), NOW).decisions if d.group == group.key
        )
    return {key: value for key, value in every.items() if key in wanted}


def _line(row):
    """One group as text: pytest shows texts that differ side by side."""
    return ", ".join(f"{key} {value!r}" for key, value in sorted(row.items()))


def _place(row):
    return row["namespace"], row["kind"], row["name"], row["part"]


def compared(entry):
    """Two equal lists where the entry is right: the groups that it wants, and those that are."""
    snapshot = World(entry).snapshot
    wanted = sorted((_wanted(row) for row in entry["expect"]), key=_place)
    rows = {_place(row): row for row in wanted}
    usual = _wanted({"kind": "", "name": "", "minimum": 0})
    found = []
    for group in groups_of(snapshot).values():
        identity = group.identity
        place = (identity.namespace, identity.kind, identity.name, identity.part)
        found.append(_told(group, snapshot, rows.get(place, usual)))
    return [_line(row) for row in wanted], [_line(row) for row in sorted(found, key=_place)]


# --- the tests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", CASES)
def test_groups_of_a_manifest_in_the_wild(entry):
    wanted, found = compared(entry)
    assert found == wanted


@pytest.mark.parametrize("entry", CASES)
def test_pods_of_a_manifest_in_the_wild_are_gated_unless_it_says_why_not(entry):
    world = World(entry)
    assert world.why(eligibility.Pass) == entry.get("passes", {})
    assert world.why(eligibility.Refusal) == entry.get("refused", {})


@pytest.mark.parametrize("entry", CASES)
def test_members_that_come_later_wait_for_something(entry):
    for group in groups_of(World(entry).snapshot).values():
        assert group.waits or not group.later, f"{group.key} does not say what its later members wait for"


def test_there_are_many_manifests_and_each_has_its_own_name():
    found = [(stem, entry["name"]) for stem, entry in ENTRIES]
    assert len(found) == len(set(found))
    assert len(found) > 200
    assert all({"name", "objects", "expect"} <= set(entry) <= ENTRY for _, entry in ENTRIES)


def test_every_kind_of_owner_is_met_in_the_wild():
    met = {(o.api, o.kind) for _, entry in ENTRIES for o in World(entry).owners.values()}
    assert met >= {(family.group, family.kind) for family in families.TABLE}


@pytest.mark.parametrize(
    ("key", "other"), [("minimum", 5), ("queue", "b"), ("members", 1), ("problem", "OwnerGone"), ("later", 1)]
)
def test_a_wrong_expectation_is_noticed(key, other):
    row = {"kind": "Job", "name": "j", "minimum": 2}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2}}
    wanted, found = compared({"objects": [job], "expect": [row]})
    assert wanted == found
    wanted, found = compared({"objects": [job], "expect": [row | {key: other}]})
    assert wanted != found
    wanted, found = compared({"objects": [job], "expect": []})
    assert wanted != found
