"""Removes our gate from pods by hand: the escape hatch that needs the API server and nothing else of ours.

Knows pods, their gates and one patch; neither groups, CRDs nor decisions. Our gate only, by name, and only from the
pod that was listed (its uid is in the patch). What the lift writes besides is left out on purpose: a pod released by
hand shows as one that came round the gatekeeper.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from enum import StrEnum
from typing import Final

import msgspec

from policy import names
from policy.gatekeeper.cache import Corrupt
from policy.gatekeeper.client import STRATEGIC_MERGE_PATCH, Client
from policy.gatekeeper.errors import ApiError
from policy.gatekeeper.observe import Within, listed
from policy.rules.objects import ObjectMeta, SchedulingGate, Wire

CONCURRENCY: Final = 64  # patches at once, as the gatekeeper does
PASSES: Final = 3  # lists: pods made meanwhile are taken along, for ever they are not
TRIES: Final = 4  # of one patch, where the server is overloaded or does not answer
FIRST_PAUSE: Final = 0.5  # seconds before the second try; doubles, unless the server says how long
TIMEOUT: Final = 15.0  # seconds, for one patch
_UNBOUND: Final = "spec.nodeName="  # a gated pod has no node: spares listing what runs


class Spec(Wire, frozen=True):
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class GatedPod(Wire, frozen=True):
    """The part of a pod that releasing needs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()

    @property
    def ours(self) -> bool:
        return any(gate.name == names.GATE for gate in self.spec.scheduling_gates)


class Target(msgspec.Struct, frozen=True):
    """A pod to release."""

    namespace: str
    name: str
    uid: str


class End(StrEnum):
    """How a release ended."""

    RELEASED = "released"
    GONE = "gone"  # deleted meanwhile, another pod of its name included
    REFUSED = "refused"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one pod."""

    namespace: str
    name: str
    end: End
    message: str = ""


def gated(client: Client, namespace: str = "") -> Iterator[Target]:
    """Pods that carry our gate, in a namespace or in all. Raises ForbiddenError, ApiError."""
    items, _ = listed(client, Within("", "v1", "pods", GatedPod, _UNBOUND, namespace=namespace))
    for item in items:
        if isinstance(item, Corrupt) or item.ours:
            yield Target(item.metadata.namespace, item.metadata.name, item.metadata.uid)


def sweep(
    client: Client, namespace: str, targets: list[Target], *, dry_run: bool, tell: Callable[[Answer], None]
) -> list[Answer]:
    """Release what was listed, then what was made meanwhile; nothing that was refused is tried again."""
    answers: list[Answer] = []
    done: set[str] = set()
    for _ in range(PASSES):
        answers += release(client, targets, dry_run=dry_run, tell=tell)
        done.update(t.uid for t in targets)
        targets = [] if dry_run else [t for t in gated(client, namespace) if t.uid not in done]
        if not targets:
            break
    return answers


def release(
    client: Client, targets: Iterable[Target], *, dry_run: bool = False, tell: Callable[[Answer], None]
) -> list[Answer]:
    """Patch the pods, CONCURRENCY at once; `tell` is called with each answer, on this thread.

    A dry run is the server's: it asks admission and changes nothing. Raises ApiError when the server is lost; what is
    under way then is finished, the rest is not begun.
    """
    executor = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="release")
    answers: list[Answer] = []
    try:
        for future in as_completed([executor.submit(one, client, t, dry_run=dry_run) for t in targets]):
            answers.append(future.result())
            tell(answers[-1])
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    return answers


def one(client: Client, target: Target, *, dry_run: bool = False) -> Answer:
    """Release one pod. Raises ApiError where no answer comes or the caller is not known."""
    try:
        _patch(client, target, dry_run=dry_run)
    except ApiError as error:
        if error.status == 0 or error.is_unauthorized:
            raise
        end = End.GONE if _gone(client, target, error) else End.REFUSED
        return Answer(target.namespace, target.name, end, "" if end is End.GONE else error.message)
    return Answer(target.namespace, target.name, End.RELEASED)


def _patch(client: Client, target: Target, *, dry_run: bool) -> None:
    """Safe to repeat: the gate is deleted by name, from the pod of this uid."""
    pause = FIRST_PAUSE
    for attempt in range(1, TRIES + 1):
        try:
            client.request(
                "PATCH",
                path(target),
                body=body(target),
                content_type=STRATEGIC_MERGE_PATCH,
                query={"fieldManager": names.FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {}),
                timeout=TIMEOUT,
            )
        except ApiError as error:
            passing = error.is_overload or error.status == 0
            if not passing or attempt == TRIES:
                raise
            threading.Event().wait(error.retry_after or pause)
            pause *= 2
        else:
            return


def path(target: Target) -> str:
    return f"/api/v1/namespaces/{target.namespace}/pods/{target.name}"


def body(target: Target) -> dict[str, object]:
    gates = [{"name": names.GATE, "$patch": "delete"}]
    return {"metadata": {"uid": target.uid}, "spec": {"schedulingGates": gates}}


def _gone(client: Client, target: Target, error: ApiError) -> bool:
    """Whether the pod that was listed exists no more; a refused uid may mean that its name is used again."""
    if error.is_not_found:
        return True
    if not error.is_conflict and "uid" not in error.message.lower():
        return False
    try:
        found = msgspec.json.decode(client.get(path(target)), type=GatedPod)
    except ApiError as second:
        return second.is_not_found
    return found.metadata.uid != target.uid
