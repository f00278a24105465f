"""Tests of ``controller.telemetry.blocked_events``."""

from __future__ import annotations

from controller.core.model import Blocked, BlockedBy, Instant
from controller.core.phases import Syncing
from controller.core.view import ClusterView
from controller.telemetry.blocked_events import EVERY_S, BlockedEvents
from controller.telemetry.cluster_counts import work_counts
from controller.telemetry.incremental import run_to_end
from controller.telemetry.log_events import LINES_MAX, LogEvent
from tests.core.builders import tp
from tests.telemetry.builders import START, a_view

NOW = 1000.0


def told(notes: BlockedEvents, view: ClusterView, at: float) -> list[LogEvent]:
    """Return what is told of a view at a time."""
    now = Instant(at)
    return list(notes.of(run_to_end(work_counts(view, now, 300.0)), now, START))


def blocked_view(partitions: int, by: BlockedBy = BlockedBy.BROKER_DEAD) -> ClusterView:
    """Return a view in which so many partitions in flight wait for the same."""
    built = a_view(1)
    for number in range(partitions):
        built.with_reassignment(tp(number), (4,), Syncing(), since=NOW - 10, step=1)
        reassignment = built.view.reassignments[tp(number)]
        reassignment.blocked = Blocked(by, f"replica {number}")
        reassignment.blocked_since = Instant(NOW - 5)
    return built.view


def test_a_thousand_partitions_with_one_reason_are_one_line() -> None:
    """With their number, and the first few by name, detail and time."""
    (note,) = told(BlockedEvents(), blocked_view(1000), NOW)
    assert (note.kind, note.fields["by"], note.fields["partitions"]) == (
        "blocked",
        "broker_dead",
        1000,
    )
    assert note.fields["sample"][0] == "t-0: replica 0 since 2026-01-02T03:04:00.000Z"
    assert len(note.fields["sample"]) == 5


def test_a_reason_is_told_again_only_when_it_changed_and_not_at_once() -> None:
    """A number that changes all the time is a line from time to time."""
    notes, view = BlockedEvents(), blocked_view(2)
    assert len(told(notes, view, NOW)) == 1
    assert told(notes, view, NOW + 2 * EVERY_S) == []
    (again,) = told(notes, blocked_view(3), NOW + 2 * EVERY_S)
    assert again.fields["partitions"] == 3
    assert told(notes, blocked_view(4), NOW + 2.5 * EVERY_S) == []
    (later,) = told(notes, blocked_view(4), NOW + 3 * EVERY_S)
    assert later.fields["partitions"] == 4


def test_going_on_is_told() -> None:
    """The line names the reason that is gone."""
    notes = BlockedEvents()
    told(notes, blocked_view(2), NOW)
    (note,) = told(notes, blocked_view(0), NOW + EVERY_S)
    assert (note.kind, note.fields) == ("unblocked", {"by": "broker_dead", "partitions": 2})
    assert told(notes, blocked_view(0), NOW + 9 * EVERY_S) == []


def test_each_reason_has_a_line_of_its_own() -> None:
    """What is told of one does not keep another from being told."""
    notes = BlockedEvents()
    told(notes, blocked_view(1), NOW)
    later = told(notes, blocked_view(1, BlockedBy.NO_LEADER), NOW + 1)
    assert [(n.kind, n.fields["by"]) for n in later] == [("blocked", "no_leader")]


def test_stalling_and_going_on_are_told_by_name_up_to_a_number() -> None:
    """Thousands that stall together are a few lines and a count by reason."""
    notes, view = BlockedEvents(), blocked_view(LINES_MAX + 7)
    told(notes, view, NOW)
    stalled = told(notes, view, NOW + 400)
    assert [n.kind for n in stalled] == ["stalled"] * LINES_MAX + ["stalled_more"]
    assert stalled[0].fields == {"topic": "t", "partition": 0, "by": "broker_dead"}
    assert stalled[-1].fields == {"partitions": 7, "by": {"broker_dead": 7}}
    assert told(notes, view, NOW + 401) == []
    for reassignment in view.reassignments.values():
        reassignment.phase_since = Instant(NOW + 401)
    ended = told(notes, view, NOW + 402)
    assert [n.kind for n in ended] == ["goes_on"] * LINES_MAX + ["goes_on_more"]
