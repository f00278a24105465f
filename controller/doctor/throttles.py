"""Checks of replication throttles that nobody's move needs: no controller ever removes them."""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import TopicPartition
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshots import Snapshot
from controller.znodes.throttles import EVERYTHING, throttled_partitions


def topic_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find lists of throttled replicas on topics, or entries of them, that belong to no move."""
    moving = _moving(snapshot)
    for topic, throttles in sorted(snapshot.znodes.topic_throttles.items()):
        of_topic = {p.partition for p in moving if p.topic == topic}
        for key, value in sorted(throttles.items()):
            listed = throttled_partitions(value)
            if listed is EVERYTHING:
                idle = "" if of_topic else "all replicas"
            else:
                left = sorted(listed - of_topic)
                idle = "partitions " + ", ".join(map(str, left[:10])) if left else ""
            if idle:
                yield Finding(
                    "idle_topic_throttle",
                    Severity.WARNING,
                    topic,
                    f"{key} names {idle}, and none of them is being reassigned",
                    f"remove it: kafka-configs --entity-type topics --entity-name {topic} --alter "
                    f"--delete-config {key}",
                )


def broker_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find rates on brokers while nothing at all is being reassigned."""
    if _moving(snapshot):
        return
    for broker, throttles in sorted(snapshot.znodes.broker_throttles.items()):
        for key, value in sorted(throttles.items()):
            yield Finding(
                "idle_broker_throttle",
                Severity.WARNING,
                f"broker {broker}",
                f"{key} is {value} bytes per second, and nothing is being reassigned",
                f"remove it: kafka-configs --entity-type brokers --entity-name {broker} --alter "
                f"--delete-config {key}",
            )


def _moving(snapshot: Snapshot) -> frozenset[TopicPartition]:
    named = {
        TopicPartition(name, number)
        for name, topic in snapshot.znodes.topics.items()
        for number, assignment in topic.partitions.items()
        if assignment.is_reassigning
    }
    return frozenset(named | snapshot.znodes.goals.keys())
