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
from integration.rigs.plans import Daemons, await_end, await_tenure, plan_of, submit
from integration.rigs.recovery_cells import (
    ENDS_WITHIN_S,
    OPTIONS,
    SHAPES,
    Hand,
    Shape,
    await_death,
    await_heir,
    brokers_held_back,
)
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


def test_replicas_that_a_dead_controller_added_and_told_nothing_are_added_one_by_one(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """
    The successor takes some back first.

    A broker up to Kafka 2.8 that hears of a partition of which it is no replica cannot be added
    until it restarts.
    """
    targets = {(make_topic({0: (1, 2, 3)}, {"min.insync.replicas": "2"}), 0): (5, 4, 3)}
    doomed = daemons.start(
        *OPTIONS,
        "--tenure",
        "permanent",
        "--step-size",
        "all",
        failpoint=("die", Failpoint.A1_WRITTEN),
    )
    await_tenure(doomed)
    submit(cluster, plan_of(targets))
    await_death(doomed)
    with brokers_held_back(cluster, doomed):
        daemons.start(*OPTIONS, "--step-size", "1")
        await_heir(cluster)
        await_end(cluster, targets, within_s=ENDS_WITHIN_S)
