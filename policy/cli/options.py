"""Options that every command which asks a cluster shares, as kubectl spells them.

They may stand before or after the command's name. Imports click only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from policy.cli.failures import Misuse

F = TypeVar("F", bound=Callable[..., Any])
WHERE = ("kubeconfig", "context", "namespace", "all_namespaces")


@dataclass(frozen=True, slots=True)
class Flags:
    """Which cluster, as whom, and where in it."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False

    @classmethod
    def taken(cls, options: dict[str, Any]) -> "Flags":
        """Take ours out of a command's options. Raises Misuse where two of them contradict."""
        flags = cls(**{name: options.pop(name) for name in WHERE})
        if flags.namespace and flags.all_namespaces:
            raise Misuse(f"--namespace: {flags.namespace!r} contradicts --all-namespaces: give one of them")
        return flags


def where(command: F) -> F:
    """Add --kubeconfig, --context, --namespace and --all-namespaces."""
    for decorate in reversed(
        (
            click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config."),
            click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current one."),
            click.option("-n", "--namespace", metavar="NAME", help="Default: the context's namespace."),
            click.option("-A", "--all-namespaces", is_flag=True, help="Look at every namespace."),
        )
    ):
        command = decorate(command)
    return command


def output(*choices: str) -> Callable[[F], F]:
    """Add -o; the first choice is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="How to print it."
    )
