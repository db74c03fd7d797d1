"""Certificates on a real API server: rotations that nobody notices, overwrites undone, Secrets of others left alone.

The webhook is the real one, by URL; rotators are the product's, as the gatekeeper's identity. Settling takes 2 s here
and 60 s in earnest.
"""

import base64
import copy
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from certs import authority, endpoints, publish
from certs.api import ApiError
from certs.config import Mode
from certs.publish import PATHS
from certs.rotate import Rotator
from certs.store import CA_KEY
from deploy.local.kubeconfig import WEBHOOK
from policy import names
from policy.gatekeeper.client import Client
from tests.cluster.calls import Caller
from tests.cluster.certs_world import (
    LOOK_SECONDS,
    SECRETS,
    Stream,
    World,
    driven,
    observed,
    refreshing,
    settle_down,
    straggler,
)
from tests.cluster.conftest import MakeCluster, holds_for, namespace_in, take_down, wait_until


@pytest.fixture(scope="module")
def world(make_cluster: MakeCluster) -> Iterator[World]:
    """Everything installed and nothing issued yet but by two rotators at once, whose files the webhook serves."""
    cluster = make_cluster(nodes=1, addon=False)
    try:
        cluster.install()
        found = World(cluster)
        cluster.start_webhook(wait=False)
        with refreshing(found):
            first_issue(found)
            yield found
    finally:
        take_down(cluster)


def first_issue(world: World) -> None:
    """The trivial rotation, by two rotators that start together: one CA comes of it, not two."""
    with driven(world.rotator().step, world.rotator().step) as driver:
        wait_until(lambda: any("published" in done for done in driver.done), timeout=120, what="first issue")
        settle_down(world, "first issue")
    assert driver.errors == []
    assert sum("new CA" in done for done in driver.done) == 1


@pytest.fixture(scope="module")
def gang(world: World) -> Iterator[str]:
    with namespace_in(world.cluster, "gang") as name:
        yield name


def test_leaf_and_ca_are_rotated_under_load_and_no_create_fails(world: World, gang: str) -> None:
    before = world.serial(), world.cas()
    with observed(world, gang) as (stream, stranger), driven(world.rotator().step) as driver:
        more(stream)
        world.ask(names.CERT_SECRET)
        wait_until(lambda: world.serial() != before[0], what="a new leaf")
        assert world.cas() == before[1], "the CA stays"
        settle_down(world, "the leaf")
        more(stream)
        for _ in range(2):
            world.ask(names.CA_SECRET)
            old = world.cas()
            wait_until(lambda old=old: world.cas()[0] not in old, what="a new CA")
            settle_down(world, "the CA")
            more(stream)
    assert stream.refused == [] and driver.errors == [] and stranger.distrusted == []
    assert len(stranger.serials) == 4 and len(stranger.bundles) >= 5, "each leaf, and the overlaps, were really seen"
    print(f"{stream.created} creates, {stranger.checked} handshakes, none refused; {driver.done}")


def more(stream: Stream) -> None:
    """Whatever the machine's speed, creates go through at each stage."""
    already = stream.created
    wait_until(lambda: stream.created >= already + 20, what="20 more creates")


def test_two_rotators_at_once_rotate_once(world: World, gang: str) -> None:
    old = world.cas()
    with observed(world, gang) as (stream, stranger), driven(world.rotator().step, world.rotator().step) as driver:
        world.ask(names.CA_SECRET)
        wait_until(lambda: world.cas()[0] not in old, what="a new CA")
        settle_down(world, "the CA")
    assert driver.errors == stream.refused == stranger.distrusted == []
    assert sum("new CA" in done for done in driver.done) == 1


class Killed(BaseException):
    """The process is gone; no handler sees it."""


class Mortal:
    """A client whose process dies with its n-th write: before it is sent, or once it has arrived."""

    def __init__(self, client: Client, lives: int, *, arrives: bool) -> None:
        self.client, self.lives, self.arrives = client, lives, arrives

    def request(self, method: str, path: str, **options: Any) -> bytes:
        self.lives -= method != "GET"
        dead = self.lives == 0
        if dead and not self.arrives:
            raise Killed
        answer = self.client.request(method, path, **options)
        if dead:
            raise Killed
        return answer


@pytest.mark.parametrize("arrives", [False, True])
def test_a_rotator_killed_at_each_write_is_finished_by_the_next(world: World, gang: str, arrives: bool) -> None:
    """Nine writes make a rotation: CA, two caBundles, ca.crt, leaf, CA, two caBundles, ca.crt."""
    old, deaths = world.cas(), 0
    world.ask(names.CA_SECRET)
    with observed(world, gang) as (stream, stranger):
        while lived_shortly(world.rotator(api=Mortal(world.client, 1 if arrives else 2, arrives=arrives))):
            deaths += 1
        settle_down(world, "what the last one left")
    assert deaths == (9 if arrives else 8)
    assert stream.refused == stranger.distrusted == []
    assert world.cas()[0] not in old


def lived_shortly(rotator: Rotator) -> bool:
    """Let it work until it is killed, or until it had nothing to write for twice the settling time, 5 s."""
    pause, idle = threading.Event(), 0.0
    try:
        while idle < 10:
            outcome = rotator.step()
            idle = 0 if outcome.did else idle + outcome.wait
            pause.wait(outcome.wait)
    except Killed:
        return True
    return False


def test_the_old_ca_stays_while_one_replica_serves_the_old_leaf(world: World, tmp_path) -> None:
    leaf = [world.held(names.CERT_SECRET, key) for key in ("tls.crt", "tls.key")]
    with straggler(*leaf, tmp_path) as (late, give), driven(world.rotator(late).step) as driver:
        world.ask(names.CA_SECRET)
        said = f"waiting for {late} (serves {authority.serial(leaf[0]):x}) to serve certificate"
        wait_until(lambda: any(said in outcome.waiting for outcome in driver.outcomes), what=said)
        holds_for(lambda: len(world.cas()) == 2, 2)
        give(world.held(names.CERT_SECRET, "tls.crt"), world.held(names.CERT_SECRET, "tls.key"))
        settle_down(world, "the straggler has caught up")


STRANGERS = {
    "emptied": lambda entry: entry["clientConfig"].update(caBundle=""),
    "removed": lambda entry: entry["clientConfig"].pop("caBundle"),
    "another's": lambda entry: entry["clientConfig"].update(caBundle=_encoded(_stranger())),
    "added to": lambda entry: entry["clientConfig"].update(
        caBundle=_encoded(base64.b64decode(entry["clientConfig"]["caBundle"]) + _stranger())
    ),
}


@pytest.mark.parametrize("how", STRANGERS)
@pytest.mark.parametrize("path", PATHS)
def test_an_overwritten_bundle_comes_back_and_nothing_else_changes(world: World, path: str, how: str) -> None:
    before = world.admin("GET", path).body
    with driven(world.rotator().step) as driver:
        spoilt = copy.deepcopy(before)
        STRANGERS[how](spoilt["webhooks"][-1])
        assert world.admin("PUT", path, spoilt).ok
        wait_until(lambda: world.published() == set(world.cas()), what="the caBundle")
    assert driver.errors == []
    assert world.admin("GET", path).body["webhooks"] == before["webhooks"]


def test_an_installer_may_drop_an_entry_later(world: World) -> None:
    """Server-side apply of the next version: refused, if we had applied the caBundle too (see certs/publish.py)."""
    path = PATHS[0].rsplit("/", 1)[0] + "/installed"
    assert applied(world.admin, path, "first", "second").ok
    configuration = publish.read(world.as_admin, [path])[0]
    publish.publish(world.as_admin, configuration, world.cas()[0])
    again = applied(world.admin, path, "first", "second").body
    assert all(each["clientConfig"]["caBundle"] for each in again["webhooks"]), "an installer's apply leaves it"
    dropped = applied(world.admin, path, "first")
    assert dropped.ok and [each["name"] for each in dropped.body["webhooks"]] == ["first.example.com"]
    with pytest.raises(ApiError) as stale:
        publish.publish(world.as_admin, configuration, b"")
    assert stale.value.conflict, "what was read before is not written over what came since"
    world.admin("DELETE", path)


def applied(admin: Caller, path: str, *entries: str):
    webhooks = [
        {
            "name": f"{name}.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for name in entries
    ]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "installed"},
        "webhooks": webhooks,
    }
    return admin("PATCH", f"{path}?fieldManager=installer", body, "application/apply-patch+yaml")


@pytest.mark.parametrize("name", [names.CERT_SECRET, names.CA_SECRET])
def test_a_secret_of_somebody_else_is_left_alone(world: World, name: str) -> None:
    labels = {"metadata": {"labels": {names.LABEL_MANAGED: "cert-manager"}}}
    assert world.admin.patch(f"{SECRETS}/{name}", labels).ok
    world.ask(name)
    before, configurations = world.secret(name), world.configurations()
    outcome = world.rotator().step()
    assert outcome.error.startswith(f"Secret {names.SYSTEM_NAMESPACE}/{name} is not labelled") and not outcome.did
    assert world.rotator(mode=Mode.MOUNTED).step().error == "", "only served: no error, and nothing is done"
    assert (world.secret(name), world.configurations()) == (before, configurations)
    ours = {
        "metadata": {"labels": {names.LABEL_MANAGED: names.MANAGER}, "annotations": {names.ANNOTATION_ROTATE: None}}
    }
    assert world.admin.patch(f"{SECRETS}/{name}", ours).ok


def test_a_deleted_ca_secret_costs_no_create(world: World, gang: str) -> None:
    """The CAs in use are still known from the serving Secret."""
    with observed(world, gang) as (stream, stranger), driven(world.rotator().step):
        assert world.admin("DELETE", f"{SECRETS}/{names.CA_SECRET}").ok
        wait_until(lambda: world.admin("GET", f"{SECRETS}/{names.CA_SECRET}").ok, what="a new CA Secret")
        assert len(world.cas()) == 2
        settle_down(world, "the new CA")
    assert stream.refused == stranger.distrusted == []


def test_a_deleted_or_spoilt_serving_secret_is_made_anew(world: World) -> None:
    with driven(world.rotator().step) as driver:
        old = world.serial()
        assert world.admin("DELETE", f"{SECRETS}/{names.CERT_SECRET}").ok
        wait_until(lambda: world.admin("GET", f"{SECRETS}/{names.CERT_SECRET}").ok, what="a new Secret")
        settle_down(world, "the new Secret")
        old, spoilt = world.serial(), {"data": {"tls.key": _encoded(b"rubbish")}}
        assert world.admin.patch(f"{SECRETS}/{names.CERT_SECRET}", spoilt).ok
        wait_until(lambda: world.serial() != old, what="a new leaf")
        settle_down(world, "the new leaf")
    assert driver.errors == []


def test_what_others_wrote_on_our_secrets_stays(world: World) -> None:
    note = {"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/note": "keep"}}}
    assert world.admin.patch(f"{SECRETS}/{names.CERT_SECRET}", note).ok
    with driven(world.rotator().step):
        old = world.serial()
        world.ask(names.CERT_SECRET)
        wait_until(lambda: world.serial() != old, what="a new leaf")
    metadata = world.secret(names.CERT_SECRET)["metadata"]
    assert metadata["labels"]["team"] == "a" and metadata["annotations"] == {"example.com/note": "keep"}


def test_the_keys_of_the_cas_are_where_the_webhook_does_not_look(world: World) -> None:
    assert set(world.secret(names.CERT_SECRET)["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert CA_KEY in world.secret(names.CA_SECRET)["data"]
    webhook = Caller(world.cluster.layout.kubeconfig(WEBHOOK))
    for name in (names.CA_SECRET, names.CERT_SECRET):
        assert webhook("GET", f"{SECRETS}/{name}").code == 403


def test_missing_rights_are_said_and_asked_for_ever_more_rarely(world: World) -> None:
    nobody = Client.from_kubeconfig(str(world.cluster.kubeconfig_for("nobody")))
    rotator = world.rotator(api=nobody)
    outcomes = [rotator.step() for _ in range(8)]
    assert 'User "nobody" cannot get resource "mutatingwebhookconfigurations"' in outcomes[0].error
    assert [outcome.wait for outcome in outcomes] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_replicas_are_found_by_the_endpoint_slices_of_the_service(world: World) -> None:
    for index, (family, address) in enumerate((("IPv4", "10.1.2.3"), ("IPv6", "fd00::7"))):
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"by-hand-{index}", "labels": {names.SERVICE_NAME_LABEL: names.WEBHOOK_SERVICE}},
            "addressType": family,
            "endpoints": [{"addresses": [address], "conditions": {"ready": index == 0}}],
            "ports": [{"name": "https", "port": 9443}],
        }
        path = f"/apis/discovery.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/endpointslices"
        assert world.admin.create(path, body).ok
    found = endpoints.of_service(world.client, names.SYSTEM_NAMESPACE, names.WEBHOOK_SERVICE)
    assert found == ("10.1.2.3:9443", "[fd00::7]:9443")


def _stranger() -> bytes:
    return trustme.CA().cert_pem.bytes()


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
