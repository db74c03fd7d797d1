"""`ganggate queues apply`: a table becomes Queues; a table that cannot be used writes nothing."""

import json

import pytest
import yaml

from policy.gatekeeper.errors import ApiError
from policy.rules.queue_table import manifest, read
from tests.unit.cli_support import FakeWorld, run

TABLE = """
queues:
- {name: team-a, weight: 4, capability: {nvidia.com/gpu: 32}, reclaimable: true, policy: gang}
- {name: team-b, guarantee: {cpu: 500m}, deserved: {cpu: 1e3}, parent: team-a, priority: 3}
"""
PATH = "/apis/scheduling.volcano.sh/v1beta1/queues/"


class Api:
    """Holds queues by name; refuses those that it is told to."""

    host = "https://127.0.0.1:1"

    def __init__(self, refuse=()):
        self.held, self.writes, self.refuse = {}, [], set(refuse)

    def get(self, path):
        name = path.removeprefix(PATH)
        if name not in self.held:
            raise ApiError(404, "NotFound", f"queues {name!r} not found")
        return self._answer(name)

    def request(self, method, path, *, body, content_type, query):
        name = path.removeprefix(PATH)
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        if name in self.refuse:
            raise ApiError(422, "Invalid", f"Queue {name!r} is invalid: spec.weight")
        self.writes.append((name, body, query))
        if self.held.get(name, (None,))[0] != body and "dryRun" not in query:
            self.held[name] = (body, len(self.writes))
        return self._answer(name) if name in self.held else b'{"metadata":{"resourceVersion":"0"}}'

    def _answer(self, name):
        return json.dumps({"metadata": {"name": name, "resourceVersion": str(self.held[name][1])}}).encode()


def applied(api, text=TABLE, *args):
    return run(FakeWorld(client=api), "queues", "apply", "-f", "-", *args, stdin=text)


def test_each_row_becomes_a_queue_and_again_changes_nothing():
    api = Api()
    first = applied(api)
    assert (first.exit_code, first.stdout) == (0, "queue/team-a created\nqueue/team-b created\n")
    assert api.writes[0] == (
        "team-a",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "team-a", "annotations": {"ganggate.io/policy": "gang"}},
            "spec": {"weight": 4, "capability": {"nvidia.com/gpu": 32}, "reclaimable": True},
        },
        {"fieldManager": "ganggate-queues", "force": "true"},
    )
    assert api.writes[1][1]["spec"] == {
        "guarantee": {"resource": {"cpu": "500m"}},
        "deserved": {"cpu": "1e3"},
        "parent": "team-a",
        "priority": 3,
    }
    assert applied(api).stdout == "queue/team-a unchanged\nqueue/team-b unchanged\n"
    assert applied(api, TABLE.replace("weight: 4", "weight: 5")).stdout.startswith("queue/team-a configured\n")


def test_a_dry_run_changes_nothing():
    api = Api()
    assert applied(api, TABLE, "--dry-run").stdout == "queue/team-a created (dry run)\nqueue/team-b created (dry run)\n"
    assert api.held == {}
    assert {query["dryRun"] for _, _, query in api.writes} == {"All"}


def test_one_that_is_refused_keeps_no_other_from_being_written():
    result = applied(Api(refuse=["team-a"]))
    assert result.exit_code == 1
    assert result.stdout == "queue/team-b created\n"
    assert result.stderr == "queue/team-a refused: Queue 'team-a' is invalid: spec.weight\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queues: [{name: a, colour: red}]", "unknown field `colour`"),
        ("queues: [{weight: 1}]", "missing required field `name`"),
        ("queues: [{name: ''}]", "name: '' is no name of an object"),
        ("queues: [{name: a/../b}]", "name: 'a/../b' is no name of an object"),
        ("queues: [{name: a}, {name: a}]", "queues: 'a' stands there twice"),
        ("queues: [{name: a, weight: 0}]", "queue a: weight: 0: must be 1 to 65535"),
        ("queues: [{name: a, capability: {cpu: many}}]", "queue a: capability: cpu: not a quantity: 'many'"),
        ("queues: [{name: a, guarantee: {cpu: -1}}]", "queue a: guarantee: cpu: -1 is less than 0"),
        ("queues: [{name: a, policy: fair}]", "Invalid enum value 'fair'"),
        ("- a", "Expected `object`, got `array`"),
        ("", "Expected `object`, got `null`"),
        ("queues: [", "expected"),
    ],
)
def test_a_table_that_cannot_be_used_writes_nothing(text, told):
    api = Api()
    result = applied(api, text)
    assert result.exit_code == 2
    assert told in result.stderr
    assert api.writes == []


def test_a_file_that_is_not_there_is_named(tmp_path):
    result = run(FakeWorld(client=Api()), "queues", "apply", "-f", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml" in result.stderr


def test_what_a_row_leaves_out_is_left_alone():
    (row,) = read(yaml.safe_load("queues: [{name: a}]"))
    assert manifest(row)["spec"] == {}
    assert "annotations" not in manifest(row)["metadata"]
