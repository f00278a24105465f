"""Checks of leaders, ISRs and disks."""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import PartitionAssignment, TopicPartition
from controller.core.partition.gates import ids
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Disks, Snapshot


def leaderless(snapshot: Snapshot) -> Iterator[Finding]:
    """Find partitions that nobody can read or write."""
    znodes = snapshot.znodes
    for partition, _ in _living(snapshot):
        state = znodes.states.get(partition)
        if state is None or state.leader in znodes.brokers:
            continue
        yield Finding(
            "no_leader",
            Severity.CRITICAL,
            str(partition),
            f"leader {state.leader} is not live; its ISR is {ids(state.isr) or 'empty'}",
            "bring a broker of the ISR back",
        )


def under_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    """Find partitions that refuse records of producers with acks=all."""
    for partition, assignment in _living(snapshot):
        state = snapshot.znodes.states.get(partition)
        least = snapshot.brokers.min_insync_replicas.get(partition.topic)
        if state is None or not isinstance(least, int):
            continue
        synced = [r for r in state.isr if r in snapshot.znodes.brokers]
        if len(synced) >= least:
            continue
        yield Finding(
            "under_min_isr",
            Severity.CRITICAL,
            str(partition),
            f"{ids(synced) or 'no replica'} of {ids(assignment.replicas)} in sync, "
            f"min.insync.replicas is {least}",
            "bring the missing replicas back in sync",
        )


def unknown_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    """Find topics whose settings brokers do not tell: no step of theirs would begin."""
    for topic, least in sorted(snapshot.brokers.min_insync_replicas.items()):
        if isinstance(least, str):
            yield Finding(
                "config_unknown",
                Severity.WARNING,
                topic,
                f"min.insync.replicas is not known: {least}",
                "allow us DescribeConfigs on the topic; until then nothing of it is reassigned",
            )


def out_of_sync(snapshot: Snapshot) -> Iterator[Finding]:
    """Find replicas on live brokers that are not in the ISR and that nobody is adding."""
    for partition, assignment in _living(snapshot):
        state = snapshot.znodes.states.get(partition)
        if state is None:
            continue
        lagging = [
            r
            for r in assignment.replicas
            if r not in state.isr
            and r in snapshot.znodes.brokers
            and r not in assignment.adding_replicas
        ]
        if lagging:
            yield Finding(
                "out_of_sync",
                Severity.WARNING,
                str(partition),
                f"replica {ids(lagging)} of {ids(assignment.replicas)} is live and not in sync",
                "look at that broker's log and disks; a reassignment waits for it",
            )


def failed_disks(snapshot: Snapshot) -> Iterator[Finding]:
    """Find log directories that brokers took offline, and brokers that tell nothing."""
    for broker, disks in sorted(snapshot.brokers.disks.items()):
        if isinstance(disks, Disks):
            for directory in disks.failed:
                yield Finding(
                    "failed_log_dir",
                    Severity.CRITICAL,
                    f"broker {broker}",
                    f"log directory {directory} is offline",
                    "replace the disk and restart the broker, or reassign its partitions",
                )
        else:
            yield Finding(
                "silent_broker",
                Severity.WARNING,
                f"broker {broker}",
                f"did not tell what is on its disks: {disks}",
                "let us reach it and allow us Describe on the cluster; its disks are not checked",
            )


def offline_replicas(snapshot: Snapshot) -> Iterator[Finding]:
    """Find replicas that their live broker has no directory of."""
    for partition, assignment in _living(snapshot):
        before = snapshot.topics_before.get(partition.topic)
        known = None if before is None else before.partitions.get(partition.partition)
        missing = [
            broker
            for broker in assignment.replicas
            if isinstance(disks := snapshot.brokers.disks.get(broker), Disks)
            and partition not in disks.replicas
            # What was assigned a moment ago is made yet.
            and known is not None
            and broker in known.replicas
            and broker not in assignment.removing_replicas
            and broker not in assignment.adding_replicas
        ]
        if missing:
            yield Finding(
                "offline_replica",
                Severity.WARNING,
                str(partition),
                f"broker {ids(missing)} is live and has no directory of it",
                "look at that broker's log directories; a controller has to tell it anew",
            )


def _living(snapshot: Snapshot) -> Iterator[tuple[TopicPartition, PartitionAssignment]]:
    """Walk the partitions of all topics that are not being deleted."""
    for name, topic in sorted(snapshot.znodes.topics.items()):
        if name not in snapshot.znodes.deletions:
            for number, assignment in sorted(topic.partitions.items()):
                yield TopicPartition(name, number), assignment
