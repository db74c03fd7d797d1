"""The quota part of a pass: `python -m tests.bench.quota_pass`. 1,000 groups, 200 namespaces, 3 quotas each.

Goal: < 20 ms for the questions about quota (design: issue of quota truth). Exits 1 when it is missed.
"""

import statistics
import sys
import time

import msgspec

from policy.rules.grouping import groups_of
from policy.rules.ledger import Ledger
from policy.rules.model import ScopeFact
from tests.unit.rules_facts import NOW, gang, job, nodes, pods, quota, snapshot

GROUPS, NAMESPACES, ROUNDS = 1000, 200, 9
GOAL = 0.020  # seconds


def cluster():
    """Half of the groups lack members, so that their quotas are asked; in each namespace one quota is short."""
    jobs, members, quotas = [], [], []
    for number in range(GROUPS):
        space, uid = f"ns{number % NAMESPACES}", f"j{number}"
        jobs.append(job(uid, 8, ns=space))
        members += pods(4 if number % 2 else 8, uid, job=uid, ns=space)
    for number in range(NAMESPACES):
        space = f"ns{number}"
        quotas += [
            quota("gpus", space, requests_gpu=30),
            quota("cpus", space, requests_cpu=100, limits_cpu=200),
            quota("quick", space, pods=50, scopes=(ScopeFact("Terminating"),)),
        ]
    found = snapshot(jobs=jobs, pods=members, nodes=nodes(50), quotas=quotas)
    return msgspec.structs.replace(found, namespaces={f"ns{i}": gang(name=f"ns{i}") for i in range(NAMESPACES)})


def asked(ledger, groups):
    for group in groups.values():
        if group.missing and not ledger.quota_stops(group):
            ledger.promise_quota(group)


def main() -> int:
    found = cluster()
    groups = groups_of(found)
    times = []
    for _ in range(ROUNDS):
        ledger = Ledger(found, groups, NOW)
        start = time.perf_counter()
        asked(ledger, groups)
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(f"{GROUPS} groups, {NAMESPACES} namespaces, 3 quotas each: median {median * 1e3:.1f} ms of {ROUNDS}")
    return 0 if median < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
