"""Checks of directories without an assigned replica: orphans, and those without a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.core.model import BrokerId, TopicAssignment, TopicPartition
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Disks, Snapshot


def orphans(snapshot: Snapshot) -> Iterator[Finding]:
    """Find our records of replicas whose deletion no broker confirmed."""
    znodes = snapshot.znodes
    for orphan in sorted(znodes.orphans, key=lambda o: (o.broker, o.partition)):
        topic = znodes.topics.get(orphan.partition.topic)
        assignment = znodes.assignment(orphan.partition)
        disks = snapshot.brokers.disks.get(orphan.broker)
        if assignment is not None and orphan.broker in assignment.replicas:
            state = "that broker is assigned the partition again"
        elif topic is not None and topic.czxid != orphan.topic_czxid:
            state = "the topic was deleted and created again since"
        elif orphan.broker not in znodes.brokers:
            state = "that broker is not live"
        elif isinstance(disks, Disks):
            there = "still has" if orphan.partition in disks.replicas else "no longer has"
            state = f"that broker is live and {there} a directory of it"
        else:
            state = "that broker is live"
        yield Finding(
            "orphan",
            Severity.WARNING,
            f"{orphan.partition} on broker {orphan.broker}",
            f"recorded because {orphan.reason}; {state}",
            "a running daemon deletes it when the broker is live; until then it takes disk space",
        )


def stray_logs(snapshot: Snapshot) -> Iterator[Finding]:
    """
    Find directories without an assigned replica and without a record of ours.

    A replica counts as assigned if it was so before or after the disks were read.
    """
    recorded = {(o.broker, o.partition) for o in snapshot.znodes.orphans}
    for broker, disks in sorted(snapshot.brokers.disks.items()):
        if not isinstance(disks, Disks):
            continue
        for partition in sorted(disks.replicas):
            is_going = partition.topic in snapshot.znodes.deletions
            if is_going or (broker, partition) in recorded or _unknowable(snapshot, partition):
                continue
            if _assigned(snapshot.znodes.topics, partition, broker) or _assigned(
                snapshot.topics_before, partition, broker
            ):
                continue
            yield Finding(
                "stray_log",
                Severity.WARNING,
                f"{partition} on broker {broker}",
                "the broker has a directory of it, is not a replica of it, and there is no orphan "
                "record of it",
                "the reassigner never deletes it; if it is not needed, stop the broker, remove the "
                "directory and start the broker",
            )


def _unknowable(snapshot: Snapshot, partition: TopicPartition) -> bool:
    """Whether the topic's znode is unreadable, so that its replicas are not known."""
    return any(
        path.rpartition("/")[2] == partition.topic and path.startswith("/brokers/topics/")
        for path in snapshot.znodes.unreadable
    )


def _assigned(
    topics: Mapping[str, TopicAssignment], partition: TopicPartition, broker: BrokerId
) -> bool:
    topic = topics.get(partition.topic)
    assignment = None if topic is None else topic.partitions.get(partition.partition)
    return assignment is not None and broker in assignment.replicas
