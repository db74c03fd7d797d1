"""docs/failure-matrix.md, docs/reasons.md and docs/troubleshooting.md against the tests and the code that they speak of."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from policy import names
from tests.cluster.reason_cases import BROKEN, CALM

ROOT = Path(__file__).parents[2]
MATRIX, REASONS, TROUBLE = (ROOT / "docs" / f"{name}.md" for name in ("failure-matrix", "reasons", "troubleshooting"))
TEST = re.compile(r"`(test_\w+(?:\[[^]]*\])?)`")
# NeverFits is what several questions answer; a group can be invalid in its PodGroup, its labels or its owner.
SEVERAL = {
    names.Reason.NEVER_FITS,
    names.Reason.PODGROUP_INVALID,
    names.Reason.REQUESTS_MISSING,
    names.Reason.GIVEN_BACK,
    names.Reason.OWNER_UNREADABLE,
    names.Reason.RESUMED,
    names.Reason.QUEUE_CAPABILITY_SHORT,  # and what others are guaranteed
}


@pytest.fixture(scope="module")
def collected() -> dict[str, str]:
    """File by name of every cluster test, as pytest knows it."""
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/cluster"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert listed.returncode == 0, listed.stdout[-2000:]
    nodes = [line for line in listed.stdout.splitlines() if "::" in line]
    return {node.rpartition("::")[2]: Path(node.partition("::")[0]).name for node in nodes}


def rows(document: Path) -> list[list[str]]:
    lines = [line for line in document.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-") and row[0] != "scenario"]


# --- the matrix ----------------------------------------------------------------------------------------------


def test_there_are_twenty_scenarios_and_each_row_is_complete():
    found = rows(MATRIX)
    assert len(found) >= 20
    assert {len(row) for row in found} == {6}
    assert max(Counter(row[0] for row in found).values()) == 1


def test_every_row_names_tests_that_exist(collected):
    for row in rows(MATRIX):
        named = TEST.findall(row[-1])
        assert named, f"{row[0]}: no test"
        assert [name for name in named if name not in collected] == [], row[0]


def test_every_test_of_failures_is_a_row(collected):
    named = {name for row in rows(MATRIX) for name in TEST.findall(row[-1])}
    tests = {name for name, file in collected.items() if file.startswith("test_failures_")}
    assert tests - named == set()


# --- reasons -------------------------------------------------------------------------------------------------


def sections(document: Path) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", document.read_text(), flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a heading twice"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def emitters() -> dict[names.Reason, set[str]]:
    """Functions of the rules that make a decision or a problem with the reason; the table of states announces only."""
    found: dict[names.Reason, set[str]] = {reason: set() for reason in names.Reason}
    for path in (ROOT / "policy" / "rules").glob("*.py"):
        if path.name != "lifecycle.py":
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef):
                    for reason in emitted(function):
                        found[reason].add(f"{path.stem}.{function.name}")
    return found


def emitted(function: ast.FunctionDef) -> set[names.Reason]:
    """Reasons in what it returns or yields, or hands to a Problem; comparisons do not count."""
    compared = {id(n) for c in ast.walk(function) if isinstance(c, ast.Compare) for n in ast.walk(c)}
    used = [
        n.attr
        for n in ast.walk(function)
        if isinstance(n, ast.Attribute) and n.attr in names.Reason.__members__ and id(n) not in compared
    ]
    return {names.Reason[name] for name in used}


def test_every_reason_has_exactly_one_section_in_the_order_of_the_names():
    assert list(sections(REASONS)) == [str(reason) for reason in names.Reason]


def test_every_reason_is_emitted_by_one_function_unless_it_answers_several_questions():
    found = emitters()
    assert [r for r in names.Reason if not found[r]] == [], "never emitted"
    assert {r for r in names.Reason if len(found[r]) > 1} <= SEVERAL, found


def test_every_reason_says_what_it_means_what_to_do_and_shows_it():
    for reason, text in sections(REASONS).items():
        assert re.search(rf"<!-- captured: {reason} -->\n```console\n\$ kubectl (describe|events) ", text), reason
        assert re.search(rf"^.* (Normal|Warning) +{reason} ", text, re.MULTILINE), f"{reason}: not in its output"
        assert "**Means**" in text and "**To do**" in text, reason


SHOWN = r"^.* \w+ +{} .*?(?:gatekeeper|ResourceQuota/\w+) +(.*)$"


def test_the_shown_text_is_what_the_cluster_tests_demand():
    for case in CALM + BROKEN:
        shown = re.search(SHOWN.format(case.reason), sections(REASONS)[case.reason], re.MULTILINE)
        assert shown and re.fullmatch(case.shape, shown[1]), case.reason


def test_every_reason_is_provoked_on_a_live_cluster_once():
    assert Counter(case.reason for case in CALM + BROKEN) == Counter(names.Reason)


# --- troubleshooting -----------------------------------------------------------------------------------------


def test_every_reason_that_holds_a_group_leads_to_a_symptom():
    text = TROUBLE.read_text()
    quiet = {"GangAdmitted", "GangLifted", "GangRunning", "GangFinished", "GateReleased", "GangResumed"}
    assert [r for r in names.Reason if str(r) not in quiet and f"`{r}`" not in text] == []


def test_links_between_the_pages_lead_somewhere():
    for document in (MATRIX, REASONS, TROUBLE):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
