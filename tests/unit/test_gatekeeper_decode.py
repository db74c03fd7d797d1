"""Lists, watch lines and errors as they come off the wire."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gatekeeper.cache import Corrupt
from policy.gatekeeper.decode import Decoder
from policy.gatekeeper.errors import ApiError, StreamError, TransportError, api_error
from policy.gatekeeper.source import Source
from policy.rules.objects import Pod, PodGroup

PODS = Decoder(Pod)
GOOD = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5"}, "spec": {"nodeName": "x"}}


def listing(*items, **meta):
    return json.dumps({"metadata": {"resourceVersion": "9"} | meta, "items": list(items)}).encode()


def event(kind, item):
    return json.dumps({"type": kind, "object": item}).encode()


def test_a_page():
    page = PODS.page(listing(GOOD, **{"continue": "tok"}))
    assert (page.version, page.next) == ("9", "tok")
    assert page.items[0].spec.node_name == "x"
    assert PODS.page(listing()).next == ""
    assert PODS.page(b'{"metadata":{"resourceVersion":"1"},"items":null}').items == []


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b'{"items":[]}', b'{"metadata":{},"items":[]}', b'{"metadata":{"resourceVersion":"1"}}'],
)
def test_what_is_no_list_must_not_empty_a_cache(body):
    with pytest.raises(StreamError):
        PODS.page(body)


def test_nulls_where_go_writes_an_empty_slice_or_map():
    item = GOOD | {"spec": {"containers": None, "tolerations": [None], "nodeName": None, "nodeSelector": None}}
    pod = PODS.item(json.dumps(item).encode())
    assert isinstance(pod, Pod)
    assert pod.spec.containers == ()
    assert pod.spec.tolerations == ()


def test_a_corrupt_object_keeps_its_name_and_spoils_nothing_else():
    bad = {
        "metadata": {"name": "b", "namespace": "n", "uid": "v", "resourceVersion": "6"},
        "spec": {"minMember": "many"},
    }
    page = Decoder(PodGroup).page(listing({"metadata": GOOD["metadata"]}, bad))
    good, corrupt = page.items
    assert isinstance(good, PodGroup)
    assert isinstance(corrupt, Corrupt)
    assert corrupt.metadata.uid == "v"
    assert corrupt.metadata.resource_version == "6"
    assert "minMember" in corrupt.error


@pytest.mark.parametrize("item", [3, [], {}, {"metadata": 4}, {"metadata": {"name": 7, "uid": "z"}, "spec": 1}])
def test_the_worst_object_is_still_only_one_object(item):
    assert isinstance(PODS.item(json.dumps(item).encode()), Pod | Corrupt)


def test_watch_lines():
    added = PODS.event(event("ADDED", GOOD))
    assert (added.kind, added.version, added.item.metadata.uid) == ("ADDED", "5", "u")
    bookmark = PODS.event(event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "77"}, "spec": None}))
    assert (bookmark.kind, bookmark.version, bookmark.item) == ("BOOKMARK", "77", None)
    corrupt = PODS.event(event("MODIFIED", GOOD | {"spec": {"priority": "high"}}))
    assert corrupt.version == "5"
    assert isinstance(corrupt.item, Corrupt)


def test_an_error_event_is_an_api_error():
    status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(ApiError) as caught:
        PODS.event(event("ERROR", status))
    assert caught.value.is_gone
    assert str(caught.value) == "410 Expired: too old"


@pytest.mark.parametrize("line", [b"", b"{", b'{"type":"ADDED"}', b'{"type":"BOOKMARK","object":{}}', b'{"type":1}'])
def test_a_line_that_is_no_event(line):
    with pytest.raises(StreamError):
        PODS.event(line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_any_json_is_an_object_or_a_corrupt_one(data):
    item = PODS.item(msgspec.json.encode({"metadata": GOOD["metadata"], "spec": data}))
    assert item.metadata.uid == "u"


def test_errors_from_a_status_object():
    body = b'{"kind":"Status","reason":"Conflict","message":"changed","code":409}'
    error = api_error(409, "Conflict", body)
    assert error.is_conflict
    assert not error.is_gone
    assert (error.status, error.reason, error.message, error.retry_after) == (409, "Conflict", "changed", None)


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        ("7", b"{}", 7),
        (None, b'{"details":{"retryAfterSeconds":3}}', 3),
        ("7", b'{"details":{"retryAfterSeconds":3}}', 7),
        ("Wed, 21 Oct 2026 07:28:00 GMT", b"{}", None),
        (None, b'{"details":{"retryAfterSeconds":0}}', None),
    ],
)
def test_when_to_come_back(header, body, seconds):
    error = api_error(429, "Too Many Requests", body, header)
    assert error.is_overload
    assert error.retry_after == seconds


def test_an_answer_that_is_no_status_object_is_told_shortly():
    error = api_error(502, "Bad Gateway", b"<html>" + b"x" * 100_000)
    assert error.reason == "Bad Gateway"
    assert 0 < len(error.message) <= 2048


@pytest.mark.parametrize(
    ("status", "predicate"), [(401, "is_unauthorized"), (403, "is_forbidden"), (404, "is_not_found"), (410, "is_gone")]
)
def test_predicates(status, predicate):
    assert getattr(ApiError(status, "r", "m"), predicate)
    assert not getattr(ApiError(500, "r", "m"), predicate)


def test_no_answer_is_an_api_error_without_a_status():
    error = TransportError("GET /x: refused")
    assert error.status == 0
    assert not (error.is_conflict or error.is_overload)


def test_source_paths_and_names():
    pods = Source("", "v1", "pods", Pod, field_selector="status.phase!=Succeeded")
    groups = Source("g.example", "v1beta1", "podgroups", PodGroup, label_selector="a=b", metadata_only=True)
    assert (pods.path, pods.name) == ("/api/v1/pods", "pods")
    assert (groups.path, groups.name) == ("/apis/g.example/v1beta1/podgroups", "podgroups.g.example")
    assert pods.selectors == {"fieldSelector": "status.phase!=Succeeded"}
    assert groups.selectors == {"labelSelector": "a=b"}
    assert pods.list_accept == pods.watch_accept == "application/json"
    assert "as=PartialObjectMetadataList;" in groups.list_accept
    assert "as=PartialObjectMetadata;" in groups.watch_accept
