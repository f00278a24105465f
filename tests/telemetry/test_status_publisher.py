"""Tests of ``controller.telemetry.status_publisher``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from controller.core.model import BrokerId, Instant
from controller.core.reassignments.phases import Syncing
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import SLICE
from controller.telemetry.journal import line_of
from controller.telemetry.journal_files import FILE_NAME
from controller.telemetry.partition_documents import Filter
from controller.telemetry.status_publisher import (
    QUESTIONS_MAX,
    SHARE,
    SLICE_S,
    TREND_INTERVAL_S,
    TREND_KEPT,
    StatusPublisher,
    StatusSnapshot,
)
from controller.telemetry.timelines import TrendPoint
from tests.core.builders import tp
from tests.telemetry.builders import (
    REQUEST,
    START,
    FixedClock,
    ViewBuilder,
    a_view,
    partition_state,
)

KEPT = int(TREND_KEPT.total_seconds() / TREND_INTERVAL_S)


def a_board(clock: FixedClock) -> StatusPublisher:
    """Return a publisher that publishes at most every second."""
    return StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0, interval_s=1.0
    )


def test_there_is_no_snapshot_before_the_first_cycle() -> None:
    """A reader that comes too early sees that there is nothing."""
    assert a_board(FixedClock()).latest is None


def test_snapshots_keep_their_interval() -> None:
    """However often the loop calls."""
    clock = FixedClock()
    publisher, view = a_board(clock), a_view(1).view
    first = publisher.tend(view)
    clock.go(0.9)
    assert publisher.tend(view) is None
    assert publisher.latest is first
    clock.go(0.2)
    assert publisher.tend(view) is publisher.latest is not first


def test_trend_is_bounded_and_has_an_interval() -> None:
    """More frequent snapshots add no point, and the oldest points beyond the bound go."""
    clock = FixedClock()
    publisher, view = a_board(clock), a_view(1).view
    for _ in range(KEPT + 50):
        publisher.tend(view, at_once=True)
        clock.go(1.0)
        publisher.tend(view, at_once=True)
        clock.go(TREND_INTERVAL_S - 1.0)
    times = [p.wall for p in publisher.trend]
    assert len(times) == KEPT
    assert times[-1] - times[0] == TREND_KEPT - timedelta(seconds=TREND_INTERVAL_S)


def test_trend_continues_that_of_the_journal(tmp_path: Path) -> None:
    """Of the last hour; the rate may have been unknown."""
    clock = FixedClock()
    lines = [
        line_of(
            START - timedelta(minutes=minutes),
            "throughput",
            {"bytes_per_s": rate, "in_flight": 2, "copying": 1},
        )
        for minutes, rate in ((70, 5), (50, 7), (3, None))
    ]
    (tmp_path / FILE_NAME).write_text("".join(f"{line}\n" for line in lines))
    publisher = StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0, journal=tmp_path
    )
    publisher.tend(a_view(1).view)
    assert publisher.trend == (
        TrendPoint(START - timedelta(minutes=50), 7, 2, 1),
        TrendPoint(START - timedelta(minutes=3), None, 2, 1),
        TrendPoint(START, 0, 0, 0),
    )


class SlowClock(FixedClock):
    """A clock by which everything takes a while."""

    def now(self) -> Instant:
        """Return the present instant, which is over then."""
        self.go(SLICE_S / 4)
        return super().now()


def many_in_flight() -> ViewBuilder:
    """Return a view that is looked at in many slices."""
    built = a_view(1, 4)
    for n in range(30 * SLICE):
        built.with_reassignment(tp(n), (4,), Syncing(), step=1)
    return built


def made_in_slices(
    publisher: StatusPublisher, view: ClusterView, clock: SlowClock
) -> StatusSnapshot:
    """Return the next snapshot; it takes many turns, and each says when the next is due."""
    for _ in range(100):
        snapshot = publisher.tend(view)
        if snapshot is not None:
            return snapshot
        clock.go(publisher.due_in_s)
    raise AssertionError("it is never ready")


def test_large_snapshot_takes_several_cycles() -> None:
    """It is made in slices with the loop's work between them."""
    clock = SlowClock()
    publisher, view = a_board(clock), many_in_flight().view
    begun = clock.at
    assert publisher.tend(view) is None
    assert clock.at - begun < 2 * SLICE_S
    assert 0 < publisher.due_in_s < 2 * SLICE_S / SHARE
    assert made_in_slices(publisher, view, clock).work.phases == {"A2-syncing": 30 * SLICE}
    assert publisher.due_in_s == float("inf")


def test_changes_during_a_snapshot_leave_it_consistent() -> None:
    """A partition that ended is not in flight."""
    clock = SlowClock()
    publisher, view = a_board(clock), many_in_flight().view
    assert publisher.tend(view) is None
    request = view.requests.by_id[REQUEST]
    view.reassignments.by_partition.clear()
    request.open = 0
    ended = made_in_slices(publisher, view, clock).status
    assert ended["in_flight"] == []
    assert ended["requests"][0]["state"] not in {"in_flight", "waiting"}
    built = many_in_flight()
    publisher = a_board(clock)
    assert publisher.tend(built.view) is None
    built.view.reassignments.by_partition.clear()
    built.with_reassignment(tp(0, "later"), (4,))
    built.view.requests.by_id[REQUEST].open = 1
    (shown,) = made_in_slices(publisher, built.view, clock).status["requests"]
    assert shown["partitions"]["in_flight"] + shown["partitions"]["waiting"] == 1


def test_snapshot_at_shutdown_is_complete() -> None:
    """There may be no further call."""
    clock = SlowClock()
    publisher, view = a_board(clock), many_in_flight().view
    view.role.stopping = True
    assert publisher.tend(view, at_once=True) is not None


def test_change_of_role_is_published_without_waiting() -> None:
    """A change of role is shown at once."""
    clock = FixedClock()
    publisher, view = a_board(clock), a_view(1).view
    publisher.tend(view)
    view.role.leading = False
    publisher.tend(view, at_once=True)
    assert publisher.latest is not None
    assert publisher.latest.status["role"] == "standby"


def test_snapshot_does_not_change_with_the_view() -> None:
    """What was published never changes: other threads read it."""
    publisher, built = a_board(FixedClock()), a_view(1)
    built.with_reassignment(tp(), (4,))
    snapshot = publisher.tend(built.view)
    built.view.reassignments.by_partition.clear()
    assert snapshot is not None
    assert snapshot.status["partitions"]["waiting"] == 1


def test_the_cluster_is_counted_less_often_and_only_in_a_tenure() -> None:
    """Walking every partition is the longest part."""
    clock = FixedClock()
    publisher, built = a_board(clock), a_view(1)
    built.with_partition(tp(), (1,), state=partition_state(1, (1,)))
    first = publisher.tend(built.view)
    built.with_partition(tp(1), (1,), state=partition_state(1, (1,)))
    clock.go(2)
    second = publisher.tend(built.view)
    clock.go(5)
    third = publisher.tend(built.view)
    built.view.tenure.held = None
    clock.go(5)
    fourth = publisher.tend(built.view)
    assert first is not None
    assert second is not None
    assert third is not None
    assert fourth is not None
    assert first.cluster is second.cluster is not None
    assert third.cluster is not None
    assert third.cluster["cluster_partitions"] == 2
    assert fourth.cluster is None


def test_question_is_answered_at_the_next_call() -> None:
    """Even if no snapshot is due."""
    clock = FixedClock()
    publisher, view = a_board(clock), a_view(1).with_reassignment(tp(), (4,)).view
    publisher.tend(view)
    answer = publisher.request_partition(tp())
    assert not answer.done()
    publisher.tend(view)
    assert answer.result(0)["reassignment"]["phase"] == "pending"


def test_questions_are_bounded() -> None:
    """The oldest is dropped."""
    publisher, view = a_board(FixedClock()), a_view(1).view
    answers = [publisher.request_partition(tp(n)) for n in range(QUESTIONS_MAX + 1)]
    publisher.tend(view)
    assert [a.done() for a in answers] == [False] + [True] * QUESTIONS_MAX


def test_questions_take_limited_time_of_the_loop() -> None:
    """The rest waits for the next call."""
    clock = FixedClock()
    publisher, view = a_board(clock), a_view(1).view

    def slow(_: object) -> dict[str, int]:
        clock.go(1)
        return {}

    requested = [publisher._request(slow) for _ in range(3)]
    for answered in (1, 2, 3):
        publisher.tend(view)
        assert sum(future.done() for future in requested) == answered


def test_page_of_partitions_is_made_by_the_loop() -> None:
    """Only it may read the view."""
    publisher = a_board(FixedClock())
    requested = publisher.request_partitions(Filter(topic="t"))
    assert not requested.done()
    publisher.tend(a_view(1).with_reassignment(tp(), (4,)).view)
    assert requested.result(0)["total"] == 1


def test_unreachable_brokers_are_in_the_status_during_a_tenure() -> None:
    """Without the role nothing is sent to brokers."""
    clock = FixedClock()
    publisher = a_board(clock)
    publisher.unreachable = lambda: {BrokerId(1): "refused"}
    shown = publisher.tend(a_view(1).view)
    assert shown is not None
    assert shown.status["unreachable_brokers"] == {"1": "refused"}
    assert shown.unreachable == {1: "refused"}
    clock.go(2.0)
    without = publisher.tend(a_view(1, epoch=None).view)
    assert without is not None
    assert without.status["unreachable_brokers"] == {}
