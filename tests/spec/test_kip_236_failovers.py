"""
KIP-236, "On controller failover": what a new controller has to cope with, one test for each case.

Case 2, children of ``/admin/reassignment_requests`` that were made while nobody led, belongs
between the two tests of this file; nothing reads requests yet.
"""

from __future__ import annotations

import pytest

from controller.reactor.boundaries import Boundary
from controller.znodes import paths
from tests.sim.recoveries import Cell
from tests.sim.shapes import AT_ONCE, STEPWISE, Hand, Shape

ROUTES_GONE = (Boundary.A1_WRITTEN, Boundary.NEXT_STEP_WRITTEN, Boundary.DROPPED)


@pytest.mark.parametrize("shape", [STEPWISE, AT_ONCE], ids=lambda shape: shape.name)
def test_failover_case_1_a_legacy_node_made_while_nobody_led_is_carried_out(shape: Shape) -> None:
    """The daemon of this history claims a role that nobody holds; before it, nothing is done."""
    cell = Cell(shape, Boundary.CLAIMED, Hand.RESTARTED)
    assert cell.left == dict.fromkeys(shape.targets, cell.original())
    assert cell.goals == set()
    cell.take_over()
    assert cell.replicas() == cell.targets()
    assert cell.world.zookeeper.get(paths.LEGACY_PLAN) is None


@pytest.mark.parametrize("boundary", ROUTES_GONE)
def test_failover_case_3_what_was_in_flight_is_restarted_from_its_own_records(
    boundary: Boundary,
) -> None:
    """``/admin/reassignments`` alone says it: the legacy znode is gone with the old controller."""
    cell = Cell(STEPWISE, boundary, Hand.RESTARTED)
    assert cell.goals == {str(p) for p in cell.partitions}
    cell.world.zookeeper.remove_tree(paths.LEGACY_PLAN)
    cell.take_over()
    assert cell.replicas() == cell.targets()
