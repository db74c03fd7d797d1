"""Whatever is sent, the answer is 200, 400 or 413, in the form that the API server expects."""

import base64
import json
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tests.unit.webhook_support import JOB, pod, review
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics

PATHS = st.sampled_from(
    [
        "/mutate/gang",
        "/mutate/binpack",
        "/mutate/hybrid",
        "/validate/gang",
        "/validate/hybrid",
        "/validate/gate-removal",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@cache
def client():
    return create_app(Config(), Metrics(CollectorRegistry()), lambda: None).test_client()


def call(path, body):
    return client().post(path, data=body, content_type="application/json")


def check(answer):
    assert answer.status_code in (200, 400, 413)
    if answer.status_code != 200:
        assert answer.text.strip()
        return
    response = answer.get_json()["response"]
    assert response["uid"]
    assert ("patch" in response) == ("patchType" in response)
    assert response.get("status", {}).get("code") != 500, response
    assert response["allowed"] or response["status"]["message"]
    json.loads(base64.b64decode(response.get("patch", "W10=")))


@settings(max_examples=150, deadline=None)
@given(PATHS, st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_bodies(path, body):
    check(call(path, body))


def places(document, path=()):
    """Every place in a JSON document."""
    yield path
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in children:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def replaced(document, path, value):
    if not path:
        return value
    copied = document.copy()
    copied[path[0]] = replaced(copied[path[0]], path[1:], value)
    return copied


WHOLE = review(
    pod(controller=JOB, gpus=1, labels={"a": "b"}, annotations={"c": "d"}, affinity={"podAffinity": {}}),
    old=pod(controller=JOB, schedulingGates=[{"name": "ganggate.io/gang"}]),
)
PLACES = list(places(WHOLE))


@settings(max_examples=300, deadline=None)
@given(PATHS, st.sampled_from(["CREATE", "UPDATE"]), st.sampled_from(PLACES), ANYTHING)
def test_a_review_with_any_one_part_replaced(path, operation, place, value):
    whole = replaced(WHOLE, ("request", "operation"), operation)
    check(call(path, json.dumps(replaced(whole, place, value)).encode()))


@settings(max_examples=60, deadline=None)
@given(PATHS, st.integers(0, len(json.dumps(WHOLE))))
def test_a_review_cut_off_anywhere(path, length):
    check(call(path, json.dumps(WHOLE).encode()[:length]))
