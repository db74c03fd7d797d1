"""`ganggate status`: one row for each group. Parses and prints; the rows are policy.cli.rows'."""

from typing import Any, Final

import click

from policy import names
from policy.cli import cluster, rows, show, view
from policy.cli.failures import NotFound
from policy.cli.options import Flags, output, where
from policy.cli.rows import Row
from policy.cli.view import View
from policy.cli.wording import age_text
from policy.rules.belonging import managed
from policy.rules.facts import epoch

HEADER: Final = (
    "NAMESPACE",
    "NAME",
    "STATE",
    "REASON",
    "READY",
    "LIFTED",
    "BOUND",
    "QUEUE",
    "POSITION",
    "AGE",
)


@click.command()
@where
@output("table", "wide", "json", "yaml", "name")
@click.option("--waiting", is_flag=True, help="Only groups that have not started.")
@click.pass_context
def status(ctx: click.Context, /, output: str, waiting: bool, **options: Any) -> None:
    """List groups: what state each is in, why, and its position among those that wait.

    READY is how many members exist, of how many must start together. `-o wide` adds the reason in full.
    """
    flags = Flags.taken(options)
    here = cluster.of(ctx, flags)
    seen = view.look(here, flags)
    namespace = None if flags.all_namespaces else here.namespace
    found = rows.chosen(seen.rows, namespace, waiting=waiting)
    for text in seen.notes:
        show.note(text)
    if found or output in ("json", "yaml"):
        _print(found, output, seen.now)
    else:
        click.echo(_nothing(seen, namespace, waiting=waiting), err=True)
    silence = here.silence() if any(r.state in rows.UNSTARTED for r in found) else ""
    if silence:
        show.note(silence)


def _print(found: list[Row], output: str, now: float) -> None:
    if output in ("json", "yaml"):
        show.items(found, output)
    elif output == "name":
        for each in found:
            click.echo(f"{each.kind.lower()}/{each.namespace}/{each.name}")
    else:
        wide = output == "wide"
        cells = [_cells(each, now, wide=wide) for each in found]
        show.columns((*HEADER, "MESSAGE") if wide else HEADER, cells, [each.reason for each in found])


def _cells(each: Row, now: float, *, wide: bool) -> tuple[str, ...]:
    age = age_text(now - epoch(each.created_at)) if each.created_at else "-"
    cells = (
        each.namespace,
        each.title,
        each.state,
        each.reason or "-",
        f"{each.present}/{each.min_member}",
        str(each.lifted),
        str(each.bound),
        each.queue,
        str(each.position or "-"),
        age,
    )
    return (*cells, each.message) if wide else cells


def _nothing(seen: View, namespace: str | None, *, waiting: bool) -> str:
    """Why there is no row. Raises NotFound where the namespace does not exist."""
    what = "No waiting groups" if waiting else "No groups"
    if namespace is None:
        return f"{what} in any namespace."
    known = seen.snapshot.namespaces.get(namespace)
    if known is None and seen.outcome is not None:
        raise NotFound(f"--namespace: {namespace!r} does not exist")
    if known is not None and not managed(known):
        text = f"its label {names.NAMESPACE_POLICY} is {known.policy!r}, not gang or hybrid" if known.policy else ""
        return (
            f"{what} in namespace {namespace}: {text or f'it has no label {names.NAMESPACE_POLICY}'} (-A looks at all)."
        )
    return f"{what} in namespace {namespace} (-A looks at all)."
