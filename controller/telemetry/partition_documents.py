"""
Reassignments as JSON documents: one partition, an explanation of it, a filtered page of many.

Pure functions of the view; run on the loop's thread, and hold nothing of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from controller.core.blocked_reasons import COPYING, BlockedReasons, since_of
from controller.core.model import NO_LEADER, Blocked, BrokerId, Instant, Replicas, TopicPartition
from controller.core.options import Options
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import LABELS, label_of
from controller.core.reassignments.steps import Step, steps_to
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import is_stalled
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks, iso_time

ROWS: Final = 50
IN_FLIGHT: Final = "in_flight"
"""Selects every phase but ``pending``."""


def partition_document(  # noqa: PLR0913 - what it is made of
    view: ClusterView,
    partition: TopicPartition,
    clocks: Clocks,
    reasons: BlockedReasons,
    *,
    is_stalled: bool,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """Return the progress of one reassignment, with that of its copies as far as it is known."""
    reassignment = view.reassignments.by_partition[partition]
    assignment = view.topics.known_assignment(partition)
    state = view.leadership.states.get(partition)
    spec = reassignment.spec
    current = assignment.target_replicas if assignment else ()
    step, steps = progress(current, reassignment, view.options)
    blocked = reasons.of(reassignment)
    return {
        **partition._asdict(),
        "request": spec.request,
        "phase": label_of(reassignment.phase),
        "state": _state_of(reassignment, blocked),
        "step": step,
        "steps": steps,
        "replicas": list(assignment.replicas) if assignment else [],
        "adding_replicas": list(assignment.adding_replicas) if assignment else [],
        "removing_replicas": list(assignment.removing_replicas) if assignment else [],
        "target_replicas": list(spec.target),
        "original_replicas": None if spec.original is None else list(spec.original),
        "isr": list(state.isr) if state else [],
        "leader": state.leader if state else None,
        "copies": []
        if copies is None
        else copies.documents(partition, view.disks_process.sizes.get(partition)),
        "blocked_on": None
        if blocked is None
        else {
            "by": blocked.by.value,
            "detail": blocked.detail,
            "since": clocks.at(since_of(reassignment)),
        },
        "since": clocks.at(reassignment.since),
        "phase_since": clocks.at(reassignment.phase_since),
        "stalled": is_stalled,
    }


def _state_of(reassignment: Reassignment, blocked: Blocked | None) -> str:
    if reassignment.is_copying:
        return COPYING
    if blocked is not None:
        return "blocked"
    return "moving" if reassignment.in_flight else "waiting"


def progress(current: Replicas, reassignment: Reassignment, options: Options) -> tuple[int, int]:
    """
    Return the number of the present step, and of all steps.

    Computed from the assignment, not from a counter, so that it is right after a restart.
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
    """Return the number of steps of KAFKA-6794 between two assignments."""
    return len(steps_to(current, target, current[0], step_size)) if current else 0


def explanation_of(
    view: ClusterView,
    partition: TopicPartition,
    clocks: Clocks,
    *,
    stalled_after_s: float,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """Return the answer of ``/explain`` for one partition."""
    assignment = view.topics.known_assignment(partition)
    reasons = BlockedReasons(view, clocks.now)
    reassignment = view.reassignments.by_partition.get(partition)
    undecided = reasons.of_entry(partition)
    document: dict[str, Any] = {
        **partition._asdict(),
        "at": iso_time(clocks.wall),
        "role": "leader" if view.role.leading else "standby",
        "holds_tenure": view.tenure.held is not None,
        "step_size": view.options.step_size,
        "known": assignment is not None,
        "not_accepted_because": None
        if undecided is None
        else {"by": undecided.by.value, "detail": undecided.detail, "since": None},
        "reassignment": None,
        "steps_to_come": [],
    }
    if reassignment is None:
        return document
    document["reassignment"] = {
        **_judged_document(view, partition, clocks, reasons, stalled_after_s, copies),
        "route": reassignment.spec.route.value,
        "size_bytes": view.disks_process.sizes.get(partition),
    }
    current = assignment.target_replicas if assignment is not None else ()
    document["steps_to_come"] = [
        step_document(step) for step in _steps(view, partition, current, reassignment.spec.target)
    ]
    return document


def _judged_document(  # noqa: PLR0913, PLR0917 - what it is made of
    view: ClusterView,
    partition: TopicPartition,
    clocks: Clocks,
    reasons: BlockedReasons,
    stalled_after_s: float,
    copies: Copies | None,
) -> dict[str, Any]:
    """Return the document of a partition, which is stalled after so long without progress."""
    found = view.reassignments.by_partition[partition]
    still_since = Instant(clocks.now - stalled_after_s)
    gained_at = None if copies is None else copies.gained_at(partition)
    stalled = view.role.leading and is_stalled(found, reasons.of(found), still_since, gained_at)
    return partition_document(view, partition, clocks, reasons, is_stalled=stalled, copies=copies)


def _steps(
    view: ClusterView, partition: TopicPartition, current: Replicas, target: Replicas
) -> tuple[Step, ...]:
    state = view.leadership.states.get(partition)
    leader = NO_LEADER if state is None else state.leader

    def is_sound(replica: BrokerId) -> bool:
        # A replica that the step in flight adds is in sync before the next step begins.
        assignment = view.topics.known_assignment(partition)
        is_added = assignment is not None and replica in assignment.adding_replicas
        is_synced = state is None or replica in state.isr or is_added
        return is_synced and view.is_live(replica, partition)

    return steps_to(current, target, leader, view.options.step_size, is_sound)


def step_document(step: Step) -> dict[str, Any]:
    """Return a step as JSON."""
    return {name: list(getattr(step, name)) for name in ("target", "adding", "dropping")}


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects partitions; an empty field selects all."""

    topic: str = ""
    """A part of the topic's name."""
    request: str = ""
    phase: str = ""
    broker: int | None = None
    """Has a replica of the partition, or is to have one."""
    page: int = 1

    def selects(
        self, view: ClusterView, partition: TopicPartition, reassignment: Reassignment
    ) -> bool:
        """Return whether a reassignment is selected."""
        spec = reassignment.spec
        if self.request and spec.request != self.request:
            return False
        if self.topic and self.topic not in partition.topic:
            return False
        if self.phase == IN_FLIGHT:
            if not reassignment.begun:
                return False
        elif self.phase and LABELS[type(reassignment.phase)] != self.phase:
            return False
        if self.broker is None:
            return True
        broker = BrokerId(self.broker)
        assignment = view.topics.known_assignment(partition)
        return broker in spec.target or (assignment is not None and broker in assignment.replicas)


def listing_of(
    view: ClusterView,
    wanted: Filter,
    clocks: Clocks,
    *,
    stalled_after_s: float,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """Return one page of the selected partitions, those in flight first."""
    moving: list[TopicPartition] = []
    waiting: list[TopicPartition] = []
    for partition, reassignment in view.reassignments.by_partition.items():
        if wanted.selects(view, partition, reassignment):
            (moving if reassignment.begun else waiting).append(partition)
    total = len(moving) + len(waiting)
    pages = max(1, -(-total // ROWS))
    page = min(max(1, wanted.page), pages)
    first, last = (page - 1) * ROWS, page * ROWS
    shown = moving[first:last] + waiting[max(0, first - len(moving)) : max(0, last - len(moving))]
    reasons = BlockedReasons(view, clocks.now)
    return {
        "total": total,
        "page": page,
        "pages": pages,
        "partitions": [
            _judged_document(view, partition, clocks, reasons, stalled_after_s, copies)
            for partition in shown
        ],
    }
