"""`ganggate release`: our gate only, from what was listed, whatever happens meanwhile. The real server: tests/cluster."""

import json
import threading

import msgspec
import pytest

from policy import names
from policy.cli import releasing
from policy.gatekeeper.errors import ApiError, TransportError
from tests.unit.cli_support import FakeWorld, run
from tests.unit.rules_facts import job, snapshot
from tests.unit.rules_facts import pods as facts_of

FOREIGN = {"name": "example.com/other"}
GATE = {"name": names.GATE}


class FakeApi:
    """Pods by path, with the few answers of an API server that a release meets; faults by pod name."""

    host = "https://fake"

    def __init__(self, *pods):
        self.pods = {path_of(p["metadata"]): p for p in pods}
        self.faults = {}  # pod name -> errors to raise, the first first
        self.later = []  # pods that appear after the first list
        self.calls = []
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0

    def request(self, method, path, *, query=None, body=None, **_):
        with self.lock:
            self.calls.append((method, path, query))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.patch(path, body, query) if method == "PATCH" else self.list(path)
        finally:
            with self.lock:
                self.at_once -= 1

    def get(self, path, query=None, timeout=None):
        if path not in self.pods:
            raise ApiError(404, "NotFound", "not found")
        return msgspec.json.encode(self.pods[path])

    def list(self, path):
        inside = "" if path == "/api/v1/pods" else path.removesuffix("/pods")
        items = [p for at, p in self.pods.items() if at.startswith(inside)]
        while self.later:
            late = self.later.pop()
            self.pods[path_of(late["metadata"])] = late
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})

    def patch(self, path, body, query):
        name = path.rpartition("/")[2]
        if self.faults.get(name):
            raise self.faults[name].pop(0)
        if path not in self.pods:
            raise ApiError(404, "NotFound", f'pods "{name}" not found')
        found = self.pods[path]
        if found["metadata"]["uid"] != body["metadata"]["uid"]:
            raise ApiError(409, "Conflict", f"Precondition failed: UID in precondition: {body['metadata']['uid']}")
        assert body["spec"] == {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
        if "dryRun" not in query:
            found["spec"]["schedulingGates"].remove(GATE)
        return b"{}"

    def gates(self, name, ns="team"):
        return [g["name"] for g in self.pods[f"/api/v1/namespaces/{ns}/pods/{name}"]["spec"]["schedulingGates"]]


def path_of(meta):
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def pod(name, *gates, ns="team", uid=None):
    meta = {"name": name, "namespace": ns, "uid": uid or f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"schedulingGates": list(gates or [GATE])}}


def release(api, *args, facts=None):
    return run(FakeWorld(facts or snapshot(), client=api), "release", *args)


def refusal(message, status=403):
    return ApiError(status, "Forbidden", message)


def test_all_releases_what_carries_our_gate_and_touches_no_other():
    api = FakeApi(pod("a"), pod("b", FOREIGN, GATE), pod("c", FOREIGN), pod("d", ns="there"))
    result = release(api, "--all", "--yes")
    assert (result.exit_code, result.stdout) == (0, "released 3 pods in 2 namespaces\n")
    assert (api.gates("a"), api.gates("b"), api.gates("c")) == ([], [FOREIGN["name"]], [FOREIGN["name"]])
    assert not any("/c" in path for method, path, _ in api.calls if method == "PATCH")


def test_all_of_a_namespace_is_that_namespace_only():
    api = FakeApi(pod("a"), pod("d", ns="there"))
    assert release(api, "--all", "-y", "-n", "there").stdout == "released 1 pod in 1 namespace\n"
    assert api.gates("a") == [names.GATE]
    assert api.calls[0][1] == "/api/v1/namespaces/there/pods", "the right to list all is not needed"


def test_the_context_s_namespace_does_not_narrow_all():
    assert release(FakeApi(pod("d", ns="there")), "--all", "-y").stdout == "released 1 pod in 1 namespace\n"


def test_nothing_to_release_is_no_failure():
    result = release(FakeApi(pod("c", FOREIGN)), "--all")
    assert (result.exit_code, result.stdout) == (0, f"no pod carries the gate {names.GATE}\n")


def test_a_pod_that_vanished_or_lives_again_counts_as_gone():
    api = FakeApi(pod("a"), pod("b"), pod("c"))
    listed = releasing.gated(api)
    targets = list(listed)
    del api.pods[path_of(pod("b")["metadata"])]
    api.pods[path_of(pod("c")["metadata"])] = pod("c", uid="another life")
    ends = {a.name: a.end for a in releasing.release(api, targets, tell=lambda _: None)}
    assert ends == {"a": "released", "b": "gone", "c": "gone"}
    assert api.gates("c") == [names.GATE], "another pod than the one that was listed"


def test_refusals_are_counted_said_once_and_exit_1():
    api = FakeApi(*(pod(f"p-{i}") for i in range(5)))
    for i in range(4):
        api.faults[f"p-{i}"] = [refusal(f'pods "p-{i}" is forbidden: policy x denied it')]
    result = release(api, "--all", "-y")
    assert result.exit_code == 1
    assert result.stdout == "released 1 pod in 1 namespace, 4 refused\n"
    assert result.stderr == 'error: 4 pods refused, such as team/p-0: pods "…" is forbidden: policy x denied it\n'


def test_a_conflict_about_anything_but_the_uid_is_a_refusal():
    api = FakeApi(pod("a"))
    api.faults["a"] = [refusal("the object has been modified", 409)]
    assert release(api, "--all", "-y").exit_code == 1


def test_json_has_the_counts_and_every_refusal():
    api = FakeApi(pod("a"), pod("b"))
    api.faults["b"] = [refusal("no")]
    assert json.loads(release(api, "--all", "-y", "-o", "json").stdout) == {
        "dryRun": False,
        "released": 1,
        "gone": 0,
        "refused": [{"namespace": "team", "name": "b", "message": "no"}],
    }


def test_pods_made_meanwhile_are_released_too():
    api = FakeApi(pod("a"))
    api.later.append(pod("late"))
    assert release(api, "--all", "-y").stdout == "released 2 pods in 1 namespace\n"


def test_pods_that_are_made_for_ever_do_not_hold_it_for_ever():
    class Busy(FakeApi):
        def list(self, path):
            answer = super().list(path)
            name = f"new-{len(self.calls)}"
            self.pods[path_of(pod(name)["metadata"])] = pod(name)
            return answer

    api = Busy(pod("a"))
    assert release(api, "--all", "-y").stdout == f"released {releasing.PASSES} pods in 1 namespace\n"


def test_an_overloaded_server_is_asked_again(monkeypatch):
    monkeypatch.setattr(releasing, "FIRST_PAUSE", 0.001)
    api = FakeApi(pod("a"), pod("b"))
    api.faults["a"] = [ApiError(429, "TooManyRequests", "later", retry_after=0.001), TransportError("reset")]
    assert release(api, "--all", "-y").stdout == "released 2 pods in 1 namespace\n"


def test_a_server_that_stays_overloaded_is_a_refusal(monkeypatch):
    monkeypatch.setattr(releasing, "FIRST_PAUSE", 0.001)
    api = FakeApi(pod("a"))
    api.faults["a"] = [ApiError(503, "ServiceUnavailable", "etcd is gone") for _ in range(releasing.TRIES)]
    result = release(api, "--all", "-y")
    assert (result.exit_code, result.stderr) == (1, "error: 1 pod refused, such as team/a: etcd is gone\n")


def test_a_lost_server_ends_it_without_trying_the_rest(monkeypatch):
    monkeypatch.setattr(releasing, "FIRST_PAUSE", 0.001)
    api = FakeApi(*(pod(f"p-{i:04}") for i in range(600)))
    for i in range(600):
        api.faults[f"p-{i:04}"] = [TransportError("connection refused") for _ in range(releasing.TRIES)]
    result = release(api, "--all", "-y")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: API server https://fake: no answer: connection refused\n"
    assert len(api.calls) < 600 * releasing.TRIES, "what had not begun was left"


def test_at_most_64_patches_at_once():
    class Slow(FakeApi):
        def patch(self, *args):
            threading.Event().wait(0.002)
            return super().patch(*args)

    api = Slow(*(pod(f"p-{i}") for i in range(400)))
    assert release(api, "--all", "-y").stdout == "released 400 pods in 1 namespace\n"
    assert 1 < api.most_at_once <= releasing.CONCURRENCY == 64


def test_a_dry_run_asks_the_server_and_changes_nothing():
    api = FakeApi(pod("a"), pod("b"))
    api.faults["b"] = [refusal("no")]
    result = release(api, "--all", "--dry-run")
    assert (result.exit_code, result.stdout) == (1, "would release 1 pod in 1 namespace, 1 refused\n")
    assert api.gates("a") == [names.GATE]
    assert all(query["dryRun"] == "All" for method, _, query in api.calls if method == "PATCH")


def test_without_yes_somebody_must_be_there_to_answer():
    api = FakeApi(pod("a"))
    result = release(api, "--all")
    assert (result.exit_code, result.stderr) == (2, "error: --yes: needed where nobody can be asked\n")
    assert api.gates("a") == [names.GATE]


@pytest.mark.parametrize("typed, code, gates", [("y\n", 0, []), ("n\n", 130, [names.GATE]), ("\n", 130, [names.GATE])])
def test_the_question_is_answered_by_yes_only(monkeypatch, typed, code, gates):
    monkeypatch.setattr("policy.cli.release.attended", lambda: True)
    api = FakeApi(pod("a"))
    result = run(FakeWorld(snapshot(), client=api), "release", "--all", stdin=typed)
    assert (result.exit_code, api.gates("a")) == (code, gates)
    assert "Remove the gate from 1 pod of 1 namespace? Gangs may start in part. [y/N]" in result.stderr


def test_a_group_s_members_only():
    facts = snapshot(jobs=[job("j", 2), job("k", 1)], pods=[*facts_of(2, "j", job="j"), *facts_of(1, "k", job="k")])
    api = FakeApi(*(pod(name, uid=f"team/{name}") for name in ("j-0", "j-1", "k-0")))
    assert release(api, "j", "-y", facts=facts).stdout == "released 2 pods in 1 namespace\n"
    assert api.gates("k-0") == [names.GATE]


def test_a_group_that_is_not_there_is_3():
    result = release(FakeApi(), "nothing", "-y")
    assert result.exit_code == 3
