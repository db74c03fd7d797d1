"""The effective request of a pod, per resource, in exact integers (nano units).

The calculation is part of the API: k8s.io/component-helpers resource/helpers.go, PodRequests and PodLimits (KEP-753
for restartable init containers, KEP-2837 for pod-level resources, KEP-688 for overhead, KEP-1287 for resize).
Quota and scheduler both use it. May know objects and quantities; asks nothing about groups, queues or nodes.
"""

from collections.abc import Iterable, Mapping

import msgspec

from policy.rules import quantity
from policy.rules.objects import Container, Pod, Quantities, ResourceRequirements

Resources = dict[str, int]  # resource name -> nano units

_POD_LEVEL = ("cpu", "memory")  # and hugepages-*: what spec.resources may state (KEP-2837)


def read(amounts: Quantities | None) -> Resources:
    """Parse a resource list. Raises QuantityError, naming the resource, when an amount is no quantity."""
    return {name: _read_one(name, amount) for name, amount in (amounts or {}).items()}


def _read_one(name: str, amount: str | int | float) -> int:
    try:
        return quantity.parse(amount)
    except quantity.QuantityError as error:
        raise quantity.QuantityError(f"{name}: {error}") from None


def add(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    """Element-wise sum; a name that only one side has is kept."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def total(many: Iterable[Mapping[str, int]]) -> Resources:
    result: Resources = {}
    for one in many:
        for name, amount in one.items():
            result[name] = result.get(name, 0) + amount
    return result


def scale(amounts: Mapping[str, int], factor: int) -> Resources:
    return {name: amount * factor for name, amount in amounts.items()}


def largest(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    """Element-wise maximum; a name that only one side has is kept."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = max(result.get(name, amount), amount)
    return result


def is_extended(name: str) -> bool:
    """True for resources outside Kubernetes' own names, such as nvidia.com/gpu."""
    return "/" in name and not name.startswith(("kubernetes.io/", "requests.", "limits."))


def requests(pod: Pod) -> Resources:
    """What the pod charges: spec, raised to what the kubelet has allocated while a resize is under way.

    Raises QuantityError when a quantity does not parse (the API server would have refused it).
    """
    wanted = _walk(pod, "requests")
    wanted = _pod_level(pod, wanted, "requests")
    if pod.status.container_statuses or pod.status.init_container_statuses:
        wanted = _during_resize(pod, wanted)
    return add(wanted, read(pod.spec.overhead))


def limits(pod: Pod) -> Resources:
    """The pod's limits; overhead is added only onto limits that are present and not zero."""
    found = _pod_level(pod, _walk(pod, "limits"), "limits")
    for name, amount in read(pod.spec.overhead).items():
        if found.get(name):
            found[name] += amount
    return found


def defaulted(pod: Pod) -> Pod:
    """A template's pod as the API server will store it: limits stand in for absent requests.

    It does so for pods alone, not for templates (SetDefaults_Pod of k8s.io/kubernetes pkg/apis/core/v1).
    """
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(_defaulted(c) for c in pod.spec.containers),
        init_containers=tuple(_defaulted(c) for c in pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _defaulted(container: Container) -> Container:
    stated = container.resources
    if stated is None or not stated.limits:
        return container
    requests = {**stated.limits, **(stated.requests or {})}
    return msgspec.structs.replace(container, resources=msgspec.structs.replace(stated, requests=requests))


def extended(pod: Pod) -> frozenset[str]:
    """Names of the extended resources that any container of the pod asks for, in requests or limits."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return frozenset(
        name
        for container in containers
        if container.resources
        for amounts in (container.resources.requests, container.resources.limits)
        for name in amounts or ()
        if is_extended(name)
    )


def _walk(pod: Pod, field: str) -> Resources:
    """The larger of the main phase and every step of the init phase."""
    main = total(_stated(c, field) for c in pod.spec.containers)
    running: Resources = {}  # restartable init containers started so far
    peak: Resources = {}
    for container in pod.spec.init_containers:
        own = _stated(container, field)
        if container.restart_policy == "Always":
            running = add(running, own)
            peak = largest(peak, running)
        else:
            peak = largest(peak, add(own, running))
    return largest(add(main, running), peak)


def _stated(container: Container, field: str) -> Resources:
    return read(_amounts(container.resources, field))


def _amounts(requirements: ResourceRequirements | None, field: str) -> Quantities | None:
    if requirements is None:
        return None
    return requirements.requests if field == "requests" else requirements.limits


def _pod_level(pod: Pod, found: Resources, field: str) -> Resources:
    stated = read(_amounts(pod.spec.resources, field))
    replaced = {n: a for n, a in stated.items() if n in _POD_LEVEL or n.startswith("hugepages-")}
    return {**found, **replaced}


def _during_resize(pod: Pod, spec: Resources) -> Resources:
    """KEP-1287: spec, allocated and actuated amounts, whichever is larger; infeasible resizes leave spec out."""
    allocated = _walk(_with_status(pod, actuated=False), "requests")
    actuated = _walk(_with_status(pod, actuated=True), "requests")
    status = _pod_level(pod, largest(allocated, actuated), "requests")
    infeasible = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions)
    return status if infeasible else largest(spec, status)


def _with_status(pod: Pod, *, actuated: bool) -> Pod:
    seen = {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}

    def told(container: Container) -> Container:
        status = seen.get(container.name)
        if status is None:
            return container
        amounts = status.resources.requests if actuated and status.resources else status.allocated_resources
        if amounts is None:
            return container
        return msgspec.structs.replace(container, resources=ResourceRequirements(requests=amounts))

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(told(c) for c in pod.spec.containers),
        init_containers=tuple(told(c) for c in pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)
