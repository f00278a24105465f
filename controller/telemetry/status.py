"""
The view as the status document of ``/status``: a pure function of the view and two clocks.

Runs on the loop's thread; what it returns holds nothing of the view and is never changed
afterwards, so any thread may read it. Lists are cut at a length that keeps the document readable;
counts are whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from controller.core.blocked_reasons import COPYING, BlockedReasons, since_of
from controller.core.controllership.eligibility import refusals
from controller.core.controllership.engines import holds_role
from controller.core.model import Blocked, Instant, OutcomeKind, Replicas, RequestId, TopicPartition
from controller.core.options import Options
from controller.core.phases import label_of
from controller.core.reassignments import Reassignment, Request
from controller.core.scheduling.holds import request_hold
from controller.core.scheduling.limits import priority_of, throttle_of
from controller.core.steps import steps_to
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import Example, WorkCounts, unjudged_entries
from controller.telemetry.control_status import controls_of, limits_of
from controller.telemetry.incremental import Walk, in_slices
from controller.telemetry.json_values import iso
from controller.telemetry.progress import ProgressBook

IN_FLIGHT_MAX: Final = 1000
REQUESTS_MAX: Final = 200
REFUSALS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on the loop's clock and on the wall's."""

    now: Instant
    wall: datetime

    def at(self, instant: Instant) -> str:
        """Return a loop time as ISO 8601."""
        return iso(self.wall - timedelta(seconds=self.now - instant))


def status_of(
    view: ClusterView,
    clocks: Clocks,
    work: WorkCounts,
    *,
    engine: str,
    book: ProgressBook | None = None,
) -> Walk[dict[str, Any]]:
    """
    Make the status document.

    Args:
        view: What is known.
        clocks: The present moment.
        work: The counts of this view.
        engine: Which engine the settings want; what is at work the view says, once it is chosen.
        book: Bytes, rates and estimates; nothing is known of them without.

    """
    book = book or ProgressBook()
    named = yield from _in_flight(view, clocks, work)
    return {
        "role": "leader" if view.leading else "standby",
        "engine": engine if view.engine is None else view.engine.value,
        "engine_because": view.engine_why,
        "refused_because": list(refusals(view)),
        "tenure": _tenure(view, clocks),
        "at": iso(clocks.wall),
        "brokers": sorted(view.brokers),
        "broker_loads": book.brokers(view.brokers),
        "routes": book.routes(),
        "requests": _requests(view, clocks, work, book),
        "partitions": {
            "in_flight": len(work.in_flight),
            "copying": work.copying,
            "waiting": work.waiting.total(),
            "undecided": work.undecided,
        },
        "controls": controls_of(view),
        "limits": limits_of(view),
        "blocked": dict(sorted(work.blocked.items())),
        "stalled": dict(sorted(Counter(work.stalled.values()).items())),
        "waiting": [
            _example(by, example, clocks)
            for by, examples in sorted(work.examples.items())
            for example in examples
            if not example.is_begun
        ],
        "in_flight": named,
    }


def _in_flight(view: ClusterView, clocks: Clocks, work: WorkCounts) -> Walk[list[dict[str, Any]]]:
    """Tell of the first partitions in flight; one that has ended since it was counted is gone."""
    waits = BlockedReasons(view, clocks.now)
    found = []
    for partitions in in_slices(work.in_flight[:IN_FLIGHT_MAX]):
        found += [
            partition_document(view, p, clocks, waits, is_stalled=p in work.stalled)
            for p in partitions
            if p in view.reassignments
        ]
        yield
    return found


def _example(by: str, example: Example, clocks: Clocks) -> dict[str, Any]:
    """Return one of the few that stand for all that wait for the same."""
    since = None if example.since is None else clocks.at(example.since)
    return {
        "topic": example.partition.topic,
        "partition": example.partition.partition,
        "request": example.request,
        "blocked_on": {"by": by, "detail": example.detail, "since": since},
    }


def _tenure(view: ClusterView, clocks: Clocks) -> dict[str, Any]:
    if view.tenure is None or not holds_role(view):
        return {"held": False, "epoch": None, "since": None}
    return {"held": True, "epoch": view.tenure.epoch, "since": clocks.at(view.tenure.since)}


# --- partitions --------------------------------------------------------------------------------


def partition_document(
    view: ClusterView,
    partition: TopicPartition,
    clocks: Clocks,
    waits: BlockedReasons,
    *,
    is_stalled: bool,
) -> dict[str, Any]:
    """Return where one reassignment stands."""
    reassignment = view.reassignments[partition]
    assignment = view.known_assignment(partition)
    state = view.states.get(partition)
    spec = reassignment.spec
    current = assignment.target_replicas if assignment else ()
    step, steps = progress(current, reassignment, view.options)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "request": spec.request,
        "phase": label_of(reassignment.phase),
        "state": _state_of(reassignment, waits),
        "step": step,
        "steps": steps,
        "replicas": list(assignment.replicas) if assignment else [],
        "adding_replicas": list(assignment.adding_replicas) if assignment else [],
        "removing_replicas": list(assignment.removing_replicas) if assignment else [],
        "target_replicas": list(spec.target),
        "original_replicas": None if spec.original is None else list(spec.original),
        "isr": list(state.isr) if state else [],
        "leader": state.leader if state else None,
        "blocked_on": _blocked_on(reassignment, waits, clocks),
        "since": clocks.at(reassignment.since),
        "phase_since": clocks.at(reassignment.phase_since),
        "stalled": is_stalled,
    }


def _state_of(reassignment: Reassignment, waits: BlockedReasons) -> str:
    if reassignment.is_copying:
        return COPYING
    if waits.of(reassignment) is not None:
        return "blocked"
    return "moving" if reassignment.in_flight else "waiting"


def _blocked_on(
    reassignment: Reassignment, waits: BlockedReasons, clocks: Clocks
) -> dict[str, Any] | None:
    blocked = waits.of(reassignment)
    if blocked is None:
        return None
    since = clocks.at(since_of(reassignment))
    return {"by": blocked.by.value, "detail": blocked.detail, "since": since}


def progress(current: Replicas, reassignment: Reassignment, options: Options) -> tuple[int, int]:
    """
    Return the step a partition is in and how many there will be.

    Told from the assignment, not from a counter, so that it is right after a restart too.
    """
    spec = reassignment.spec
    remaining = steps_between(current, spec.target, options.step_size)
    if spec.original is None:
        return reassignment.step, reassignment.step + remaining
    total = steps_between(spec.original, spec.target, options.step_size)
    step = max(total - remaining, 1 if reassignment.in_flight else 0)
    return step, max(total, step + remaining)


@lru_cache(maxsize=20_000)
def steps_between(current: Replicas, target: Replicas, step_size: int | None) -> int:
    """Return how many steps of KAFKA-6794 lead from one assignment to another."""
    return len(steps_to(current, target, current[0], step_size)) if current else 0


# --- requests ----------------------------------------------------------------------------------


def _requests(
    view: ClusterView, clocks: Clocks, work: WorkCounts, book: ProgressBook
) -> list[dict[str, Any]]:
    unjudged = unjudged_entries(view)
    return [
        {
            **_request(view, name, clocks, work, unjudged[name]),
            **book.of(name, request, unjudged[name]).as_status(),
        }
        for name, request in _newest(view.requests.items())
    ]


def _newest(
    requests: Iterable[tuple[RequestId, Request]],
) -> list[tuple[RequestId, Request]]:
    """Return the last ones, newest first; where they are too many, the open ones."""
    kept = sorted(requests, key=lambda r: (bool(r[1].open), r[1].since), reverse=True)
    return sorted(kept[:REQUESTS_MAX], key=lambda r: r[1].since, reverse=True)


def _request(
    view: ClusterView, name: RequestId, clocks: Clocks, work: WorkCounts, unjudged: int
) -> dict[str, Any]:
    request = view.requests[name]
    # Counted while the loop went on: what is open is known to the moment, and so is what has ended.
    in_flight = min(work.moving[name], request.open)
    waiting = request.open - in_flight + unjudged
    options = request.options
    held = request_hold(view, name, clocks.now) if request.open else None
    throttle = throttle_of(view, name)
    return {
        "id": name,
        "kind": request.kind,
        "route": request.route.value,
        "state": _state(request, in_flight, waiting, held),
        "reason": _reason(request, held),
        "asked_for": options.reason or None,
        "requested_by": options.requested_by or None,
        "priority": priority_of(view, name),
        "throttle": throttle,
        "since": clocks.at(request.since),
        "partitions": {
            "total": request.total,
            "done": max(0, request.done - unjudged),
            "in_flight": in_flight,
            "waiting": waiting,
            "refused": request.refused_count,
            "cancelled": request.fates[OutcomeKind.CANCELLED]
            + request.fates[OutcomeKind.ROLLED_BACK],
            "superseded": request.fates[OutcomeKind.SUPERSEDED],
            "skipped": request.fates[OutcomeKind.SKIPPED],
        },
        "refusals": [
            {"entry": r.entry, "reason": r.reason.value, "detail": r.detail}
            for r in request.refused[:REFUSALS_MAX]
        ],
    }


def _reason(request: Request, held: Blocked | None) -> str | None:
    """Return why nothing of it goes on, or why something of it was refused."""
    if held is not None:
        return held.detail
    return request.refused[0].detail if request.refused else None


def _state(request: Request, in_flight: int, waiting: int, held: Blocked | None) -> str:
    if in_flight:
        return "in_flight"
    if waiting:
        return "waiting" if held is None else "held"
    if request.done:
        return "done"
    if request.fates[OutcomeKind.CANCELLED] + request.fates[OutcomeKind.ROLLED_BACK]:
        return "cancelled"
    return "refused" if request.refused else "done"
