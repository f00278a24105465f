"""
Orphans: replicas that a reassignment or another controller may leave on disks.

A record requests the deletion of one replica; ``delete_orphans`` decides again whether it is safe.
None of it delays a reassignment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from controller.core import core_settings, effects, model
from controller.core.leadership import duties
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.reassignments import records
from controller.core.reassignments.model import Orphan, Reassignment, RemovedReplica
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

LOST_WITHIN_S: Final = 5.0
"""
The time within which a broker carries out the StopReplica for a dropped replica, in seconds.

One whose death is read within it after the drop may have missed the request.
"""


def announce_departures(view: ClusterView, due: Worklist) -> Decision:
    """
    Record the replicas that another controller dropped just before our claim: they may remain.

    Recorded once: the record is deleted when the broker confirmed that no log is left. Where a
    reassignment of ours continues, its own end records them.
    """
    reassignments = view.reassignments
    changes = []
    # Of other topics nothing new is known before a read.
    for departure in reassignments.departed if due.claimed or due.plan else ():
        broker, partition, _ = departure
        assignment = _assignment_since(view, departure)
        if assignment is None or partition in reassignments.by_partition:
            continue
        if broker not in assignment.replicas and (broker, partition) not in reassignments.orphans:
            written = orphan_records(view, partition, ((broker, "dropped by another controller"),))
            state = view.leadership.states.get(partition)
            is_live = state is not None and state.leader in view.cluster.brokers
            # Nothing is deleted before the leader confirmed the present epoch.
            leader = (state.leader,) if state is not None and is_live else ()
            is_informed = not duties.leader_bounced(view, due, partition)
            following = duties.send_leader_and_isr(view, partition, leader) if is_informed else ()
            changes.append(Change(written, following, partition))
    return Decision(tuple(changes))


def _assignment_since(
    view: ClusterView, departure: RemovedReplica
) -> model.PartitionAssignment | None:
    """Return the present assignment; None if it is not known, or of a later topic."""
    topic = view.topics.by_name.get(departure.partition.topic)
    if topic is None or topic.czxid != departure.topic_czxid:
        return None
    return view.topics.assignment(departure.partition)


def record_lost(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """
    Record replicas that the cluster's controller dropped from brokers that prove to be dead.

    A topic znode may be read before the registrations of brokers, though these changed first. The
    controller sends StopReplica once; a broker that misses it keeps the log.
    """
    if not due.brokers_changed:
        return Decision()
    changes = []
    for departure, seen in view.reassignments.departed.items():
        broker, partition, _ = departure
        is_gone = broker not in view.cluster.brokers or broker in due.bounced
        if not is_gone or now - seen > LOST_WITHIN_S:
            continue
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is not None and broker in reassignment.lost:
            continue
        assignment = _assignment_since(view, departure)
        if assignment is None or broker in assignment.replicas:
            continue
        if (broker, partition) not in view.reassignments.orphans:
            left = ((broker, "its broker died when the controller dropped the replica"),)
            changes.append(Change(orphan_records(view, partition, left), partition=partition))
    return Decision(tuple(changes))


def delete_orphans(view: ClusterView, due: Worklist) -> Decision:
    """Delete orphans whose broker is back, if it is still safe."""
    reassignments_tenure, leadership = view.reassignments_tenure, view.leadership
    ended = set(due.buried)
    following: list[effects.Effect] = []
    if due.orphans or due.claimed or due.joined or due.seeded or due.listed_topics:
        for orphan in view.reassignments.orphans.values():
            if _is_obsolete(view, orphan):
                ended.add(orphan)
                continue
            if orphan in reassignments_tenure.orphans_tried or view.is_undeletable(orphan):
                continue
            if orphan.broker in view.cluster.brokers and _is_deletable(view, orphan):
                epoch = leadership.states[orphan.partition].leader_epoch
                following += [
                    effects.SendStopReplica(orphan.partition, orphan.broker, epoch, delete)
                    for delete in (False, True)
                ]
    in_order = sorted(ended, key=lambda o: (o.broker, o.partition))
    changes = tuple(Change((records.OrphanEndedRecord(orphan),)) for orphan in in_order)
    return Decision(changes, tuple(following))


def _is_obsolete(view: ClusterView, orphan: Orphan) -> bool:
    # The topic is gone, was recreated, or has a replica on that broker again. A kept record would
    # be endless work, and the role would be held for it.
    name, number = orphan.partition
    topic = view.topics.by_name.get(name)
    if topic is None or topic.stale:
        return view.topics.listed is not None and name not in view.topics.listed
    assignment = topic.partitions.get(number)
    again = assignment is not None and orphan.broker in assignment.replicas
    return again or topic.czxid != orphan.topic_czxid


def _is_deletable(view: ClusterView, orphan: Orphan) -> bool:
    # Its very topic exists, has no replica on that broker, and the present leader confirmed the
    # present epoch in this tenure; and no live replica lacks its data.
    partition, broker = orphan.partition, orphan.broker
    topic, state = view.topics.by_name.get(partition.topic), view.leadership.states.get(partition)
    if topic is None or topic.stale or topic.czxid != orphan.topic_czxid:
        return False
    assignment = topic.partitions.get(partition.partition)
    if assignment is None or state is None or is_kept(view, partition):
        return False
    if broker in assignment.replicas or broker in state.isr:
        return False
    confirmed = view.reassignments_tenure.confirmed.get(partition)
    return confirmed == (state.leader, state.leader_epoch)


def orphan_records(
    view: ClusterView, partition: TopicPartition, left: Iterable[tuple[BrokerId, str]]
) -> tuple[records.OrphanRecord, ...]:
    """Return the records of replicas that may be on disk; this daemon never has one."""
    czxid = view.topics.by_name[partition.topic].czxid
    return tuple(
        records.OrphanRecord(Orphan(b, partition, czxid, reason, view.failed_in(b, partition)))
        for b, reason in left
        if b != view.options.controller_id
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
    is requested again, wherever that record ends; except of the ``known`` brokers, which have a
    replica or are recorded already.
    """
    if not reassignment.inherited:
        return ()
    spec = reassignment.spec
    left = (
        (b, "ended by another controller")
        for b in dict.fromkeys((*(spec.original or ()), *sorted(spec.abandoned)))
        if b not in known
        and b not in reassignment.deleted
        and (b, partition) not in view.reassignments.orphans
    )
    return orphan_records(view, partition, left)


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
    if assignment is None or view.role.engine is core_settings.EngineName.DELEGATED:
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
