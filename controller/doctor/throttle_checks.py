"""
Checks of replication throttles that nobody's move needs: no controller ever removes them.

Those that we set are told by their leases; only they can be lifted from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.applied_throttles import Entity, broker_entity, topic_entity
from controller.core.model import BrokerId, TopicPartition
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.doctor.unneeded_throttles import unneeded_throttles
from controller.znodes.entity_configs import EVERYTHING, throttled_partitions
from controller.znodes.paths import parse_number


def orphan_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttles that we set and that nobody lifted."""
    daemons = snapshot.znodes.daemons
    for lease in unneeded_throttles(snapshot):
        keys = ", ".join(sorted(lease.ours)) or "nothing"
        yield Finding(
            "orphan_throttle",
            Severity.INFO if daemons else Severity.WARNING,
            lease.entity,
            f"a daemon set {keys}, and no recorded reassignment needs it",
            "the leading daemon lifts it; if it stays, its log says why"
            if daemons
            else "start the daemon, or restore what stood there: reassigner doctor --fix",
        )


def topic_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find lists of throttled replicas on topics, or entries of them, that belong to no move."""
    moving = _moving(snapshot)
    for topic, throttles in sorted(snapshot.znodes.topic_throttles.items()):
        of_topic = {p.partition for p in moving if p.topic == topic}
        for key, value in sorted(throttles.items()):
            if _is_leased(snapshot, topic_entity(topic), key):
                continue
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
        number = parse_number(broker)
        for key, value in sorted(throttles.items()):
            if number is not None and _is_leased(snapshot, broker_entity(BrokerId(number)), key):
                continue
            yield Finding(
                "idle_broker_throttle",
                Severity.WARNING,
                f"broker {broker}",
                f"{key} is {value} bytes per second, and nothing is being reassigned",
                f"remove it: kafka-configs --entity-type brokers --entity-name {broker} --alter "
                f"--delete-config {key}",
            )


def _is_leased(snapshot: Snapshot, entity: Entity, key: str) -> bool:
    """Whether a setting, or a part of it, is ours: then its lease tells of it."""
    lease = snapshot.znodes.applied_throttles.get(entity)
    return lease is not None and key in lease.ours


def _moving(snapshot: Snapshot) -> frozenset[TopicPartition]:
    named = {
        TopicPartition(name, number)
        for name, topic in snapshot.znodes.topics.items()
        for number, assignment in topic.partitions.items()
        if assignment.is_reassigning
    }
    return frozenset(named | snapshot.znodes.specs.keys())
