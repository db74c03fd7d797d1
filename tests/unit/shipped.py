"""Reads the shipped YAML for the tests of it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
BASE = DEPLOY / "kustomize" / "base"
FOLDERS = ("crds", "kustomize", "policies", "scheduler", "examples")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (DEPLOY / folder).rglob("*")
    if path.suffix == ".yaml" or path.name == "Kustomization"
)
NO_OBJECT = frozenset({BASE / "config.yaml", DEPLOY / "scheduler" / "config.yaml"})
GATEKEEPER = "ganggate-gatekeeper"


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def objects(folder: Path = DEPLOY, kind: str | None = None) -> Iterator[dict[str, Any]]:
    for path in FILES:
        if path.is_relative_to(folder) and path not in NO_OBJECT:
            yield from (each for each in documents(path) if kind in (None, each["kind"]))


def the(kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in objects(kind=kind) if each["metadata"]["name"] == name)
    return found


def quoted(expression: str) -> set[str]:
    """The strings that a CEL expression holds."""
    return set(re.findall(r"'([^']*)'", expression)) - {""}


def condition(entry: dict[str, Any], name: str) -> str:
    """The expression of one of an entry's matchConditions."""
    (found,) = (each["expression"] for each in entry["matchConditions"] if each["name"] == name)
    return found
