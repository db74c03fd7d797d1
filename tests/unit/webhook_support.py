"""Pods, requests and reviews for the webhook's tests. Plain dictionaries, as they are on the wire."""

import base64
import copy
import json
from typing import Any

import jsonpatch
import msgspec

from policy import names
from policy.rules.objects import Pod
from webhook.config import Config
from webhook.eligibility import Facts
from webhook.patch import Operation

Json = dict[str, Any]

ALICE = ("alice", ("system:authenticated",))
KUBELET = ("system:node:n1", ("system:nodes", "system:authenticated"))
DAEMONS = ("system:serviceaccount:kube-system:daemon-set-controller", ("system:serviceaccounts",))
GPU = "nvidia.com/gpu"


def owner(kind: str, name: str = "owner", uid: str = "1-2-3", version: str = "batch/v1") -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


JOB = owner("Job", "pytorch-train")
DAEMON_SET = owner("DaemonSet", version="apps/v1")
REPLICA_SET = owner("ReplicaSet", version="apps/v1")


def pod(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    controller: Json | None = None,
    gpus: int = 0,
    **spec: Any,
) -> Json:
    """A pod as a mutating webhook sees one of a controller: neither name nor uid."""
    meta: Json = {"generateName": "x-"}
    if labels is not None:
        meta["labels"] = labels
    if annotations is not None:
        meta["annotations"] = annotations
    if controller is not None:
        meta["ownerReferences"] = [controller]
    container: Json = {"name": "main", "image": "registry.k8s.io/pause", "resources": {}}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
        "status": {},
    }


def typed(document: Json) -> Pod:
    return msgspec.json.decode(json.dumps(document), type=Pod)


def facts(
    policy: str = "gang", *, user: tuple[str, tuple[str, ...]] = ALICE, namespace: str = "training", **config: Any
) -> Facts:
    return Facts(namespace, user[0], user[1], names.Policy(policy), Config(**config))


def applied(document: Json, operations: tuple[Operation, ...]) -> Json:
    """The pod after the patch, by somebody else's implementation of RFC 6902."""
    patch = json.loads(msgspec.json.encode(operations))
    return jsonpatch.apply_patch(copy.deepcopy(document), patch)


def gates(document: Json) -> list[str]:
    return [gate["name"] for gate in document["spec"].get("schedulingGates", [])]


def label_of(document: Json) -> str | None:
    return document["metadata"].get("labels", {}).get(names.LABEL_GROUP)


def annotation_of(document: Json, key: str) -> str | None:
    return document["metadata"].get("annotations", {}).get(key)


def review(
    document: Json | None,
    *,
    old: Json | None = None,
    operation: str = "CREATE",
    user: tuple[str, tuple[str, ...]] = ALICE,
    namespace: str = "training",
    **more: Any,
) -> Json:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": operation,
            "userInfo": {"username": user[0], "groups": list(user[1])},
            "object": document,
            "oldObject": old,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **more,
        },
    }


def patch_of(response: Json) -> list[Json]:
    """The operations of an AdmissionReview's answer."""
    return json.loads(base64.b64decode(response["response"].get("patch", "")) or b"[]")
