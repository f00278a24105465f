"""
Reassignments as JSON documents: one partition, an explanation of it, a filtered page of many.

Pure functions of the view; run on the loop's thread, and hold nothing of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any, Final

from controller.core.blocked_reasons import BlockedReasons, since_of
from controller.core.core_settings import Options
from controller.core.model import (
    NO_LEADER,
    Blocked,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.pacing import limits_in_force
from controller.core.pacing.governed_rates import is_governed
from controller.core.pacing.governor import FRESH_S
from controller.core.pacing.model import SignalKind
from controller.core.reason_kinds import BLOCKING, COPYING
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import LABELS, label_of
from controller.core.reassignments.steps import Step, steps_to
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import copying_to, is_stalled
from controller.telemetry.copies import Copies
from controller.telemetry.copy_volumes import partition_volume
from controller.telemetry.json_values import Clocks, iso_time, step_document
from controller.telemetry.progress import ProgressTracker, lacking, throttle_in_force

ROWS: Final = 50
IN_FLIGHT: Final = "in_flight"
"""Selects every phase but ``pending``."""
BLOCKED: Final = "blocked"
"""Selects what waits for an operator, or for a broker's return, in any phase."""


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
        elif self.phase not in {"", BLOCKED} and LABELS[type(reassignment.phase)] != self.phase:
            return False
        if self.broker is None:
            return True
        broker = BrokerId(self.broker)
        assignment = view.topics.known_assignment(partition)
        return broker in spec.target or (assignment is not None and broker in assignment.replicas)


class PartitionDocuments:
    """
    The reassignments of a view at one moment, with their copies as far as they are known.

    One in flight that made no progress for ``stalled_after_s`` is stalled.
    """

    def __init__(
        self,
        view: ClusterView,
        clocks: Clocks,
        copies: Copies,
        progress: ProgressTracker,
        stalled_after_s: float,
    ) -> None:
        self._view = view
        self._clocks = clocks
        self._copies = copies
        self._progress = progress
        self._reasons = BlockedReasons(view, clocks.now)
        self._still_since = Instant(clocks.now - stalled_after_s)

    def of(self, partition: TopicPartition) -> dict[str, Any]:
        """Return the progress of one reassignment."""
        view, clocks, copies = self._view, self._clocks, self._copies
        reassignment = view.reassignments.by_partition[partition]
        assignment = view.topics.known_assignment(partition)
        state = view.leadership.states.get(partition)
        spec = reassignment.spec
        figures, key = self._progress.latest.partitions.get(partition), (partition, spec.target)
        current = assignment.target_replicas if assignment else ()
        step, steps = step_numbers(current, reassignment, view.options)
        blocked, gained_at = self._reasons.of(reassignment), copies.gained_at(partition)
        return {
            **partition._asdict(),
            "request": spec.request,
            "phase": label_of(reassignment.phase),
            "begun": reassignment.begun,
            "state": _state_of(reassignment, blocked),
            "copying_to": list(copying_to(view, partition, reassignment)),
            "step": step,
            "steps": steps,
            "replicas": list(assignment.replicas) if assignment else [],
            "adding_replicas": list(assignment.adding_replicas) if assignment else [],
            "removing_replicas": list(assignment.removing_replicas) if assignment else [],
            "target_replicas": list(spec.target),
            "original_replicas": None if spec.original is None else list(spec.original),
            "isr": list(state.isr) if state else [],
            "leader": state.leader if state else None,
            "copies": [],
            "bytes_per_s": None,
            "eta_s": None,
            "no_estimate": None,
            **(figures.document if figures is not None else {}),
            "share": self._progress.never_back(key, self._share(partition, reassignment)),
            "blocked_on": None
            if blocked is None
            else {
                "by": blocked.by.value,
                "detail": blocked.detail,
                "since": clocks.at(since_of(reassignment)),
            },
            "since": clocks.at(reassignment.since),
            "phase_since": clocks.at(reassignment.phase_since),
            "stalled": view.role.leading
            and is_stalled(reassignment, blocked, self._still_since, gained_at),
        }

    def _share(self, partition: TopicPartition, reassignment: Reassignment) -> float | None:
        """
        Return the share of its steps that is done; None: unknown.

        A step is counted as the topic znode shows it, which a request alone does not change.
        """
        view, spec = self._view, reassignment.spec
        assignment = view.topics.known_assignment(partition)
        if assignment is None or (spec.original is None and reassignment.inherited):
            return None
        size = view.options.step_size
        to_come = steps_between(assignment.target_replicas, spec.target, size)
        unfinished = to_come + assignment.is_reassigning
        if spec.original is None:
            whole = reassignment.step - reassignment.in_flight + unfinished
        else:
            whole = max(steps_between(spec.original, spec.target, size), unfinished)
        part: float | None = 0.0
        if assignment.is_reassigning:
            figures = self._progress.latest.partitions.get(partition)
            if figures is not None:
                part = figures.part
            elif lacking(view, partition):
                part = None if reassignment.inherited else 0.0
            else:
                part = 1.0
        return None if part is None or not whole else max(0.0, 1.0 - (unfinished - part) / whole)

    def explanation(self, partition: TopicPartition) -> dict[str, Any]:
        """Return the answer of ``/explain`` for one partition."""
        view = self._view
        assignment = view.topics.known_assignment(partition)
        reassignment = view.reassignments.by_partition.get(partition)
        undecided = self._reasons.of_entry(partition)
        document: dict[str, Any] = {
            **partition._asdict(),
            "at": iso_time(self._clocks.wall),
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
        volume = partition_volume(view, partition, self._copies.held)
        state = view.leadership.states.get(partition)
        leader = () if state is None else (state.leader,)
        concerned = (*lacking(view, partition), *leader)
        document["reassignment"] = {
            **self.of(partition),
            "route": reassignment.spec.route.value,
            "size_bytes": view.disks_process.sizes.get(partition),
            "bytes": None
            if volume is None
            else {"moved": volume.moved, "remaining": sum(volume.left.values())},
            "throttle": limits_in_force.throttle_of(view, reassignment.spec.request),
            "governed": self._governed(reassignment.spec.request, concerned),
            "throttle_bytes_per_s": throttle_in_force(view, reassignment.spec.request, *concerned),
        }
        current = assignment.target_replicas if assignment is not None else ()
        steps = _steps(view, partition, current, reassignment.spec.target)
        document["steps_to_come"] = [step_document(step) for step in steps]
        return document

    def _governed(self, request: RequestId, brokers: tuple[BrokerId, ...]) -> list[dict[str, Any]]:
        """Return the governed rates of brokers that concern a request, with their evidence."""
        if not is_governed(self._view, request):
            return []
        rates, clocks = self._view.pacing_leadership.rates, self._clocks
        return [
            {"broker": broker, **governed_rate(self._view, broker, clocks)}
            for broker in sorted(set(brokers) & rates.keys())
        ]

    def page(self, wanted: Filter) -> dict[str, Any]:
        """Return one page of the selected partitions, those in flight first."""
        moving: list[TopicPartition] = []
        waiting: list[TopicPartition] = []
        for partition, reassignment in self._view.reassignments.by_partition.items():
            if wanted.selects(self._view, partition, reassignment) and (
                wanted.phase != BLOCKED or self._is_blocked(reassignment)
            ):
                (moving if reassignment.begun else waiting).append(partition)
        selected = moving + waiting
        pages = max(1, -(-len(selected) // ROWS))
        page = min(max(1, wanted.page), pages)
        return {
            "total": len(selected),
            "page": page,
            "pages": pages,
            "partitions": [self.of(p) for p in selected[(page - 1) * ROWS : page * ROWS]],
        }

    def _is_blocked(self, reassignment: Reassignment) -> bool:
        blocked = self._reasons.of(reassignment)
        return blocked is not None and blocked.by in BLOCKING


def governed_rate(view: ClusterView, broker: BrokerId, clocks: Clocks) -> dict[str, Any]:
    """Return the rate of a broker under a throttle ``auto``, with its evidence."""
    rate = view.pacing_leadership.rates[broker]
    return {
        "bytes_per_s": rate.bytes_per_s,
        "since": clocks.at(rate.changed_at),
        "evidence": rate.why,
        "signal": None if rate.by is None else rate.by.kind.value,
        "value": None if rate.by is None else rate.by.value,
        "objective": None if rate.by is None else rate.by.objective,
        "is_missed": rate.is_missed,
        "needed_bytes_per_s": rate.floor,
        **_latency_of(view, broker, clocks.now),
    }


def _latency_of(view: ClusterView, broker: BrokerId, now: Instant) -> dict[str, float | None]:
    """Return what the probe that a broker leads measured in the last seconds."""
    kept = view.pacing_process.readings.get((SignalKind.PROBE, broker), ())
    fresh = [s for s in kept if now - s.at <= FRESH_S]
    medians = [s.median for s in fresh if s.median is not None]
    return {
        "p50_s": median(medians) if medians else None,
        "p99_s": max((s.value for s in fresh), default=None),
    }


def _state_of(reassignment: Reassignment, blocked: Blocked | None) -> str:
    if reassignment.is_copying:
        return COPYING
    if blocked is not None:
        return "blocked"
    return "moving" if reassignment.begun else "waiting"


def step_numbers(
    current: Replicas, reassignment: Reassignment, options: Options
) -> tuple[int, int]:
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
