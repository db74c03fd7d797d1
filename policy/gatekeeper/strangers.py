"""Controllers of kinds that nobody told of, as long as pods of theirs are held or were lifted.

Each is looked up when its first held pod appears, and again every few seconds, for nothing tells of a change; its pods
wait until the first answer. Paced and bounded, since a tenant may name any controller. Decides nothing.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from policy.gatekeeper.cache import Delta
from policy.gatekeeper.clock import Clock
from policy.gatekeeper.lookup import Answer, Asked, Lookup, wanted
from policy.gatekeeper.threads import serve
from policy.rules.membership.families import Kinds
from policy.rules.model import OwnerFacts, PodFacts

AGAIN_SECONDS: Final = 15.0  # before an object is read again
FAILED_SECONDS: Final = 2.0  # before one is, of which the server gave no answer
PER_SECOND: Final = 20.0  # objects read
MOST: Final = 2_000  # objects that are looked at
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Answer
    until: float  # monotonic seconds


class Strangers:
    """`run` in a thread of its own; told of pods by their store. Thread-safe."""

    def __init__(
        self,
        lookup: Lookup,
        pods: Callable[[], Iterable[PodFacts]],
        kinds: Kinds,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._lookup, self._pods, self._kinds = lookup, pods, kinds
        self._clock, self._changed = clock, changed
        self._kept: dict[str, _Kept] = {}  # replaced as a whole, never changed: read from any thread
        self._wake = threading.Event()
        self._met = False  # a pod of such a kind was ever seen

    def pod(self, delta: Delta[PodFacts]) -> None:
        """Be told of a change of a pod."""
        if delta.after is not None and wanted((delta.after,), self._kinds).keys() - self._kept.keys():
            self._met = True
            self._wake.set()

    def owners(self) -> dict[str, OwnerFacts]:
        """Those whose size is known, by uid."""
        return {uid: k.answer.owner for uid, k in self._kept.items() if k.answer.owner is not None}

    def unsized(self) -> dict[str, str]:
        """Why the others have none, by uid; of those that could not be asked yet nothing."""
        return {uid: k.answer.why for uid, k in self._kept.items() if k.answer.owner is None and not k.answer.failed}

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""

        def work() -> bool:
            self.turn(stop)
            return False

        serve(work, self._wake, self._clock, stop)

    def turn(self, stop: threading.Event) -> None:
        """Ask for all that are due, the new ones first."""
        if not self._met:
            return
        asked = wanted(self._pods(), self._kinds)
        self._keep({uid: kept for uid, kept in self._kept.items() if uid in asked})
        now = self._clock.monotonic()
        due = [uid for uid in asked if uid not in self._kept or self._kept[uid].until <= now]
        for uid in sorted(due, key=lambda uid: uid in self._kept):
            if stop.is_set():
                return
            self._ask(uid, asked[uid])
            self._clock.wait(stop, 1.0 / PER_SECOND)

    def _ask(self, uid: str, asked: Asked) -> None:
        before = self._kept.get(uid)
        if before is None and len(self._kept) >= MOST:
            answer = Answer(why=f"the size of {asked.ref.kind} {asked.ref.name} is not looked up: more than {MOST} are")
        else:
            answer = self._lookup.ask(asked)
        if answer.failed:
            _LOG.warning("%s", answer.why)
            if before is not None and not before.answer.failed:
                answer = before.answer  # an outage changes nothing
        pause = FAILED_SECONDS if answer.failed else AGAIN_SECONDS
        self._keep({**self._kept, uid: _Kept(answer, self._clock.monotonic() + pause)})

    def _keep(self, kept: Mapping[str, _Kept]) -> None:
        before, self._kept = self._kept, dict(kept)
        if _facts(before) != _facts(self._kept):
            self._changed()


def _facts(kept: Mapping[str, _Kept]) -> dict[str, Answer]:
    return {uid: _plain(one.answer) for uid, one in kept.items()}


def _plain(answer: Answer) -> Answer:
    """Without the version: the owner's status changes it all the time."""
    if answer.owner is None:
        return answer
    return Answer(msgspec.structs.replace(answer.owner, version=""), answer.why, answer.failed)
