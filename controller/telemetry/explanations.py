"""
One partition as the daemon sees it: the answer of ``/explain``, a pure function of the view.

Runs on the loop's thread, like ``status``.
"""

from __future__ import annotations

from typing import Any

from controller.core.blocked_reasons import BlockedReasons
from controller.core.model import NO_LEADER, BrokerId, Instant, Replicas, TopicPartition
from controller.core.steps import Step, steps_to
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import is_stalled
from controller.telemetry.json_values import iso
from controller.telemetry.status import Clocks, partition_document


def explanation_of(
    view: ClusterView, partition: TopicPartition, clocks: Clocks, *, stalled_after_s: float
) -> dict[str, Any]:
    """
    Return what is known of a partition.

    Args:
        view: What is known.
        partition: Which.
        clocks: The present moment.
        stalled_after_s: Without progress for so long it counts as stalled.

    """
    assignment = view.known_assignment(partition)
    waits = BlockedReasons(view, clocks.now)
    reassignment = view.reassignments.get(partition)
    undecided = waits.of_entry(partition)
    document: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "at": iso(clocks.wall),
        "role": "leader" if view.leading else "standby",
        "holds_tenure": view.tenure is not None,
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
    still_since = Instant(clocks.now - stalled_after_s)
    stalled = view.leading and is_stalled(reassignment, waits.of(reassignment), still_since)
    document["reassignment"] = {
        **partition_document(view, partition, clocks, waits, is_stalled=stalled),
        "route": reassignment.spec.route.value,
        "size_bytes": view.sizes.get(partition),
    }
    current = assignment.target_replicas if assignment is not None else ()
    document["steps_to_come"] = [
        step_document(step) for step in _steps(view, partition, current, reassignment.spec.target)
    ]
    return document


def _steps(
    view: ClusterView, partition: TopicPartition, current: Replicas, target: Replicas
) -> tuple[Step, ...]:
    state = view.states.get(partition)
    leader = NO_LEADER if state is None else state.leader

    def is_sound(replica: BrokerId) -> bool:
        # A replica that the step in flight adds will be in sync before the next one begins.
        assignment = view.known_assignment(partition)
        is_added = assignment is not None and replica in assignment.adding_replicas
        is_synced = state is None or replica in state.isr or is_added
        return is_synced and view.is_live(replica, partition)

    return steps_to(current, target, leader, view.options.step_size, is_sound)


def step_document(step: Step) -> dict[str, Any]:
    """Return a step for a program."""
    return {
        "target": list(step.target),
        "adding": list(step.adding),
        "dropping": list(step.dropping),
    }
