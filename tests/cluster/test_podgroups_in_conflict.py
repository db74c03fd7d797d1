"""PodGroups that cannot be meant: of another namespace, two for one pod, two of one name."""

import pytest

from deploy.local.cluster import Cluster
from policy import names
from tests.cluster import breaking, submissions
from tests.cluster.breaking import LONG, VOLCANO, bound, hears, held, jobs, member, must, podgroups, pods
from tests.cluster.calls import Caller
from tests.cluster.conftest import holds_for, wait_until
from tests.cluster.victims import gang

__all__ = ["gang"]

COSCHEDULING = f"{names.COSCHEDULING_API}/{names.COSCHEDULING_VERSION}"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Caller:
    return Caller(cluster.kubeconfig)


def test_a_podgroup_of_another_namespace_is_none(admin: Caller, gang: str) -> None:
    with breaking.space(admin) as elsewhere:
        must(admin.create(podgroups(elsewhere), submissions.podgroup(VOLCANO, "g", 1, elsewhere)))
        must(admin.create(pods(gang), member("g-0", gang, "g")))
        assert repr(gang) in hears(admin, gang, "g-0", names.Reason.PODGROUP_MISSING)
        assert held(admin, gang) == 1
        must(admin.create(podgroups(gang), submissions.podgroup(VOLCANO, "g", 1, gang)))
        wait_until(lambda: bound(admin, gang) == 1, what="the start, once it exists here")


def test_two_podgroups_that_claim_one_pod_are_both_named_to_its_owner(admin: Caller, gang: str) -> None:
    """The pods are refused when they are created, and the Job's events say why."""
    for name in ("one", "two"):
        must(admin.create(podgroups(gang), submissions.podgroup(VOLCANO, name, 1, gang)))
    annotations, labels = {names.VOLCANO_PODGROUP: "one"}, {names.COSCHEDULING_LABEL: "two"}
    template = submissions.template("j", LONG, annotations=annotations, labels=labels)
    must(admin.create(jobs(gang), submissions.job("j", 1, gang, template)))

    def refusal() -> str:
        path = f"/api/v1/namespaces/{gang}/events?fieldSelector=involvedObject.name=j,reason=FailedCreate"
        return next((event["message"] for event in breaking.listed(admin, path)), "")

    text = wait_until(refusal, what="the refusal")
    assert "'one'" in text
    assert "'two'" in text
    assert breaking.listed(admin, pods(gang)) == []


def test_of_two_podgroups_of_one_name_the_pods_choose_by_how_they_name_it(admin: Caller, gang: str) -> None:
    must(admin.create(podgroups(gang), submissions.podgroup(VOLCANO, "g", 2, gang)))
    path = f"/apis/{COSCHEDULING}/namespaces/{gang}/podgroups"
    must(admin.create(path, submissions.podgroup(COSCHEDULING, "g", 3, gang)))
    labelled = submissions.template("labelled", LONG, labels={names.COSCHEDULING_LABEL: "g"})
    for i in range(2):
        must(admin.create(pods(gang), submissions.pod(f"labelled-{i}", gang, labelled)))
    wait_until(lambda: held(admin, gang) == 2, what="two pods behind the gate")
    holds_for(lambda: held(admin, gang) == 2, 2, "two were enough for the PodGroup of three")
    must(admin.create(pods(gang), submissions.pod("labelled-2", gang, labelled)))
    wait_until(lambda: bound(admin, gang) == 3, what="all three")
