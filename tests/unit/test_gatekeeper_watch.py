"""The reflector's reactions, against a scripted server and in virtual time; tests/cluster asks the real one."""

import dataclasses
import json
import threading
from dataclasses import dataclass, field

import pytest

from policy.gatekeeper.cache import Store, identity
from policy.gatekeeper.errors import ApiError, StreamError, TransportError
from policy.gatekeeper.source import Source
from policy.gatekeeper.watch import Reflector, Tuning
from policy.gatekeeper.watches import Watches
from policy.rules.objects import Pod
from tests.virtual_clock import VirtualClock

PODS = Source("", "v1", "pods", Pod)


def pod(uid, version, **spec):
    meta = {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def page(*items, version=10, more=""):
    return json.dumps({"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}).encode()


def line(kind, item):
    return json.dumps({"type": kind, "object": item}).encode()


def bookmark(version):
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def error(code, reason="Expired"):
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "m"})


class ScriptedStream:
    """Plays lines; a number lets that many seconds pass, an exception is raised, a callable is called."""

    def __init__(self, clock, script):
        self._clock, self._script, self.closed, self.aborted = clock, script, False, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def __iter__(self):
        for step in self._script:
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, Exception):
                raise step
            elif callable(step):
                step()
            else:
                self._clock.advance(step)
            if self.aborted:
                raise TransportError(self.aborted, "Aborted")

    def abort(self, reason):
        self.aborted = reason


@dataclass
class ScriptedServer:
    """Answers lists and watches in the order told; stops the reflector when it has nothing more to say."""

    clock: VirtualClock
    lists: list = field(default_factory=list)
    watches: list = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    asked: list = field(default_factory=list)

    def request(self, method, path, *, query=None, timeout=None, accept=""):
        self.asked.append(("list", dict(query), self.clock.monotonic()))
        return self._next(self.lists)

    def stream(self, path, query, *, timeout, accept):
        self.asked.append(("watch", dict(query), self.clock.monotonic()))
        script = self._next(self.watches)
        return ScriptedStream(self.clock, script)

    def _next(self, answers):
        if not answers:
            self.stop.set()
            raise TransportError("end of the script")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def verbs(self):
        return [verb for verb, _, _ in self.asked]


class World:
    def __init__(self, lists, watches, tuning=Tuning(), source=PODS):
        self.clock = VirtualClock()
        self.server = ScriptedServer(self.clock, list(lists), list(watches))
        self.store = Store(identity, self.clock)
        self.reflector = Reflector(
            self.server, source, self.store, self.clock, tuning=tuning, uniform=lambda _low, high: high
        )

    def run(self):
        self.reflector.run(self.server.stop)
        return self

    def uids(self):
        return sorted(p.metadata.uid for p in self.store.items())


def test_lists_then_watches_from_there():
    world = World([page(pod("a", 3))], [[line("ADDED", pod("b", 11)), line("DELETED", pod("a", 12)), 5]]).run()
    assert world.uids() == ["b"]
    (verb, query, _), (then, watch, _) = world.server.asked[:2]
    assert (verb, query) == ("list", {"limit": "500"})
    assert then == "watch"
    assert watch["resourceVersion"] == "10"
    assert watch["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch["timeoutSeconds"]) <= 300


def test_pages_are_read_to_the_end_before_anything_changes():
    world = World([page(pod("a", 3), more="x"), page(pod("b", 4))], [[5]]).run()
    assert [q.get("continue") for verb, q, _ in world.server.asked if verb == "list"][:2] == [None, "x"]
    assert world.uids() == ["a", "b"]


def test_a_list_that_breaks_off_leaves_the_cache_alone():
    world = World(
        [page(pod("a", 3)), page(more="x"), TransportError("cut"), page(pod("a", 3), version=30)],
        [[error(410), 5], [5]],
    )
    seen = []
    world.store.subscribe(seen.append)
    world.run()
    assert len(seen) == 1
    assert world.uids() == ["a"]


def test_a_clean_end_goes_on_from_the_last_bookmark_without_a_pause():
    world = World([page()], [[bookmark(40), 250], [5]]).run()
    assert world.server.verbs()[:3] == ["list", "watch", "watch"]
    _, second, at = world.server.asked[2]
    assert second["resourceVersion"] == "40"
    assert at == 1250


def test_a_clean_end_is_a_sign_of_life():
    """A quiet watch ends, and the first try to open the next one fails: no reason to list again."""
    world = World([page()], [[bookmark(11), 80], TransportError("refused"), [5]]).run()
    assert world.server.verbs()[:4] == ["list", "watch", "watch", "watch"]


def test_an_event_ends_a_row_of_failures():
    cut = TransportError("cut")
    world = World([page()], [*[cut] * 6, [line("ADDED", pod("a", 11)), cut], [5]]).run()
    assert world.server.verbs() == ["list"] + ["watch"] * 9
    times = [at for _, _, at in world.server.asked]
    assert times[7] - times[6] == pytest.approx(6.4)
    assert times[8] - times[7] == pytest.approx(0.2)


@pytest.mark.parametrize("gone", [[error(410)], [ApiError(410, "Expired", "m")]])
def test_gone_in_the_stream_lists_again(gone):
    world = World([page(pod("a", 1)), page(pod("b", 50), version=50)], [[bookmark(11), *gone], [5]]).run()
    assert world.server.verbs()[:4] == ["list", "watch", "list", "watch"]
    assert world.uids() == ["b"]


def test_gone_as_http_status_lists_again():
    world = World([page(), page(version=50)], [ApiError(410, "Gone", "m"), [5]]).run()
    assert world.server.verbs()[:4] == ["list", "watch", "list", "watch"]
    assert world.reflector.relists == 2


@pytest.mark.parametrize("junk", [b"{", b"<html>", StreamError("a line of over 8 MiB")])
def test_an_unreadable_stream_lists_again(junk):
    world = World([page(), page(version=50)], [[bookmark(11), junk], [5]]).run()
    assert world.server.verbs()[:4] == ["list", "watch", "list", "watch"]


def test_a_cut_watch_goes_on_where_it_was():
    world = World([page()], [[line("ADDED", pod("a", 21)), TransportError("reset")], [5]]).run()
    assert world.server.verbs()[:3] == ["list", "watch", "watch"]
    assert world.server.asked[2][1]["resourceVersion"] == "21"


def test_after_a_long_outage_only_a_list_will_do():
    outage = [TransportError("refused")] * 9
    world = World([page(), page(version=50)], [[bookmark(11), TransportError("reset")], *outage, [5]]).run()
    verbs = world.server.verbs()
    assert verbs[0] == "list"
    assert verbs.index("list", 1) > 5, "at first it hopes to go on"
    again = world.server.asked[verbs.index("list", 1)][2]
    assert again - 1000 > 30


def test_a_server_that_ends_every_watch_at_once_is_not_hammered():
    world = World([page()], [[] for _ in range(12)]).run()
    times = [at for verb, _, at in world.server.asked if verb == "watch"]
    assert times[11] - times[0] > 60
    assert world.server.verbs().count("list") <= 2


def test_a_server_that_refuses_every_connection_is_not_hammered():
    world = World([TransportError("refused")] * 12, []).run()
    times = [at for _, _, at in world.server.asked]
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert gaps[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert max(gaps) == 30


def test_retry_after_is_honoured():
    world = World([ApiError(429, "TooManyRequests", "m", retry_after=17.0), page()], [[5]]).run()
    assert world.server.asked[1][2] - world.server.asked[0][2] == 17


def test_a_resource_that_is_not_installed_is_empty_ready_and_polled_slowly():
    absent = ApiError(404, "NotFound", "the server could not find the requested resource")
    world = World([absent, absent, page(pod("a", 3))], [[line("ADDED", pod("b", 11)), 5]])
    ready = []
    world.clock.at(1001, lambda: ready.append((world.store.ready, world.reflector.problem)))
    world.clock.at(1019, lambda: ready.append((world.store.ready, world.reflector.problem)))
    world.run()
    assert ready == [(True, ""), (True, "")]
    assert [at for verb, _, at in world.server.asked if verb == "list"][:3] == [1000, 1010, 1020]
    assert world.uids() == ["a", "b"]


def test_a_resource_that_is_taken_away_empties_its_cache():
    absent = ApiError(404, "NotFound", "m")
    world = World([page(pod("a", 3)), absent], [[bookmark(20), TransportError("cut")], absent]).run()
    assert world.uids() == []
    assert world.store.synced


def test_a_forbidden_verb_is_named_and_keeps_readiness_down():
    world = World([ApiError(403, "Forbidden", "no")], [])
    world.clock.at(1000.1, lambda: seen.append((world.reflector.problem, world.store.ready)))
    seen = []
    world.run()
    assert seen == [("forbidden: list pods", False)]


def test_forbidden_to_watch():
    world = World([page()], [ApiError(403, "Forbidden", "no")])
    seen = []
    world.clock.at(1000.1, lambda: seen.append((world.reflector.problem, world.store.ready)))
    world.run()
    assert seen[0][0] == "forbidden: watch pods"


def test_a_problem_is_over_once_the_watch_is_open():
    seen = []
    world = World([ApiError(500, "InternalError", "etcd"), page()], [])
    world.server.watches = [[lambda: seen.append(world.reflector.problem), 5]]
    world.clock.at(1000.1, lambda: seen.append(world.reflector.problem))
    world.run()
    assert seen == ["list pods: 500 InternalError: etcd", ""]


def test_a_corrupt_object_neither_stops_the_watch_nor_hides_the_others():
    bad = pod("bad", 12, priority="high")
    world = World([page()], [[line("ADDED", bad), line("ADDED", pod("a", 13)), 5]]).run()
    assert world.uids() == ["a"]
    assert [c.metadata.uid for c in world.store.corrupt()] == ["bad"]
    assert world.reflector.relists == 1


def test_a_listener_that_fails_costs_a_list_not_the_thread(caplog):
    world = World([page(), page(pod("a", 11), version=50)], [[line("ADDED", pod("a", 11))], [5]])
    world.store.subscribe(lambda delta: {}["missing"])
    world.run()
    assert world.server.verbs()[:3] == ["list", "watch", "list"]
    assert world.uids() == ["a"]
    assert "KeyError" in caplog.text


def test_a_silent_watch_is_ended_and_readiness_falls_with_it():
    """Ninety seconds without even a bookmark: the connection is half open, whatever TCP believes."""
    world = World([page(), page(version=60)], [])
    watchdog = Watches([world.reflector], world.clock)
    seen = []

    def look():
        watchdog.check(world.server.stop)
        seen.append((world.clock.monotonic() - 1000, world.store.ready))

    world.server.watches = [
        [bookmark(11), *[step for _ in range(100) for step in (1, look)]],
        TransportError("refused"),
    ]
    world.run()
    assert seen[-1] == (91, True), "open and quiet is ready, up to the limit"
    assert world.server.verbs()[1] == "watch"
    assert world.server.verbs()[2] == "list", "what was missed meanwhile is unknown"
    assert not any(at > 1092 and verb == "watch" for verb, _, at in world.server.asked[:2])


EVENTS = dataclasses.replace(PODS, bookmarks=False)


@pytest.mark.parametrize(
    ("source", "first"), [(PODS, []), (EVENTS, [line("ADDED", pod("a", 11))])], ids=["nothing changed", "events"]
)
def test_without_bookmarks_a_watch_may_be_silent_until_the_server_ends_it(source, first):
    """Else all would be listed again every 90 s, and nothing decided meanwhile."""
    world = World([page()], [], source=source)
    watchdog = Watches([world.reflector], world.clock)
    seen = []

    def look():
        watchdog.check(world.server.stop)
        seen.append(world.store.ready)

    world.server.watches = [[*first, 100, look, 100, look, 99], [look]]
    world.run()
    assert seen == [True] * 3
    assert world.server.verbs()[:3] == ["list", "watch", "watch"]


def test_bookmarks_keep_a_quiet_watch_alive():
    world = World([page()], [])
    watchdog = Watches([world.reflector], world.clock)
    quiet = [step for n in range(4) for step in (70, lambda: watchdog.check(world.server.stop), bookmark(11 + n))]
    world.server.watches = [quiet]
    world.run()
    assert world.store.observed == 14
    assert world.server.verbs()[:3] == ["list", "watch", "watch"]


def test_stopping_wakes_a_reader_and_is_no_problem():
    world = World([page()], [])
    watchdog = Watches([world.reflector], world.clock)

    def halt():
        world.server.stop.set()
        watchdog.check(world.server.stop)

    world.server.watches = [[5, halt, 1000]]
    world.run()
    assert world.clock.monotonic() == 1005
    assert world.reflector.problem == ""


def test_watches_tell_what_is_missing():
    world = World([ApiError(403, "Forbidden", "no")], [])
    watches = Watches([world.reflector], world.clock)
    assert not watches.ready
    assert watches.problems() == ["pods: not listed yet"]
    world.clock.at(1000.1, world.server.stop.set)
    world.run()
    assert watches.problems() == ["pods: forbidden: list pods"]
    world.store.replace([], 5)
    world.reflector._tell("")
    assert watches.ready
    assert watches.problems() == []
    world.clock.advance(31)
    assert watches.problems() == ["pods: last seen 31 s ago"]
    assert watches.ages() == {"pods": pytest.approx(31)}
