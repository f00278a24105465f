"""
Daemons that die at a boundary between two writes or sends, on real brokers and under a producer.

Every boundary of ``integration.rigs.failpoints`` is tried with every hand, where leaders write
their ISR themselves and where they ask the daemon. Acceptance tests are, of the former, one row of
that table, two chains, in which daemons die at one boundary after the other, and one hand for each
boundary that is in neither. Smoke tests are three cells of that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import NATIVE, Row
from integration.rigs.failpoints import Failpoint
from integration.rigs.operator_actions import forget
from integration.rigs.plans import Daemons
from integration.rigs.recovery_cells import SHAPES, Hand, Shape
from integration.rigs.recovery_scenes import (
    CHAINED,
    die_and_be_succeeded,
    die_one_after_the_other,
)

ROW: Final = Failpoint.EXCLUSION_ACKNOWLEDGED
"""The row of the acceptance tests: the leader knows who is dropped, nothing is deleted yet."""
SMOKE: Final = ((NATIVE[0], Hand.RESTARTED), (NATIVE[0], Hand.KAFKA), (NATIVE[1], Hand.RESTARTED))
"""The clusters and hands of the smoke tests, at that boundary."""


def cell_marks(
    row: Row, shape: Shape, failpoint: Failpoint, hand: Hand
) -> list[pytest.MarkDecorator]:
    """Return the marks of a cell; one hand does for a shape that no chain passes."""
    is_alone = shape not in CHAINED and hand is Hand.RESTARTED
    if failpoint is ROW and (row, hand) in SMOKE:
        return [pytest.mark.smoke]
    return marks(row) if failpoint is ROW or is_alone else []


def marks(row: Row) -> list[pytest.MarkDecorator]:
    """Return the marks of an acceptance test, if the row is the shared cluster's."""
    return [] if row.endpoint else [pytest.mark.acceptance]


CELLS: Final = [
    pytest.param(
        row,
        shape,
        failpoint,
        hand,
        id=f"{row.name}-{shape.name}-{failpoint}-{hand}",
        marks=cell_marks(row, shape, failpoint, hand),
    )
    for row in NATIVE
    for shape in SHAPES
    for failpoint in shape.failpoints
    for hand in Hand
]


@pytest.fixture
def cluster(native_cluster: Cluster) -> Iterator[Cluster]:
    """Give the cluster of a row with everything up; a pause of a failed test does not stay."""
    native_cluster.heal()
    yield native_cluster
    native_cluster.heal()
    forget(native_cluster)


@pytest.mark.parametrize(
    ("native_cluster", "shape", "failpoint", "hand"), CELLS, indirect=["native_cluster"]
)
def test_the_plan_is_carried_out_and_no_record_is_lost_with_each_successor(  # noqa: PLR0913, PLR0917 - fixtures
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    shape: Shape,
    failpoint: Failpoint,
    hand: Hand,
) -> None:
    """Kill -9 of itself, then the hand: every target, no stray directory, nothing of ours left."""
    die_and_be_succeeded(cluster, make_topic, daemons, shape, failpoint, hand)


@pytest.mark.parametrize(
    ("native_cluster", "shape"),
    [
        pytest.param(row, shape, id=f"{row.name}-{shape.name}", marks=marks(row))
        for row in NATIVE
        for shape in CHAINED
    ],
    indirect=["native_cluster"],
)
def test_daemons_die_at_one_boundary_after_the_other(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, shape: Shape
) -> None:
    """Each takes up what the one before left, and dies as well; the last one finishes."""
    die_one_after_the_other(cluster, make_topic, daemons, shape)
