"""
Invalidate cached znodes after a rejected write and schedule re-reads.

Another client was faster: the change was decided on outdated content. Until it is read again no
decision uses it, otherwise the same write would be tried and rejected again at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core import effects, wakeups
from controller.core.calls.records import ProducerIdsRecord
from controller.core.deletions import fold as deletion_fold
from controller.core.deletions.records import (
    DeletionBegunRecord,
    DeletionRequestedRecord,
    PartitionZnodesDeletedRecord,
    StaleMarkerEndedRecord,
    TopicDeletedRecord,
)
from controller.core.leadership.records import (
    IsrRecord,
    NotificationsDeletedRecord,
    PreferredTriedRecord,
    StateCreatedRecord,
    StateRecord,
    StateReliedRecord,
)
from controller.core.model import Blocked, BlockedBy, Instant, TopicPartition
from controller.core.pacing.fold import applied_throttle_rejected, throttles_refused
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    DrainsEndedRecord,
)
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import (
    BlockedRecord,
    OrphanEndedRecord,
    PhaseRecord,
    SpecEndedRecord,
    SpecRecord,
)
from controller.core.records import Change
from controller.core.requests import fold
from controller.core.requests.records import SubmissionEndedRecord, SubmissionReliedRecord
from controller.core.topics.records import (
    AssignmentRecord,
    TopicCreatedRecord,
    TopicGrownRecord,
    TopicIdRecord,
)
from controller.core.view import ClusterView

LEFT_TIMER: Final = "left_submissions"
LEFT_S: Final = 60.0
"""When the deletion of a submitted znode is tried again after a failure, in seconds."""
_COMES_NEXT: Final = (
    *(AssignmentRecord, StateRecord, StateCreatedRecord),
    *(PhaseRecord, BlockedRecord, SpecEndedRecord),
)
"""
A reassignment cannot continue without these records, or without what is written with them.

Its others belong to requests, except another spec (``_hold``).
"""


def invalidate(  # noqa: C901, PLR0912 - one arm per record
    view: ClusterView, change: Change, overtaken: str | None = None
) -> list[effects.Effect]:
    """
    Invalidate the basis of a rejected change; return the reads that restore it.

    ``overtaken`` is the topic whose znode is not as the change expects it, if that is the reason.
    """
    role, notifications = view.role, view.leadership_process.notifications
    role.read_generation += 1
    keep_bounces(view, change)
    topics: dict[str, None] = {} if overtaken is None else {overtaken: None}
    states: dict[TopicPartition, None] = {}
    following: list[effects.Effect] = []
    for record in change.records:
        match record:
            case AssignmentRecord(partition=partition):
                topics[partition.topic] = None
            case TopicIdRecord(topic=topic):
                topics[topic] = None
            case DeletionRequestedRecord(result=result):
                # The topic is gone, or its deletion is already requested.
                topics[result.name] = None
            case (
                StateRecord(partition=partition)
                | StateCreatedRecord(partition=partition)
                | StateReliedRecord(partition=partition)
                | IsrRecord(partition=partition)
            ):
                _distrust(view, partition)
                states[partition] = None
            case SpecRecord(partition=partition) | SpecEndedRecord(partition=partition):
                # The topic may have changed since the record was decided on it.
                view.reassignments_leadership.unconfirmed_specs.add(partition)
                topics[partition.topic] = None
            case NotificationsDeletedRecord(kind=kind, names=names):
                # One of them is gone already: the rest is read with the next change.
                left = notifications.get(kind, ())
                notifications[kind] = tuple(n for n in left if n not in names)
            case SubmissionReliedRecord(name=name) | SubmissionEndedRecord(name=name):
                # Its client changed it, which is not watched, or deleted it.
                fold.forget_submission(view, name)
                wakeups.wake(view.due, wakeups.Trigger.SUBMISSION_FORGOTTEN)
            case TopicCreatedRecord(result=result):
                _creation_rejected(view, result.name, exists=overtaken == result.name)
            case (
                DeletionBegunRecord(topic=topic)
                | PartitionZnodesDeletedRecord(topic=topic)
                | StaleMarkerEndedRecord(topic=topic)
                | TopicDeletedRecord(topic=topic)
            ):
                # The marker is gone, or the topic or its znodes are others.
                deletion_fold.restart(view, topic)
                topics[topic] = None
            case ProducerIdsRecord():
                view.calls.producer_ids = None
            case DrainsEndedRecord():
                view.pacing_session.drains_stale = True
            case AppliedThrottleRecord() | AppliedThrottleEndedRecord():
                following.append(applied_throttle_rejected(view, record))
            case _:
                pass
    invalid = tuple(name for name in topics if name in view.topics.by_name)
    for name in invalid:
        view.topics.by_name[name].invalidate(role.read_generation)
    if invalid:
        following.append(effects.ReadTopics(invalid))
    if states:
        following.append(effects.ReadStates(tuple(states), effects.ReadPurpose.CONFLICT))
    return following


def _creation_rejected(view: ClusterView, name: str, *, exists: bool) -> None:
    """Note that the topic exists, though its listing is late; or its settings do, or do not."""
    tries = view.calls.creations_rejected.get(name, 0) + 1
    view.calls.creations_rejected[name] = tries
    if exists:
        view.topics.listed = (view.topics.listed or frozenset()) | {name}
        wakeups.wake(view.due, wakeups.Trigger.PARTITION_APPEARED)
    if exists or tries == 1:
        wakeups.wake_pending_requests(view)


def set_aside(
    view: ClusterView, change: Change, path: str, why: str, now: Instant
) -> list[effects.Effect]:
    """
    Note that a change was rejected for a reason that no read shows; return the effects of retrying.

    A reassignment that waits for it is blocked from now on. ``why`` is ZooKeeper's reason to reject
    the write of ``path``.
    """
    leadership = view.leadership
    throttles_refused(view, change, why, now)
    keep_bounces(view, change)
    moved = (
        None if change.partition is None else view.reassignments.by_partition.get(change.partition)
    )
    if moved is not None:
        detail = f"ZooKeeper rejects the write of {path}: {why}"
        _hold(view, change, moved, Blocked(BlockedBy.WRITE_REFUSED, detail), now)
    following: list[effects.Effect] = []
    for record in change.records:
        match record:
            case OrphanEndedRecord(orphan=orphan):
                # Its broker is sent the request once more, and confirms again that no log is left.
                view.reassignments_tenure.orphans_tried.discard(orphan)
            case PreferredTriedRecord(partitions=partitions):
                # The role is not held for it. The znode stays for the next controller.
                for partition in partitions:
                    leadership.preferred.pop(partition, None)
                leadership.preferred_version = None
                wakeups.wake(view.due, wakeups.Trigger.ELECTION_GIVEN_UP)
            case (
                TopicCreatedRecord(ticket=ticket, result=result)
                | TopicGrownRecord(ticket=ticket, result=result)
                | DeletionRequestedRecord(ticket=ticket, result=result)
            ):
                rejected = result.rejected(f"ZooKeeper rejects {path}: {why}")
                view.calls.note_topic(ticket, rejected)
                wakeups.wake_pending_requests(view)
            case (
                PartitionZnodesDeletedRecord(topic=topic)
                | StaleMarkerEndedRecord(topic=topic)
                | TopicDeletedRecord(topic=topic)
            ):
                view.deletions.trees.pop(topic, None)
            case SubmissionEndedRecord(name=name):
                # Nothing else waits for it, above all no cancellation.
                view.requests_session.left_submissions.add(name)
                wakeups.wake(view.due, wakeups.Trigger.SUBMISSION_LEFT)
                following.append(effects.SetTimer(LEFT_TIMER, Instant(now + LEFT_S)))
            case _:
                pass
    return following


def _hold(
    view: ClusterView, change: Change, moved: Reassignment, blocked: Blocked, now: Instant
) -> None:
    """
    Note that a reassignment waits for a rejected write; a step in flight waits for its own only.

    In a cycle that gives it another spec, a reassignment is not examined. Where that is rejected,
    no slot is given to a pending one, whose target is to be replaced; a step in flight continues.
    """
    is_next = any(isinstance(record, _COMES_NEXT) for record in change.records)
    is_other_spec = any(isinstance(record, SpecRecord) for record in change.records)
    if is_next and (moved.blocked is None or moved.blocked.by is not BlockedBy.WRITE_REFUSED):
        wakeups.wake(view.due, wakeups.Trigger.SLOT_FREED)
    if is_next or (is_other_spec and not moved.in_flight):
        moved.wait(blocked, now)
    elif is_other_spec and change.partition is not None:
        view.due.add((change.partition,))


def invalidate_plans(view: ClusterView, *, legacy: bool, queue: bool, cancellation: bool) -> None:
    """Invalidate the operators' znodes whose write was rejected; each is read before its use."""
    requests = view.requests
    if legacy and requests.legacy is not None:
        requests.legacy.stale = True
    if queue and requests.queue is not None:
        requests.queue.stale = True
    requests.cancellation_stale = requests.cancellation_stale or cancellation


def pass_over_shard(view: ClusterView, number: int) -> None:
    """Skip the number of a shard that exists: outside a tenure it may have been used."""
    view.requests_tenure.shards = max(view.requests_tenure.shards, number + 1)


def retry_refused(view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
    """Have what was rejected decided again, also what belongs to no partition."""
    view.due.add(partitions)
    wakeups.wake(view.due, wakeups.Trigger.WRITES_RETRIED)


def keep_bounces(view: ClusterView, change: Change) -> None:
    """Keep the bounces of a change that is not written, for the next decision."""
    if change.partition is not None and change.bounced:
        view.leadership.bounced.setdefault(change.partition, set()).update(change.bounced)


def _distrust(view: ClusterView, partition: TopicPartition) -> None:
    """Forget a state; a read of it that is under way is ignored."""
    leadership = view.leadership
    former = leadership.states.pop(partition, None)
    if former is not None:
        leadership.overtaken.setdefault(partition, former)
    leadership.distrusted[partition] = view.role.read_generation
    leadership.stateless.discard(partition)
    leadership.unreadable.pop(partition, None)
