"""Requests are logged at their begin, their progress and their end."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.model import Instant
from controller.telemetry.log_events import LogEvent
from controller.telemetry.request_events import BUSY_EVERY_S, IDLE_EVERY_S, RequestEvents
from tests.core.builders import tp
from tests.core.disks.reports import report
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
        "approved": None,
        "approved_by": None,
        "partitions": counts,
        "bytes": {"total": 100, "moved": 10 * done, "remaining": 100 - 10 * done},
        "sizes_unknown": 0,
        "bytes_per_s": 5,
        "eta_s": [1, 9],
        "bytes_since": None,
        "share": 0.1,
        "since": "2026-01-02T03:04:05.000Z",
        **changes,
    }


def kinds_of_status(
    events: RequestEvents, at: float, *requests: dict[str, Any], role: str = "leader"
) -> list[str]:
    """Return the kinds of the events of a status."""
    return [n.kind for n in of(events, at, *requests, role=role)]


def of(
    events: RequestEvents, at: float, *requests: dict[str, Any], role: str = "leader"
) -> list[LogEvent]:
    """Return the events of a status."""
    seconds = f"{5.125 + at:06.3f}" if at < 50 else "59.000"
    status = {"role": role, "requests": list(requests), "at": f"2026-01-02T03:04:{seconds}Z"}
    return list(events.of(status, Instant(at)))


def test_request_is_logged_from_start_to_end() -> None:
    """With its progress at both and in between."""
    events = RequestEvents()
    assert kinds_of_status(events, 0, a_request()) == ["request_begun", "progress"]
    assert kinds_of_status(events, BUSY_EVERY_S - 1, a_request(done=1)) == []
    assert kinds_of_status(events, BUSY_EVERY_S, a_request(done=1)) == ["progress"]
    assert kinds_of_status(events, BUSY_EVERY_S + 1, a_request("done", done=10)) == [
        "progress",
        "request_ended",
    ]
    assert kinds_of_status(events, 1000, a_request("done", done=10)) == []


def test_request_without_progress_is_logged_less_often() -> None:
    """A held request must not fill the journal."""
    events = RequestEvents()
    kinds_of_status(events, 0, a_request("held"))
    assert kinds_of_status(events, BUSY_EVERY_S, a_request("held")) == []
    assert kinds_of_status(events, IDLE_EVERY_S, a_request("held")) == ["progress"]


def test_request_that_ended_before_is_not_logged() -> None:
    """The daemon that led at its end logged it."""
    assert kinds_of_status(RequestEvents(), 0, a_request("done")) == []


def test_short_request_is_logged_whole_with_its_outcome() -> None:
    """It started and ended between two status documents."""
    events = RequestEvents()
    assert kinds_of_status(events, 0) == []
    events.concluded("r")
    assert events.owes_an_end()
    begun, progress, ended = of(events, 1, a_request("done", done=10))
    assert [n.kind for n in (begun, progress, ended)] == [
        "request_begun",
        "progress",
        "request_ended",
    ]
    assert ended.fields["seconds"] == 1.125
    assert not events.owes_an_end()
    assert kinds_of_status(events, 2, a_request("done", done=10)) == []


@pytest.mark.parametrize("outcome_first", [True, False])
def test_end_is_logged_once_whether_outcome_or_status_comes_first(*, outcome_first: bool) -> None:
    """The outcome is written when nothing is open any more: before or after a status says so."""
    events = RequestEvents()
    kinds_of_status(events, 0, a_request())
    if outcome_first:
        events.concluded("r")
    kinds = kinds_of_status(events, 1, a_request("done", done=10))
    if not outcome_first:
        events.concluded("r")
    kinds += kinds_of_status(events, 2, a_request("done", done=10))
    assert kinds == ["progress", "request_ended"]


def test_request_without_accepted_entries_is_not_logged_as_started() -> None:
    """Refusals and cancellations have events of their own."""
    events = RequestEvents()
    refused = a_request("refused")
    refused["partitions"]["refused"] = 10
    for short in (refused, a_request("done", kind="cancel")):
        events.concluded("r")
        assert kinds_of_status(events, 1, short) == []


def test_standby_logs_no_requests() -> None:
    """The leader does."""
    events = RequestEvents()
    assert kinds_of_status(events, 0, a_request(), role="standby") == []
    assert kinds_of_status(events, 1, a_request()) == ["request_begun", "progress"]


def test_fields_are_those_of_the_journal() -> None:
    """With the numbers of the status."""
    events = RequestEvents()
    begun, progress = of(events, 0, a_request(eta_s=None, bytes=None))
    assert begun.fields["asked_for"] == "new disks"
    assert progress.fields["bytes_moved"] is progress.fields["eta_low_s"] is None
    progress, ended = of(events, 12.5, a_request("cancelled", done=3))
    assert (progress.fields["bytes_moved"], progress.fields["eta_high_s"]) == (30, 9)
    assert (ended.fields["seconds"], ended.fields["state"]) == (12.625, "cancelled")


def test_each_size_is_logged_once() -> None:
    """With the copies that are needed; other partitions are ignored."""
    events, built = RequestEvents(), a_view(1, 2, 3, 4)
    built.with_partition(tp(), (1, 2, 3)).with_reassignment(tp(), (1, 4, 5))
    event = report(1, {tp(): 70, tp(9): 5})
    built.view.disks_process.sizes[tp()] = 70
    assert [n.fields for n in events.sizes(event, built.view)] == [
        {"topic": "t", "partition": 0, "request": REQUEST, "bytes": 70, "copies": 2}
    ]
    assert list(events.sizes(event, built.view)) == []
    built.view.reassignments.by_partition.clear()
    assert list(events.sizes(event, built.view)) == []
    built.with_reassignment(tp(), (1, 2, 4))
    assert len(list(events.sizes(event, built.view))) == 1
