"""Quotas checked against the pods that exist: where the two witnesses differ, keys that limit nothing, and the words.

The witness of the gatekeeper asks here; decide asks policy.rules.namespace_quota itself. May know the model.
"""

from collections.abc import Iterator

import msgspec

from policy import names
from policy.rules import namespace_quota, quantity
from policy.rules.belonging import managed
from policy.rules.model import PodFacts, QuotaFacts, Snapshot
from policy.rules.namespace_quota import resource_of

idle_keys = namespace_quota.idle_keys


class Difference(msgspec.Struct, frozen=True):
    """One key of one quota, in nano units."""

    quota: QuotaFacts
    key: str
    used: int
    counted: int


def differences(snapshot: Snapshot, now: float) -> Iterator[Difference]:
    """In namespaces whose pods we gate; others are nobody's business here."""
    quotas = [q for q in snapshot.quotas if managed(snapshot.namespaces.get(q.namespace))]
    spaces = {quota.namespace for quota in quotas}
    pods: dict[str, list[PodFacts]] = {}
    for pod in snapshot.pods:
        if pod.namespace in spaces:
            pods.setdefault(pod.namespace, []).append(pod)
    tallies = {space: namespace_quota.tally(found, now) for space, found in pods.items()}
    for quota in quotas:
        count = namespace_quota.counted(quota, tallies.get(quota.namespace, ()))
        for key, (used, counted) in namespace_quota.disagreements(quota, count).items():
            yield Difference(quota, key, used, counted)


def disagrees(quota: str, key: str, used: int, counted: int, seconds: float) -> tuple[names.Reason, str]:
    resource = resource_of(key)
    a, b = quantity.text(used, resource), quantity.text(counted, resource)
    text = f"quota {quota}: status.used of {key} is {a}, the pods that exist add up to {b}, for {seconds:.0f} s now"
    return names.Reason.QUOTA_DISAGREES, text


def never_binds(quota: str, key: str) -> tuple[names.Reason, str]:
    right = f"requests.{key.removeprefix('limits.')}"
    text = f"quota {quota}: {key} limits nothing, since of extended resources only requests are counted: use {right}"
    return names.Reason.QUOTA_NEVER_BINDS, text
