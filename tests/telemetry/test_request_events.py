"""Requests are told when they begin, while they come on, and when they end."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.events import SizesRead
from controller.core.model import Instant
from controller.telemetry.log_events import LogEvent
from controller.telemetry.request_events import BUSY_EVERY_S, IDLE_EVERY_S, RequestEvents
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, a_view


def a_request(state: str = "in_flight", done: int = 0, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a request as the status document has it."""
    counts = {
        "total": 10,
        "done": done,
        "in_flight": 1,
        "waiting": 9 - done,
        "refused": 0,
        "cancelled": 0,
        "superseded": 0,
        "skipped": 0,
    }
    return {
        "id": "r",
        "kind": "request",
        "route": "request",
        "state": state,
        "priority": 0,
        "throttle": None,
        "asked_for": "new disks",
        "requested_by": "kim",
        "partitions": counts,
        "bytes": {"total": 100, "moved": 10 * done, "remaining": 100 - 10 * done},
        "sizes_unknown": 0,
        "bytes_per_s": 5,
        "eta_s": [1, 9],
        "since": "2026-01-02T03:04:05.000Z",
        **changes,
    }


def told(
    notes: RequestEvents, at: float, *requests: dict[str, Any], role: str = "leader"
) -> list[str]:
    """Return the kinds of what is told of a status."""
    return [n.kind for n in of(notes, at, *requests, role=role)]


def of(
    notes: RequestEvents, at: float, *requests: dict[str, Any], role: str = "leader"
) -> list[LogEvent]:
    """Return what is told of a status."""
    status = {"role": role, "requests": list(requests), "at": "2026-01-02T03:04:05.125Z"}
    return list(notes.of(status, Instant(at)))


def test_request_is_told_from_its_begin_to_its_end() -> None:
    """Its progress comes with both, and in between as it comes on."""
    notes = RequestEvents()
    assert told(notes, 0, a_request()) == ["request_begun", "progress"]
    assert told(notes, BUSY_EVERY_S - 1, a_request(done=1)) == []
    assert told(notes, BUSY_EVERY_S, a_request(done=1)) == ["progress"]
    assert told(notes, BUSY_EVERY_S + 1, a_request("done", done=10)) == [
        "progress",
        "request_ended",
    ]
    assert told(notes, 1000, a_request("done", done=10)) == []


def test_request_that_stands_still_is_told_of_less_often() -> None:
    """A held request of a week must not fill the journal."""
    notes = RequestEvents()
    told(notes, 0, a_request("held"))
    assert told(notes, BUSY_EVERY_S, a_request("held")) == []
    assert told(notes, IDLE_EVERY_S, a_request("held")) == ["progress"]


def test_request_that_had_ended_before_is_not_told() -> None:
    """Whoever was there when it ended told it."""
    assert told(RequestEvents(), 0, a_request("done")) == []


def test_request_that_no_status_saw_open_is_told_whole_when_its_outcome_is_ours() -> None:
    """Short ones begin and end between two statuses; seconds are since it was first known."""
    notes = RequestEvents()
    assert told(notes, 0) == []
    notes.concluded("r")
    assert notes.owes_an_end()
    begun, progress, ended = of(notes, 1, a_request("done", done=10))
    assert [n.kind for n in (begun, progress, ended)] == [
        "request_begun",
        "progress",
        "request_ended",
    ]
    assert ended.fields["seconds"] == 0.125
    assert not notes.owes_an_end()
    assert told(notes, 2, a_request("done", done=10)) == []


@pytest.mark.parametrize("outcome_first", [True, False])
def test_end_is_told_once_whether_outcome_or_status_comes_first(*, outcome_first: bool) -> None:
    """The outcome is written when nothing is open any more: before or after a status says so."""
    notes = RequestEvents()
    told(notes, 0, a_request())
    if outcome_first:
        notes.concluded("r")
    kinds = told(notes, 1, a_request("done", done=10))
    if not outcome_first:
        notes.concluded("r")
    kinds += told(notes, 2, a_request("done", done=10))
    assert kinds == ["progress", "request_ended"]


def test_what_had_no_work_of_its_own_is_not_told_as_begun() -> None:
    """Refusals and cancellations have lines of their own."""
    notes = RequestEvents()
    refused = a_request("refused")
    refused["partitions"]["refused"] = 10
    for short in (refused, a_request("done", kind="cancel")):
        notes.concluded("r")
        assert told(notes, 1, short) == []


def test_standby_tells_nothing() -> None:
    """The leader does; a standby that takes over begins to."""
    notes = RequestEvents()
    assert told(notes, 0, a_request(), role="standby") == []
    assert told(notes, 1, a_request()) == ["request_begun", "progress"]


def test_notes_say_what_the_journal_promises() -> None:
    """The numbers are those of the status; times since this process saw it."""
    notes = RequestEvents()
    begun, progress = of(notes, 0, a_request(eta_s=None, bytes=None))
    assert begun.fields["asked_for"] == "new disks"
    assert progress.fields["bytes_moved"] is progress.fields["eta_low_s"] is None
    progress, ended = of(notes, 12.5, a_request("cancelled", done=3))
    assert (progress.fields["bytes_moved"], progress.fields["eta_high_s"]) == (30, 9)
    assert (ended.fields["seconds"], ended.fields["state"]) == (12.5, "cancelled")


def test_each_size_is_told_once() -> None:
    """With how many copies of it are needed; what is not reassigned is nobody's business."""
    notes, built = RequestEvents(), a_view(1, 2, 3, 4)
    built.with_partition(tp(), (1, 2, 3)).with_reassignment(tp(), (1, 4, 5))
    event = SizesRead({tp(): 70, tp(9): 5})
    assert [n.fields for n in notes.sizes(event, built.view)] == [
        {"topic": "t", "partition": 0, "request": REQUEST, "bytes": 70, "copies": 2}
    ]
    assert list(notes.sizes(event, built.view)) == []
    built.view.reassignments.clear()
    assert list(notes.sizes(event, built.view)) == []
    built.with_reassignment(tp(), (1, 2, 4))
    assert len(list(notes.sizes(event, built.view))) == 1
