"""`ganggate queues apply -f FILE`: a table of queues becomes Queue objects. Parses, writes, prints.

By server-side apply under a manager of its own: fields that the file gives are the file's, one that it gives no more
goes away, and what others wrote stays. https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import yaml

from policy import names
from policy.cli import cluster
from policy.cli.failures import Exit, Failure, Misuse
from policy.cli.options import Flags, where
from policy.gatekeeper.client import Client
from policy.gatekeeper.errors import ApiError
from policy.rules.objects import ObjectMeta
from policy.rules.queue_table import Row, TableError, manifest, read

MANAGER: Final = "ganggate-queues"
APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
_PATH: Final = f"/apis/{names.VOLCANO_API}/{names.VOLCANO_VERSION}/queues"


class _Object(msgspec.Struct):
    metadata: ObjectMeta


@click.command()
@where
@click.option("-f", "--filename", metavar="FILE", required=True, help="The table; - for standard input.")
@click.option("--dry-run", is_flag=True, help="Have the API server judge, and change nothing.")
@click.pass_context
def apply(ctx: click.Context, /, filename: str, dry_run: bool, **options: Any) -> int:
    """Make or change Queues from a table: queues: [{name, weight, capability, reclaimable, policy, ...}].

    The fields are those of Queue (docs/queues.md); guarantee holds its amounts directly, and policy (gang or binpack)
    becomes an annotation. Queues that the file does not name are left alone.

    Exit code 0: all of them are written; 1: some were refused; 2: the file cannot be used, and nothing is written.
    """
    rows = _rows(filename)
    here = cluster.of(ctx, Flags.taken(options))
    with cluster.answered(here):
        refused = [row.name for row in rows if not _applied(here.client, row, dry_run=dry_run)]
    return Exit.ERROR if refused else Exit.OK


def _rows(filename: str) -> tuple[Row, ...]:
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        return read(yaml.safe_load(text))
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{filename}: {error}") from error
    except (yaml.YAMLError, TableError) as error:
        raise Misuse(f"{filename}: {' '.join(str(error).split())}") from error


def _applied(client: Client, row: Row, *, dry_run: bool) -> bool:
    """Write one queue and say what became of it; tell whether it was taken."""
    path, query = f"{_PATH}/{row.name}", {"fieldManager": MANAGER, "force": "true"}
    if dry_run:
        query["dryRun"] = "All"
    before = _version(client, path)
    try:
        answer = client.request("PATCH", path, body=manifest(row), content_type=APPLY, query=query)
    except ApiError as error:
        if error.is_not_found or not 400 <= error.status < 500:
            raise
        click.echo(f"queue/{row.name} refused: {error.message}", err=True)
        return False
    after = msgspec.json.decode(answer, type=_Object).metadata.resource_version
    what = "created" if before is None else "unchanged" if before == after else "configured"
    click.echo(f"queue/{row.name} {what}{' (dry run)' if dry_run else ''}")
    return True


def _version(client: Client, path: str) -> str | None:
    try:
        return msgspec.json.decode(client.get(path), type=_Object).metadata.resource_version
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
