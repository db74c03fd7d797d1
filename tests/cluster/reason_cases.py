"""The cases that bring out each reason, with the text that must come out: for test_reasons.py and docs/reasons.md.

CALM ones stand side by side on one cluster; BROKEN ones take a part of it away and run one after the other.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from policy.names import Reason
from tests.cluster import provoking
from tests.cluster.provoking import Subject, World


@dataclass(frozen=True)
class Case:
    """`shape` is what the event's whole text must look like."""

    reason: Reason
    shape: str
    provoke: Callable[[World, str], Subject]
    broken: Callable[[World, str], AbstractContextManager[None]] | None = None  # around provoking and looking
    queues: tuple[str, ...] = ()  # that the namespace may use

    @property
    def namespace(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.reason).lower()


CALM = (
    Case(
        Reason.FORMING,
        r"[12] of 4 pods exist; waiting for [23] more \(spec.minMember of \S+ PodGroup train\)",
        provoking.forming,
    ),
    Case(
        Reason.NAMESPACE_QUOTA_SHORT,
        r"[12] of 4 created; the [23] missing need [23] requests.nvidia.com/gpu, quota gpus has [01] of 6 left",
        provoking.quota_short,
    ),
    Case(
        Reason.QUEUE_CAPABILITY_SHORT,
        r"2 pods need 2 nvidia.com/gpu, queue \S+ has 1 of 4 left",
        provoking.capability_short,
    ),
    Case(Reason.QUEUE_MISSING, r"queue 'team-b' does not exist; it starts when it is created", provoking.queue_missing),
    Case(Reason.QUEUE_CLOSED, r"queue '\S+' is Closed", provoking.queue_closed),
    Case(
        Reason.QUEUE_NOT_ALLOWED,
        r"queue 'team-b' is not one that this namespace may use: team-a, spare",
        provoking.queue_not_allowed,
        queues=("team-a", "spare"),
    ),
    Case(
        Reason.NODES_SHORT,
        r"60 pods need 1 nvidia.com/gpu each: \d+ fit( on \d nodes|; .*)",
        provoking.nodes_short,
    ),
    Case(
        Reason.BEHIND_RESERVATION,
        r"1 pod would fit now, but PodGroup large, ahead of it, is to start by \d\d:\d\d:\d\d UTC, and nothing says that .*",
        provoking.behind,
    ),
    Case(
        Reason.NEVER_FITS,
        r"can never fit: 2 pods need 16 nvidia.com/gpu each, and no node could take even one were it up and empty: .*",
        provoking.never_fits,
    ),
    Case(
        Reason.REQUESTS_MISSING,
        r"quota sums demands that every container states limits.cpu; the pods do not, so waiting won't help",
        provoking.unstated,
    ),
    Case(
        Reason.CREATE_REFUSED,
        r"0 of 2 created; the API server refuses the rest: Error creating: pods \S+ is forbidden: maximum nvidia.com/gpu .*",
        provoking.create_refused,
    ),
    Case(
        Reason.GIVEN_BACK,
        r"suspended so that waiting burns nothing of activeDeadlineSeconds, resumed when all 4 fit; [0-2] of 4 created; .*",
        provoking.given_back,
    ),
    Case(Reason.RESUMED, r"Job train resumed: all 4 pods fit now", provoking.resumed),
    Case(
        Reason.QUOTA_DEADLOCK,
        r"2 of 3 created; .*; holds part of quota gpus, which PodGroup a needs first, and keeps it: pod train-0 has no "
        r"owner that would make it again",
        provoking.deadlocked,
    ),
    Case(
        Reason.QUOTA_NEVER_BINDS,
        r"quota idle: limits.nvidia.com/gpu limits nothing, since of extended resources only requests are counted: "
        r"use requests.nvidia.com/gpu",
        provoking.idle_quota,
    ),
    Case(
        Reason.PODGROUP_MISSING,
        r"PodGroup 'train' \(named by annotation \S+\) does not exist in namespace '\S+'",
        provoking.podgroup_missing,
    ),
    Case(
        Reason.PODGROUP_INVALID,
        r"annotation \S+ is 'two': it must be a whole number from 1",
        provoking.podgroup_invalid,
    ),
    Case(
        Reason.FOREIGN_GATE,
        r"2 pods behind gates that are not ours: example.com/data-staged; ours is lifted last",
        provoking.foreign_gate,
    ),
    Case(
        Reason.ADMITTED,
        r"2 of 2 pods \(minMember 2\) fit: lifting their gates, queue default, placed on \d nodes?",
        provoking.started("pod"),
    ),
    Case(Reason.RUNNING, r"2 of 2 pods lifted, 2 bound", provoking.started("job")),
    Case(Reason.FINISHED, r"no pod is left of 2 that started together", provoking.ending),
    Case(
        Reason.BYPASSED,
        r"2 pods run without having been held by ganggate, 2 bound; they are charged",
        provoking.bypassed,
    ),
    Case(Reason.RELEASED, r"namespace \S+ asks for no gangs any more: 2 gates lifted", provoking.released),
    Case(
        Reason.TOO_MANY_GROUPS,
        r"5 groups of namespace \S+ wait already; this one is judged when one has started",
        provoking.too_many,
    ),
)
BROKEN = (
    Case(
        Reason.LIFT_REFUSED,
        r"1 patch refused, next try in \d+ s: pod train-\S+: 422 .*pods are frozen during the audit.* \(tried out\)",
        provoking.started("pod"),
        provoking.refusing_updates,
    ),
    Case(Reason.LIFTED, r"2 of 2 pods lifted, 0 bound", provoking.started("job"), provoking.without_scheduler),
    Case(
        Reason.BIND_TIMEOUT,
        r"2 of 2 pods lifted, 0 bound after \d+ s: see their FailedScheduling events; not given back, since pod train-0 "
        r"has no owner that would make it again",
        provoking.pair,
        provoking.without_scheduler,
    ),
    Case(
        Reason.DEGRADED,
        r"1 of 2 pods lifted, 1 bound: 1 fewer than must run together; ganggate tears no group that ran, its owner makes "
        r"members anew",
        provoking.degraded,
        provoking.without_collector,
    ),
    Case(
        Reason.PREEMPTED,
        r"preempted by the scheduler: train-1-\S+ for (pod urgent|a pod of higher priority); 1 of 2 run",
        provoking.preempted,
        provoking.with_urgency,
    ),
    Case(
        Reason.QUOTA_DISAGREES,
        r"quota gpus: status.used of requests.nvidia.com/gpu is 1, the pods that exist add up to 0, for \d+ s now",
        provoking.disagreeing,
        provoking.without_collector,
    ),
    Case(
        Reason.OWNER_GONE,
        r"Job 'train' \(uid \S+\) does not exist in namespace '\S+'",
        provoking.owner_gone,
        provoking.without_collector,
    ),
    Case(
        Reason.OWNER_UNREADABLE,
        r"StatefulSet train cannot be read: the right to list statefulsets.apps is missing",
        provoking.stateful,
        provoking.without_sight_of_sets,
    ),
)
