"""List and watch against the real API server, with a proxy in between that misbehaves.

ConfigMaps with a label of the test's own stand for any resource: nobody else writes them.
"""

import json
import threading
import time
import uuid
from contextlib import contextmanager

import msgspec
import pytest

from policy.gatekeeper.cache import Store, identity
from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.compare import compare
from policy.gatekeeper.discovery import has_status_subresource, serves
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.source import Source
from policy.gatekeeper.watch import Reflector, Tuning
from policy.gatekeeper.watches import Watches
from policy.rules.objects import ObjectMeta, PodGroup, Wire
from tests.cluster.conftest import holds_for, namespace_in, wait_until
from tests.faults import Faults
from tests.virtual_clock import VirtualClock

QUICK = Tuning(page=3, silence=2.0, absent_poll=0.2, list_timeout=5.0)


class ConfigMap(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class Maps:
    """ConfigMaps of one test: written straight to the server, watched through whatever client is given."""

    def __init__(self, client, namespace):
        self.client, self.namespace, self.label = client, namespace, f"t-{uuid.uuid4().hex[:8]}"
        self.collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self.source = Source("", "v1", "configmaps", ConfigMap, label_selector=f"test={self.label}")

    def create(self, *names):
        for name in names:
            meta = {"name": self.full(name), "labels": {"test": self.label}}
            self.client.request("POST", self.collection, body={"metadata": meta, "data": {"x": "0"}})

    def full(self, name):
        return f"{self.label}.{name}"

    def patch(self, name, **body):
        kind = "application/merge-patch+json"
        return self.client.request("PATCH", f"{self.collection}/{self.full(name)}", body=body, content_type=kind)

    def delete(self, name):
        self.client.request("DELETE", f"{self.collection}/{self.full(name)}")


class Watched:
    """A running Reflector and what it keeps."""

    def __init__(self, client, source, tuning=QUICK, clock=None, grace=1.0):
        self.clock = clock or SystemClock()
        self.store = Store(identity, self.clock, grace=grace)
        self.reflector = Reflector(client, source, self.store, self.clock, tuning=tuning)
        self.watches = Watches([self.reflector], self.clock)
        self.client, self.source, self.stop = client, source, threading.Event()

    def names(self):
        return {item.metadata.name.rpartition(".")[2] for item in self.store.items()}

    def until(self, *names):
        wait_until(lambda: self.names() == set(names), what=f"{names} in the cache")


@contextmanager
def watching(client, source, **options):
    watched = Watched(client, source, **options)
    watched.watches.start(watched.stop)
    try:
        yield watched
    finally:
        watched.stop.set()
        assert watched.watches.join(10), "threads end when told"


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
def maps(admin, namespace):
    return Maps(admin, namespace)


@pytest.fixture
def faults(cluster):
    with Faults(cluster.kubeconfig) as faults:
        yield faults


@pytest.fixture
def through(faults, tmp_path):
    """A client that reaches the server through the proxy."""
    client = Client.from_kubeconfig(str(faults.kubeconfig(tmp_path)))
    yield client
    client.close()


def watch_requests(faults):
    return [path for _, path in faults.seen if "watch=1" in path]


def lists(faults):
    return [path for _, path in faults.seen if "/configmaps" in path and "watch=1" not in path]


def test_the_cache_follows_the_server(admin, maps):
    maps.create(*"abcdefgh")
    with watching(admin, maps.source) as watched:
        watched.until(*"abcdefgh")
        assert watched.store.ready
        maps.patch("a", data={"x": "1"})
        maps.delete("b")
        maps.create("i")
        watched.until(*"acdefghi")
        wait_until(lambda: watched.store.by_name(maps.namespace, maps.full("a")).data == {"x": "1"})
        assert compare(admin, maps.source, watched.store).same
        assert watched.reflector.relists == 1


def test_compare_tells_what_is_missing_surplus_and_stale(admin, maps):
    maps.create("a", "b")
    watched = Watched(admin, maps.source)
    watched.reflector._list()
    uids = {item.metadata.name[-1]: item.metadata.uid for item in watched.store.items()}
    maps.patch("a", data={"x": "1"})
    maps.delete("b")
    maps.create("c")
    found = compare(admin, maps.source, watched.store)
    assert (found.stale, found.surplus, len(found.missing)) == ((uids["a"],), (uids["b"],), 1)


def test_our_own_write_is_not_undone_by_older_events(admin, maps):
    maps.create("a")
    with watching(admin, maps.source) as watched:
        watched.until("a")
        seen = []
        watched.store.subscribe(seen.append)
        for n in range(1, 51):
            answer = msgspec.json.decode(maps.patch("a", data={"x": str(n)}), type=ConfigMap)
            watched.store.assume(answer)
            assert watched.store.by_name(maps.namespace, maps.full("a")).data == {"x": str(n)}
        written = int(answer.metadata.resource_version)
        wait_until(lambda: watched.store.observed >= written, what="the watch to have shown our writes")
        assert [delta.after.data["x"] for delta in seen] == [str(n) for n in range(1, 51)]


def test_an_object_leaves_and_enters_the_selection(admin, maps):
    maps.create("a")
    with watching(admin, maps.source) as watched:
        watched.until("a")
        answer = maps.patch("a", metadata={"labels": {"test": "other"}})
        watched.until()
        assert not watched.store.assume(msgspec.json.decode(answer, type=ConfigMap)), "no event would ever remove it"
        maps.patch("a", metadata={"labels": {"test": maps.label}})
        watched.until("a")


def test_metadata_only(admin, maps):
    maps.create("a")
    bare = Source("", "v1", "configmaps", ConfigMap, label_selector=maps.source.label_selector, metadata_only=True)
    with watching(admin, bare) as watched:
        watched.until("a")
        maps.create("b")
        watched.until("a", "b")
        assert [item.data for item in watched.store.items()] == [None, None]


def test_a_cut_watch_goes_on_where_it_was(faults, through, maps):
    with watching(through, maps.source, grace=30.0) as watched:
        wait_until(lambda: watched.store.ready)
        maps.create("a")
        watched.until("a")
        for name in "bcd":
            faults.cut()
            maps.create(name)
        watched.until(*"abcd")
        assert watched.reflector.relists == 1
        assert watched.store.ready


def test_a_watch_that_the_server_ends_is_taken_up_again(faults, through, maps):
    tuning = Tuning(page=3, watch=(1.0, 1.0), short_watch=0.5)
    with watching(through, maps.source, tuning=tuning, grace=30.0) as watched:
        wait_until(lambda: len(watch_requests(faults)) >= 4, what="some watches of a second each")
        maps.create("a")
        watched.until("a")
        assert watched.reflector.relists == 1
        assert watched.store.ready


@pytest.mark.parametrize("status", [410, 429, 500, 503, 401])
def test_a_refused_watch(faults, through, maps, status):
    maps.create("a")
    faults.answer(status, match="watch=1", times=2, reason="Expired" if status == 410 else "")
    with watching(through, maps.source, grace=30.0) as watched:
        watched.until("a")
        wait_until(lambda: len(watch_requests(faults)) == 3, what="a third watch")
        maps.create("b")
        watched.until("a", "b")
        assert watched.reflector.problem == ""
        assert watched.reflector.relists == (3 if status == 410 else 1)


@pytest.mark.parametrize("status", [410, 429, 500])
def test_a_list_that_fails_between_pages_is_begun_anew(faults, through, maps, status):
    maps.create(*"abcdefg")
    faults.answer(status, match="continue=", times=1)
    with watching(through, maps.source) as watched:
        watched.until(*"abcdefg")
        assert sum("continue=" not in path for path in lists(faults)) == 2


def test_the_server_asks_for_a_pause(faults, through, maps):
    faults.answer(429, match="/configmaps", headers={"Retry-After": "2"})
    started = time.monotonic()
    with watching(through, maps.source) as watched:
        wait_until(lambda: watched.store.ready)
        assert time.monotonic() - started >= 2


def test_lost_requests_and_answers(faults, through, maps):
    maps.create("a")
    faults.lose("request", match="/configmaps")
    faults.lose("answer", match="/configmaps")
    faults.lose("answer", match="watch=1")
    with watching(through, maps.source) as watched:
        watched.until("a")
        maps.create("b")
        watched.until("a", "b")


def test_half_open_silence_is_noticed_and_readiness_falls(faults, through, maps):
    with watching(through, maps.source) as watched:
        wait_until(lambda: watched.store.ready)
        maps.create("seen")
        watched.until("seen")
        faults.silence()
        silent = time.monotonic()
        maps.create("missed")
        wait_until(lambda: not watched.store.ready, what="readiness to fall")
        assert time.monotonic() - silent < 15, "the limit of two seconds, looked at every second"
        assert watched.watches.problems()
        faults.heal()
        watched.until("missed", "seen")
        wait_until(lambda: watched.store.ready and not watched.watches.problems())
        assert watched.reflector.relists == 2, "what was missed in an outage is only known from a list"


def test_silence_with_the_real_limits_in_virtual_time(faults, through, maps):
    """Ninety seconds without a bookmark, on a real connection that really says nothing."""
    clock = VirtualClock()
    watched = Watched(through, maps.source, tuning=Tuning(), clock=clock, grace=30.0)
    reader = threading.Thread(target=watched.reflector.run, args=(watched.stop,))
    reader.start()
    wait_until(lambda: watched.store.ready and watched.reflector._stream)
    maps.create("seen")
    watched.until("seen")
    faults.silence()
    for _ in range(89):
        clock.advance(1)
        watched.watches.check(watched.stop)
    assert watched.store.ready
    assert watched.reflector._stream
    clock.advance(2)
    watched.watches.check(watched.stop)
    wait_until(lambda: not watched.store.ready, what="readiness to fall with the watch")
    faults.heal()
    maps.create("a")
    watched.until("a", "seen")
    watched.stop.set()
    wait_until(lambda: watched.watches.check(watched.stop) or not reader.is_alive())


def test_bookmarks_of_the_real_server_keep_a_quiet_watch_alive(faults, through, maps):
    """The server sends one about each minute, and one before it ends a watch: here the latter."""
    tuning = Tuning(watch=(4.0, 4.0))
    with watching(through, maps.source, tuning=tuning) as watched:
        wait_until(lambda: watched.store.ready)
        before = watched.store.observed
        maps.client.request("POST", maps.collection, body={"metadata": {"name": maps.full("other")}})
        wait_until(lambda: watched.store.observed > before, what="a bookmark")
        holds_for(lambda: watched.store.ready, 5, "a clean reconnect must not flap")


def test_a_missing_right_is_named_until_it_is_granted(cluster, admin, maps, kubectl):
    user = f"user-{maps.label}"
    client = Client.from_kubeconfig(str(cluster.kubeconfig_for(user)))
    with watching(client, maps.source) as watched:
        wait_until(lambda: watched.reflector.problem == "forbidden: list configmaps")
        assert not watched.store.ready
        kubectl("create", "clusterrole", user, "--verb=list,watch", "--resource=configmaps")
        kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")
        try:
            wait_until(lambda: watched.store.ready and not watched.watches.problems())
            maps.create("a")
            watched.until("a")
        finally:
            kubectl("delete", "clusterrolebinding,clusterrole", user)
    client.close()


def crd(group):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_a_resource_that_comes_and_goes_and_objects_that_nobody_can_read(admin, namespace):
    group = f"{namespace}.example.com"
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = f"/apis/{group}/v1/namespaces/{namespace}/things"
    with watching(admin, Source(group, "v1", "things", PodGroup)) as watched:
        wait_until(lambda: watched.store.ready, what="an absent resource to be an empty one")
        assert not serves(admin, group, "v1", "things")
        admin.request("POST", crds, body=crd(group))
        wait_until(lambda: _created(admin, things, group, "good", {"minMember": 3, "queue": None}))
        _created(admin, things, group, "bad", {"minMember": "many"})
        wait_until(lambda: has_status_subresource(admin, group, "v1", "things"), what="discovery")
        watched.until("good")
        wait_until(lambda: [c.metadata.name for c in watched.store.corrupt()] == ["bad"])
        patch = json.dumps({"spec": {"minMember": 2}}).encode()
        admin.request("PATCH", f"{things}/bad", body=patch, content_type="application/merge-patch+json")
        watched.until("good", "bad")
        assert watched.store.corrupt() == ()
        _watch_from_before_its_time(admin, watched.source, "good", "bad")
        admin.request("DELETE", f"{crds}/things.{group}")
        watched.until()
        wait_until(lambda: not serves(admin, group, "v1", "things"))
        wait_until(lambda: watched.store.ready)


def _watch_from_before_its_time(admin, source, *names):
    """The real 410: a watch from where the server's memory of this resource does not reach."""
    late = Watched(admin, source)
    late.reflector._version = "1"
    late.watches.start(late.stop)
    late.until(*names)
    assert late.reflector.relists == 1
    late.stop.set()
    assert late.watches.join(10)


def _created(admin, things, group, name, spec):
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}
    try:
        return admin.request("POST", things, body=body)
    except ApiError as error:
        assert error.is_not_found or error.is_overload, error
        return None
