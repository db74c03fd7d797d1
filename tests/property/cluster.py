"""A cluster in memory, as far as gangs can tell it from a real one: charges at create, waves, pins, patches.

Kept cheap: a run of the machine takes thousands of steps. Pods are the facts themselves; what the API server would
refuse is refused here, and a patch that does more than it may fails an assertion (promise I3).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from policy import names
from policy.gatekeeper.flights import Flights
from policy.rules.conclusions import Pull
from policy.rules.lift_plan import LiftPatch
from policy.rules.membership.family import Size
from policy.rules.membership.identity import PODGROUP, Identity
from policy.rules.model import (
    Claim,
    Lifted,
    NamespaceFacts,
    NodeFacts,
    OwnerFacts,
    PartFacts,
    PodFacts,
    PodGroupFacts,
    QueueFacts,
    QuotaFacts,
    Shape,
    Snapshot,
)
from policy.rules.objects import NodeSelectorTerm
from policy.rules.quantity import NANO

GPU = "nvidia.com/gpu"
GRACE = 30.0  # seconds


@dataclass
class Job:
    uid: str
    namespace: str
    parallelism: int
    completions: int
    shape: Shape
    created: float
    queue: str = ""
    group: str = ""  # the PodGroup that its pods name
    minimum: int | None = None
    gates: tuple[str, ...] = ()
    succeeded: int = 0
    made: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    lever: bool = True
    suspended: bool = False
    claim: Claim | None = None
    by_us: bool = False  # the field was set by us last
    version: int = 0

    @property
    def size(self) -> int:
        return min(self.parallelism, self.completions - self.succeeded)

    def facts(self) -> OwnerFacts:
        return OwnerFacts(
            kind="Job",
            namespace=self.namespace,
            name=self.uid,
            uid=self.uid,
            api_version="batch/v1",
            created=self.created,
            size=Size(self.size, self.size, "min(spec.parallelism, completions still to come)"),
            parts=(PartFacts(self.size, self.size, self.shape),),
            queue=self.queue,
            min_member=self.minimum,
            over=self.succeeded >= self.completions,
            held=self.suspended,
            lever=("spec", "suspend") if self.lever else (),
            claim=self.claim,
            ours=self.suspended and self.by_us and self.claim is not None and not self.claim.ended,
            version=str(self.version),
            group=named(self.namespace, self.group) if self.group else None,
        )


def named(namespace: str, group: str) -> Identity:
    return Identity(PODGROUP, namespace, group, how=f"annotation {names.VOLCANO_PODGROUP}")


def requested(shape: Shape) -> int:
    """GPUs, the one resource that is counted here."""
    return shape.requests.get(GPU, 0) // NANO


class Cluster:
    """What the API server holds, and what its controllers would do."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pods: dict[str, PodFacts] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.namespaces: dict[str, NamespaceFacts] = {}
        self.jobs: dict[str, Job] = {}
        self.podgroups: dict[tuple[str, str], PodGroupFacts] = {}
        self.queues: dict[str, QueueFacts] = {}
        self.hard: dict[str, int] = {}  # GPUs by namespace
        self.used: dict[str, int] = {}  # as the quota's status says: late downwards
        self.preemptors: dict[str, str] = {}
        self.fallen: dict[str, PodFacts] = {}  # preempted and gone, as the gatekeeper remembers them
        self._serial = 0

    # --- reading ---------------------------------------------------------------------------------------------

    def snapshot(self, flights: Flights) -> Snapshot:
        return Snapshot(
            pods=flights.overlay(tuple(self.pods.values())),
            nodes=tuple(self.nodes.values()),
            namespaces=dict(self.namespaces),
            owners={uid: job.facts() for uid, job in self.jobs.items()},
            podgroups=tuple(self.podgroups.values()),
            queues=dict(self.queues),
            fallen=tuple(self.fallen.values()),
            preemptors=dict(self.preemptors),
            quotas=tuple(
                QuotaFacts(ns, "gpus", {f"requests.{GPU}": hard * NANO}, {f"requests.{GPU}": self.used[ns] * NANO})
                for ns, hard in self.hard.items()
            ),
        )

    def managed(self, namespace: str) -> bool:
        return self.namespaces[namespace].policy in (names.Policy.GANG, names.Policy.HYBRID)

    def on(self, node: str) -> Iterator[PodFacts]:
        return (p for p in self.pods.values() if p.node == node and not p.over)

    def free(self, node: str) -> int:
        return self.nodes[node].allocatable[GPU] // NANO - sum(requested(p.shape) for p in self.on(node))

    def takes(self, node: NodeFacts, shape: Shape) -> bool:
        """Selectors and states, said once more in the simplest words: terms here are one zone each."""
        zones = [zone for term in shape.node_terms for zone in term.match_expressions[0].values]
        zones += [shape.node_selector["zone"]] if shape.node_selector else []
        return node.ready and not node.cordoned and (not zones or node.labels["zone"] in zones)

    def company(self, node: str, pod: PodFacts) -> bool:
        """Nobody on the node whose presence forbids the pod's."""
        lonely = bool(pod.shape.alone_on_node)
        return not any(
            set(p.shape.host_ports) & set(pod.shape.host_ports)
            or (lonely and p.shape.alone_on_node and p.namespace == pod.namespace)
            for p in self.on(node)
        )

    # --- creating --------------------------------------------------------------------------------------------

    def create(self, namespace: str, shape: Shape, **fields: object) -> PodFacts | None:
        """A pod, gated where gangs are asked for; None where quota refuses it."""
        cost = requested(shape)
        if namespace in self.hard and cost and self.used[namespace] + cost > self.hard[namespace]:
            return None
        self.used[namespace] = self.used.get(namespace, 0) + cost
        self._serial += 1
        name = f"p{self._serial:04}"
        pod = PodFacts(
            uid=f"u-{name}",
            namespace=namespace,
            name=name,
            shape=shape,
            created=self.now,
            gated=self.managed(namespace),
            **fields,  # type: ignore[arg-type]
        )
        self.pods[pod.uid] = pod
        return pod

    def sync(self, job: Job, most: int) -> None:
        """The Job controller: count what succeeded, make what is missing, stop at the first refusal."""
        mine = [p for p in self.pods.values() if p.owner == job.uid and p.namespace == job.namespace]
        job.succeeded = max(job.succeeded, sum(1 for p in mine if p.phase == "Succeeded"))
        if job.suspended:
            for pod in mine:
                self.delete(pod.uid)
            return
        missing = job.size - sum(1 for p in mine if p.live)
        identity = named(job.namespace, job.group) if job.group else Identity("Job", job.namespace, job.uid, job.uid)
        for _ in range(min(most, missing)):
            made = self.create(
                job.namespace,
                job.shape,
                group=identity,
                owner=job.uid,
                queue=job.queue,
                foreign_gates=job.gates,
                labels=job.labels,
            )
            if made is None:
                return

    def pull(self, seen: OwnerFacts, pull: Pull) -> None:
        """A merge patch on an owner, conditional on the version that was seen."""
        job = self.jobs[seen.uid]
        if pull.claim is None:
            return  # it only wakes: controllers here need no waking
        if seen.version != str(job.version):
            return
        job.version += 1
        job.claim = pull.claim
        if pull.suspend is not None:
            job.suspended, job.by_us = pull.suspend, pull.suspend

    def recount(self) -> None:
        """The quota controller: only here does `used` fall."""
        for namespace in self.used:
            charged = (p for p in self.pods.values() if p.namespace == namespace and not p.over)
            self.used[namespace] = sum(
                requested(p.shape) for p in charged if p.deleted is None or p.deleted >= self.now
            )

    # --- what happens to pods --------------------------------------------------------------------------------

    def change(self, uid: str, **fields: object) -> None:
        self.pods[uid] = msgspec.structs.replace(self.pods[uid], **fields)

    def schedule(self, most: int = 1000) -> int:
        """The scheduler: bind what may be bound, pins honoured, the emptiest node first."""
        waiting = [p for p in self.pods.values() if p.live and not p.node and not p.gated and not p.foreign_gates]
        bound = 0
        for pod in sorted(waiting, key=lambda p: (-p.shape.priority, p.created, p.uid)):
            nodes = [n for n in self.nodes.values() if (not pod.pin or n.name == pod.pin) and self.takes(n, pod.shape)]
            fitting = [n.name for n in nodes if self.free(n.name) >= requested(pod.shape) and self.company(n.name, pod)]
            if fitting and bound < most:
                self.change(pod.uid, node=max(fitting, key=lambda n: (self.free(n), n)), phase="Running")
                bound += 1
        return bound

    def delete(self, uid: str) -> None:
        """A pod on a node takes its time; one of a Job lingers for its tracking finalizer; others go at once."""
        pod = self.pods[uid]
        if pod.deleted is None and (pod.node or pod.owner) and not pod.over:
            self.change(uid, deleted=self.now + (GRACE if pod.node else 0.0))
        elif pod.deleted is None:
            del self.pods[uid]

    def reap(self) -> None:
        """Terminating pods that are gone."""
        for uid in [u for u, p in self.pods.items() if p.deleted is not None]:
            pod = self.pods.pop(uid)
            if pod.preempted and pod.lifted:
                self.fallen[uid] = pod

    def preempt(self, uid: str, by: PodFacts | None) -> None:
        """The scheduler takes a pod's place for another: marked, then deleted; later only we remember it."""
        self.change(uid, preempted=True)
        if by is not None:  # quota refused it: another's, of which no event is known
            self.preemptors[uid] = by.uid
        self.delete(uid)

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        for uid in [u for u, p in self.pods.items() if p.node == name]:
            del self.pods[uid]

    def patch(self, patch: LiftPatch) -> None:
        """A strategic merge patch on one pod, as the API server would take it; nothing where the pod is gone."""
        pod = next((p for p in self.pods.values() if (p.namespace, p.name) == (patch.namespace, patch.name)), None)
        if pod is None:
            return
        body = msgspec.json.decode(patch.body)
        assert body["metadata"].pop("uid") == pod.uid == patch.uid, "conditional on the uid"
        written = body["metadata"].pop("annotations")
        assert written.keys() <= {names.ANNOTATION_LIFTED, names.GROUP_NAME, names.QUEUE_NAME}
        labels = body["metadata"].pop("labels", {})
        assert labels.keys() <= {names.LABEL_GROUP}
        gates = body["spec"].pop("schedulingGates")
        assert gates == [{"name": names.GATE, "$patch": "delete"}], "I3: our gate, by name, and no other"
        pin = _pin(pod, body["spec"].pop("affinity", None))
        assert body == {"metadata": {}, "spec": {}}, f"nothing else is written: {body}"
        lifted = msgspec.json.decode(written[names.ANNOTATION_LIFTED], type=Lifted)
        queue = written.get(names.QUEUE_NAME, pod.queue)
        assert queue == (pod.queue or queue), "one name for one queue"
        self.change(pod.uid, gated=False, lifted=pod.lifted or lifted, pin=pin, queue=queue)


def _pin(pod: PodFacts, affinity: dict | None) -> str:
    """The node that the patch pins the pod to. Terms that the pod has may be added to, and only that (KEP-3838)."""
    if affinity is None:
        return pod.pin
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = msgspec.convert(required["nodeSelectorTerms"], tuple[NodeSelectorTerm, ...])
    before = pod.shape.node_terms or (NodeSelectorTerm(),)
    kept = tuple(NodeSelectorTerm(t.match_expressions, t.match_fields[:-1]) for t in terms)
    assert kept == before, "I3: terms are added to, never changed"
    pins = {t.match_fields[-1].values for t in terms}
    assert len(pins) == 1
    ((node,),) = pins
    return node
