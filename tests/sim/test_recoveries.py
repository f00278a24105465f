"""
The table of the proof of recovery: a daemon dies at every boundary, and each hand takes over.

``docs/reference/recovery.md`` is this table; ``recoveries`` says what a cell is made of.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from controller.znodes import paths
from integration.rigs.failpoints import MEANING, NEW_PARTITIONS, REQUESTED_DELETIONS, Failpoint
from tests.sim import recovery_table
from tests.sim.recoveries import Cell
from tests.sim.request_shapes import EVERY, REQUESTING
from tests.sim.shapes import (
    STEPWISE,
    Hand,
    KafkasEnd,
    Route,
    Shape,
    kafkas_end,
    orphans,
    request_names,
    specs,
)

CELLS: Final = [
    pytest.param(shape, failpoint, id=f"{shape.name}-{failpoint}")
    for shape in EVERY
    for failpoint in shape.failpoints
]
LATER: Final = {
    Failpoint.A2_LEADER_NOTIFIED: (2, 3, 5),
    Failpoint.A2_FOLLOWER_NOTIFIED: (2, 3, 5),
    Failpoint.A2_UPDATE_METADATA_SENT: (2, 3, 5),
    Failpoint.SYNCED: (2, 3, 4),
    Failpoint.NEXT_STEP_WRITTEN: (2, 3),
    Failpoint.EXCLUSION_ACKNOWLEDGED: (2, 3, 5),
    Failpoint.B4_STOP_REPLICA_SENT: (2, 3, 5),
    Failpoint.B5_DELETE_SENT: (2, 3, 5),
    Failpoint.B5_ACKNOWLEDGED: (2, 3, 5),
    Failpoint.DROPPED: (2,),
    Failpoint.B6_WRITTEN: (2, 3),
}
"""The boundaries that a plan passes several times, and the later times that are tried."""
BESIDE_THE_NEXT: Final = {
    Failpoint.B8_UPDATE_METADATA_SENT,
    Failpoint.TOPIC_PARTLY_DELETED,
    Failpoint.BEFORE_TOPIC_DELETED,
    Failpoint.TOPIC_DELETED,
}
"""
Boundaries that may come after the next move began: the last sends of a move wait for a broker's
answer, and the end of a deletion for a listing of the topic's znodes.
"""


@pytest.mark.parametrize("hand", [Hand.RESTARTED, Hand.STANDBY, Hand.KAFKA_FIRST])
@pytest.mark.parametrize(("shape", "failpoint"), CELLS)
def test_the_plan_is_carried_out_with_each_successor(
    shape: Shape, failpoint: Failpoint, hand: Hand
) -> None:
    """With a daemon in the end, every target is reached, and disks and znodes are clean."""
    judge_a_daemons_end(Cell(shape, failpoint, hand))


@pytest.mark.parametrize(("shape", "failpoint"), CELLS)
def test_kafkas_controller_ends_what_it_finds_and_our_records_stay(
    shape: Shape, failpoint: Failpoint
) -> None:
    """Without a daemon, exactly the work in the znodes at the death is carried out."""
    cell = Cell(shape, failpoint, Hand.KAFKA)
    judge_kafkas_end(cell)
    match kafkas_end(shape, failpoint):
        case KafkasEnd.PLAN:
            assert cell.replicas() == cell.targets()
        case KafkasEnd.UNSEEN:
            assert cell.replicas() == cell.left
        case KafkasEnd.IN_FLIGHT if shape.route is Route.LEGACY and shape.change is None:
            left = {2} if len(shape.targets) > 2 else set()
            may_have_begun = left if failpoint in BESIDE_THE_NEXT else set()
            assert left - may_have_begun <= cell.waiting() <= left
        case KafkasEnd.NOTHING:
            assert cell.left == cell.targets()
        case KafkasEnd.IN_FLIGHT:
            pass


@pytest.mark.parametrize("hand", [Hand.RESTARTED, Hand.KAFKA])
@pytest.mark.parametrize(
    ("failpoint", "nth"), [(b, n) for b, times in LATER.items() for n in times]
)
def test_the_end_is_the_same_in_later_steps(failpoint: Failpoint, nth: int, hand: Hand) -> None:
    """Steps of other partitions are in flight then."""
    cell = Cell(STEPWISE, failpoint, hand, nth=nth)
    (judge_kafkas_end if hand is Hand.KAFKA else judge_a_daemons_end)(cell)


@pytest.mark.parametrize("hand", Hand)
@pytest.mark.parametrize("failpoint", [Failpoint.BEFORE_ACCEPTED, Failpoint.ACCEPTED])
def test_the_rest_of_a_request_is_accepted_with_each_successor(
    failpoint: Failpoint, hand: Hand
) -> None:
    """A first chunk is accepted or refused, and moves; the next is about to be, or just was."""
    cell = Cell(REQUESTING, failpoint, hand, nth=2)
    first, second = map(str, cell.partitions)
    assert cell.specs == ({first, second} if failpoint is Failpoint.ACCEPTED else {first})
    assert any(name.startswith("request_") for name in cell.requests)
    (judge_kafkas_end if hand is Hand.KAFKA else judge_a_daemons_end)(cell)


def test_every_boundary_is_on_a_way_that_is_tried() -> None:
    """A boundary without a cell would prove nothing; those of clients are tried for real."""
    of_clients = {*NEW_PARTITIONS, *REQUESTED_DELETIONS}
    assert {b for shape in EVERY for b in shape.failpoints} == set(Failpoint) - of_clients
    assert set(MEANING) == set(Failpoint)


def test_the_documentation_is_the_table() -> None:
    """``docs/reference/recovery.md`` is what ``make recovery`` writes."""
    kept = Path(__file__).parents[2] / "docs" / "reference" / "recovery.md"
    assert kept.read_text(encoding="utf-8") == recovery_table.page()


def test_every_test_that_the_documentation_names_exists() -> None:
    """A renamed one would leave the table without its proof."""
    named = re.findall(r"`((?:tests|integration)/\w[\w/]*\.py)(?:::(\w+))?`", recovery_table.page())
    assert len(named) > 5
    for module, test in named:
        source = (Path(__file__).parents[2] / module).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source


def judge_a_daemons_end(cell: Cell) -> None:
    """Take over and judge: the plan is carried out and nothing of it is left anywhere."""
    assert cell.daemon.died_at == cell.failpoint
    cell.take_over()
    assert cell.replicas() == cell.targets()
    assert {p: cell.world.holders(p) for p in cell.partitions} == {
        p: set(cell.targets()[p.partition]) for p in cell.partitions
    }
    assert cell.world.all_healthy()
    assert cell.is_doomed_gone()
    assert cell.is_writable()
    assert (specs(cell.world), orphans(cell.world)) == (set(), set())
    assert cell.world.zookeeper.get(paths.LEGACY_PLAN) is None
    assert request_names(cell.world) == set()
    assert cell.shape.is_placed is None or cell.shape.is_placed(cell.world)
    cell.judge_books()


def judge_kafkas_end(cell: Cell) -> None:
    """Let Kafka's controller take over and judge: it carried out the znodes, and no more."""
    assert cell.daemon.died_at == cell.failpoint
    cell.take_over()
    assert cell.replicas() == cell.promised
    assert all(cell.world.is_healthy(p) for p in cell.partitions)
    assert cell.is_writable()
    assert cell.stray() == set()
    assert cell.is_doomed_gone()
    assert (specs(cell.world), orphans(cell.world)) == (cell.specs, cell.orphans)
    assert request_names(cell.world) == cell.requests
