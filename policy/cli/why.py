"""`ganggate why GROUP`: one group explained. Parses, finds, prints; the content is policy.cli.explanation's."""

from typing import Any

import click

from policy.cli import cluster, explanation, find, rows, show, story, view
from policy.cli.failures import Exit
from policy.cli.options import Flags, output, where


@click.command()
@where
@output("text", "json", "yaml")
@click.argument("reference", metavar="GROUP")
@click.pass_context
def why(ctx: click.Context, /, reference: str, output: str, **options: Any) -> int:
    """Explain one group: what it waits for, with the figures, and what would help; or where its members run.

    GROUP is the name of a group, its PodGroup, its owner or one of its pods, if need be with kind or namespace: NAME,
    KIND/NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME.

    Exit code 0: admitted or running; 4: it waits, or it fits and no gatekeeper leads; 5: it can never fit; 3: no such
    group.
    """
    flags = Flags.taken(options)
    here = cluster.of(ctx, flags)
    seen = view.look(here, flags, find.namespace_in(reference))
    for text in seen.notes:
        show.note(text)
    namespace = None if flags.all_namespaces else here.namespace
    group = find.group(seen.snapshot, seen.groups, reference, namespace)
    found = explanation.of(seen, group, view.report(here, seen, group))
    silence = here.silence() if found.group.state in rows.UNSTARTED else ""
    if output == "text":
        for text in story.told(found, seen.now, "" if found.group.waiting else silence):
            click.echo(text)
    else:
        show.structure(found, output)
    if silence and (found.group.waiting or output != "text"):
        show.note(silence)
    return Exit.WAITS if silence and found.group.verdict is Exit.OK else found.group.verdict
