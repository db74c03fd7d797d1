"""The house itself: what a reviewer would count, counted on every run, and guards that are tested too."""

import ast
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from policy.names import Reason
from policy.rules import lifecycle
from policy.rules.membership import families
from tests.unit import owner_examples

HOME = Path(__file__).parents[2]
ROOMS = ("webhook", "policy", "certs", "deploy")
CODE = sorted(path for room in ROOMS for path in (HOME / room).rglob("*.py"))
TESTS = sorted((HOME / "tests").rglob("*.py"))


def named(paths):
    return {"ids": [str(path.relative_to(HOME)) for path in paths], "argvalues": paths}


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


# --- pages that are drawn from the code ------------------------------------------------------------------------


def test_the_table_of_owners_is_fresh() -> None:
    page = (HOME / "docs" / "owners.md").read_text(encoding="utf-8")
    drawn = families.drawing(owner_examples.found())
    assert drawn in page, f"docs/owners.md: draw\n\n{drawn}\n"


def test_the_lifecycle_is_drawn_as_its_table_stands():
    page = (HOME / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{lifecycle.drawing()}\n```" in page, f"docs/lifecycle.md: draw\n\n{lifecycle.drawing()}\n"


@pytest.mark.parametrize("state", lifecycle.State)
def test_every_state_is_explained(state):
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", (HOME / "docs" / "lifecycle.md").read_text(encoding="utf-8"), re.M)
    assert rows.count(state.value) == 1


@pytest.mark.parametrize("seen", lifecycle.Seen)
def test_every_observation_is_explained(seen):
    page = (HOME / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert len(re.findall(rf"^\| {re.escape(seen.value)} \| .+ \|$", page, re.M)) == 1


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_one_entry(reason):
    assert headings().count(reason.value) == 1


def test_no_entry_is_of_a_reason_that_does_not_exist():
    assert set(headings()) == {reason.value for reason in Reason}


def headings():
    return re.findall(r"^## (\S+)$", (HOME / "docs" / "reasons.md").read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_given_by_somebody(reason):
    used = re.compile(rf"\bReason\.{reason.name}\b")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in CODE if path.name != "names.py")


# --- what is written where -------------------------------------------------------------------------------------

FOREIGN_NAMES = re.compile(r"ganggate\.io/|volcano\.sh/|scheduling\.(x-)?k8s\.io/|sigs\.k8s\.io/")


@pytest.mark.parametrize("path", **named([path for path in CODE if path.name != "names.py"]))
def test_names_are_written_in_one_place(path):
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"{number}: {line.strip()}" for number, line in lines if FOREIGN_NAMES.search(line)] == []


@pytest.mark.parametrize("path", **named([path for path in CODE if path.read_text(encoding="utf-8").strip()]))
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(tree(path))


MARKS = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]))
PASSED_BY = re.compile("|".join([r"mark\.sk" + "ip", r"pytest\.sk" + r"ip\(", "x" + "fail", r"unittest\.sk" + "ip"]))


@pytest.mark.parametrize("path", **named(CODE + TESTS))
def test_nothing_is_left_for_later(path):
    assert MARKS.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", **named(TESTS))
def test_no_test_is_passed_by_or_sleeps(path):
    text = path.read_text(encoding="utf-8")
    assert PASSED_BY.findall(text) == []
    assert re.findall(r"time\.sle" + r"ep\(", text) == []


# --- figures ---------------------------------------------------------------------------------------------------

LONG_FOR_A_REASON = {
    # A list of the API's own fields, in its order: one place to look them up, nothing to understand.
    "policy/rules/objects.py"
}


def bodies():
    """Length of each function without its docstring, and its place."""
    for path in CODE:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body:
                    yield (
                        body[-1].end_lineno - body[0].lineno + 1,
                        f"{path.relative_to(HOME)}:{node.lineno} {node.name}",
                    )


def test_functions_are_short():
    found = sorted(bodies())
    lengths = [length for length, _ in found]
    assert statistics.median(lengths) <= 5
    assert lengths[int(len(lengths) * 0.9)] <= 25
    assert lengths[-1] <= 45, found[-1]


@pytest.mark.parametrize("path", **named(CODE))
def test_modules_are_short(path):
    if str(path.relative_to(HOME)) not in LONG_FOR_A_REASON:
        assert path.read_text(encoding="utf-8").count("\n") <= 300


# --- contracts -------------------------------------------------------------------------------------------------


def lint_imports(home):
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", home / "pyproject.toml"],
        cwd=home,
        env={"PYTHONPATH": str(home), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The code as it stands, to be broken."""
    home = tmp_path_factory.mktemp("house")
    shutil.copy(HOME / "pyproject.toml", home)
    for room in ROOMS:
        shutil.copytree(HOME / room, home / room, ignore=lambda _, names: [n for n in names if n == "__pycache__"])
    return home


def test_the_contracts_hold(copy):
    code, text = lint_imports(copy)
    assert code == 0, text
    assert "4 kept, 0 broken" in text


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("policy/rules/order.py", "import socket", "The rules know nothing of ours but the names"),
        ("policy/rules/order.py", "import policy.gatekeeper.clock", "The rules know nothing of ours but the names"),
        ("webhook/patch.py", "import policy.rules.decide", "The webhook decides from the review alone"),
        ("policy/names.py", "import kubernetes", "Only the shell talks to the API server"),
        (
            "policy/gatekeeper/clock.py",
            "import policy.rules.placement",
            "decide is the only caller of its five questions",
        ),
    ],
)
def test_a_contract_that_is_broken_is_told(copy, module, line, contract):
    path = copy / module
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}\n{line}\n", encoding="utf-8")
    try:
        code, text = lint_imports(copy)
    finally:
        path.write_text(before, encoding="utf-8")
    assert code == 1, text
    assert f"{contract} BROKEN" in text
