"""Checks of what the topic znodes say, and whose doing it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controller.core.model import BrokerId, PartitionAssignment, TopicAssignment, TopicPartition
from controller.core.partition.gates import ids
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot


def foreign_reassignments(snapshot: Snapshot) -> Iterator[Finding]:
    """Find adding and removing replicas without a record of ours."""
    for partition, assignment in _partitions(snapshot):
        if not assignment.is_reassigning or partition in snapshot.znodes.specs:
            continue
        yield Finding(
            "foreign_reassignment",
            Severity.WARNING,
            str(partition),
            f"adding {ids(assignment.adding_replicas) or 'none'}, removing "
            f"{ids(assignment.removing_replicas) or 'none'} of {ids(assignment.replicas)}; no "
            "record of ours names it",
            "find out who started it (Kafka's tool, Cruise Control); a controller finishes it, "
            "ours as well, unchanged",
        )


def dead_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers that are assigned replicas and not registered."""
    assigned: Counter[BrokerId] = Counter()
    sample: dict[BrokerId, TopicPartition] = {}
    for partition, assignment in _partitions(snapshot):
        for broker in assignment.replicas:
            if broker not in snapshot.znodes.brokers:
                assigned[broker] += 1
                sample.setdefault(broker, partition)
    for broker, count in sorted(assigned.items()):
        yield Finding(
            "dead_broker",
            Severity.WARNING,
            f"broker {broker}",
            f"not registered, and a replica of {count} partitions, such as {sample[broker]}",
            "bring it back, or reassign its partitions to live brokers",
        )


def unexplained_replicas(snapshot: Snapshot) -> Iterator[Finding]:
    """
    Find partitions with more replicas than their topic's others, that nobody is reassigning.

    A controller of Kafka 2.3 or a tool that died leaves a partition expanded without a word.
    """
    for name, topic in sorted(snapshot.znodes.topics.items()):
        usual = _usual_factor(topic)
        for number, assignment in sorted(topic.partitions.items()):
            partition = TopicPartition(name, number)
            is_explained = assignment.is_reassigning or partition in snapshot.znodes.specs
            if is_explained or len(assignment.replicas) <= usual:
                continue
            yield Finding(
                "unexplained_replicas",
                Severity.WARNING,
                str(partition),
                f"has {len(assignment.replicas)} replicas ({ids(assignment.replicas)}), most of "
                f"its topic have {usual}; nothing is being added or removed",
                "if nobody meant it, submit a plan with the replicas it should have",
            )


def _usual_factor(topic: TopicAssignment) -> int:
    """Return the number of replicas most partitions have, the smaller one of two that tie."""
    counts = Counter(len(a.replicas) for a in topic.partitions.values())
    return max(counts, key=lambda factor: (counts[factor], -factor)) if counts else 0


def _partitions(snapshot: Snapshot) -> Iterator[tuple[TopicPartition, PartitionAssignment]]:
    for name, topic in sorted(snapshot.znodes.topics.items()):
        for number, assignment in sorted(topic.partitions.items()):
            yield TopicPartition(name, number), assignment
