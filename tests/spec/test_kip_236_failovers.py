"""KIP-236, "On controller failover": what a new controller has to cope with, case by case."""

from __future__ import annotations

import pytest

from controller.core.model import TopicPartition
from controller.znodes import paths
from integration.rigs.failpoints import Failpoint
from tests.sim.builders import ids
from tests.sim.recoveries import Cell
from tests.sim.request_shapes import REQUESTING
from tests.sim.shapes import AT_ONCE, DOOMED, STEPWISE, Hand, Shape, request_names

ROUTES_GONE = (Failpoint.A1_WRITTEN, Failpoint.NEXT_STEP_WRITTEN, Failpoint.DROPPED)


@pytest.mark.parametrize("shape", [STEPWISE, AT_ONCE], ids=lambda shape: shape.name)
def test_failover_case_1_a_legacy_znode_made_without_a_controller_is_carried_out(
    shape: Shape,
) -> None:
    """The daemon of this history claims a free role; before it, nothing is done."""
    cell = Cell(shape, Failpoint.CLAIMED, Hand.RESTARTED)
    assert cell.left == dict.fromkeys(shape.targets, cell.original())
    assert cell.specs == set()
    cell.take_over()
    assert cell.replicas() == cell.targets()
    assert cell.world.zookeeper.get(paths.LEGACY_PLAN) is None


@pytest.mark.parametrize("hand", [Hand.RESTARTED, Hand.STANDBY, Hand.KAFKA_FIRST])
def test_failover_case_2_requests_made_without_a_controller_are_carried_out(hand: Hand) -> None:
    """Asked between the death and the take-over: another target of what moves, and a new move."""
    cell = Cell(REQUESTING, Failpoint.A1_WRITTEN, hand)
    world = cell.world
    moving, other = cell.partitions[0], TopicPartition(DOOMED, 0)
    assert world.assignment(moving).is_reassigning
    assert world.zookeeper.get(paths.CONTROLLER) is not None
    requests = [world.submit_request({moving: (2, 5, 1)}), world.submit_request({other: (4, 5)})]
    assert {*requests} <= request_names(world)
    cell.take_over()
    assert cell.replicas() == {**cell.targets(), 0: ids((2, 5, 1))}
    assert world.assignment(other).replicas == ids((4, 5))
    assert request_names(world) == set()
    cell.judge_books()


@pytest.mark.parametrize("failpoint", ROUTES_GONE)
def test_failover_case_3_what_was_in_flight_is_restarted_from_its_own_records(
    failpoint: Failpoint,
) -> None:
    """``/admin/reassignments`` alone says it: the legacy znode is gone with the old controller."""
    cell = Cell(STEPWISE, failpoint, Hand.RESTARTED)
    assert cell.specs == {str(p) for p in cell.partitions}
    cell.world.zookeeper.remove_tree(paths.LEGACY_PLAN)
    cell.take_over()
    assert cell.replicas() == cell.targets()
