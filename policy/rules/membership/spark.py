"""sparkoperator.k8s.io SparkApplication: the driver first, alone, with room for the executors that it makes afterwards.

Executors are owned by the driver's pod. Their size stands in Spark's own units: cores, and memory as the JVM counts it
plus an overhead (memoryOverhead and memoryOverheadFactor of
https://spark.apache.org/docs/latest/running-on-kubernetes.html). May know objects.
"""

import re
from typing import Final

import msgspec

from policy import names
from policy.rules.membership.family import Family, Labels, Part
from policy.rules.objects import Container, OwnerMeta, PodSpec, PodTemplate, Quantities, ResourceRequirements, Wire

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
_FINISHED: Final = ("COMPLETED", "FAILED")
_INSTANCES: Final = "spark.executor.instances"
_MIB: Final = 1 << 20
_UNITS: Final = {"": _MIB, "b": 1, "k": 1 << 10, "m": _MIB, "g": 1 << 30, "t": 1 << 40}
_MEMORY: Final = re.compile(r"(\d{1,15})([bkmgt]?)b?", re.ASCII)
_LEAST_OVERHEAD: Final = 384 * _MIB
_OVERHEAD_PERCENT: Final = {"Python": 40, "R": 40}  # of others 10: they leave less outside the heap


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
    instances: int | None = None


class DynamicAllocation(Wire, frozen=True):
    enabled: bool = False
    initial_executors: int | None = None
    min_executors: int | None = None


class BatchSchedulerOptions(Wire, frozen=True):
    queue: str = ""


class SparkApplicationSpec(Wire, frozen=True):
    type: str = ""
    spark_conf: dict[str, str] | None = None
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
        Part(role=DRIVER, count=1, minimum=1, template=_template(spec.driver, spec.type)),
        Part(
            role=EXECUTOR,
            count=executors,
            minimum=least,
            template=_template(spec.executor, spec.type),
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
    text = (spec.spark_conf or {}).get(_INSTANCES, "")
    stated = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return stated if spec.executor.instances is None else spec.executor.instances


def _template(pod: SparkPod, language: str) -> PodTemplate:
    cpu = pod.core_request or str(pod.cores or 1)
    requests: Quantities = {"cpu": cpu, "memory": _memory(pod, language)}
    if pod.gpu and pod.gpu.quantity:
        requests[pod.gpu.name] = pod.gpu.quantity
    container = Container(resources=ResourceRequirements(requests=requests))
    meta = msgspec.structs.replace(PodTemplate().metadata, labels=pod.labels, annotations=pod.annotations)
    return PodTemplate(metadata=meta, spec=PodSpec(containers=(container,)))


def _memory(pod: SparkPod, language: str) -> int:
    """Bytes of heap and overhead."""
    heap = _bytes(pod.memory or "1g")
    if pod.memory_overhead is not None:
        return heap + _bytes(pod.memory_overhead)
    return heap + max(_LEAST_OVERHEAD, heap * _OVERHEAD_PERCENT.get(language, 10) // 100)


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
    role=role,
    queue=queue,
)
