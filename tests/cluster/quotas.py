"""Namespaces with quotas, and gangs of Jobs that compete for them: what the tests of quota truth and cures share."""

import json

from policy import names
from tests.cluster.conftest import wait_until

GPU_KEY = "requests.nvidia.com/gpu"


def quota(namespace, name="quota", *, scopes=(), selector=(), **hard):
    """`hard` by key; underscores stand for nothing, so keys come as a dict under `hard`."""
    spec = {"hard": hard.pop("hard")}
    if scopes:
        spec["scopes"] = list(scopes)
    if selector:
        spec["scopeSelector"] = {"matchExpressions": list(selector)}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def limit(kubectl, namespace, *found):
    """Quotas that are in force: before their status tells what they allow, every pod passes."""
    kubectl.create(list(found))

    def told():
        listed = kubectl.json("get", "resourcequotas", "-n", namespace)["items"]
        return {q["metadata"]["name"]: q.get("status", {}).get("hard") == q["spec"]["hard"] for q in listed}

    wait_until(lambda: all(told()[q["metadata"]["name"]] for q in found), what="the quotas in force")


def member(*, gpus=1, cpu=None, run="2s", gang="", annotations=None):
    """A pod template; it completes `run` after it was bound."""
    notes = {f"pod-complete.stage.kwok.x-k8s.io/{k}": run for k in ("delay", "jitter-delay")}
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}
    group = {names.VOLCANO_GROUP_NAME: gang} if gang else {}
    return {
        "metadata": {"annotations": {**notes, **group, **(annotations or {})}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "busybox:1.36", "resources": resources}],
        },
    }


def job(namespace, name, pods, *, template=None, **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": template or member(),
            **spec,
        },
    }


def podgroup(namespace, name, size):
    return {
        "apiVersion": f"{names.VOLCANO_API}/{names.VOLCANO_VERSION}",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": size},
    }


def training(namespace, name, **about):
    """Two workers, two parameter servers and a chief: three Jobs that share one PodGroup."""
    template = member(gang=name, **about)
    parts = {"worker": 2, "ps": 2, "chief": 1}
    return [podgroup(namespace, name, 5)] + [
        job(namespace, f"{name}-{part}", count, template=template) for part, count in parts.items()
    ]


def jobs(kubectl, namespace):
    return {j["metadata"]["name"]: j for j in kubectl.json("get", "jobs", "-n", namespace)["items"]}


def complete(found):
    return any(c["type"] == "Complete" and c["status"] == "True" for c in found["status"].get("conditions", ()))


def failed(found):
    return found["status"].get("failed", 0) or any(
        c["type"] == "Failed" and c["status"] == "True" for c in found["status"].get("conditions", ())
    )


def claim(found):
    text = found["metadata"].get("annotations", {}).get(names.ANNOTATION_GIVEN_BACK)
    return json.loads(text) if text else None


def suspended(kubectl, namespace):
    return sorted(name for name, found in jobs(kubectl, namespace).items() if found["spec"].get("suspend"))
