"""Every reason comes out on a live cluster, on the object that people look at, with its figures.

The cases are those whose output docs/reasons.md shows (python -m tests.cluster.reasons).
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from deploy.local.cluster import Cluster
from tests.cluster import breaking, reasons
from tests.cluster.calls import Caller
from tests.cluster.provoking import Subject, World
from tests.cluster.reason_cases import BROKEN, CALM, Case


@pytest.fixture(scope="module")
def world(victim_cluster: Cluster) -> Iterator[World]:
    yield World(victim_cluster, Caller(victim_cluster.kubeconfig))
    breaking.heal(victim_cluster)


@pytest.fixture(scope="module")
def provoked(world: World) -> Iterator[dict[str, Subject]]:
    """All calm cases at once, side by side."""
    with ExitStack() as stack:
        yield {case.reason: case.provoke(world, stack.enter_context(reasons.space_of(world, case))) for case in CALM}


def name(case: Case) -> str:
    return str(case.reason)


@pytest.mark.parametrize("case", CALM, ids=name)
def test_a_reason_is_shown_with_its_figures(world: World, provoked: dict[str, Subject], case: Case) -> None:
    shown(world, case, provoked[case.reason])


@pytest.mark.parametrize("case", BROKEN, ids=name)
def test_a_reason_that_takes_a_broken_part(world: World, case: Case) -> None:
    with reasons.space_of(world, case) as space, case.broken(world, space):
        shown(world, case, case.provoke(world, space))


def shown(world: World, case: Case, subject: Subject) -> None:
    text = reasons.heard(world, case, subject)
    assert re.fullmatch(case.shape, text)
    assert text in reasons.described(world, case, subject)
