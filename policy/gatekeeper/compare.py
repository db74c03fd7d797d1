"""Is the cache what the API server holds? A fresh list against a Store, for debugging.

On a busy cluster a difference that is gone at the next look is nothing; one that stays is a bug.
"""

from dataclasses import dataclass
from typing import Any

from policy.gatekeeper.cache import Store, as_version
from policy.gatekeeper.decode import Decoder
from policy.gatekeeper.source import Source
from policy.gatekeeper.watch import Api, Tuning, list_pages


@dataclass(frozen=True, slots=True)
class Comparison:
    """Uids: `missing` in the cache, `surplus` in it, `stale` in it at an older version than listed."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    stale: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not (self.missing or self.surplus or self.stale)


def compare(client: Api, source: Source[Any], store: Store[Any, Any]) -> Comparison:
    """List `source` anew and compare. Raises ApiError and StreamError."""
    pages = list_pages(client, source, Decoder(source.type), Tuning())
    listed = [item.metadata for page in pages for item in page.items]
    actual = {meta.uid: as_version(meta.resource_version) for meta in listed}
    held = store.versions()
    return Comparison(
        missing=tuple(sorted(actual.keys() - held.keys())),
        surplus=tuple(sorted(held.keys() - actual.keys())),
        stale=tuple(sorted(uid for uid in actual.keys() & held.keys() if held[uid] < actual[uid])),
    )
