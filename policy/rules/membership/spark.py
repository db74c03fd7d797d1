"""sparkoperator.k8s.io SparkApplication: the driver first, alone, with room for the executors that it makes afterwards.

Executors are owned by the driver's pod. Their size stands in Spark's own units: cores, and memory as the JVM counts it
plus an overhead (memoryOverhead and memoryOverheadFactor of
https://spark.apache.org/docs/latest/running-on-kubernetes.html), in fields or, where those are empty, in Spark's own
configuration; a pod template adds what it asks for beside. May know objects.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec

from policy import names
from policy.rules.membership.family import Family, Labels, Part
from policy.rules.objects import (
    Affinity,
    Container,
    OwnerMeta,
    PodSpec,
    PodTemplate,
    Quantities,
    ResourceRequirements,
    Toleration,
    Wire,
)

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
_FINISHED: Final = ("COMPLETED", "FAILED")
_INSTANCES: Final = "spark.executor.instances"
_MIB: Final = 1 << 20
_UNITS: Final = {"": _MIB, "b": 1, "k": 1 << 10, "m": _MIB, "g": 1 << 30, "t": 1 << 40}
_MEMORY: Final = re.compile(r"(\d{1,15})([bkmgt]?)b?", re.ASCII)
_LEAST_OVERHEAD: Final = 384 * _MIB
_OVERHEAD: Final = Fraction(1, 10)
_OVERHEAD_OF: Final = {"Python": Fraction(4, 10), "R": Fraction(4, 10)}  # they need more outside the heap
_FACTOR: Final = re.compile(r"\d{1,3}(\.\d{1,9})?", re.ASCII)
_CPU: Final = re.compile(r"\d{1,9}(\.\d{1,3}|m)?", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,9}", re.ASCII)
_CUSTOM: Final = re.compile(r"spark\.(?P<role>driver|executor)\.resource\.(?P<name>[^.]+)\.amount")


class Gpu(Wire, frozen=True):
    name: str = ""
    quantity: int = 0


class SparkPod(Wire, frozen=True):
    cores: int | None = None
    core_request: str | None = None
    memory: str | None = None
    memory_overhead: str | None = None
    gpu: Gpu | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    template: PodTemplate = PodTemplate()
    instances: int | None = None


class DynamicAllocation(Wire, frozen=True):
    enabled: bool = False
    initial_executors: int | None = None
    min_executors: int | None = None


class BatchSchedulerOptions(Wire, frozen=True):
    queue: str = ""


class SparkApplicationSpec(Wire, frozen=True):
    type: str = ""
    suspend: bool | None = None
    spark_conf: dict[str, str] | None = None
    memory_overhead_factor: str | None = None
    node_selector: dict[str, str] | None = None
    batch_scheduler_options: BatchSchedulerOptions | None = None
    driver: SparkPod = SparkPod()
    executor: SparkPod = SparkPod()
    dynamic_allocation: DynamicAllocation | None = None


class ApplicationState(Wire, frozen=True):
    state: str = ""


class SparkStatus(Wire, frozen=True):
    application_state: ApplicationState = ApplicationState()


class SparkApplication(Wire, frozen=True):
    metadata: OwnerMeta = OwnerMeta()
    spec: SparkApplicationSpec = SparkApplicationSpec()
    status: SparkStatus = SparkStatus()


def parts(app: SparkApplication) -> tuple[Part, ...]:
    spec = app.spec
    executors, least = _executors(spec)
    return (
        Part(role=DRIVER, count=1, minimum=1, template=_template(spec, spec.driver, DRIVER)),
        Part(
            role=EXECUTOR,
            count=executors,
            minimum=least,
            template=_template(spec, spec.executor, EXECUTOR),
            stage=1,
            waits="the driver to make it",
        ),
    )


def _executors(spec: SparkApplicationSpec) -> tuple[int, int]:
    """How many there are to be, and how many of them are waited for."""
    dynamic, asked = spec.dynamic_allocation, _asked(spec)
    if dynamic is None or not dynamic.enabled:
        count = 1 if asked is None else asked
        return count, count
    least = dynamic.min_executors or 0
    return max(least, dynamic.initial_executors or 0, asked or 0), least


def _asked(spec: SparkApplicationSpec) -> int | None:
    text = _configured(spec, _INSTANCES, _COUNT)
    stated = int(text) if text else None
    return stated if spec.executor.instances is None else spec.executor.instances


def _configured(spec: SparkApplicationSpec, key: str, form: re.Pattern[str]) -> str | None:
    """What Spark's own configuration says, if that has the form of such a value."""
    text = (spec.spark_conf or {}).get(key, "")
    return text if form.fullmatch(text) else None


def _template(spec: SparkApplicationSpec, pod: SparkPod, role: str) -> PodTemplate:
    """The template that is given, with what Spark and the operator write into it."""
    given = pod.template
    meta = msgspec.structs.replace(
        given.metadata,
        labels={**(given.metadata.labels or {}), **(pod.labels or {})},
        annotations={**(given.metadata.annotations or {}), **(pod.annotations or {})},
    )
    return PodTemplate(metadata=meta, spec=_pod_spec(spec, pod, role))


def _pod_spec(spec: SparkApplicationSpec, pod: SparkPod, role: str) -> PodSpec:
    given = pod.template.spec
    selector = {**(given.node_selector or {}), **(spec.node_selector or {}), **(pod.node_selector or {})}
    return msgspec.structs.replace(
        given,
        containers=_containers(given, role, _requests(spec, pod, role)),
        node_selector=selector or None,
        affinity=pod.affinity or given.affinity,
        tolerations=(*given.tolerations, *pod.tolerations),
    )


def _containers(given: PodSpec, role: str, requests: Quantities) -> tuple[Container, ...]:
    """Spark's own is the one of its name, else the first."""
    found = given.containers or (Container(),)
    mine = next((one for one in found if one.name == f"spark-kubernetes-{role}"), found[0])
    resources = mine.resources or ResourceRequirements()
    merged = msgspec.structs.replace(resources, requests={**(resources.requests or {}), **requests})
    sized = msgspec.structs.replace(mine, resources=merged)
    return tuple(sized if one is mine else one for one in found)


def _requests(spec: SparkApplicationSpec, pod: SparkPod, role: str) -> Quantities:
    cores = pod.cores or _configured(spec, f"spark.{role}.cores", _CPU) or 1
    cpu = pod.core_request or _configured(spec, f"spark.kubernetes.{role}.request.cores", _CPU) or str(cores)
    requests: Quantities = {"cpu": cpu, "memory": _memory(spec, pod, role), **dict(_custom(spec, role))}
    if pod.gpu and pod.gpu.quantity:
        requests[pod.gpu.name] = pod.gpu.quantity
    return requests


def _custom(spec: SparkApplicationSpec, role: str) -> Iterator[tuple[str, str]]:
    """Name and amount of each resource that Spark is told of: `<vendor>/<name>` in Kubernetes."""
    conf = spec.spark_conf or {}
    for key in conf:
        found = _CUSTOM.fullmatch(key)
        if found is None or found["role"] != role:
            continue
        vendor, amount = conf.get(f"spark.{role}.resource.{found['name']}.vendor"), _configured(spec, key, _COUNT)
        if vendor and amount:
            yield f"{vendor}/{found['name']}", amount


def _memory(spec: SparkApplicationSpec, pod: SparkPod, role: str) -> int:
    """Bytes of heap and overhead."""
    conf = spec.spark_conf or {}
    heap = _bytes(pod.memory or conf.get(f"spark.{role}.memory") or "1g")
    if overhead := pod.memory_overhead or conf.get(f"spark.{role}.memoryOverhead"):
        return heap + _bytes(overhead)
    return heap + max(_LEAST_OVERHEAD, int(heap * _factor(spec, role)))


def _factor(spec: SparkApplicationSpec, role: str) -> Fraction:
    general = spec.memory_overhead_factor or _configured(spec, "spark.kubernetes.memoryOverheadFactor", _FACTOR)
    text = _configured(spec, f"spark.{role}.memoryOverheadFactor", _FACTOR) or general or ""
    return Fraction(text) if _FACTOR.fullmatch(text) else _OVERHEAD_OF.get(spec.type, _OVERHEAD)


def _bytes(text: str) -> int:
    """A size as the JVM writes it, in MiB without a unit; 0 for what is none."""
    found = _MEMORY.fullmatch(text.strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else 0


def role(labels: Labels) -> str:
    return labels.get(names.SPARK_ROLE, DRIVER)


def queue(app: SparkApplication) -> str:
    options = app.spec.batch_scheduler_options
    return options.queue if options else ""


def over(app: SparkApplication) -> bool:
    return app.status.application_state.state in _FINISHED


def held(app: SparkApplication) -> bool:
    return bool(app.spec.suspend)


# No lever, although there is `spec.suspend`: the operator (v2.5.0) submits while it reconciles, for seconds; any write
# of the object meanwhile, a touch that wakes an owner too, is a conflict after which it submits once more, finds the
# driver there already, and fails the application.
FAMILY = Family(
    group="sparkoperator.k8s.io",
    version="v1beta2",
    kind="SparkApplication",
    plural="sparkapplications",
    type=SparkApplication,
    parts=parts,
    source="the driver, and spec.executor.instances",
    stages="the driver, then the executors that it makes",
    over=over,
    held=held,
    role=role,
    queue=queue,
)
