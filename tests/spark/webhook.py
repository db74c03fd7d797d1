"""The webhook of Spark's operator as a process of the test: it writes into pods what fields of their application say.

Registered as the operator's chart does it, for creates of pods that the operator launched and for applications. The
program makes its certificates for the name of a Service and enters its CA by itself: that Service leads to loopback.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local import ports
from deploy.local.cluster import Cluster
from deploy.local.manifests import has_ca_bundle
from deploy.local.probes import http_probe
from tests.cluster.conftest import wait_until

NAME = "spark-operator-webhook"  # after ours by its name, so it is called after ours, as in a cluster
CALLED = {
    "pods": ("", "v1", ["CREATE"]),
    "sparkapplications": ("sparkoperator.k8s.io", "v1beta2", ["CREATE", "UPDATE"]),
}
PATHS = {"pods": "/mutate--v1-pod", "sparkapplications": "/mutate-sparkoperator-k8s-io-v1beta2-sparkapplication"}
LAUNCHED = {"matchLabels": {"sparkoperator.k8s.io/launched-by-spark-operator": "true"}}


@contextmanager
def registered(cluster: Cluster, folder: Path) -> Iterator[None]:
    """While the block lasts, pods and applications of Spark pass through it."""
    operator = cluster.processes["spark"].program
    found = ports.reserve(cluster.home.ports, cluster.layout.root, [NAME, f"{NAME}-health"])
    port, health = found.values()
    cluster.kubectl.apply([*surroundings(), registration(port)])
    with (folder / "webhook.log").open("wb") as log:
        child = subprocess.Popen(
            [operator.argv[0], *flags(port, health, folder)], env=dict(operator.env), stdout=log, stderr=log
        )
    try:
        wait_until(lambda: http_probe(health, "/readyz")() is None, what="the webhook of Spark's operator")
        wait_until(lambda: has_ca_bundle(cluster.kubectl.json("get", "mutatingwebhookconfiguration", NAME)))
        yield
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", NAME)
        child.terminate()
        child.wait(20)


def flags(port: int, health: int, folder: Path) -> list[str]:
    return [
        "webhook",
        "start",
        "--namespaces=",
        "--leader-election=false",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-port={port}",
        f"--webhook-cert-dir={folder / 'certificates'}",
        f"--webhook-secret-namespace={NAME}",
        f"--webhook-svc-name={NAME}",
        f"--webhook-svc-namespace={NAME}",
        f"--mutating-webhook-name={NAME}",
    ]


def surroundings() -> list[dict[str, Any]]:
    meta = {"name": NAME, "namespace": NAME}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec},
    ]


def registration(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [one(resource, port) for resource in CALLED],
    }


def one(resource: str, port: int) -> dict[str, Any]:
    group, version, operations = CALLED[resource]
    service = {"name": NAME, "namespace": NAME, "port": port, "path": PATHS[resource]}
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": operations}
    return {
        "name": f"mutate-{resource}.sparkoperator.k8s.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "clientConfig": {"service": service},
        "rules": [rule],
        **({"objectSelector": LAUNCHED} if resource == "pods" else {}),
    }
