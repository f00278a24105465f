"""
What a reassignment may leave on disks, and the records that tell of it.

A record asks for the deletion of one replica; whoever carries it out judges anew whether it may.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.core.events import Orphan
from controller.core.model import NO_LEADER, BrokerId, Replicas, TopicPartition
from controller.core.options import EngineName
from controller.core.reassignments import Reassignment
from controller.core.records import OrphanRecord
from controller.core.view import ClusterView


def orphan_records(
    view: ClusterView, partition: TopicPartition, left: Iterable[tuple[BrokerId, str]]
) -> tuple[OrphanRecord, ...]:
    """Return the records of replicas that may still be on disk, each with its reason."""
    topic = view.topics[partition.topic]
    return tuple(
        OrphanRecord(
            Orphan(
                broker=broker,
                partition=partition,
                topic_czxid=topic.czxid,
                reason=reason,
                failed_in=view.failed_in(broker, partition),
            )
        )
        for broker, reason in left
    )


def left_behind(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    known: Collection[BrokerId],
) -> tuple[OrphanRecord, ...]:
    """
    Return a record for each original replica that another tenure or controller may have left.

    A Kafka controller sends StopReplica once and does not wait: whether the logs are gone is not
    known. Asking again is harmless, so what our record proves is asked for again, wherever that
    record ends.

    Args:
        view: What is known.
        partition: Whose record ends.
        reassignment: What the record became.
        known: Brokers of which nothing has to be told: replicas, or told of already.

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
            and (b, partition) not in view.orphans
        ),
    )


def left_where_it_stands(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> tuple[OrphanRecord, ...]:
    """
    Return what is left behind where a record ends without a step of ours.

    These come before the record's end, which forgets that the leader confirmed what it was told:
    nothing is deleted without that.

    Where the cluster's controller does all the work, it does not tell what it left.
    """
    assignment = view.assignment(partition)
    if assignment is None or view.engine is EngineName.DELEGATED:
        return ()
    return left_behind(view, partition, reassignment, assignment.replicas)


def without_strangers(
    view: ClusterView, partition: TopicPartition, leader: BrokerId, isr: Replicas
) -> Replicas:
    """
    Return the ISR without brokers that are no replicas any more; whoever leads stays in it.

    A Kafka controller whose changes of replicas all fail (KAFKA-12315) ends a reassignment in the
    topic znode only. Who was removed fetches no more but counts for ``min.insync.replicas``, would
    be in sync at once where it is added again, and keeps leaders of Kafka 2.4 to 2.8 from shrinking
    any ISR. Without a leader nothing is acknowledged, and the ISR stays as it was.
    """
    assignment = view.settled_assignment(partition)
    if assignment is None or leader == NO_LEADER:
        return isr
    return tuple(r for r in isr if r == leader or r in assignment.replicas)


def is_kept(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Whether what is left of a partition on other brokers is kept: a replica has yet to catch up.

    It may have the only other copy. Replicas that are dead, or on their way out, are not waited
    for: the one may never return, the other may never catch up.
    """
    assignment, state = view.assignment(partition), view.states.get(partition)
    if assignment is None or state is None:
        return True
    running = view.reassignments.get(partition)
    staying = assignment.replicas if running is None else running.spec.target
    live = view.live((r for r in assignment.replicas if r in staying), partition)
    return any(r not in state.isr for r in live)
