"""
Daemons that die at a boundary between two writes or sends, on real brokers and under a producer.

Every boundary of ``integration.rigs.failpoints`` is tried with every hand, where leaders write
their ISR themselves and where they ask the daemon. Smoke tests are, of the former, one row of that
table, two chains, in which daemons die at one boundary after the other, and one hand for each
boundary that is in neither.
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
"""The row that is a smoke test: the leader knows who is dropped, nothing is deleted yet."""


def is_alone(shape: Shape, hand: Hand) -> bool:
    """Return whether no other smoke test passes the shape's boundaries: one hand does for each."""
    return shape not in CHAINED and hand is Hand.RESTARTED


def marks(row: Row, *, is_smoke: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that is a smoke test on the shared cluster."""
    return [pytest.mark.smoke] if is_smoke and not row.endpoint else []


CELLS: Final = [
    pytest.param(
        row,
        shape,
        failpoint,
        hand,
        id=f"{row.name}-{shape.name}-{failpoint}-{hand}",
        marks=marks(row, is_smoke=failpoint is ROW or is_alone(shape, hand)),
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
        pytest.param(row, shape, id=f"{row.name}-{shape.name}", marks=marks(row, is_smoke=True))
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
