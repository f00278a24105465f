"""
Counts of the cluster that are gauges: what a Kafka controller's JMX would say, and what we are at.

Pure functions of the view; the longest walks every partition, so the caller paces them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controller.core.model import BlockedBy, Instant, RequestId, TopicPartition
from controller.core.phases import LABELS, Ended, Pending, Phase
from controller.core.view import ClusterView


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Reassignments by phase, by what they wait for, and by request."""

    phases: Counter[str]
    blocked: Counter[str]
    moving: Counter[RequestId]
    """Those in flight, by request."""
    waiting: Counter[RequestId]
    in_flight: tuple[TopicPartition, ...]
    stalled: frozenset[TopicPartition]
    """Those in flight that have not come on for too long."""


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
    """
    Count the reassignments, in one pass: there may be tens of thousands.

    In flight is what is between its first step and its end, also while its next step waits.
    """
    phases: dict[type[Phase], int] = {}
    blocked: dict[BlockedBy, int] = {}
    moving: dict[RequestId, int] = {}
    waiting: dict[RequestId, int] = {}
    in_flight: list[TopicPartition] = []
    for partition, reassignment in view.reassignments.items():
        kind, request = type(reassignment.phase), reassignment.goal.request
        phases[kind] = phases.get(kind, 0) + 1
        if reassignment.blocked is not None:
            by = reassignment.blocked.by
            blocked[by] = blocked.get(by, 0) + 1
        if kind is Ended or (kind is Pending and not reassignment.step):
            waiting[request] = waiting.get(request, 0) + 1
        else:
            moving[request] = moving.get(request, 0) + 1
            in_flight.append(partition)
    return WorkCounts(
        phases=Counter({LABELS[kind]: n for kind, n in phases.items()}),
        blocked=Counter({by.value: n for by, n in blocked.items()}),
        moving=Counter(moving),
        waiting=Counter(waiting),
        in_flight=tuple(in_flight),
        stalled=frozenset(
            p for p in in_flight if now - view.reassignments[p].phase_since >= stalled_after_s
        ),
    )


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
