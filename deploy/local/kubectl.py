"""Runs the kubectl that was built with the cluster, against one kubeconfig and nothing else."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.local.errors import LocalError

TIMEOUT_SECONDS: Final = 120.0
FIELD_MANAGER: Final = "ganggate-local"
_APPLY: Final = ("apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}")


class KubectlError(LocalError):
    """kubectl answered with an error; the text is its own."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One identity on one cluster."""

    binary: Path
    kubeconfig: Path
    cache: Path

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = TIMEOUT_SECONDS) -> str:
        """What `kubectl <arguments>` printed. Raises KubectlError, with its error text, unless it exits with 0."""
        try:
            answer = subprocess.run(
                [str(self.binary), *arguments],
                env=self._environment(),
                input=stdin,
                capture_output=True,
                check=False,
                text=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no answer within {timeout:g} s") from None
        if answer.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip() or answer.stdout.strip()}")
        return answer.stdout

    def json(self, *arguments: str) -> Any:
        """The object or list that `kubectl <arguments> -o json` answers."""
        return json.loads(self(*arguments, "-o", "json"))

    def raw(self, path: str) -> Any:
        """What the API server answers to GET `path`: the cheapest call there is, for polling."""
        return json.loads(self("get", "--raw", path))

    def apply(self, objects: Iterable[Mapping[str, Any]], *, validate: bool = True) -> None:
        """Server-side apply, taking over whatever field somebody else holds; unknown fields are refused.

        Without `validate` the server is spared the making of its OpenAPI documents, about a second when fresh.
        """
        self(*_APPLY, f"--validate={str(validate).lower()}", "-f", "-", stdin=_list(objects))

    def apply_files(self, files: Iterable[Path]) -> None:
        """The same for files that are not ours, as they are: no definition is too large for kubectl to read."""
        self(*_APPLY, "--validate=false", *_each(files))

    def established(self, files: Iterable[Path]) -> None:
        """Wait until the definitions in these files are served."""
        self("wait", "--for=condition=Established", "--timeout=60s", *_each(files))

    def create(self, objects: Iterable[Mapping[str, Any]], *, validate: bool = True) -> None:
        self("create", f"--validate={str(validate).lower()}", "-f", "-", stdin=_list(objects))

    def _environment(self) -> dict[str, str]:
        own = {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.cache)}
        return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | own


def _each(files: Iterable[Path]) -> Iterator[str]:
    return (f"--filename={file}" for file in files)


def _list(objects: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
