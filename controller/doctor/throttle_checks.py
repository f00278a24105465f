"""
Checks of replication throttles that no reassignment needs: no controller ever removes them.

Only throttles that we have a record of can be lifted from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.throttle_settings import Entity, broker_entity, topic_entity
from controller.doctor.findings import NO_DAEMON, Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.znodes.entity_configs import EVERYTHING, throttled_partitions
from controller.znodes.paths import parse_number


def orphan_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttles that a daemon set and that no reassignment needs any more."""
    daemons = snapshot.znodes.daemons
    for applied in snapshot.znodes.unneeded_throttles():
        keys = ", ".join(sorted(applied.ours)) or "nothing"
        yield Finding(
            "orphan_throttle",
            Severity.INFO if daemons else Severity.WARNING,
            applied.entity,
            f"a daemon set {keys}, and no recorded reassignment needs it",
            "the leading daemon lifts it; if it stays, examine its log"
            if daemons
            else "start a daemon, or restore the settings before it: reassigner doctor --fix",
        )


def left_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttles that a daemon set for recorded reassignments, while none leads."""
    if snapshot.znodes.daemons:
        return
    unneeded = snapshot.znodes.unneeded_throttles()
    for entity, applied in sorted(snapshot.znodes.applied_throttles.items()):
        if applied not in unneeded:
            keys = ", ".join(sorted(applied.ours)) or "nothing"
            yield Finding(
                "throttle_left",
                Severity.WARNING,
                entity,
                f"a daemon set {keys} for recorded reassignments, and none leads",
                NO_DAEMON,
            )


def topic_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttled replicas in topic settings that belong to no reassignment."""
    moving = _moving(snapshot)
    for topic, throttles in sorted(snapshot.znodes.topic_throttles.items()):
        of_topic = {p.partition for p in moving if p.topic == topic}
        for key, value in sorted(throttles.items()):
            if _is_recorded(snapshot, topic_entity(topic), key):
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
    """Find throttle rates on brokers while no partition is being reassigned."""
    if _moving(snapshot):
        return
    for broker, throttles in sorted(snapshot.znodes.broker_throttles.items()):
        number = parse_number(broker)
        for key, value in sorted(throttles.items()):
            if number is not None and _is_recorded(snapshot, broker_entity(BrokerId(number)), key):
                continue
            yield Finding(
                "idle_broker_throttle",
                Severity.WARNING,
                f"broker {broker}",
                f"{key} is {value} bytes per second, and no partition is being reassigned",
                f"remove it: kafka-configs --entity-type brokers --entity-name {broker} --alter "
                f"--delete-config {key}",
            )


def _is_recorded(snapshot: Snapshot, entity: Entity, key: str) -> bool:
    """Return whether a setting, or a part of it, is in the record of a throttle."""
    applied = snapshot.znodes.applied_throttles.get(entity)
    return applied is not None and key in applied.ours


def _moving(snapshot: Snapshot) -> frozenset[TopicPartition]:
    partitions = snapshot.znodes.partitions()
    reassigning = {partition for partition, found in partitions if found.is_reassigning}
    return frozenset(reassigning | snapshot.znodes.specs.keys())
