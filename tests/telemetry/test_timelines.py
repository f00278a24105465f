"""What is kept of phases is bounded, and copied for whoever reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controller.telemetry.timelines import (
    PARTITIONS_KEPT,
    REQUESTS_KEPT,
    SPANS_KEPT,
    Timelines,
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
        timelines.changed(change, START + timedelta(seconds=at))
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
        timelines.changed(replace(CHANGE, request=f"r{n}"), START)
    assert timelines.of("r4") is None
    assert timelines.of("r5") is not None
    for n in range(PARTITIONS_KEPT + 3):
        timelines.changed(replace(CHANGE, partition=tp(n)), START)
    for n in range(SPANS_KEPT + 10):
        timelines.changed(replace(CHANGE, phase=f"p{n}"), START)
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
        timelines.ended({"request": f"r{n}", "state": "refused"}, START)
    assert len(timelines.summaries()) == REQUESTS_KEPT


def test_no_phase_goes_on_after_the_end_of_the_request() -> None:
    """Where somebody else ended the step nobody tells that the phase is over."""
    timelines = Timelines()
    timelines.changed(CHANGE, START)
    end = START + timedelta(seconds=7)
    timelines.ended({"request": CHANGE.request, "state": "done"}, end)
    found = timelines.of(str(CHANGE.request))
    assert found is not None
    assert found.partitions[tp()][-1].until == end


def test_phase_of_no_request_is_not_kept() -> None:
    """There is nobody who would look for it."""
    timelines = Timelines()
    timelines.changed(replace(CHANGE, request=None), START)
    assert timelines.of("None") is None


def test_ends_are_listed_latest_first() -> None:
    """A request that ended again is told of once, with its last words."""
    timelines = Timelines()
    for name, state in (("a", "done"), ("b", "done"), ("a", "cancelled")):
        timelines.ended({"request": name, "state": state}, START)
    assert [(s["request"], s["state"]) for s in timelines.summaries()] == [
        ("b", "done"),
        ("a", "cancelled"),
    ]
