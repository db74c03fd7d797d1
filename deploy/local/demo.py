"""`make demo`: the main job, on a real control plane, told step by step.

Brings up a cluster of its own, applies the examples and shows what a user would see: a gang held and explained, one
admitted whole and bound, one that can never fit. Takes the cluster down at the end. Knows kubectl's view only.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from deploy.local.cluster import Cluster
from deploy.local.errors import LocalError
from deploy.local.kubectl import Kubectl
from deploy.local.settings import Settings

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
NAME: Final = "demo"
WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2


class DemoError(LocalError):
    """A step did not show what it should; the text says which."""


def main() -> int:
    """0 when every step showed what it should."""
    cluster = Cluster(Settings(name=NAME), say=say)
    started = time.monotonic()
    try:
        cluster.up()
        tell(f"cluster up in {time.monotonic() - started:.1f} s: 8 nodes x 8 GPUs, kube-scheduler, webhook, gatekeeper")
        show(cluster.kubectl)
    except LocalError as error:
        say(f"demo: {error}")
        return 1
    finally:
        cluster.down() if cluster.layout.root.is_dir() else None
    return 0


def show(kubectl: Kubectl) -> None:
    apply(kubectl, "01-namespaces.yaml", "02-queue.yaml")
    starts_whole(kubectl)
    volcano_manifest(kubectl)
    held_by_quota(kubectl)
    never_fits(kubectl)
    tell("done: what fits started whole, what does not fit is held whole and says why")


def starts_whole(kubectl: Kubectl) -> None:
    tell("1. a plain Job of 8 pods, no annotation, no field of ours (deploy/examples/03-plain-job.yaml)")
    began = time.monotonic()
    namespace = apply(kubectl, "03-plain-job.yaml")
    until(lambda: bound(kubectl, namespace) == 8, "8 pods bound")
    tell(f"   8 of 8 bound {time.monotonic() - began:.1f} s after `kubectl apply`; its events:")
    events(kubectl, namespace, "Job")


def volcano_manifest(kubectl: Kubectl) -> None:
    tell("2. a Volcano manifest, unchanged, with no Volcano installed (05-volcano-podgroup.yaml)")
    namespace = apply(kubectl, "05-volcano-podgroup.yaml")
    until(lambda: ended(kubectl, namespace), "all its pods bound")
    tell(kubectl("get", "podgroups.scheduling.volcano.sh", "-n", namespace))


def held_by_quota(kubectl: Kubectl) -> None:
    tell("3. a gang larger than its namespace's quota (07-too-big.yaml): held whole, and the pod says why")
    namespace = apply(kubectl, "07-too-big.yaml")
    until(lambda: told(kubectl, namespace, "NeverFits"), "an event on a held pod")
    events(kubectl, namespace, "Pod")
    if bound(kubectl, namespace):
        raise DemoError("pods of a gang that cannot fit were bound")


def never_fits(kubectl: Kubectl) -> None:
    tell("4. a pod larger than any node (08-never-fits.yaml)")
    namespace = apply(kubectl, "08-never-fits.yaml")
    until(lambda: told(kubectl, namespace, "NeverFits"), "an event on the held pod")
    events(kubectl, namespace, "Job")


def apply(kubectl: Kubectl, *files: str) -> str:
    """Apply example files; the namespace that the last one uses."""
    for file in files:
        kubectl("apply", "-f", str(EXAMPLES / file))
    names = kubectl("get", "-f", str(EXAMPLES / files[-1]), "-o", "jsonpath={.items[*].metadata.namespace}")
    single = kubectl("get", "-f", str(EXAMPLES / files[-1]), "-o", "jsonpath={.metadata.namespace}")
    return (names.split() or [single])[0]


def pods(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kubectl.raw(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return found


def bound(kubectl: Kubectl, namespace: str) -> int:
    return sum(1 for pod in pods(kubectl, namespace) if pod["spec"].get("nodeName"))


def ended(kubectl: Kubectl, namespace: str) -> bool:
    found = pods(kubectl, namespace)
    return bool(found) and all(pod["spec"].get("nodeName") for pod in found)


def told(kubectl: Kubectl, namespace: str, reason: str) -> bool:
    return bool(_events(kubectl, namespace, reason))


def events(kubectl: Kubectl, namespace: str, kind: str) -> None:
    """Print our newest event on one object of that kind, as `kubectl describe` shows it."""
    for event in _events(kubectl, namespace, "")[-50:]:
        if event["regarding"]["kind"] == kind:
            tell(f"   {event['type']:8} {event['reason']:20} {event['regarding']['name']}: {event['note']}")
            return


def _events(kubectl: Kubectl, namespace: str, reason: str) -> list[dict[str, Any]]:
    items = kubectl.raw(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    ours = [e for e in items if "ganggate" in (e.get("reportingController") or "")]
    return [e for e in ours if reason in ("", e["reason"])]


def until(check: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not check():
        if time.monotonic() > end:
            raise DemoError(f"after {WAIT_SECONDS:g} s still not: {what}")
        time.sleep(POLL_SECONDS)


def tell(text: str) -> None:
    print(text, flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
