"""Words that several explanations share. May know the conclusions."""

from policy.rules.conclusions import Group


def called(group: Group) -> str:
    return f"{group.identity.kind} {group.identity.name}"


def pods_need(number: int) -> str:
    return f"{count(number, 'pod')} need{plural(number)}"


def plural(number: int) -> str:
    return "s" if number == 1 else ""


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def members(group: Group) -> dict[str, int]:
    return {"present": len(group.members), "minMember": group.need, "missing": group.missing}
