"""Pieces of sentences: what pods ask for, why nodes take none, and numbers with their nouns.

For explanations and the command line, so that both say the same. May know the conclusions, quantities and shortages.
"""

from policy.rules import quantity
from policy.rules.conclusions import Group
from policy.rules.model import Shape
from policy.rules.shortage import Unknown

MOST_REASONS = 5  # kinds of node named in one message; the rest are counted together


def request_text(shape: Shape, *, each: bool = False) -> str:
    """What one pod asks for, extended resources first, and where."""
    amounts = sorted(shape.requests.items(), key=lambda item: ("/" not in item[0], item[0]))
    text = ", ".join(f"{quantity.text(a, n)} {n}" for n, a in amounts if a) or "a place"
    text += " each" if each else ""
    where = [f"{k}={v}" for k, v in sorted(shape.node_selector.items())]
    text += f" with {', '.join(where)}" if where else ""
    text += f" spread over {shape.spread.topology_key} (maxSkew {shape.spread.max_skew})" if shape.spread else ""
    return f"{text} on one node" if shape.beside else text


def reasons_text(reasons: dict[str, int]) -> str:
    """Nodes by reason, most frequent first; reasons comes ranked."""
    ranked = list(reasons.items())
    parts = [f"{count(n, 'node') if i == 0 else n} {why}" for i, (why, n) in enumerate(ranked)]
    shown = parts[:MOST_REASONS]
    rest = sum(number for _, number in ranked[MOST_REASONS:])
    return ", ".join([*shown, *([f"{rest} for other reasons"] if rest else [])])


def unknown(found: Unknown) -> str:
    """The label that no node carries, and the most similar that exist."""
    near = ", ".join(found.near)
    text = f"no node has {found.text}" if found.known else f"no node has a label {found.key}"
    return f"{text}; nearest: {near}" if near else text


def pods_need(number: int) -> str:
    return f"{count(number, 'pod')} need{plural(number)}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plural(number: int) -> str:
    return "s" if number == 1 else ""


def called(group: Group) -> str:
    return f"{group.identity.kind} {group.identity.name}"


def members(group: Group) -> dict[str, int]:
    return {"present": len(group.members), "minMember": group.need, "missing": group.missing}
