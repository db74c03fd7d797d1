"""Every reason of names.Reason as people see it, from a live cluster into docs/reasons.md.

    python -m tests.cluster.reasons

The document keeps its own words; what stands between the markers is what `kubectl describe` printed.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.local.cluster import Cluster
from deploy.local.settings import Settings
from policy import names
from tests.cluster import breaking
from tests.cluster.breaking import queues
from tests.cluster.calls import Caller
from tests.cluster.conftest import VICTIM_SETTINGS, wait_until
from tests.cluster.provoking import Subject, World
from tests.cluster.reason_cases import BROKEN, CALM, Case

DOC = Path(__file__).parents[2] / "docs" / "reasons.md"
MARK = re.compile(r"(<!-- captured: (?P<reason>\w+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
KEPT = re.compile(r"(Name|Namespace|Status|Controlled By|Node|Parallelism|Completions|Pods Statuses):\s")


@contextmanager
def space_of(world: World, case: Case) -> Iterator[str]:
    """The case's namespace; what its last run left is waited for."""
    annotations = {names.ANNOTATION_QUEUES: ",".join(case.queues)} if case.queues else {}
    labels = {names.NAMESPACE_POLICY: "gang"}
    body = {"metadata": {"name": case.namespace, "labels": labels, "annotations": annotations}}
    wait_until(lambda: world.admin.create("/api/v1/namespaces", body).ok, timeout=60, what=case.namespace)
    account = f"/api/v1/namespaces/{case.namespace}/serviceaccounts/default"
    wait_until(lambda: world.admin("GET", account).ok, what=account)
    try:
        yield case.namespace
    finally:
        world.admin("DELETE", f"/api/v1/namespaces/{case.namespace}")
        world.admin("DELETE", queues(case.namespace))


def heard(world: World, case: Case, subject: Subject) -> str:
    """The text of the case's event on the subject, once it is there."""
    return breaking.hears(world.admin, case.namespace, subject.name, case.reason, timeout=60)


def described(world: World, case: Case, subject: Subject) -> str:
    """`kubectl describe` of the subject: the lines that say what it is and where it stands, and its events.

    Of a ResourceQuota it shows no events; `kubectl events` does.
    """
    if subject.kind == "resourcequota":
        command = ("events", "--for", f"{subject.kind}/{subject.name}", "-n", case.namespace)
        return f"$ kubectl {' '.join(command)}\n{world.cluster.kubectl(*command)}".rstrip()
    whole = world.cluster.kubectl("describe", subject.kind, subject.name, "-n", case.namespace)
    head, _, events = whole.partition("\nEvents:")
    lines = [line.rstrip() for line in head.splitlines() if KEPT.match(line)]
    return "\n".join(
        [f"$ kubectl describe {subject.kind} {subject.name} -n {case.namespace}", *lines, f"Events:{events}"]
    ).rstrip()


def captured(world: World) -> Iterator[tuple[Case, str]]:
    """Provoke every case and describe what came out."""
    with ExitStack() as stack:
        subjects = [case.provoke(world, stack.enter_context(space_of(world, case))) for case in CALM]
        for case, subject in zip(CALM, subjects, strict=True):
            heard(world, case, subject)
            yield case, described(world, case, subject)
    for case in BROKEN:
        with space_of(world, case) as space, case.broken(world, space):
            subject = case.provoke(world, space)
            heard(world, case, subject)
            yield case, described(world, case, subject)


def written(document: str, outputs: dict[str, str]) -> str:
    """The document with each captured output between its markers."""

    def fresh(found: re.Match[str]) -> str:
        text = outputs.get(found["reason"])
        return found[0] if text is None else f"{found[1]}```console\n{text}\n```\n{found[4]}"

    return MARK.sub(fresh, document)


def main() -> int:
    with TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.yaml"
        settings.write_text(VICTIM_SETTINGS)
        cluster = Cluster(Settings(name="reasons", tied=True, addon_config=settings), say=print)
        cluster.up()
        try:
            world = World(cluster, Caller(cluster.kubeconfig))
            outputs = {str(case.reason): text for case, text in captured(world)}
        finally:
            cluster.down()
    DOC.write_text(written(DOC.read_text(), outputs))
    print(f"{len(outputs)} outputs written to {DOC}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
