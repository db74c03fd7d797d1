"""For each kind of owner a manifest that is tested, the plainest first: what docs/owners.md points to."""

import pathlib

import yaml

HOME = pathlib.Path(__file__).parents[2]
PLACES = ("tests/operators/manifests", "tests/spark", "deploy/examples", "tests/unit/wild")


def found():
    """By API group and kind, the first file that holds one."""
    kinds = {}
    for path in (path for place in PLACES for path in sorted((HOME / place).glob("*.yaml"))):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for group, kind in _kinds(document):
                kinds.setdefault((group, kind), path.relative_to(HOME).as_posix())
    return kinds


def _kinds(node):
    if isinstance(node, dict):
        if isinstance(node.get("apiVersion"), str) and isinstance(node.get("kind"), str) and "spec" in node:
            yield node["apiVersion"].rpartition("/")[0], node["kind"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from _kinds(child)
