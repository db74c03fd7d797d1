"""The entry: commands found by name, failures as one line and an exit code, nothing heavy imported for help."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from policy.cli import failures, main
from policy.cli.main import COMMANDS, cli
from tests.unit.cli_support import FakeWorld, run
from tests.unit.rules_facts import gang, job, pods, snapshot

HEAVY = ("kubernetes", "numpy", "rich", "yaml", "msgspec", "policy.gatekeeper", "policy.rules", "deploy")


def groups(*spaces):
    found = [(ns, job(f"job-{ns}", 1, ns=ns)) for ns in spaces]
    return snapshot(
        jobs=[owner for _, owner in found],
        pods=[p for ns, owner in found for p in pods(1, f"pod-{ns}", job=owner.uid, ns=ns)],
        namespaces=[gang(name=ns) for ns in spaces],
    )


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["--version"], [], ["bogus"]])
def test_what_needs_no_cluster_imports_nothing_heavy(argv):
    code = f"""
import sys
from policy.cli.main import cli
try:
    cli({argv!r}, prog_name="ganggate")
except SystemExit:
    pass
heavy = [m for m in {HEAVY!r} if m in sys.modules]
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_lists_every_command_with_its_line():
    text = " ".join(CliRunner().invoke(cli, ["--help"]).output.split())
    for name, entry in COMMANDS.items():
        assert f"{name} {entry.help}" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_under_its_name(name):
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_version_names_the_program():
    result = CliRunner().invoke(cli, ["--version"], prog_name="ganggate")
    assert result.output.startswith("ganggate ") and result.exit_code == 0


@pytest.mark.parametrize("called, shown", [("/bin/kubectl-gang", "kubectl gang"), ("/bin/ganggate", "ganggate")])
def test_the_plugin_is_called_as_it_was_called(monkeypatch, capsys, called, shown):
    monkeypatch.setattr(sys, "argv", [called, "status", "--help"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"Usage: {shown} status")


@pytest.mark.parametrize(
    "argv, line",
    [
        (["bogus"], "error: No such command 'bogus' (see ganggate --help)"),
        (["status", "--bogus"], "error: No such option '--bogus' (see ganggate status --help)"),
        (["why"], "error: Missing argument 'GROUP' (see ganggate why --help)"),
        (["status", "-n", "a", "-A"], "error: --namespace: 'a' contradicts --all-namespaces: give one of them"),
        (["release"], "error: GROUP: name one group, or give --all"),
        (["release", "x", "--all"], "error: --all: contradicts 'x'"),
        (["why", "a/b/c/d"], "error: GROUP: 'a/b/c/d' is none of NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME"),
        (["why", "a//b"], "error: GROUP: 'a//b' is none of NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME"),
    ],
)
def test_wrong_usage_is_one_line_on_standard_error(argv, line):
    result = run(groups("a"), *argv)
    assert (result.exit_code, result.stderr, result.stdout) == (2, line + "\n", "")


def test_a_value_that_is_no_choice_names_the_choices():
    result = run(groups("a"), "status", "-o", "xml")
    assert result.exit_code == 2
    assert "'xml' is not one of 'table', 'wide', 'json', 'yaml', 'name'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_options_may_stand_before_the_command_and_after_it():
    facts = groups("a", "b")
    before, after = run(facts, "-n", "b", "-o", "name", "status"), run(facts, "status", "-n", "b", "-o", "name")
    assert before.output == after.output == "job/b/job-b\n"
    assert run(facts, "-n", "b", "status", "-n", "a", "-o", "name").stdout == "job/a/job-a\n", "the nearer one counts"
    assert run(facts, "-A", "status", "-o", "name").stdout == "job/a/job-a\njob/b/job-b\n"


def test_a_failure_of_the_cluster_is_its_exit_code():
    class Broken(FakeWorld):
        def snapshot(self):
            raise failures.Failure("API server https://x: no answer:\n timed out")

    result = run(Broken(), "status")
    assert (result.exit_code, result.stderr) == (1, "error: API server https://x: no answer: timed out\n")


def test_colour_only_on_a_terminal_and_never_with_no_color():
    runner = CliRunner()
    world = FakeWorld(groups("team"))
    plain = runner.invoke(cli, ["status"], obj=lambda _: world)
    coloured = runner.invoke(cli, ["status"], obj=lambda _: world, color=True)
    refused = runner.invoke(cli, ["status"], obj=lambda _: world, color=True, env={"NO_COLOR": "1"})
    assert "\x1b[" not in plain.stdout and "\x1b[" in coloured.stdout and "\x1b[" not in refused.stdout


def test_a_reader_that_has_seen_enough_hears_no_complaint():
    code = """
import os, sys
from policy.cli.main import cli
reader, writer = os.pipe()
os.dup2(writer, 1); os.close(writer); os.close(reader)
cli(["--help"], prog_name="ganggate")
"""
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


def test_an_interruption_is_said_and_is_130(monkeypatch):
    class Slow(FakeWorld):
        def snapshot(self):
            raise KeyboardInterrupt

    result = run(Slow(), "status")
    assert (result.exit_code, result.stderr.strip()) == (130, "interrupted")
