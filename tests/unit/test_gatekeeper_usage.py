"""Use over time: half of what it was after each half-life."""

import pytest

from policy.gatekeeper.usage import Usage


def used(*steps, half_life=10.0):
    usage = Usage(half_life)
    for amount, at in steps:
        usage.take({"q": {"gpu": amount}} if amount else {}, at)
    return usage.all().get("q", {}).get("gpu", 0)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([(8, 0.0)], 8),
        ([(8, 0.0), (0, 10.0)], 4),
        ([(8, 0.0), (0, 20.0)], 2),
        ([(8, 0.0), (0, 10.0), (0, 20.0)], 2),
        ([(0, 0.0), (8, 10.0)], 4),
        ([(8, 0.0), (0, 1000.0)], 0),
        ([(8, 0.0), (0, -5.0)], 8),  # a clock does not go back
    ],
)
def test_half_of_it_is_left_after_a_half_life(steps, found):
    assert used(*steps) == found


def test_without_a_half_life_nothing_is_kept():
    assert used((8, 0.0), half_life=0.0) == 0


def test_what_is_forgotten_leaves_no_entry():
    usage = Usage(10.0)
    usage.take({"q": {"gpu": 8}}, 0.0)
    usage.take({}, 1000.0)
    assert usage.all() == {}
