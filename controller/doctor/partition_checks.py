"""Checks of partitions: assignments, leaders, ISRs, log directories and orphan records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from controller.core.model import BrokerId, TopicAssignment, TopicPartition, count_text, ids
from controller.core.reassignments.model import Orphan
from controller.doctor.broker_answers import Disks
from controller.doctor.findings import (
    NOTHING,
    Finding,
    Severity,
    critical,
    info,
    old_copies_text,
    orphan_advice,
    warning,
    why_orphaned,
)
from controller.doctor.snapshot import Snapshot

NAMED_MAX: Final = 10
"""Partitions that one finding names."""


def foreign_reassignments(snapshot: Snapshot) -> Iterator[Finding]:
    """Find reassignments in progress without a record."""
    for partition, assignment in snapshot.znodes.partitions():
        if not assignment.is_reassigning or partition in snapshot.znodes.specs:
            continue
        yield warning(
            "foreign_reassignment",
            str(partition),
            f"adding {ids(assignment.adding_replicas) or 'none'}, removing "
            f"{ids(assignment.removing_replicas) or 'none'} of {ids(assignment.replicas)}; the "
            "reassigner has no record of it",
            "find out which tool started it (Kafka's own, Cruise Control); any controller finishes "
            "it unchanged, the reassigner's too",
        )


def dead_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers with replicas that are not registered."""
    assigned: Counter[BrokerId] = Counter()
    sample: dict[BrokerId, TopicPartition] = {}
    for partition, assignment in snapshot.znodes.partitions():
        for broker in assignment.replicas:
            if broker not in snapshot.znodes.brokers and broker != snapshot.controller_id:
                assigned[broker] += 1
                sample.setdefault(broker, partition)
    for broker, count in sorted(assigned.items()):
        yield warning(
            "dead_broker",
            f"broker {broker}",
            f"not registered, and a replica of {count_text(count, 'partition')}, such as "
            f"{sample[broker]}",
            "start it, or reassign its partitions to live brokers",
        )


def unknown_drains(snapshot: Snapshot) -> Iterator[Finding]:
    """Find drains of brokers that do not exist any more."""
    assigned = {r for _, a in snapshot.znodes.partitions() for r in a.replicas}
    for broker in sorted(snapshot.znodes.drained - snapshot.znodes.brokers.keys() - assigned):
        yield warning(
            "drained_broker_gone",
            f"broker {broker}",
            "it is drained, is not live, and no partition has a replica on it",
            f"run `reassigner drain --stop {broker}`: another broker with this id would get no "
            "replicas",
        )


def waiting_deletions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find topic deletions that no controller can complete before a broker is back."""
    znodes = snapshot.znodes
    awaited: dict[str, set[BrokerId]] = {}
    for partition, assignment in znodes.partitions():
        dead = {r for r in assignment.replicas if r not in znodes.brokers}
        if partition.topic in znodes.deletions and dead:
            awaited.setdefault(partition.topic, set()).update(dead)
    for topic, brokers in sorted(awaited.items()):
        yield warning(
            "topic_deletion_waits",
            topic,
            f"its deletion waits for broker {ids(sorted(brokers))}, which is not live and has a "
            "replica",
            "start it; if it is gone for good, a new broker with its id",
        )


def controller_replicas(snapshot: Snapshot) -> Iterator[Finding]:
    """
    Find replicas that a broker placed on the daemon, which has no log.

    Brokers of Kafka 2.8 and later do so when they create a topic while the daemon is listed as the
    controller. It repairs that before the partition has a state, unless it dies before.
    """
    own, znodes = BrokerId(snapshot.controller_id), snapshot.znodes
    for partition, assignment in znodes.living() if own not in znodes.brokers else ():
        if own not in assignment.replicas:
            continue
        others = tuple(r for r in assignment.replicas if r != own)
        is_new = partition not in znodes.states
        yield Finding(
            "controller_replica",
            Severity.WARNING if others else Severity.CRITICAL,
            str(partition),
            f"replica {own} is the id of the daemon as the controller, which stores no data",
            "the daemon replaces it when it is the controller next"
            if is_new
            else f"submit a plan with a broker in its place; its other replicas are {ids(others)}",
        )


def unexplained_replicas(snapshot: Snapshot) -> Iterator[Finding]:
    """
    Find partitions with more replicas than others of their topic, and no reassignment in progress.

    A controller of Kafka 2.3, or a tool, that stops amid a reassignment leaves such partitions.
    """
    for name, topic in sorted(snapshot.znodes.topics.items()):
        usual = _usual_factor(topic)
        for number, assignment in sorted(topic.partitions.items()):
            partition = TopicPartition(name, number)
            is_explained = assignment.is_reassigning or partition in snapshot.znodes.specs
            if is_explained or len(assignment.replicas) <= usual:
                continue
            yield warning(
                "unexplained_replicas",
                str(partition),
                f"has {count_text(len(assignment.replicas), 'replica')} "
                f"({ids(assignment.replicas)}), most partitions of its topic have {usual}; no "
                "reassignment of it is in progress",
                "if that is not intended, submit a plan with the replicas it should have",
            )


def _usual_factor(topic: TopicAssignment) -> int:
    """Return the most frequent number of replicas; of two that tie, the smaller."""
    counts = Counter(len(a.replicas) for a in topic.partitions.values())
    return max(counts, key=lambda factor: (counts[factor], -factor)) if counts else 0


def leaderless(snapshot: Snapshot) -> Iterator[Finding]:
    """Find partitions without a live leader: no client can read or write them."""
    znodes = snapshot.znodes
    for partition, _ in snapshot.znodes.living():
        state = znodes.states.get(partition)
        if state is None or state.leader in znodes.brokers:
            continue
        yield critical(
            "no_leader",
            str(partition),
            f"leader {state.leader} is not live; its ISR is {ids(state.isr) or 'empty'}",
            "start a broker of the ISR",
        )


def under_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    """Find partitions that refuse records of producers with acks=all."""
    for partition, assignment in snapshot.znodes.living():
        state = snapshot.znodes.states.get(partition)
        least = snapshot.brokers.min_insync_replicas.get(partition.topic)
        if state is None or not isinstance(least, int):
            continue
        synced = [r for r in state.isr if r in snapshot.znodes.brokers]
        if len(synced) >= least:
            continue
        yield critical(
            "under_min_isr",
            str(partition),
            f"{ids(synced) or 'no replica'} of {ids(assignment.replicas)} in sync, "
            f"min.insync.replicas is {least}",
            "start the brokers of the missing replicas, or submit a plan that replaces them; steps "
            "whose copies could harm it wait (`reassigner limits --under-min-isr warn` lets them "
            "begin)",
        )


def unknown_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    """Find topics whose settings brokers do not return: no step of their partitions begins."""
    for topic, least in sorted(snapshot.brokers.min_insync_replicas.items()):
        if isinstance(least, str):
            yield warning(
                "config_unknown",
                topic,
                f"min.insync.replicas is not known: {least}",
                "grant the daemon DescribeConfigs on the topic; until then its partitions are not "
                "reassigned",
            )


def out_of_sync(snapshot: Snapshot) -> Iterator[Finding]:
    """Find replicas on live brokers that are not in the ISR and are not being added."""
    for partition, assignment in snapshot.znodes.living():
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
            yield warning(
                "out_of_sync",
                str(partition),
                f"replica {ids(lagging)} of {ids(assignment.replicas)} is live and not in sync",
                "examine the log and the disks of that broker; a reassignment waits for it",
            )


def failed_disks(snapshot: Snapshot) -> Iterator[Finding]:
    """Find log directories that are offline, and brokers that do not describe theirs."""
    for broker, disks in sorted(snapshot.brokers.disks.items()):
        if isinstance(disks, Disks):
            for directory in disks.failed:
                yield critical(
                    "failed_log_dir",
                    f"broker {broker}",
                    f"log directory {directory} is offline",
                    "replace the disk and restart the broker, or reassign its partitions",
                )
        else:
            yield warning(
                "silent_broker",
                f"broker {broker}",
                f"did not describe its log directories: {disks}",
                "make it reachable from here and grant Describe on the cluster; until then its "
                "disks are not checked",
            )


def offline_replicas(snapshot: Snapshot) -> Iterator[Finding]:
    """Find replicas without a directory on their live broker."""
    for partition, assignment in snapshot.znodes.living():
        before = snapshot.topics_before.get(partition.topic)
        known = None if before is None else before.partitions.get(partition.partition)
        missing = [
            broker
            for broker in assignment.replicas
            if isinstance(disks := snapshot.brokers.disks.get(broker), Disks)
            and partition not in disks.replicas
            # A replica that was just assigned may not have its directory yet.
            and known is not None
            and broker in known.replicas
            and broker not in assignment.removing_replicas
            and broker not in assignment.adding_replicas
        ]
        if missing:
            yield warning(
                "offline_replica",
                str(partition),
                f"broker {ids(missing)} is live and has no directory of it",
                "examine the log directories of that broker; it creates the replica when a "
                "controller sends LeaderAndIsr again, for example after a restart of the broker",
            )


def old_copies(snapshot: Snapshot) -> Iterator[Finding]:
    """Find the same as ``orphans``; of what the daemon ends by itself, one remark for a broker."""
    by_daemon: dict[tuple[BrokerId, str], list[str]] = {}
    for orphan, finding in _orphan_findings(snapshot):
        if finding.advice.startswith(NOTHING):
            names = by_daemon.setdefault((orphan.broker, finding.advice), [])
            names.append(str(orphan.partition))
        else:
            yield finding
    for (broker, advice), names in by_daemon.items():
        subject, evidence = f"broker {broker}", old_copies_text(broker, names)
        more = ", and more" if len(names) > NAMED_MAX else ""
        listed = f": {', '.join(names[:NAMED_MAX])}{more}" if len(names) > 1 else ""
        yield info("orphan", subject, evidence.removeprefix(f"{subject} ") + listed, advice)


def orphans(snapshot: Snapshot) -> Iterator[Finding]:
    """Find records of replicas whose deletion no broker confirmed."""
    return (finding for _, finding in _orphan_findings(snapshot))


def _orphan_findings(snapshot: Snapshot) -> Iterator[tuple[Orphan, Finding]]:
    znodes = snapshot.znodes
    for orphan in sorted(znodes.orphans, key=lambda o: (o.broker, o.partition)):
        topic = znodes.topics.get(orphan.partition.topic)
        assignment = znodes.assignment(orphan.partition)
        disks = snapshot.brokers.disks.get(orphan.broker)
        path: str | None = None
        advice = "a running daemon ends the record"
        is_live = orphan.broker in znodes.brokers
        if assignment is not None and orphan.broker in assignment.replicas:
            state = "that broker is assigned the partition again"
        elif topic is not None and topic.czxid != orphan.topic_czxid:
            state = "the topic was deleted and created again since"
        else:
            state = f"that broker is {'live' if is_live else 'not live'}"
            if is_live and isinstance(disks, Disks):
                state += " and no longer has a directory of it"
                if orphan.partition in disks.replicas:
                    path = "DIRECTORY"
                    state = (
                        f"that broker is live and still has {_directory(disks, orphan.partition)}"
                    )
            advice = orphan_advice(snapshot.engine, is_live=is_live, path=path)
        subject = f"{orphan.partition} on broker {orphan.broker}"
        evidence = f"recorded because {why_orphaned(orphan.reason)}; {state}"
        yield orphan, warning("orphan", subject, evidence, advice)


def stray_logs(snapshot: Snapshot) -> Iterator[Finding]:
    """
    Find directories without an assigned replica and without a record.

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
            if _is_assigned(snapshot.znodes.topics, partition, broker) or _is_assigned(
                snapshot.topics_before, partition, broker
            ):
                continue
            yield warning(
                "stray_log",
                f"{partition} on broker {broker}",
                f"the broker has {_directory(disks, partition)}, is not a replica of it, and there "
                "is no orphan record of it",
                "the reassigner never deletes it; if it is not needed, stop the broker, run "
                "`rm -r DIRECTORY` on its machine, and start it",
            )


def _directory(disks: Disks, partition: TopicPartition) -> str:
    """Return the directory of a log, as far as the broker named it."""
    log_dir = disks.placed.get(partition)
    return "a directory of it" if log_dir is None else f"the directory {log_dir}/{partition}"


def _unknowable(snapshot: Snapshot, partition: TopicPartition) -> bool:
    """Return whether the topic's znode is unreadable, so that its replicas are unknown."""
    return any(
        path.rpartition("/")[2] == partition.topic and path.startswith("/brokers/topics/")
        for path in snapshot.znodes.unreadable
    )


def _is_assigned(
    topics: Mapping[str, TopicAssignment], partition: TopicPartition, broker: BrokerId
) -> bool:
    topic = topics.get(partition.topic)
    assignment = None if topic is None else topic.partitions.get(partition.partition)
    return assignment is not None and broker in assignment.replicas
