"""Leader election on a real Lease: takeover, freeze and thaw, partition, and a lease that somebody tampers with."""

import signal
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.leader import Leadership
from tests.cluster.conftest import namespace_in, wait_until
from tests.cluster.leader_process import QUICK
from tests.faults import Faults
from tests.virtual_clock import VirtualClock

ROOT = Path(__file__).parents[2]


class Candidate:
    """A leader_process and all that it said."""

    def __init__(self, kubeconfig, place, identity):
        command = [sys.executable, "-m", "tests.cluster.leader_process", kubeconfig, *place, identity]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.looks = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            moment, leads = line.split()
            self.looks.append((float(moment), leads == "1"))

    @property
    def leads(self):
        return bool(self.looks) and self.looks[-1][1]

    def lead_moments(self):
        return [moment for moment, leads in self.looks if leads]

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.thaw()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            self.process.stdout.close()


@contextmanager
def candidates(kubeconfig, place, *identities):
    made = [Candidate(str(kubeconfig), place, identity) for identity in identities]
    try:
        yield made
    finally:
        for each in made:
            each.end()


def never_together(*all_of_them):
    """No moment at which one led lies within a spell in which another led without a break."""
    for one in all_of_them:
        for other in all_of_them:
            if one is other:
                continue
            for (start, led), (end, leads) in zip(other.looks, other.looks[1:], strict=False):
                if led and leads and end - start < 0.5:
                    assert not any(start <= moment <= end for moment in one.lead_moments())


@pytest.fixture(scope="module")
def admin(cluster):
    client = Client.from_kubeconfig(str(cluster.kubeconfig))
    yield client
    client.close()


@pytest.fixture(scope="module")
def namespace(cluster):
    with namespace_in(cluster) as name:
        yield name


@pytest.fixture
def place(namespace):
    """Namespace and name of a lease that nobody has used."""
    return namespace, f"lease-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def faults(cluster):
    with Faults(cluster.kubeconfig) as faults:
        yield faults


@pytest.fixture
def through(faults, tmp_path):
    client = Client.from_kubeconfig(str(faults.kubeconfig(tmp_path)))
    yield client
    client.close()


def lease(client, place):
    path = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}".format(*place)
    return msgspec.json.decode(client.get(path))


def candidate(client, place, identity, clock=None):
    clock = clock or VirtualClock()
    return Leadership(client, *place, identity, clock, timing=QUICK, uniform=lambda low, _high: low)


def test_one_leads_and_the_other_takes_over_when_it_ends(cluster, place):
    with candidates(cluster.kubeconfig, place, "one", "two") as both:
        wait_until(lambda: any(each.leads for each in both))
        first, second = sorted(both, key=lambda each: not each.leads)
        first.process.stdin.close()
        first.process.wait(10)
        gave_back = first.looks[-1][0]
        wait_until(lambda: second.leads)
        assert second.lead_moments()[0] - gave_back < QUICK.duration, "it was given back, not waited for"
        never_together(*both)


def test_a_frozen_leader_knows_at_its_first_look_after_the_thaw(cluster, place):
    with candidates(cluster.kubeconfig, place, "one", "two") as both:
        wait_until(lambda: any(each.leads for each in both))
        frozen, other = sorted(both, key=lambda each: not each.leads)
        frozen.freeze()
        wait_until(lambda: other.leads, what="the other to take over")
        thawed = SystemClock().monotonic()
        looks = len(frozen.looks)
        frozen.thaw()
        wait_until(lambda: len(frozen.looks) > looks + 200, what="two seconds of looks")
        assert not any(leads for moment, leads in frozen.looks if moment > thawed)
        assert other.leads
        never_together(*both)


def test_a_leader_that_is_cut_off_stops_before_another_begins(cluster, place, faults, tmp_path):
    far = faults.kubeconfig(tmp_path)
    with candidates(far, place, "far") as (alone,):
        wait_until(lambda: alone.leads)
        with candidates(cluster.kubeconfig, place, "near") as (near,):
            wait_until(lambda: near.looks)
            faults.silence()
            wait_until(lambda: near.leads, what="the near one to take over")
            stopped, began = alone.lead_moments()[-1], near.lead_moments()[0]
            assert stopped < began
            faults.heal()
            before = len(alone.looks)
            wait_until(lambda: len(alone.looks) > before + 200)
            assert not alone.leads, "the lease is another's now"
            never_together(alone, near)


def test_a_clock_that_jumps(admin, place):
    """A machine that slept: its process notices nothing but the time."""
    asleep, awake = VirtualClock(), VirtualClock()
    one = candidate(admin, place, "one", asleep)
    two = candidate(admin, place, "two", awake)
    one.attempt()
    two.attempt()
    assert one.valid()
    awake.advance(QUICK.duration)
    two.attempt()
    asleep.advance(QUICK.duration)
    assert not one.valid(0)
    assert two.valid()
    one.attempt()
    assert not one.valid(0)
    assert one.holder == "two"
    assert lease(admin, place)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_renewal_that_got_lost(faults, through, place, lost):
    one = candidate(through, place, "one")
    one.attempt()
    faults.lose(lost, method="PATCH")
    one.attempt()
    assert one.problem
    assert one.valid(), "the grant that it had stands"
    one.attempt()
    assert one.problem == ""
    assert one.valid()
    assert one.term == 1


def test_a_takeover_whose_answer_got_lost(faults, through, admin, place):
    clock = VirtualClock()
    one, two = candidate(admin, place, "one"), candidate(through, place, "two", clock)
    one.attempt()
    two.attempt()
    clock.advance(QUICK.duration)
    faults.lose("answer", method="PATCH")
    two.attempt()
    assert not two.valid(0), "nobody told us"
    two.attempt()
    assert two.valid()
    assert lease(admin, place)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("status", [403, 409, 429, 500])
def test_a_refused_renewal_is_a_failed_one(faults, through, place, status):
    one = candidate(through, place, "one")
    one.attempt()
    faults.answer(status, method="PATCH")
    one.attempt()
    one.attempt()
    assert one.valid()
    assert one.term == 1


def test_a_slow_server_is_given_up_before_the_deadline(faults, through, place):
    clock = SystemClock()
    one = candidate(through, place, "one", clock)
    one.attempt()
    faults.delay(QUICK.renew_deadline, method="PATCH")
    before = clock.monotonic()
    one.attempt()
    assert "Timeout" in one.problem
    assert clock.monotonic() - before < QUICK.renew_deadline


def test_what_others_wrote_on_the_lease_is_kept(admin, place, kubectl):
    one = candidate(admin, place, "one")
    one.attempt()
    kubectl("annotate", "lease", place[1], "-n", place[0], "team=ml")
    one.attempt()
    assert one.valid()
    assert lease(admin, place)["metadata"]["annotations"] == {"team": "ml"}


def test_a_lease_that_was_deleted_or_handed_to_another(admin, place, kubectl):
    one = candidate(admin, place, "one")
    one.attempt()
    kubectl("delete", "lease", place[1], "-n", place[0])
    one.attempt()
    assert one.valid()
    kubectl("patch", "lease", place[1], "-n", place[0], "--type=merge", "-p", '{"spec":{"holderIdentity":"x"}}')
    one.attempt()
    assert not one.valid(0)
    assert one.holder == "x"
