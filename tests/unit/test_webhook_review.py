"""AdmissionReview at the door: what is a bad call, what is a bad object, and how an answer looks on the wire."""

import base64
import json

import pytest

from policy import names
from tests.unit.webhook_support import JOB, pod, review
from webhook import answers
from webhook.config import Config
from webhook.patch import add
from webhook.review import MAX_BODY_BYTES, Answer, BadCallError, BadObjectError, decode, encode

JSON = "application/json"


def request(document=None, **about):
    return decode(json.dumps(review(document, **about)).encode(), JSON)


def without(field):
    question = review(pod())
    del question["request"][field]
    return question


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"\xff", "body"),
        (b"[" * 100_000, "body"),
        (b'{"request":' + b'{"object":' * 50_000, "body"),
        (json.dumps(without("uid")), "request.uid"),
        (json.dumps(without("namespace")), "request.namespace"),
        (json.dumps(without("operation")), "operation"),
        (json.dumps(without("kind")), "request.kind"),
        (json.dumps({**review(pod()), "request": None}), "request: missing"),
        (json.dumps({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}), "v1beta1"),
        (json.dumps({**review(pod()), "kind": "Pod"}), "'Pod'"),
        (json.dumps({}), "apiVersion"),
        (json.dumps(review(pod(), operation="MELT")), "MELT"),
        (json.dumps(review(pod(), kind={"group": "apps", "version": "v1", "kind": "Deployment"})), "Deployment"),
        (json.dumps(review(pod(), uid=7)), "uid"),
    ],
)
def test_a_call_that_is_no_review_is_a_bad_call_and_says_why(body, why):
    with pytest.raises(BadCallError) as caught:
        decode(body if isinstance(body, bytes) else body.encode(), JSON)
    assert caught.value.status == 400
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/yaml", "application/jsonp"])
def test_a_wrong_content_type_is_a_bad_call(content_type):
    with pytest.raises(BadCallError, match="Content-Type"):
        decode(json.dumps(review(pod())).encode(), content_type)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_json_with_parameters_too(content_type):
    assert decode(json.dumps(review(pod())).encode(), content_type).namespace == "training"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (None, "request.object"),
        ("text", "object"),
        ({"spec": 7}, "spec"),
        ({"spec": {"containers": None}}, "containers"),
        ({"metadata": {"labels": {"a": 1}}}, "labels"),
        ({"spec": {"schedulingGates": [{}]}}, "name"),
    ],
)
def test_an_object_that_is_no_pod_is_a_bad_object_and_denied(document, field):
    call = request(document)
    with pytest.raises(BadObjectError, match=field):
        call.pod()
    answer = answers.on_mutate(call, names.Policy.GANG, Config())
    assert (answer.allowed, answer.code, answer.why) == (False, 422, "unreadable")
    assert field in answer.message


def test_an_old_object_that_is_missing_is_said():
    answer = answers.on_validate(request(pod(), operation="UPDATE"), names.Policy.GANG, Config())
    assert answer.message == "request.oldObject: missing"
    assert answers.on_gate_removal(request(pod(), operation="UPDATE")).code == 422


@pytest.mark.parametrize("about", [{"operation": "DELETE"}, {"operation": "CONNECT"}, {"subResource": "status"}])
def test_what_no_rule_is_about_passes(about):
    call = request(None, **about)
    assert answers.on_mutate(call, names.Policy.GANG, Config()).allowed
    assert answers.on_validate(call, names.Policy.GANG, Config()).allowed
    assert answers.on_gate_removal(call).allowed


def test_an_update_is_not_mutated():
    answer = answers.on_mutate(request(pod(controller=JOB), operation="UPDATE"), names.Policy.GANG, Config())
    assert (answer.allowed, answer.operations) == (True, ())


def test_an_answer_echoes_uid_version_and_kind():
    document = json.loads(encode("the-uid", Answer("passed")))
    assert document == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "the-uid", "allowed": True},
    }


def test_patch_and_its_type_come_together():
    response = json.loads(encode("u", Answer("gated", operations=(add("x", "metadata", "labels", "a/b"),))))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}
    ]


def test_a_denial_carries_status_and_no_patch():
    response = json.loads(encode("u", Answer("refused", "why", 403, "message")))["response"]
    assert response == {
        "uid": "u",
        "allowed": False,
        "status": {"code": 403, "message": "message", "reason": "Forbidden"},
    }


def test_the_bound_holds_two_objects_of_the_api_servers_largest_request():
    assert MAX_BODY_BYTES > 2 * 3 * 1024 * 1024
