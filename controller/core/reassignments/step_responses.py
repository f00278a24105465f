"""Responses that steps wait for: StopReplica, and alter entries to the cluster's controller."""

from __future__ import annotations

from dataclasses import replace

from controller.core import wakeups
from controller.core.deletions import deletion_facts
from controller.core.disks.disk_reservations import log_dropped
from controller.core.leadership.broker_responses import is_current, is_refused
from controller.core.model import (
    EPOCH_DURING_DELETE,
    AlterOutcome,
    BrokerId,
    Instant,
    TopicPartition,
)
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import (
    AlterationsWithdrawn,
    ReassignmentsAltered,
    StopReplicaAnswered,
)
from controller.core.view import ClusterView
from controller.kafka_errors import KAFKA_STORAGE_ERROR, NONE


def stop_replica_answered(view: ClusterView, event: StopReplicaAnswered, now: Instant) -> None:
    """Note which dropped replicas are deleted, and which cannot be as their disk failed."""
    if not is_current(view, event):
        return
    if is_refused(view, event.error, event.broker):
        deletion_facts.request_refused(view, event.broker, event.error)
        return
    deletion_facts.broker_informed(view, event)
    for partition, epoch, delete, error in event.results:
        if not delete:
            continue
        if error == NONE:
            log_dropped(view, event.broker, partition, now)
        if epoch == EPOCH_DURING_DELETE:
            # One in a failed log directory stays, whatever the answer.
            is_kept = (event.broker, partition) in view.leadership.offline
            noted = KAFKA_STORAGE_ERROR if is_kept else error
            deletion_facts.replica_deleted(view, event.broker, partition, noted)
        _orphan_answered(view, event.broker, partition, error)
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None or not isinstance(reassignment.phase, phases.Stopping):
            continue
        phase = reassignment.phase
        if event.broker not in phase.waiting or error not in (NONE, KAFKA_STORAGE_ERROR):
            continue
        if error == NONE:
            reassignment.deleted |= {event.broker}
        else:
            view.leadership.offline.add((event.broker, partition))
        given_up = phase.given_up | ({event.broker} if error == KAFKA_STORAGE_ERROR else set())
        waiting = phase.waiting - {event.broker}
        reassignment.update(phases.Stopping(waiting, given_up, phase.deadline), partition)
        view.due.add((partition,))


def _orphan_answered(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, error: int
) -> None:
    orphan = view.reassignments.orphans.get((broker, partition))
    if orphan is None or orphan not in view.reassignments_tenure.orphans_tried:
        return
    if error != NONE:
        view.reassignments.orphans_failed.add(orphan)
        wakeups.wake(view.due, wakeups.Trigger.ORPHAN_FAILED)
    elif not view.is_undeletable(orphan):
        view.due.buried.add(orphan)
        if partition in view.reassignments.by_partition:
            view.due.add((partition,))


def reassignments_altered(view: ClusterView, event: ReassignmentsAltered, now: Instant) -> None:
    """Note the outcome of each alter entry: the controller's answer, or that there was none."""
    if view.tenure.held is None:
        return
    for result in event.results:
        reassignment = view.reassignments.by_partition.get(result.partition)
        if reassignment is None:
            continue
        if result.fate is AlterOutcome.UNKNOWN:
            reassignment.in_doubt = True
        if reassignment.is_requested and reassignment.requested == result.target:
            reassignment.is_requested = False
            if result.fate is AlterOutcome.ANSWERED:
                _all_made(view, result.partition, reassignment)
        phase = reassignment.phase
        if isinstance(phase, phases.AwaitingController) and phase.target == result.target:
            answered = replace(
                phase, since=now, error=result.error, why=result.why, fate=result.fate
            )
            reassignment.update(answered, result.partition)
        view.due.add((result.partition,))
        wakeups.wake(view.due, wakeups.Trigger.ALTER_ANSWERED)


def _all_made(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> None:
    """Note that no request is left to be carried out; a late effect has to be read first."""
    topic = view.topics.by_name.get(partition.topic)
    if reassignment.in_doubt and topic is not None:
        view.role.read_generation += 1
        topic.invalidate(view.role.read_generation)
        view.due.overtaken_topics.add(partition.topic)
    reassignment.in_doubt = False


def alterations_withdrawn(view: ClusterView, event: AlterationsWithdrawn) -> None:
    """Note which alter entries were not sent; they are decided again."""
    for partition in event.partitions:
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None:
            continue
        reassignment.is_requested = False
        if isinstance(reassignment.phase, phases.AwaitingController):
            withdrawn = replace(reassignment.phase, fate=AlterOutcome.WITHDRAWN)
            reassignment.update(withdrawn, partition)
        view.due.add((partition,))
