"""A timer examines only the partitions that wait for it."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.model import Blocked, BlockedBy
from controller.core.records import TimerFired
from controller.core.wakeups import (
    ALTER_ANSWER_TIMER,
    ALTER_SEEN_TIMER,
    LEADER_MOVES_TIMER,
    LOG_DIRS_TIMER,
    PREFERRED_TIMER,
)
from controller.core.worklist import Worklist
from tests.core.builders import Driver, tp
from tests.core.counting_dicts import Walked, watch_reassignments


def at_work() -> Driver:
    """Return ten reassignments: one in flight, and one that waits for leaderships to move again."""
    driver = Driver({tp(n): (1, 2) for n in range(10)}, options=Options(max_partitions_in_flight=1))
    driver.submit({tp(n): (1, 3) for n in range(10)})
    driver.view.reassignments.by_partition[tp(7)].blocked = Blocked(
        BlockedBy.LEADER_MOVES, "too many"
    )
    driver.view.reassignments.by_partition[tp(8)].blocked = Blocked(
        BlockedBy.CONTROLLER_ANSWER, "not yet"
    )
    return driver


def noted(due: Worklist) -> set[str]:
    """Return what has to be looked at, by the names of the notes."""
    return {name for name in Worklist.__slots__ if getattr(due, name)}


@pytest.mark.parametrize(
    ("timer", "notes"),
    [
        (LEADER_MOVES_TIMER, {"partitions"}),
        (PREFERRED_TIMER, {"elections"}),
        (LOG_DIRS_TIMER, {"log_dirs"}),
        (ALTER_ANSWER_TIMER, {"timer", "partitions"}),
        (ALTER_SEEN_TIMER, {"timer", "partitions"}),
    ],
)
def test_a_timer_that_comes_often_has_only_that_looked_at_which_requested_it(
    timer: str, notes: set[str]
) -> None:
    """Where 100,000 partitions wait, everything is a tenth of a second."""
    driver = at_work()
    states = driver.view.leadership.states = Walked(driver.view.leadership.states)
    reassignments = watch_reassignments(driver.view)
    driver.fold(TimerFired(timer))
    assert noted(driver.view.due) == notes
    assert states.walked == 0
    assert reassignments.walked <= (len(reassignments) if "partitions" in notes else 0)


def test_a_second_later_only_those_are_looked_at_whose_leaderships_could_not_move() -> None:
    """The others wait for something whose end is an event."""
    driver = at_work()
    driver.fold(TimerFired(LEADER_MOVES_TIMER))
    assert list(driver.view.due.partitions) == [tp(7)]


@pytest.mark.parametrize("timer", [ALTER_ANSWER_TIMER, ALTER_SEEN_TIMER])
def test_alter_entries_are_looked_at_with_what_waits_for_the_controller(timer: str) -> None:
    """It has no other sign that an order will not be made."""
    driver = at_work()
    driver.fold(TimerFired(timer))
    assert tp(8) in driver.view.due.partitions


def test_a_timer_of_several_purposes_has_everything_looked_at_that_may_wait() -> None:
    """Also those without a timer of their own: they are found then at the latest."""
    driver = at_work()
    driver.fold(TimerFired("any"))
    assert noted(driver.view.due) >= {
        "tenure",
        "plan",
        "capacity",
        "submissions",
        "cancel",
        "queue",
    }
    assert list(driver.view.due.partitions) == [tp(7), tp(8)]
