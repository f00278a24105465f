"""
Counts of the cluster that are gauges: what a Kafka controller's JMX would say, and what we are at.

Pure functions of the view; the longest walks every partition, so the caller paces them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controller.core.model import Instant, TopicPartition
from controller.core.phases import label_of
from controller.core.view import ClusterView
from controller.telemetry.status import is_stalled


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Reassignments by phase and by what they wait for."""

    phases: Counter[str]
    blocked: Counter[str]
    stalled: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """
    What Kafka's ``KafkaController`` exports while it is active.

    OfflinePartitionsCount, PreferredReplicaImbalanceCount, GlobalTopicCount, GlobalPartitionCount.
    """

    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int


def work_counts(view: ClusterView, now: Instant, stalled_after_s: float) -> WorkCounts:
    """Count the reassignments."""
    phases: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    stalled = []
    for partition, reassignment in view.reassignments.items():
        phases[label_of(reassignment.phase)] += 1
        if reassignment.blocked is not None:
            blocked[reassignment.blocked.by.value] += 1
        if is_stalled(reassignment, now, stalled_after_s):
            stalled.append(partition)
    return WorkCounts(phases, blocked, tuple(stalled))


def cluster_counts(view: ClusterView) -> ClusterCounts:
    """Count the partitions; one whose state is not read yet is neither offline nor imbalanced."""
    partitions = offline = imbalanced = 0
    deletions = view.deletions or frozenset()
    for name, topic in view.topics.items():
        partitions += len(topic.partitions)
        if name in deletions:
            continue
        for number, assignment in topic.partitions.items():
            partition = TopicPartition(name, number)
            state = view.states.get(partition)
            if state is None:
                continue
            offline += not view.is_live(state.leader, partition)
            imbalanced += state.leader not in assignment.replicas[:1]
    return ClusterCounts(len(view.topics), partitions, offline, imbalanced)
