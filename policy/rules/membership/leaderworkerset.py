"""leaderworkerset.x-k8s.io LeaderWorkerSet: one group per replica, a leader and its workers.

`startupPolicy: LeaderReady` makes the workers once the leader is ready. Suspending is not possible; its pods may be
deleted, and come again behind the gate. May know objects.
"""

from policy import names
from policy.rules.membership.family import Family, Labels, Part
from policy.rules.objects import OwnerMeta, PodTemplate, Wire

MOST_SLICES = 1_000  # whose groups exist before their pods do: a tenant may ask for any number in one line
LEADER = "leader"
WORKER = "worker"


class LeaderWorkerTemplate(Wire, frozen=True):
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate = PodTemplate()
    size: int = 1


class LeaderWorkerSetSpec(Wire, frozen=True):
    replicas: int = 1
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = ""


class LeaderWorkerSet(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


def parts(lws: LeaderWorkerSet) -> tuple[Part, ...]:
    template = lws.spec.leader_worker_template
    late = lws.spec.startup_policy == "LeaderReady"
    workers = max(0, template.size - 1)
    return (
        Part(role=LEADER, count=1, minimum=1, template=template.leader_template or template.worker_template),
        Part(
            role=WORKER,
            count=workers,
            minimum=workers,
            template=template.worker_template,
            stage=int(late),
            waits="the leader to be ready" if late else "",
        ),
    )


def slices(lws: LeaderWorkerSet) -> int:
    return min(max(0, lws.spec.replicas), MOST_SLICES)


def role(labels: Labels) -> str:
    return LEADER if labels.get(names.LWS_WORKER_INDEX) == "0" else WORKER


def slice_(labels: Labels) -> str:
    return labels.get(names.LWS_GROUP_INDEX, "")


FAMILY = Family(
    group="leaderworkerset.x-k8s.io",
    version="v1",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    type=LeaderWorkerSet,
    parts=parts,
    source="spec.leaderWorkerTemplate.size",
    stages="at once; `startupPolicy: LeaderReady`: the leader, then its workers",
    slices=slices,
    role=role,
    slice=slice_,
)
