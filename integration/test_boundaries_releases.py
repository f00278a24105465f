"""
Daemons that die at every boundary while leaders ask them, on brokers of older releases.

The cells and chains of ``test_boundaries`` at the releases' own protocol. Of the cells each release
takes one hand for each boundary, another than the release before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.failpoints import Failpoint
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.plans import Daemons
from integration.rigs.recovery_cells import SHAPES, Hand, Shape
from integration.rigs.recovery_scenes import (
    CHAINED,
    die_and_be_succeeded,
    die_one_after_the_other,
)

OLDER: Final = [row for row in ROWS if row.endpoint and row.release is not KAFKA_3_9]
HANDS: Final = tuple(Hand)
BOUNDARIES: Final = [
    pytest.param(shape, failpoint, turn, id=f"{shape.name}-{failpoint}")
    for shape in SHAPES
    for turn, failpoint in enumerate(shape.failpoints)
]

pytestmark = [
    pytest.mark.usefixtures("nothing_turned"),
    pytest.mark.parametrize("shared_cluster", OLDER, ids=lambda row: row.name, indirect=True),
]


@pytest.fixture(scope="module")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    row: Row = request.param
    with row.running() as found:
        yield found


@pytest.fixture
def hand(request: pytest.FixtureRequest, turn: int) -> Hand:
    """Give the successor whose turn it is."""
    row: Row = request.node.callspec.params["shared_cluster"]
    return HANDS[(OLDER.index(row) + turn) % len(HANDS)]


@pytest.mark.parametrize(("shape", "failpoint", "turn"), BOUNDARIES)
def test_the_plan_is_carried_out_and_no_record_is_lost_with_a_successor(  # noqa: PLR0913, PLR0917 - fixtures
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    shape: Shape,
    failpoint: Failpoint,
    hand: Hand,
) -> None:
    """Kill -9 of itself, then the hand: every target, no stray directory, nothing of ours left."""
    die_and_be_succeeded(cluster, make_topic, daemons, shape, failpoint, hand)


@pytest.mark.parametrize("shape", CHAINED, ids=lambda shape: shape.name)
def test_daemons_die_at_one_boundary_after_the_other(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, shape: Shape
) -> None:
    """Every target, no acknowledged record lost, nothing left over."""
    die_one_after_the_other(cluster, make_topic, daemons, shape)
