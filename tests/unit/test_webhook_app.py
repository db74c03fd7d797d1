"""The routes, asked through Flask's client: every call gets an answer, and none leaves a trace."""

import json
import logging

import pytest
from prometheus_client import CollectorRegistry

from policy import names
from tests.unit.webhook_support import JOB, applied, gates, pod, review
from webhook import mutate
from webhook.app import create_app
from webhook.config import Config
from webhook.logs import JsonFormatter
from webhook.metrics import Metrics
from webhook.patch import Operation
from webhook.review import MAX_BODY_BYTES


class Hook:
    """An app with a registry of its own."""

    def __init__(self, **config):
        self.registry = CollectorRegistry()
        self.unready = None
        app = create_app(Config(**config), Metrics(self.registry), lambda: self.unready)
        self.client = app.test_client()

    def post(self, path, question, content_type="application/json"):
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        return self.client.post(path, data=body, content_type=content_type)

    def ask(self, path, question):
        answer = self.post(path, question)
        assert answer.status_code == 200
        assert answer.content_type == "application/json"
        document = answer.get_json()
        assert document["apiVersion"] == "admission.k8s.io/v1"
        assert document["kind"] == "AdmissionReview"
        assert document["response"]["uid"] == question["request"]["uid"]
        return document["response"]

    def count(self, name, **labels):
        return self.registry.get_sample_value(f"ganggate_webhook_{name}", labels) or 0


@pytest.fixture
def hook():
    return Hook()


def patched(document, response):
    import base64

    patch = json.loads(base64.b64decode(response["patch"]))
    return applied(document, tuple(Operation(**operation) for operation in patch))


@pytest.mark.parametrize("policy", ["gang", "hybrid"])
def test_a_member_is_gated_and_then_found_in_order(hook, policy):
    document = pod(controller=JOB)
    response = hook.ask(f"/mutate/{policy}", review(document))
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    stored = patched(document, response)
    assert gates(stored) == [names.GATE]
    assert "patch" not in hook.ask(f"/mutate/{policy}", review(stored)), "an empty patch is left out"
    assert hook.ask(f"/validate/{policy}", review(stored))["allowed"]
    assert hook.count("verdicts_total", entry="mutate", policy=policy, verdict="gated", why="") == 2


def test_a_dry_run_is_answered_alike_and_leaves_no_trace(hook):
    document = pod(controller=JOB)
    wet = hook.ask("/mutate/gang", review(document))
    dry = hook.ask("/mutate/gang", review(document, dryRun=True))
    assert wet == dry


def test_a_refusal_is_said(hook):
    response = hook.ask("/mutate/gang", review(pod(gpus=1, nodeName="n1")))
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert "spec.nodeName" in response["status"]["message"]
    assert hook.count("verdicts_total", entry="mutate", policy="gang", verdict="refused", why="node-name") == 1


def test_updates_and_gate_removal_have_their_paths(hook):
    held = pod(controller=JOB, schedulingGates=[{"name": names.GATE}])
    bare = pod(controller=JOB)
    removal = review(bare, old=held, operation="UPDATE")
    assert hook.ask("/validate/gate-removal", removal)["status"]["code"] == 403
    forged = pod(controller=JOB, labels={names.LABEL_GROUP: "forged"})
    assert hook.ask("/validate/binpack", review(forged, old=bare, operation="UPDATE"))["status"]["code"] == 403
    assert hook.ask("/validate/binpack", review(bare, old=bare, operation="UPDATE"))["allowed"]


def test_a_pod_of_more_than_a_mebibyte_works(hook):
    document = pod(controller=JOB, annotations={f"key-{i}": "v" * 200 for i in range(1000)})
    document["spec"]["containers"][0]["env"] = [{"name": "BIG", "value": "x" * 2**20}]
    stored = patched(document, hook.ask("/mutate/gang", review(document)))
    assert len(stored["metadata"]["annotations"]) == 1000
    assert hook.ask("/validate/gang", review(stored))["allowed"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kind":"AdmissionReview"}', b"\x00"])
def test_malformed_calls_are_http_400_with_a_reason(hook, body):
    answer = hook.post("/mutate/gang", body)
    assert answer.status_code == 400
    assert answer.text.strip()
    assert hook.count("bad_calls_total", code="400") == 1


def test_a_wrong_content_type_is_http_400(hook):
    answer = hook.post("/mutate/gang", review(pod()), "text/plain")
    assert answer.status_code == 400
    assert "Content-Type" in answer.text


def test_a_body_above_the_bound_is_http_413(hook):
    answer = hook.post("/mutate/gang", b"x" * (MAX_BODY_BYTES + 1))
    assert answer.status_code == 413
    assert str(MAX_BODY_BYTES) in answer.text
    assert hook.post("/mutate/gang", b"x" * MAX_BODY_BYTES).status_code == 400


@pytest.mark.parametrize("path", ["/mutate/nope", "/mutate/gate-removal", "/validate/nope", "/mutate/", "/other"])
def test_an_unknown_path_is_http_404(hook, path):
    assert hook.post(path, review(pod())).status_code == 404


def test_an_unknown_policy_names_the_known_ones(hook):
    assert "gang, binpack, hybrid" in hook.post("/mutate/nope", review(pod())).text


def test_a_wrong_method_is_http_405(hook):
    assert hook.client.get("/mutate/gang").status_code == 405


def test_a_fault_of_ours_is_an_answer_counted_and_logged_without_the_object(hook, monkeypatch, caplog):
    def fail(*_):
        raise KeyError("the secret of the pod")

    monkeypatch.setattr(mutate, "change", fail)
    with caplog.at_level(logging.ERROR):
        response = hook.ask("/mutate/gang", review(pod(labels={"secret": "of the pod"})))
    assert response["allowed"] is False
    assert response["status"]["code"] == 500
    assert "705ab4f5" in response["status"]["message"]
    assert hook.count("verdicts_total", entry="mutate", policy="gang", verdict="error", why="KeyError") == 1
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert any('"error": "KeyError"' in line and "test_webhook_app.py" in line for line in lines)
    assert "secret" not in "".join([*lines, json.dumps(response)])


def test_a_fault_outside_a_review_is_http_500_without_details(hook):
    def fail():
        raise KeyError("secret")

    hook.client.application.view_functions["healthz"] = fail
    answer = hook.client.get("/healthz")
    assert (answer.status_code, answer.text) == (500, "internal error\n")


def test_logs_hold_where_and_what_was_refused_but_not_the_object(hook, caplog):
    with caplog.at_level(logging.DEBUG):
        hook.ask("/mutate/gang", review(pod(gpus=1, nodeName="secret-node")))
        hook.ask("/mutate/gang", review(pod(labels={"secret": "x"})))
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == "webhook"]
    assert [(line["message"], line["why"], line["namespace"]) for line in lines] == [
        ("refused", "node-name", "training"),
        ("passed", "alone", "training"),
    ]
    assert "secret" not in json.dumps(lines)


def test_health_does_not_depend_on_readiness(hook):
    assert hook.client.get("/readyz").status_code == 200
    hook.unready = "draining"
    answer = hook.client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "draining\n")
    assert hook.client.get("/healthz").status_code == 200


def test_metrics_are_those_of_the_registry_that_was_handed_in(hook):
    hook.ask("/mutate/gang", review(pod()))
    text = hook.client.get("/metrics").text
    assert 'ganggate_webhook_request_duration_seconds_count{entry="mutate"} 1.0' in text
    assert "ganggate_webhook_requests_in_flight 0.0" in text
    assert "ganggate_webhook_certificate_expiry_timestamp_seconds" in text
    assert "python_gc" not in text


def test_the_configuration_reaches_the_rules():
    document = pod(controller=JOB, schedulerName="volcano")
    assert "patch" not in Hook(live_schedulers=("volcano",)).ask("/mutate/gang", review(document))
    packed = Hook(binpack_scheduler_name="binpack-scheduler").ask("/mutate/hybrid", review(document))
    assert patched(document, packed)["spec"]["schedulerName"] == "binpack-scheduler"
