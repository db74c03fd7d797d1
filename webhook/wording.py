"""How values of a pod are shown in one line to a person. Knows text only."""

from typing import Final

_LONGEST_VALUE: Final = 253  # characters: any object's name is shown whole
_LONGEST_LINE: Final = 1000  # the API server hands the message to users and into controllers' events (note <= 1024)


def shown(value: str) -> str:
    """`value` in double quotes, cut when longer than a name can be."""
    short = value if len(value) <= _LONGEST_VALUE else value[:_LONGEST_VALUE] + "…"
    return f'"{short}"'


def one_line(text: str) -> str:
    """Control characters become spaces, and the end is cut, so that the text stays one readable line."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
