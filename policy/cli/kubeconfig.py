"""Says what is wrong with a kubeconfig in the terms of whoever named it, before the kubernetes package trips over it.

Reads the files once and keeps nothing of them: they hold keys.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from policy.cli.failures import Failure

HOME: Final = "~/.kube/config"
VARIABLE: Final = "KUBECONFIG"


def located(given: str | None, context: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The files that count, as the kubernetes package takes them: one path, or several with the system's separator.

    Raises Failure unless one exists, every one that does is a kubeconfig, and one of them has the context.
    """
    candidates = list(_candidates(given, environ))
    existing = [(source, path) for source, path in candidates if path.exists()]
    if not existing:
        tried = ", ".join(f"{source} {path}" for source, path in candidates)
        raise Failure(f"{tried}: no such file; name a kubeconfig with --kubeconfig or ${VARIABLE}")
    contexts = [name for source, path in existing for name in _contexts(_read(source, path))]
    if context and context not in contexts:
        raise Failure(f"--context: {context!r} is none of {', '.join(contexts) or 'those there are: none'}")
    return os.pathsep.join(str(path) for _, path in existing)


def _contexts(content: dict[str, Any]) -> Iterator[str]:
    for each in content.get("contexts") or ():
        if isinstance(each, dict) and "name" in each:
            yield str(each["name"])


def _candidates(given: str | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The files in question and who named them; $KUBECONFIG may list several, of which some may be missing."""
    if given:
        yield "--kubeconfig:", Path(given).expanduser()
    elif environ.get(VARIABLE):
        for part in environ[VARIABLE].split(os.pathsep):
            if part:
                yield f"${VARIABLE}:", Path(part).expanduser()
    else:
        yield "kubeconfig:", Path(HOME).expanduser()


def _read(source: str, path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{source} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise Failure(f"{source} {path} is no YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict) or not content.get("clusters"):
        raise Failure(f"{source} {path} is no kubeconfig: it has no clusters")
    return content
