"""The shape of a pod: what quota scopes and the scheduler's filters look at."""

import msgspec
import pytest

from policy import names
from policy.rules.objects import Pod, PodAffinityTerm, Toleration
from policy.rules.quantity import NANO
from policy.rules.shape import selects, shape_of, single_node


def pod(spec, labels=None, annotations=None, status=None):
    metadata = {"name": "p", "namespace": "n", "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Pod)


def asking(**requests):
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


def test_more_than_18_gigabytes_are_held_exactly():
    assert shape_of(pod(asking(memory="512Gi"))).requests == {"memory": 512 * 2**30 * NANO}


def test_equal_pods_share_one_shape():
    assert shape_of(pod(asking(cpu="1"))) is shape_of(pod(asking(cpu="1000m")))


def test_what_selects_nodes_and_scopes_is_read():
    spec = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "schedulerName": "binpack-scheduler",
        "priority": 7,
        "priorityClassName": "high",
        "activeDeadlineSeconds": 60,
    }
    found = shape_of(pod(spec))
    assert found.node_selector == {"zone": "a"}
    assert found.tolerations == (Toleration("k", "Exists"),)
    assert (found.scheduler, found.priority, found.priority_class) == ("binpack-scheduler", 7, "high")
    assert found.terminating


def test_a_quantity_that_does_not_parse_cannot_be_verified():
    found = shape_of(pod(asking(cpu="1x")))
    assert (found.requests, found.unverifiable) == ({}, ("cpu: not a quantity: '1x'",))


def ports(*given, **extra):
    return [{"name": "c", "ports": [{"hostPort": p} | extra for p in given]}]


def test_host_ports_name_protocol_number_and_address():
    assert shape_of(pod({"containers": ports(80, 0)})).host_ports == ("TCP/80/0.0.0.0",)
    assert shape_of(pod({"containers": ports(53, protocol="UDP", hostIP="::1")})).host_ports == ("UDP/53/::1",)


def test_only_init_containers_that_go_on_running_take_host_ports():
    """GetHostPorts in pkg/scheduler/util/utils.go."""
    (sidecar,) = ports(81)
    spec = {"initContainers": [*ports(80), sidecar | {"restartPolicy": "Always"}], "containers": ports(82)}
    assert shape_of(pod(spec)).host_ports == ("TCP/81/0.0.0.0", "TCP/82/0.0.0.0")


def anti(topology=names.HOSTNAME_LABEL, **selector):
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "a"}}} | selector
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_anti_affinity_to_oneself_leaves_one_a_node():
    found = shape_of(pod(anti(), labels={"app": "a"}))
    assert (len(found.alone_on_node), found.repels, found.unverifiable) == (1, (), ())


def test_anti_affinity_to_others_is_known_too():
    found = shape_of(pod(anti(), labels={"app": "b"}))
    assert (found.alone_on_node, len(found.repels), found.unverifiable) == ((), 1, ())


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (anti("zone"), ("pod anti-affinity by zone",)),
        (anti(namespaces=["other"]), (f"pod anti-affinity by {names.HOSTNAME_LABEL}",)),
        (anti(namespaceSelector={}), (f"pod anti-affinity by {names.HOSTNAME_LABEL}",)),
        (anti(matchLabelKeys=["x"]), (f"pod anti-affinity by {names.HOSTNAME_LABEL}",)),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}},
            ("pod affinity by z",),
        ),
        ({"resourceClaims": [{"name": "x"}]}, ("resource claims",)),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}, ("volume affinity",)),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, ("volume affinity",)),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, ("hard topology spread by zone",)),
    ],
)
def test_what_no_snapshot_can_tell_is_said(spec, what):
    assert shape_of(pod(spec, labels={"app": "a"})).unverifiable == what


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
    ],
)
def test_wishes_and_plain_volumes_can_be_verified(spec):
    assert shape_of(pod(spec)).unverifiable == ()


def resources(requests=None, limits=None):
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "best_effort"),
    [
        ({"containers": [resources()]}, True),
        ({"containers": [resources({"cpu": "0"}, {"memory": 0})]}, True),
        ({"containers": [resources({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1})]}, True),
        ({"containers": [resources()], "overhead": {"cpu": "250m"}}, True),
        ({"containers": [resources(), resources({"cpu": "1m"})]}, False),
        ({"containers": [resources(limits={"memory": "1"})]}, False),
        ({"containers": [resources()], "initContainers": [resources({"cpu": "1"})]}, False),
        ({"containers": [resources()], "resources": {"requests": {"cpu": "1"}}}, False),
        ({"containers": [resources({"cpu": "1"})], "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, True),
        ({"containers": [resources({"cpu": "1x"})]}, False),
    ],
    ids=["nothing", "zeros", "gpu", "overhead", "one asks", "a limit", "init", "pod level", "pod level only", "broken"],
)
def test_best_effort_is_told_by_containers_or_by_the_pod_level(spec, best_effort):
    """ComputePodQOS in pkg/apis/core/v1/helper/qos: the overhead of a runtime class plays no part."""
    assert shape_of(pod(spec)).best_effort is best_effort


@pytest.mark.parametrize(
    ("spec", "unstated"),
    [
        (
            {"containers": [resources({"cpu": "1"})]},
            ("requests.memory", "limits.cpu", "limits.memory"),
        ),
        (
            {"containers": [resources({"cpu": 0, "memory": 0}, {"cpu": 0, "memory": 0})]},
            (),
        ),
        (
            {
                "containers": [resources({"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1})],
                "initContainers": [resources()],
            },
            ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
        ),
        ({"containers": [resources()], "resources": {"requests": {"cpu": "1"}}}, ()),
    ],
    ids=["a container leaves memory open", "zero is a statement", "an init container", "stated for the pod"],
)
def test_what_some_container_leaves_open(spec, unstated):
    assert shape_of(pod(spec)).unstated == unstated


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("other", [{"namespaces": ["x"]}, {"namespaceSelector": {}}])
def test_terms_across_namespaces_are_a_scope_also_where_they_are_wishes(kind, other):
    """usesCrossNamespacePodAffinity in pkg/quota/v1/evaluator/core/pods.go."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [other]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": other}]}
    assert shape_of(pod({"affinity": {kind: required}})).cross_namespace
    assert shape_of(pod({"affinity": {kind: preferred}})).cross_namespace
    assert not shape_of(pod(anti())).cross_namespace


def required(*terms):
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


HERE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("terms", "node"),
    [
        ([{"matchFields": [HERE]}], "n1"),
        ([{"matchFields": [HERE]}, {"matchExpressions": [ZONE], "matchFields": [HERE]}], "n1"),
        ([{"matchFields": [HERE]}, {"matchExpressions": [ZONE]}], ""),
        ([{"matchFields": [HERE]}, {"matchFields": [HERE | {"values": ["n2"]}]}], ""),
        ([{"matchFields": [HERE | {"operator": "NotIn"}]}], ""),
        ([{"matchFields": [HERE | {"values": ["n1", "n2"]}]}], ""),
        ([], ""),
    ],
)
def test_the_one_node_that_every_term_names(terms, node):
    assert single_node(pod(required(*terms))) == node


def test_a_lifted_pod_keeps_the_shape_of_its_siblings():
    before = pod(required({"matchExpressions": [ZONE]}))
    lifted = {names.ANNOTATION_LIFTED: '{"min":1,"at":1}'}
    after = pod(required({"matchExpressions": [ZONE], "matchFields": [HERE]}), annotations=lifted)
    assert shape_of(after) is shape_of(before)
    free = pod(required({"matchFields": [HERE]}), annotations=lifted)
    assert shape_of(free).node_terms == ()


def test_a_pin_that_ganggate_did_not_write_stays_in_the_shape():
    assert len(shape_of(pod(required({"matchFields": [HERE]}))).node_terms) == 1


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ({"operator": "In", "values": ["a"]}, [True, False, False]),
        ({"operator": "NotIn", "values": ["a"]}, [False, True, True]),
        ({"operator": "Exists"}, [True, True, False]),
        ({"operator": "DoesNotExist"}, [False, False, True]),
    ],
)
def test_label_selectors(requirement, found):
    selector = {"matchExpressions": [{"key": "app"} | requirement]}
    term = msgspec.convert({"labelSelector": selector}, PodAffinityTerm)
    assert [selects(term, labels) for labels in ({"app": "a"}, {"app": "b"}, {})] == found


def test_an_empty_selector_picks_all_and_none_picks_none():
    assert selects(msgspec.convert({"labelSelector": {}}, PodAffinityTerm), {})
    assert not selects(PodAffinityTerm(), {})


def beside(*terms):
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


HOST = {"topologyKey": names.HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": "a"}}}


def test_affinity_on_the_hostname_to_pods_like_itself_puts_all_on_one_node():
    found = shape_of(pod(beside(HOST), labels={"app": "a"}))
    assert ([t.topology_key for t in found.beside], found.unverifiable) == ([names.HOSTNAME_LABEL], ())


@pytest.mark.parametrize(
    ("terms", "labels"),
    [
        ([HOST], {"app": "b"}),
        ([HOST | {"namespaces": ["x"]}], {"app": "a"}),
        ([HOST | {"namespaceSelector": {}}], {"app": "a"}),
        ([HOST | {"topologyKey": "zone"}], {"app": "a"}),
        ([HOST, HOST | {"labelSelector": {"matchLabels": {"app": "b"}}}], {"app": "a"}),
        ([{"topologyKey": names.HOSTNAME_LABEL}], {"app": "a"}),
    ],
    ids=["to others", "elsewhere", "anywhere", "by zone", "to both", "to none"],
)
def test_other_affinity_cannot_be_judged(terms, labels):
    found = shape_of(pod(beside(*terms), labels=labels))
    assert found.beside == ()
    assert found.unverifiable
    assert all(what.startswith("pod affinity by ") for what in found.unverifiable)


EVEN = {"topologyKey": "zone", "maxSkew": 2, "labelSelector": {"matchLabels": {"app": "a"}}}


def even(*constraints, **labels):
    return shape_of(pod({"topologySpreadConstraints": list(constraints)}, labels=labels or {"app": "a"}))


def test_a_hard_spread_over_pods_like_itself_is_read():
    found = even(EVEN | {"whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Honor"})
    assert (found.spread.topology_key, found.spread.max_skew, found.spread.label_selector.match_labels) == (
        "zone",
        2,
        {"app": "a"},
    )
    assert found.unverifiable == ()


def test_a_soft_spread_binds_nothing():
    assert even(EVEN | {"whenUnsatisfiable": "ScheduleAnyway"}) is shape_of(pod({}))


@pytest.mark.parametrize(
    "change",
    [
        {"minDomains": 3},
        {"nodeAffinityPolicy": "Ignore"},
        {"nodeTaintsPolicy": "Honor"},
        {"matchLabelKeys": ["x"]},
        {"labelSelector": {"matchLabels": {"app": "b"}}},
        {"labelSelector": {}},
        {"labelSelector": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_spread_by_other_rules_cannot_be_judged(change):
    found = even(EVEN | change)
    assert (found.spread, found.unverifiable) == (None, ("hard topology spread by zone",))


def test_nor_can_two_at_once():
    assert even(EVEN, EVEN | {"topologyKey": "rack"}).unverifiable == (
        "hard topology spread by zone",
        "hard topology spread by rack",
    )


def test_what_a_device_class_provides_is_on_no_node():
    found = shape_of(pod(asking(**{"deviceclass.resource.kubernetes.io/gpu": "1"})))
    assert found.unverifiable == ("deviceclass.resource.kubernetes.io/gpu of a DeviceClass",)
