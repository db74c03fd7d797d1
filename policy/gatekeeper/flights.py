"""Lift patches on their way: assumed before the first is sent, forgotten when each is answered.

    assume(plan)  --> the snapshot shows these pods as lifted and pinned, so that nothing else takes their place
       | patch answered: the answer is in the pod store, which the next snapshot reads
       | patch refused or unanswered
    forget(uid)   --> the pod shows as what the store holds

Every assume has its forget: a flight that nobody forgot would charge a node for ever. Thread-safe; does no I/O.
"""

import threading
from collections.abc import Iterable

import msgspec

from policy.rules.lift_plan import LiftPatch
from policy.rules.model import Lifted, PodFacts


class Flights:
    """Which pods are being lifted, and to where."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: dict[str, tuple[str, Lifted]] = {}

    def assume(self, patches: Iterable[LiftPatch], lifted: Lifted) -> None:
        with self._lock:
            self._planned.update({patch.uid: (patch.node, lifted) for patch in patches})

    def forget(self, uid: str) -> None:
        with self._lock:
            self._planned.pop(uid, None)

    def overlay(self, pods: tuple[PodFacts, ...]) -> tuple[PodFacts, ...]:
        """The pods, with those in flight as their patch will make them."""
        with self._lock:
            planned = dict(self._planned)
        return tuple(_lifted(p, *planned[p.uid]) if p.uid in planned else p for p in pods) if planned else pods

    def __len__(self) -> int:
        return len(self._planned)


def _lifted(pod: PodFacts, node: str, lifted: Lifted) -> PodFacts:
    """Only what is still gated changes: an answered patch may be in the store before its flight is forgotten."""
    if not pod.gated:
        return pod
    return msgspec.structs.replace(pod, gated=False, lifted=lifted, pin=node or pod.pin)
