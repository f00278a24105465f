"""Tests of ``controller.telemetry.boards``."""

from __future__ import annotations

from controller.telemetry.boards import QUESTIONS_MAX, StatusBoard
from controller.telemetry.listings import Filter
from tests.core.builders import tp
from tests.telemetry.builders import FixedClock, a_view, partition_state


def a_board(clock: FixedClock) -> StatusBoard:
    """Return a board that publishes at most every second."""
    return StatusBoard(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0, interval_s=1.0
    )


def test_there_is_nothing_before_the_first_turn() -> None:
    """A reader that comes too early sees that there is nothing."""
    assert a_board(FixedClock()).latest is None


def test_snapshots_keep_their_distance() -> None:
    """The loop may ask at every turn; the view is walked only now and then."""
    clock = FixedClock()
    board, view = a_board(clock), a_view(1).view
    first = board.tend(view)
    clock.go(0.9)
    assert board.tend(view) is None
    assert board.latest is first
    clock.go(0.2)
    assert board.tend(view) is board.latest is not first


def test_what_people_look_for_does_not_wait() -> None:
    """A change of role is shown at once."""
    clock = FixedClock()
    board, view = a_board(clock), a_view(1).view
    board.tend(view)
    view.leading = False
    board.tend(view, at_once=True)
    assert board.latest is not None
    assert board.latest.status["role"] == "standby"


def test_a_snapshot_does_not_follow_the_view() -> None:
    """What was published never changes: other threads read it."""
    board, built = a_board(FixedClock()), a_view(1)
    built.with_reassignment(tp(), (4,))
    snapshot = board.tend(built.view)
    built.view.reassignments.clear()
    assert snapshot is not None
    assert snapshot.status["partitions"]["waiting"] == 1


def test_the_cluster_is_counted_less_often_and_only_in_a_tenure() -> None:
    """Walking every partition is the longest part."""
    clock = FixedClock()
    board, built = a_board(clock), a_view(1)
    built.with_partition(tp(), (1,), state=partition_state(1, (1,)))
    first = board.tend(built.view)
    built.with_partition(tp(1), (1,), state=partition_state(1, (1,)))
    clock.go(2)
    second = board.tend(built.view)
    clock.go(5)
    third = board.tend(built.view)
    built.view.tenure = None
    clock.go(5)
    fourth = board.tend(built.view)
    assert first is not None
    assert second is not None
    assert third is not None
    assert fourth is not None
    assert first.cluster is second.cluster is not None
    assert third.cluster is not None
    assert third.cluster.partitions == 2
    assert fourth.cluster is None


def test_a_question_is_answered_at_the_next_look() -> None:
    """Even where it is too early for a snapshot."""
    clock = FixedClock()
    board, view = a_board(clock), a_view(1).with_reassignment(tp(), (4,)).view
    board.tend(view)
    answer = board.ask(tp())
    assert not answer.done()
    board.tend(view)
    assert answer.result(0)["reassignment"]["phase"] == "pending"


def test_questions_are_bounded() -> None:
    """A crowd of askers does not hold up the loop; whoever asked first gives up."""
    board, view = a_board(FixedClock()), a_view(1).view
    answers = [board.ask(tp(n)) for n in range(QUESTIONS_MAX + 1)]
    board.tend(view)
    assert [a.done() for a in answers] == [False] + [True] * QUESTIONS_MAX


def test_questions_do_not_hold_the_loop_up() -> None:
    """Those that take long are answered one at a time; each look at the board answers some."""
    clock = FixedClock()
    board, view = a_board(clock), a_view(1).view

    def slow(_: object, __: object) -> dict[str, int]:
        clock.go(1)
        return {}

    asked = [board._ask(slow) for _ in range(3)]
    for answered in (1, 2, 3):
        board.tend(view)
        assert sum(future.done() for future in asked) == answered


def test_page_of_partitions_is_asked_of_the_loop() -> None:
    """Only it may look at the view."""
    board = a_board(FixedClock())
    asked = board.ask_partitions(Filter(topic="t"))
    assert not asked.done()
    board.tend(a_view(1).with_reassignment(tp(), (4,)).view)
    assert asked.result(0)["total"] == 1
