"""`ganggate release`: the way out when gatekeeper and webhook are down. Asks, shows progress, counts.

Parses and prints; policy.cli.releasing does it. Needs nothing but the API server: no CRD, no webhook, no gatekeeper.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from policy import names
from policy.cli import cluster, find, releasing, show, view
from policy.cli.failures import Exit, Misuse
from policy.cli.options import Flags, output, where
from policy.cli.releasing import Answer, End, Target
from policy.cli.wording import count
from policy.cli.world import World

_SHOWN: Final = 5  # different refusals printed


@click.command()
@where
@output("text", "json", "yaml")
@click.argument("reference", metavar="[GROUP]", required=False)
@click.option("--all", "everything", is_flag=True, help="Every pod that carries the gate; with -n, of that namespace.")
@click.option("--dry-run", is_flag=True, help="Have the API server and its admission judge, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def release(
    ctx: click.Context,
    /,
    reference: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    output: str,
    **options: Any,
) -> int:
    """Remove ganggate's gate from the pods of GROUP, or with --all from every pod that carries it.

    Nobody checks quota, capability or nodes: the pods start as the scheduler finds room, gangs perhaps in part. Gates
    of others stay. It takes the verbs list and patch on pods and, where the policies are installed, lift on
    groups.ganggate.io.

    Exit code 0: nothing refused; 1: something was; 3: no such group.
    """
    if everything == bool(reference):
        raise Misuse(f"--all: contradicts {reference!r}" if everything else "GROUP: name one group, or give --all")
    flags = Flags.taken(options)
    here = cluster.of(ctx, flags)
    within = flags.namespace or ""
    with cluster.answered(here):
        targets = list(releasing.gated(here.client, within)) if reference is None else _members(here, flags, reference)
    if targets and not dry_run and not yes:
        _ask(targets)
    with cluster.answered(here), _progress(len(targets)) as tell:
        if reference is None:
            answers = releasing.sweep(here.client, within, targets, dry_run=dry_run, tell=tell)
        else:
            answers = releasing.release(here.client, targets, dry_run=dry_run, tell=tell)
    _report(answers, output, dry_run=dry_run)
    return Exit.ERROR if any(a.end is End.REFUSED for a in answers) else Exit.OK


def _members(here: World, flags: Flags, reference: str) -> list[Target]:
    """The gated members of one group."""
    seen = view.look(here, flags, find.namespace_in(reference))
    found = find.group(seen.snapshot, seen.groups, reference, None if flags.all_namespaces else here.namespace)
    return [Target(m.namespace, m.name, m.uid) for m in found.gated]


def _ask(targets: Sequence[Target]) -> None:
    """Raises Misuse where nobody is there to answer, Abort where the answer is no."""
    if not attended():
        raise Misuse("--yes: needed where nobody can be asked")
    spaces = count(len({t.namespace for t in targets}), "namespace")
    question = f"Remove the gate from {count(len(targets), 'pod')} of {spaces}? Gangs may start in part."
    click.confirm(question, abort=True, err=True)


def attended() -> bool:
    """Whether somebody sits at the terminal."""
    return sys.stdin.isatty()


@contextmanager
def _progress(length: int) -> Iterator[Callable[[Answer], None]]:
    """A bar on standard error, on a terminal only."""
    with click.progressbar(length=length, label="releasing", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        yield lambda _: bar.update(1)


def _report(answers: Sequence[Answer], output: str, *, dry_run: bool) -> None:
    counts = Counter(answer.end for answer in answers)
    refused = [a for a in answers if a.end is End.REFUSED]
    if output != "text":
        told = [{"namespace": a.namespace, "name": a.name, "message": a.message} for a in sorted(refused, key=_place)]
        summary = {"dryRun": dry_run, "released": counts[End.RELEASED], "gone": counts[End.GONE], "refused": told}
        show.structure(summary, output)
        return
    click.echo(_summary(answers, counts, dry_run=dry_run))
    for message, pods in list(_by_message(refused).items())[:_SHOWN]:
        click.echo(f"error: {count(len(pods), 'pod')} refused, such as {pods[0]}: {message}", err=True)


def _summary(answers: Sequence[Answer], counts: Counter[End], *, dry_run: bool) -> str:
    if not answers:
        return f"no pod carries the gate {names.GATE}"
    released = {a.namespace for a in answers if a.end is End.RELEASED}
    done = "would release" if dry_run else "released"
    where = f" in {count(len(released), 'namespace')}" if released else ""
    parts = [f"{done} {count(counts[End.RELEASED], 'pod')}{where}"]
    parts += [f"{counts[End.GONE]} had gone"] if counts[End.GONE] else []
    parts += [f"{counts[End.REFUSED]} refused"] if counts[End.REFUSED] else []
    return ", ".join(parts)


def _place(answer: Answer) -> tuple[str, str]:
    return answer.namespace, answer.name


def _by_message(refused: Sequence[Answer]) -> dict[str, list[str]]:
    """Pods by what was said of them, whatever their names; the most frequent first."""
    found: dict[str, list[str]] = {}
    for answer in sorted(refused, key=_place):
        found.setdefault(answer.message.replace(answer.name, "…"), []).append(f"{answer.namespace}/{answer.name}")
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
