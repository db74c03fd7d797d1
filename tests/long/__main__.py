"""`make long`: run every part that has not passed yet, write each result down, go on after an interruption.

Results stand in .long/results.jsonl, one line a part. `--again` forgets them; `--only TEXT` picks parts by name.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(".long/results.jsonl")
LIMIT_SECONDS = 1800
PROMISES = ("test_the_promises_hold", "test_the_promises_hold_where_queues_are_full")
DEADLINE = {"GANGGATE_DEADLINE": "60", "GANGGATE_DEADLINE_WAIT": "300"}
BACKOFF = {"GANGGATE_BACKOFF": "300", "GANGGATE_SOON": "20"}
ORACLE = {"GANGGATE_ORACLE_PODS": "1000", "GANGGATE_ORACLE_GROUPS": "100"}


@dataclass(frozen=True)
class Part:
    name: str
    tests: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    part: str
    passed: bool
    seconds: float
    summary: str
    figures: tuple[str, ...] = ()  # what the tests printed


def parts() -> list[Part]:
    whole = "tests/cluster/test_whole.py::test_every_gang_starts_whole_and_no_limit_is_passed"
    found = [
        Part(f"submissions-{seed}", (whole,), {"GANGGATE_SUBMISSIONS": "100", "GANGGATE_SEED": str(seed)})
        for seed in range(1, 11)
    ]
    found.append(Part("pairs", ("tests/cluster/test_pair.py",), {"GANGGATE_PAIRS": "50"}))
    contention = "tests/operators/test_contention.py"  # builds the operators first, where they are not
    found.append(Part("operators", (contention,), {"GANGGATE_OPERATOR_JOBS": "200", "GANGGATE_SEED": "7"}))
    deadlock, quota = "tests/cluster/test_deadlock.py", "tests/cluster/test_quota.py"
    recipe = f"{deadlock}::test_two_trainings_in_a_quota_for_one_finish_in_turn"
    frozen = f"{deadlock}::test_the_controller_manager_stands_still_in_the_middle_of_a_cure"
    found += [
        Part("deadlocks", (recipe,), {"GANGGATE_DEADLOCKS": "50"}),
        Part("deadlock-frozen", (frozen,), {"GANGGATE_FROZEN": "300"}),
        Part("quota-deadline", (f"{quota}::test_waiting_burns_no_deadline",), DEADLINE),
        Part("quota-backoff", (f"{quota}::test_a_group_that_was_refused_starts_soon_after_the_room",), BACKOFF),
        Part("no-livelock", ("tests/property/test_no_livelock.py",), {"GANGGATE_RUNS": "20000"}),
        Part("late-news", ("tests/property/test_late_news.py",), {"GANGGATE_RUNS": "20000"}),
        *(
            Part(f"oracle-{seed}", ("tests/cluster/test_quota_oracle.py",), ORACLE | {"GANGGATE_SEED": str(seed)})
            for seed in range(1, 6)
        ),
        *(
            Part(
                f"placement-{seed}",
                ("tests/cluster/test_placement_oracle.py",),
                {"GANGGATE_PLACEMENTS": "100", "GANGGATE_SEED": str(seed)},
            )
            for seed in range(1, 11)
        ),
    ]
    queues = "tests/cluster/test_queues.py"
    shares, stream = f"{queues}::test_two_teams_with_more_than_they_can_run", "tests/cluster/test_endless_stream.py"
    recipe = f"{queues}::test_jobs_of_any_size_all_finish_and_none_that_fits_waits"
    found += [
        Part("shares", (shares,), {"GANGGATE_SHARES": "600", "GANGGATE_SHARES_POINTS": "3"}),
        Part("endless-stream", (stream,), {"GANGGATE_STREAM": "600", "GANGGATE_STREAM_NODES": "8"}),
        Part("sixty-jobs", (recipe,), {"GANGGATE_RECIPE": "60", "GANGGATE_SLACK": "0"}),
    ]
    found += [
        Part(
            f"machine-{seed}",
            tuple(f"tests/property/test_machine.py::{name}" for name in PROMISES),
            {"GANGGATE_RUNS": "5000", "GANGGATE_SEED": str(seed)},
        )
        for seed in range(1, 11)
    ]
    return found


def passed_before() -> set[str]:
    if not RESULTS.exists():
        return set()
    lines = (json.loads(line) for line in RESULTS.read_text().splitlines())
    return {line["part"] for line in lines if line["passed"]}


def run(part: Part) -> Result:
    started = time.monotonic()
    argv = [sys.executable, "-m", "pytest", "-q", "-rP", "--timeout", str(LIMIT_SECONDS), *part.tests]
    done = subprocess.run(argv, env=os.environ | part.env, capture_output=True, text=True, timeout=LIMIT_SECONDS + 60)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        print("\n".join(lines[-60:]), file=sys.stderr)
    seconds = round(time.monotonic() - started, 1)
    return Result(part.name, done.returncode == 0, seconds, lines[-1] if lines else "", tuple(printed(lines)))


def printed(lines: list[str]) -> Iterator[str]:
    """Lines of the sections in which pytest shows what passed tests said."""
    inside = False
    for line in lines:
        if line.startswith(("---", "___", "===")):
            inside = "Captured stdout call" in line
        elif inside:
            yield line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.again:
        RESULTS.unlink(missing_ok=True)
    RESULTS.parent.mkdir(exist_ok=True)
    before = passed_before()
    wanted = [part for part in parts() if options.only in part.name]
    if options.list:
        for part in wanted:
            print(f"{part.name}: {'passed' if part.name in before else 'to do'}")
        return 0
    failed = 0
    for part in wanted:
        if part.name in before:
            continue
        result = run(part)
        with RESULTS.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(
            f"{result.part}: {'passed' if result.passed else 'FAILED'} in {result.seconds} s: {result.summary}",
            flush=True,
        )
        failed += not result.passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
