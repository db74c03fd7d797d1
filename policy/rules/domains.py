"""How many pods of one class each node may take where a rule binds nodes together: all on one, or even over domains.

Pure arithmetic on rows: what each has room for goes in, what each is to be given comes out. May know numpy only.
"""

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def together(room: Rows, order: Rows, wanted: int) -> Rows:
    """All on the first row, in this order, that takes all; where none does, on the one that takes most."""
    given = np.zeros_like(room)
    if len(order):
        enough = order[room[order] >= wanted]
        best = int(enough[0]) if len(enough) else int(order[np.argmax(room[order])])
        given[best] = min(int(room[best]), wanted)
    return given


def even(room: Rows, order: Rows, wanted: int, *, domain: Rows, there: Rows, skew: int) -> Rows:
    """As many as fit, up to `wanted`, so that no domain given any has over `skew` more than the emptiest has then.

    `domain` numbers the domain of each row, -1 for a row that is in none; `there` is how many pods each domain has
    already. The scheduler asks this of one pod after the other. In whatever order it takes them it comes to the
    same: the emptiest domain always takes one more while it has room, so the level that it can reach (`floor`) bounds
    all the others, and what holds when all are there holds at each step (PodTopologySpread's Filter).
    """
    given = np.zeros_like(room)
    if not len(there):
        return given
    inside = domain >= 0
    capacity = np.zeros_like(there)
    np.add.at(capacity, domain[inside], np.minimum(room[inside], wanted))
    floor = int((there + capacity).min())
    wanted = min(wanted, int(np.clip(floor + skew - there, 0, capacity).sum()))
    level = _level(there, floor, wanted)
    least, most = np.clip(level - there, 0, None), np.clip(level + skew - there, 0, capacity)
    lifting = int(least.sum())  # all domains to the level first; then the rest, where it is packed best
    _pour(given, room, order, domain, least, lifting)
    _pour(given, room, order, domain, most - least, wanted - lifting)
    return given


def _pour(given: Rows, room: Rows, order: Rows, domain: Rows, most: Rows, wanted: int) -> None:
    """Give rows more, in this order, up to their room and to what their domain may take."""
    left, spare = wanted, most.tolist()
    for row in order.tolist():
        take = min(int(room[row] - given[row]), spare[domain[row]], left) if domain[row] >= 0 else 0
        given[row] += take
        spare[domain[row]] -= take
        left -= take
        if not left:
            break


def _level(there: Rows, floor: int, wanted: int) -> int:
    """The highest level, up to `floor`, to which `wanted` pods can fill up all domains."""
    low, high = min(int(there.min()), floor), floor
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.clip(middle - there, 0, None).sum()) <= wanted:
            low = middle
        else:
            high = middle - 1
    return low
