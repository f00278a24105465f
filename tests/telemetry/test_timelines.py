"""The timelines of phases are bounded, and readers get copies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from controller.telemetry.journal import line_of
from controller.telemetry.journal_files import FILE_NAME
from controller.telemetry.log_events import phase_event
from controller.telemetry.timelines import (
    PARTITIONS_KEPT,
    REQUESTS_KEPT,
    SPANS_KEPT,
    Past,
    Timelines,
    replay,
)
from tests.core.builders import tp
from tests.telemetry.builders import START
from tests.telemetry.test_measurements import CHANGE


def test_phases_follow_each_other_without_a_gap() -> None:
    """Each lasts until the next begins; the last until the end."""
    timelines = Timelines()
    for at, before, phase in (
        (0, "pending", "A2"),
        (3, "A2", "A2-syncing"),
        (9, "A2-syncing", "ended"),
    ):
        change = replace(CHANGE, before=before, phase=phase, seconds=None)
        timelines.add_change(change, START + timedelta(seconds=at))
    found = timelines.of(str(CHANGE.request))
    assert found is not None
    spans = found.partitions[tp()]
    assert [(s.phase, s.until) for s in spans] == [
        ("A2", START + timedelta(seconds=3)),
        ("A2-syncing", START + timedelta(seconds=9)),
    ]


def test_memory_is_bounded() -> None:
    """Few requests, the first partitions of each, the latest phases of each partition."""
    timelines = Timelines()
    for n in range(REQUESTS_KEPT + 5):
        timelines.add_change(replace(CHANGE, request=f"r{n}"), START)
    assert timelines.of("r4") is None
    assert timelines.of("r5") is not None
    for n in range(PARTITIONS_KEPT + 3):
        timelines.add_change(replace(CHANGE, partition=tp(n)), START)
    for n in range(SPANS_KEPT + 10):
        timelines.add_change(replace(CHANGE, phase=f"p{n}"), START)
    found = timelines.of(str(CHANGE.request))
    assert found is not None
    assert len(found.partitions) == PARTITIONS_KEPT
    assert len(found.left_out) == 3
    assert len(found.partitions[tp()]) == SPANS_KEPT
    assert found.partitions[tp()][-1].phase == f"p{SPANS_KEPT + 9}"


def test_requests_that_only_ended_are_bounded_too() -> None:
    """A refused one has no phases."""
    timelines = Timelines()
    for n in range(REQUESTS_KEPT + 5):
        timelines.end_request({"request": f"r{n}", "state": "refused"}, START)
    assert len(timelines.summaries()) == REQUESTS_KEPT


def test_phases_end_with_their_request() -> None:
    """Another daemon may have ended the step."""
    timelines = Timelines()
    timelines.add_change(CHANGE, START)
    end = START + timedelta(seconds=7)
    timelines.end_request({"request": CHANGE.request, "state": "done"}, end)
    found = timelines.of(str(CHANGE.request))
    assert found is not None
    assert found.partitions[tp()][-1].until == end


def test_phase_of_no_request_is_not_kept() -> None:
    """No reader would look for it."""
    timelines = Timelines()
    timelines.add_change(replace(CHANGE, request=None), START)
    assert timelines.of("None") is None


def test_ends_are_listed_latest_first() -> None:
    """A request that ended again is listed once."""
    timelines = Timelines()
    for name, state in (("a", "done"), ("b", "done"), ("a", "cancelled")):
        timelines.end_request({"request": name, "state": state}, START)
    assert [(s["request"], s["state"]) for s in timelines.summaries()] == [
        ("b", "done"),
        ("a", "cancelled"),
    ]


REQUEST = str(CHANGE.request)
END = {
    "request": REQUEST,
    "state": "done",
    "seconds": 9.0,
    "entries": 1,
    "done": 1,
    "refused": 0,
    "cancelled": 0,
    "superseded": 0,
    "skipped": 0,
    "bytes_moved": 5,
}


def phase(after_s: float, before: str, name: str, request: str = REQUEST) -> str:
    """Return the journal's line of a phase change."""
    note = phase_event(replace(CHANGE, before=before, phase=name, seconds=1.0, request=request))
    return line_of(START + timedelta(seconds=after_s), note.kind, note.fields)


def ended(after_s: float) -> str:
    """Return the journal's line of the request's end."""
    return line_of(START + timedelta(seconds=after_s), "request_ended", END)


def write(path: Path, *lines: str) -> None:
    """Write a journal's file."""
    path.write_text("".join(f"{line}\n" for line in lines))


def recalled(directory: Path, **options: int) -> Timelines:
    """Return what is recalled of a journal."""
    past = Past()
    replay(directory, past, **options)
    return past.timelines


def test_replay_restores_phases_and_ends(tmp_path: Path) -> None:
    """From the rotated file and the present one."""
    write(tmp_path / f"{FILE_NAME}.1", phase(0, "pending", "A2"))
    write(tmp_path / FILE_NAME, phase(3, "A2", "A2-syncing"), phase(9, "A2-syncing", "ended"))
    with (tmp_path / FILE_NAME).open("a") as file:
        file.write(ended(9) + "\n")
    timelines = recalled(tmp_path)
    found = timelines.of(REQUEST)
    assert found is not None
    assert [(s.phase, s.since, s.until) for s in found.partitions[tp()]] == [
        ("pending", START - timedelta(seconds=1), START),
        ("A2", START, START + timedelta(seconds=3)),
        ("A2-syncing", START + timedelta(seconds=3), START + timedelta(seconds=9)),
    ]
    (summary,) = timelines.summaries()
    assert summary == {k: v for k, v in END.items() if k not in {"superseded", "skipped"}}


def test_unreadable_lines_are_ignored(tmp_path: Path) -> None:
    """Torn lines, other versions and kinds, missing fields; a missing journal."""
    assert recalled(tmp_path / "nowhere").summaries() == []
    write(
        tmp_path / FILE_NAME,
        ended(1)[:-20],
        ended(1).replace('"v":', '"v":9'),
        ended(1).replace('"entries"', '"entrys"'),
        '{"v":1,"kind":"phase"}',
        '["kind":"phase"]',
        line_of(START, "daemon_started", {"version": "1"}),
        phase(0, "pending", "A2", request="r2"),
    )
    timelines = recalled(tmp_path)
    assert timelines.summaries() == []
    assert timelines.of("r2") is not None


def test_only_the_end_of_a_large_journal_is_read(tmp_path: Path) -> None:
    """A line that is cut by that is ignored."""
    lines = [phase(n, "pending", "A2", request=f"r{n}") for n in range(10)]
    write(tmp_path / FILE_NAME, *lines)
    write(tmp_path / f"{FILE_NAME}.1", phase(0, "pending", "A2", request="older"))
    timelines = recalled(tmp_path, bytes_max=3 * (len(lines[0]) + 1) - 5)
    assert [n for n in range(10) if timelines.of(f"r{n}") is not None] == [8, 9]
    assert timelines.of("older") is None
