"""
Orphans: replicas that a reassignment may leave on disks, and their records.

A record requests the deletion of one replica; ``orphan_deletion`` decides again whether it is safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.core import options
from controller.core.model import BrokerId, TopicPartition
from controller.core.reassignments import records
from controller.core.reassignments.model import Orphan, Reassignment
from controller.core.view import ClusterView


def orphan_records(
    view: ClusterView, partition: TopicPartition, left: Iterable[tuple[BrokerId, str]]
) -> tuple[records.OrphanRecord, ...]:
    """
    Return the records of replicas that may still be on disk, each with its reason.

    A replica that a broker placed on this daemon never existed.
    """
    topic = view.topics.by_name[partition.topic]
    return tuple(
        records.OrphanRecord(
            Orphan(
                broker=broker,
                partition=partition,
                topic_czxid=topic.czxid,
                reason=reason,
                failed_in=view.failed_in(broker, partition),
            )
        )
        for broker, reason in left
        if broker != view.options.controller_id
    )


def left_behind(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    known: Collection[BrokerId],
) -> tuple[records.OrphanRecord, ...]:
    """
    Return a record for each original replica that another tenure or controller may have left.

    A Kafka controller sends StopReplica once without waiting: whether the logs are deleted is
    unknown. A repeated request is harmless, so the deletion of every replica that our record names
    is requested again, wherever that record ends.

    Args:
        view: Everything known.
        partition: The partition whose record ends.
        reassignment: Its reassignment.
        known: Brokers that need no record: present replicas, or recorded already.

    """
    if not reassignment.inherited:
        return ()
    spec = reassignment.spec
    left = (*(spec.original or ()), *sorted(spec.abandoned))
    return orphan_records(
        view,
        partition,
        (
            (b, "ended by another controller")
            for b in dict.fromkeys(left)
            if b not in known
            and b not in reassignment.deleted
            and (b, partition) not in view.reassignments.orphans
        ),
    )


def left_where_it_stands(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> tuple[records.OrphanRecord, ...]:
    """
    Return the records of left replicas where a record ends without a step of ours.

    They precede the end of the record, which forgets that the leader confirmed its epoch: without
    that nothing is deleted.

    With the delegated engine the cluster's controller does not report what it left.
    """
    assignment = view.topics.assignment(partition)
    if assignment is None or view.role.engine is options.EngineName.DELEGATED:
        return ()
    return left_behind(view, partition, reassignment, assignment.replicas)


def is_kept(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether orphans of a partition are kept because a replica has yet to catch up.

    An orphan may be the only other copy. Dead or leaving replicas are not awaited: the former may
    never return, the latter may never catch up.
    """
    assignment, state = view.topics.assignment(partition), view.leadership.states.get(partition)
    if assignment is None or state is None:
        return True
    running = view.reassignments.by_partition.get(partition)
    staying = assignment.replicas if running is None else running.spec.target
    live = view.live((r for r in assignment.replicas if r in staying), partition)
    return any(r not in state.isr for r in live)
