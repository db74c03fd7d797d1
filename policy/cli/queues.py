"""`ganggate queues`: the tree of queues. Parses and prints; the tree is policy.cli.queue_tree's.

With `apply` it writes them: policy.cli.queue_apply.
"""

from typing import Any, Final

import click

from policy import names
from policy.cli import books, cluster, queue_apply, queue_tree, rows, show
from policy.cli.options import Flags, output, where
from policy.cli.queue_tree import Queue
from policy.cli.wording import table
from policy.rules.decide import decide

HEADER: Final = ("QUEUE", "STATE", "WAITING", "RUNNING", "RESOURCE", "CAPABILITY", "ALLOCATED", "FREE")
_UNLIMITED: Final = "unlimited"


@click.group(invoke_without_command=True)
@where
@output("table", "wide", "json", "yaml", "name")
@click.pass_context
def queues(ctx: click.Context, /, output: str, **options: Any) -> None:
    """Show the tree of queues: what each may use, what is allocated and free, how many groups wait and run.

    Allocated is everything bound, lifted or pinned, whether ganggate lifted it or not, at the queue and its ancestors.
    WAITING and RUNNING count the groups of the queue itself. `-o wide` adds what is wrong with a queue.
    """
    if ctx.invoked_subcommand is not None:
        return
    here = cluster.of(ctx, Flags.taken(options | {"all_namespaces": True, "namespace": None}))
    snapshot, now = here.snapshot(), here.now()
    outcome = decide(snapshot, here.settings.deciding(), now)
    tree = queue_tree.tree(books.charged(snapshot, outcome, now), rows.decided(outcome))
    if output in ("json", "yaml"):
        show.items(tree, output)
    elif output == "name":
        for each in tree:
            click.echo(f"queue.{names.VOLCANO_API}/{each.name}")
    else:
        click.echo(_table(tree, wide=output == "wide"))


queues.add_command(queue_apply.apply)


def _table(tree: list[Queue], *, wide: bool) -> str:
    cells = [row for each in tree for row in _rows(each, wide=wide)]
    return table((*HEADER, "PROBLEM") if wide else HEADER, cells)


def _rows(each: Queue, *, wide: bool) -> list[tuple[str, ...]]:
    """One row a resource; what is the queue's own stands on the first."""
    first = (f"{'  ' * each.depth}{each.name}", each.state, str(each.waiting), str(each.running))
    resources = [
        (name, each.capability.get(name, _UNLIMITED), each.allocated.get(name, "0"), each.free.get(name, _UNLIMITED))
        for name in each.resources
    ] or [("-", "-", "-", "-")]
    own = [first, *[("", "", "", "")] * (len(resources) - 1)]
    problem = [(each.problem or "-",) if wide else (), *[("",) if wide else ()] * (len(resources) - 1)]
    return [(*a, *b, *c) for a, b, c in zip(own, resources, problem, strict=True)]
