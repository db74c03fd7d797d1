"""The mutation against a naive one that edits a copy of the pod, on pods of every shape."""

import copy
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from policy import names
from policy.rules.membership.identity import LITE, PODGROUP
from tests.unit.webhook_support import (
    ALICE,
    DAEMON_SET,
    DAEMONS,
    JOB,
    KUBELET,
    REPLICA_SET,
    applied,
    facts,
    gates,
    pod,
    typed,
)
from webhook import mutate, validate
from webhook.eligibility import Gate, Refusal

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAME = st.sampled_from(["g", "h", "ganggate-1", "a" * 253, ""])
PLAIN = st.dictionaries(st.sampled_from(["app", "a/b", "c~d", "e~1f"]), st.text(max_size=5), max_size=3)
LABEL_KEYS = [
    names.LABEL_GROUP,
    names.LABEL_BINPACK,
    names.LABEL_EXEMPT,
    names.COSCHEDULING_LABEL,
    names.COSCHEDULING_LITE_NAME,
    names.COSCHEDULING_LITE_MIN,
    names.QUEUE_NAME,
    names.KUEUE_MANAGED,
]
ANNOTATION_KEYS = [
    names.ANNOTATION_LIFTED,
    names.VOLCANO_PODGROUP,
    names.GROUP_NAME,
    names.QUEUE_NAME,
    names.QUEUE_NAME_LONG,
    names.MIRROR_ANNOTATION,
]
PODS_TERM = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
OUR_TERM = {
    "weight": 100,
    "podAffinityTerm": {
        "labelSelector": {"matchLabels": {names.LABEL_BINPACK: "true"}},
        "topologyKey": "kubernetes.io/hostname",
    },
}


def maps(keys):
    ours = st.dictionaries(st.sampled_from(keys), NAME | st.sampled_from(["1", "0"]), max_size=2)
    return st.none() | st.builds(lambda a, b: {**a, **b}, PLAIN, ours)


AFFINITY = st.sampled_from(
    [
        None,
        {},
        {"podAffinity": {}},
        {"podAffinity": {PREFERRED: []}},
        {"podAffinity": {PREFERRED: [PODS_TERM]}},
        {"podAffinity": {PREFERRED: [PODS_TERM, OUR_TERM]}},
        {"nodeAffinity": {}},
        {"podAntiAffinity": {}},
    ]
)
SPEC = st.fixed_dictionaries(
    {"schedulerName": st.sampled_from(["default-scheduler", "binpack-scheduler", "volcano", "kube-batch", "mine", ""])},
    optional={
        "nodeName": st.sampled_from(["", "n1"]),
        "schedulingGates": st.lists(
            st.sampled_from([names.GATE, "example.com/a", "example.com/b"]), unique=True, max_size=3
        ).map(lambda found: [{"name": name} for name in found]),
        "affinity": AFFINITY.filter(lambda a: a is not None),
        "schedulingGroup": st.builds(lambda n: {"podGroupName": n}, NAME),
        "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
    },
)
PODS = st.builds(
    lambda labels, annotations, controller, gpus, spec: pod(
        labels=labels, annotations=annotations, controller=controller, gpus=gpus, **copy.deepcopy(spec)
    ),
    maps(LABEL_KEYS),
    maps(ANNOTATION_KEYS),
    st.sampled_from([None, JOB, REPLICA_SET, DAEMON_SET]),
    st.sampled_from([0, 0, 1]),
    SPEC,
)
FACTS = st.builds(
    lambda policy, user, namespace, profile, kueue, live: facts(
        policy, user=user, namespace=namespace, binpack_scheduler_name=profile, kueue=kueue, live_schedulers=live
    ),
    st.sampled_from(names.Policy),
    st.sampled_from([ALICE, ALICE, KUBELET, DAEMONS]),
    st.sampled_from(["training", "training", "kube-system"]),
    st.sampled_from(["", "binpack-scheduler"]),
    st.booleans(),
    st.sampled_from([(), ("volcano",)]),
)


def trusted(document, facts):
    spec, owners = document["spec"], document["metadata"].get("ownerReferences", [])
    by_node = bool(spec.get("nodeName")) and facts.groups == KUBELET[1]
    by_daemons = owners == [DAEMON_SET] and facts.username == DAEMONS[0]
    return facts.namespace == "kube-system" or by_node or by_daemons


def ours_to_schedule(document, facts):
    spec, labels = document["spec"], document["metadata"].get("labels") or {}
    if spec.get("nodeName") or (facts.config.kueue and names.KUEUE_MANAGED in labels):
        return False
    live = facts.config.live_schedulers
    return spec["schedulerName"] != "mine" and spec["schedulerName"] not in live


def naive(document, facts, verdict):
    """Edit a copy. Who is gated is taken from the verdict; test_webhook_eligibility.py is about that."""
    result = copy.deepcopy(document)
    if trusted(document, facts):
        return result
    meta, spec = result["metadata"], result["spec"]
    meta.get("labels", {}).pop(names.LABEL_GROUP, None)
    meta.get("annotations", {}).pop(names.ANNOTATION_LIFTED, None)
    if isinstance(verdict, Gate):
        spec.setdefault("schedulingGates", [])
        if names.GATE not in gates(result):
            spec["schedulingGates"].append({"name": names.GATE})
        if verdict.identity:
            meta.setdefault("labels", {})[names.LABEL_GROUP] = verdict.identity.label
            if verdict.identity.kind in (PODGROUP, LITE):
                meta.setdefault("annotations", {})[names.GROUP_NAME] = verdict.identity.name
        if verdict.queue:
            meta.setdefault("annotations", {})[names.QUEUE_NAME] = verdict.queue.name
    if ours_to_schedule(document, facts):
        naive_scheduling(result, facts)
    return result


def naive_scheduling(result, facts):
    spec, packed = result["spec"], facts.policy is not names.Policy.GANG
    if packed and facts.config.binpack_scheduler_name:
        spec["schedulerName"] = "binpack-scheduler"
    elif spec["schedulerName"] in ("volcano", "kube-batch"):
        spec["schedulerName"] = "default-scheduler"
    if packed and not facts.config.binpack_scheduler_name and spec["containers"][0]["resources"]:
        result["metadata"].setdefault("labels", {})[names.LABEL_BINPACK] = "true"
        terms = spec.setdefault("affinity", {}).setdefault("podAffinity", {}).setdefault(PREFERRED, [])
        if OUR_TERM not in terms:
            terms.append(OUR_TERM)


@settings(max_examples=500, deadline=None)
@given(PODS, FACTS)
def test_the_patch_makes_exactly_what_the_naive_edit_makes(document, facts):
    change = mutate.change(typed(document), facts)
    if isinstance(change.verdict, Refusal):
        assert change.operations == ()
        return
    result, expected = applied(document, change.operations), naive(document, facts, change.verdict)
    for field in ("labels", "annotations"):  # an emptied map is as good as none
        for side in (result, expected):
            if not side["metadata"].get(field):
                side["metadata"].pop(field, None)
    assert result == expected


@settings(max_examples=300, deadline=None)
@given(PODS, FACTS)
def test_the_own_output_gives_no_patch_and_passes_the_validation(document, facts):
    change = mutate.change(typed(document), facts)
    if isinstance(change.verdict, Refusal):
        return
    stored = typed(applied(document, change.operations))
    assert mutate.change(stored, facts).operations == ()
    assert validate.created(stored, facts) is None


@settings(max_examples=300, deadline=None)
@given(PODS, FACTS)
def test_a_gate_and_a_node_never_meet_and_foreign_fields_never_change(document, facts):
    change = mutate.change(typed(document), facts)
    result = applied(document, change.operations)
    assert not (isinstance(change.verdict, Gate) and result["spec"].get("nodeName"))
    assert [g for g in gates(result) if g != names.GATE] == [g for g in gates(document) if g != names.GATE]
    assert foreign(result) == foreign(document)


def foreign(document):
    """What is left of a pod without everything that may be ours to write."""
    result = json.loads(json.dumps(document))
    for field, ours in (
        ("labels", {names.LABEL_GROUP, names.LABEL_BINPACK}),
        ("annotations", {names.ANNOTATION_LIFTED, names.GROUP_NAME, names.QUEUE_NAME}),
    ):
        values = result["metadata"].pop(field, {})
        result["metadata"][field] = {k: v for k, v in values.items() if k not in ours}
    for key in ("schedulingGates", "schedulerName", "affinity"):
        result["spec"].pop(key, None)
    return result


@settings(max_examples=300, deadline=None)
@given(PODS, FACTS)
def test_no_group_member_passes_ungated_through_both_halves(document, facts):
    """Without the mutation, a pod that would have been gated is stopped by the validation."""
    change = mutate.change(typed(document), facts)
    if isinstance(change.verdict, Gate) and names.GATE not in gates(document):
        assert validate.created(typed(document), facts).why in ("gate-missing", "lifted-forged")
