"""apps/v1 StatefulSet: all replicas, made at once (`Parallel`) or each when the one before it is ready.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-management-policies. May know objects.
"""

from policy.rules.membership.family import Family, Part
from policy.rules.objects import OwnerMeta, PodTemplate, Wire


class StatefulSetSpec(Wire, frozen=True):
    replicas: int | None = None
    pod_management_policy: str = "OrderedReady"
    template: PodTemplate = PodTemplate()


class StatefulSet(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


def parts(found: StatefulSet) -> tuple[Part, ...]:
    count = 1 if found.spec.replicas is None else found.spec.replicas
    ordered = found.spec.pod_management_policy != "Parallel" and count > 1
    return (
        Part(
            count=count,
            minimum=count,
            template=found.spec.template,
            first=int(ordered),
            waits="the pod before it to be ready" if ordered else "",
        ),
    )


FAMILY = Family(
    group="apps",
    version="v1",
    kind="StatefulSet",
    plural="statefulsets",
    type=StatefulSet,
    parts=parts,
    source="spec.replicas",
    stages="`podManagementPolicy: Parallel`: at once; else pod by pod, each when the one before is ready",
)
