"""
Repair of new partitions that a broker placed on this daemon.

With an endpoint the daemon is among the brokers that UpdateMetadata lists. Brokers of Kafka 2.8 and
later place the topics that they create by themselves on any of these (ZkAdminManager.createTopics),
``__consumer_offsets`` among them. A partition without a state has no data yet: its replica on the
daemon is replaced by one on a broker, in the same multi that creates the state. So no controller
finds one without the other. If the daemon dies before, the next controller creates the partition
without that replica, or cannot where it is the only one; ``doctor`` finds both.

Where a state exists, only a reassignment changes the replicas; ``doctor`` reports the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from controller.core.leadership import duties
from controller.core.model import BrokerId, PartitionAssignment, Replicas, TopicPartition
from controller.core.records import Change, Decision
from controller.core.topics.records import AssignmentRecord
from controller.core.topics.topic_ids import is_id_awaited
from controller.core.view import ClusterView


def repair_placements(view: ClusterView, partitions: Iterable[TopicPartition]) -> Decision:
    """Return the new replicas and first states of the partitions that are placed on the daemon."""
    misplaced = [
        p
        for p in partitions
        if p in view.leadership.stateless
        and is_misplaced(view, p)
        and not is_id_awaited(view, p.topic)
    ]
    if not misplaced:
        return Decision()
    load = Counter(b for _, a in view.topics.assignments() for b in a.replicas)
    changes: list[Change] = []
    for partition in misplaced:
        assignment = view.topics.assignment(partition)
        if assignment is None:
            continue
        replicas = _replicas_without_daemon(view, partition, assignment.replicas, load)
        load.update(set(replicas).difference(assignment.replicas))
        created = duties.create(view, partition, replicas)
        if created is not None:
            written = AssignmentRecord(partition, PartitionAssignment(replicas))
            changes.append(
                Change((written, *created.records), created.effects, partition=partition)
            )
    return Decision(tuple(changes))


def is_misplaced(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether a partition without a reassignment has a replica on the daemon."""
    assignment = view.topics.assignment(partition)
    own = BrokerId(view.options.controller_id)
    if assignment is None or assignment.is_reassigning or own in view.cluster.brokers:
        return False
    return own in assignment.replicas


def _replicas_without_daemon(
    view: ClusterView, partition: TopicPartition, replicas: Replicas, load: Counter[BrokerId]
) -> Replicas:
    """
    Return the replicas with a broker in the place of the daemon, or without it if there is none.

    A broker in a rack without a replica comes first, then the one with the fewest replicas.
    """
    brokers = view.cluster.brokers
    kept = [r for r in replicas if r != view.options.controller_id]
    racks = {brokers[r].rack for r in kept if r in brokers}
    free = [b for b in brokers if b not in kept and view.is_staying(b, partition)]
    if not free:
        return tuple(kept)
    chosen = min(free, key=lambda b: (brokers[b].rack in racks, load[b], b))
    return tuple(chosen if r == view.options.controller_id else r for r in replicas)
