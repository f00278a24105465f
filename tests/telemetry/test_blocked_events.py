"""Tests of ``cluster_health.BlockedEvents``."""

from __future__ import annotations

from controller.core.model import Blocked, BlockedBy, Instant
from controller.core.reassignments.phases import Syncing
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import work_counts
from controller.telemetry.cluster_health import EVERY_S, BlockedEvents
from controller.telemetry.json_values import Clocks
from controller.telemetry.log_events import LINES_MAX, LogEvent
from tests.core.builders import tp
from tests.telemetry.builders import START, a_view, run_to_end

NOW = 1000.0


def events_at(events: BlockedEvents, view: ClusterView, at: float) -> list[LogEvent]:
    """Return the events of a view at a time."""
    now = Instant(at)
    return list(events.of(run_to_end(work_counts(view, now, 300.0)), Clocks(now, START)))


def blocked_view(partitions: int, by: BlockedBy = BlockedBy.BROKER_DEAD) -> ClusterView:
    """Return a view in which so many partitions in flight wait for the same."""
    built = a_view(1)
    for number in range(partitions):
        built.with_reassignment(tp(number), (4,), Syncing(), since=NOW - 10, step=1)
        reassignment = built.view.reassignments.by_partition[tp(number)]
        reassignment.blocked = Blocked(by, f"replica {number}")
        reassignment.blocked_since = Instant(NOW - 5)
    return built.view


def test_partitions_with_one_reason_are_one_event() -> None:
    """With their number, and the first few by name, detail and time."""
    (note,) = events_at(BlockedEvents(), blocked_view(1000), NOW)
    assert (note.kind, note.fields["by"], note.fields["partitions"]) == (
        "blocked",
        "broker_dead",
        1000,
    )
    assert note.fields["sample"][0] == "t-0: replica 0 since 2026-01-02T03:04:00.000Z"
    assert len(note.fields["sample"]) == 5


def test_reason_is_logged_again_after_a_change_and_an_interval() -> None:
    """A number that changes often is logged once in a while."""
    events, view = BlockedEvents(), blocked_view(2)
    assert len(events_at(events, view, NOW)) == 1
    assert events_at(events, view, NOW + 2 * EVERY_S) == []
    (again,) = events_at(events, blocked_view(3), NOW + 2 * EVERY_S)
    assert again.fields["partitions"] == 3
    assert events_at(events, blocked_view(4), NOW + 2.5 * EVERY_S) == []
    (later,) = events_at(events, blocked_view(4), NOW + 3 * EVERY_S)
    assert later.fields["partitions"] == 4


def test_end_of_a_reason_is_logged() -> None:
    """The event names the reason."""
    events = BlockedEvents()
    events_at(events, blocked_view(2), NOW)
    (note,) = events_at(events, blocked_view(0), NOW + EVERY_S)
    assert (note.kind, note.fields) == ("unblocked", {"by": "broker_dead", "partitions": 2})
    assert events_at(events, blocked_view(0), NOW + 9 * EVERY_S) == []


def test_each_reason_has_an_interval_of_its_own() -> None:
    """An event about one does not delay another."""
    events = BlockedEvents()
    events_at(events, blocked_view(1), NOW)
    later = events_at(events, blocked_view(1, BlockedBy.NO_LEADER), NOW + 1)
    assert [(n.kind, n.fields["by"]) for n in later] == [("blocked", "no_leader")]


def test_stalls_are_logged_by_name_up_to_a_limit() -> None:
    """Thousands at once are a few events and counts by reason."""
    events, view = BlockedEvents(), blocked_view(LINES_MAX + 7)
    events_at(events, view, NOW)
    stalled = events_at(events, view, NOW + 400)
    assert [n.kind for n in stalled] == ["stalled"] * LINES_MAX + ["stalled_more"]
    assert stalled[0].fields == {"topic": "t", "partition": 0, "by": "broker_dead"}
    assert stalled[-1].fields == {"partitions": 7, "by": {"broker_dead": 7}}
    assert events_at(events, view, NOW + 401) == []
    for reassignment in view.reassignments.by_partition.values():
        reassignment.phase_since = Instant(NOW + 401)
    ended = events_at(events, view, NOW + 402)
    assert [n.kind for n in ended] == ["goes_on"] * LINES_MAX + ["goes_on_more"]
