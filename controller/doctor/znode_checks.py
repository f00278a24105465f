"""
Checks of the reassigner's own znodes, of those of plans, and of throttles without a reassignment.

No controller ever removes such throttles. Only those that we have a record of can be lifted here.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import BrokerId, TopicPartition, count_text, ids
from controller.core.pacing.throttle_settings import Entity, broker_entity, topic_entity
from controller.doctor.broker_answers import NoVerdict
from controller.doctor.findings import (
    NO_DAEMON,
    Finding,
    Severity,
    critical,
    info,
    keys_text,
    warning,
)
from controller.doctor.snapshot import Snapshot
from controller.znodes.entity_configs import EVERYTHING, throttled_partitions
from controller.znodes.paths import (
    KILL_SWITCH,
    LEGACY_PLAN,
    entity_config_path,
    parse_number,
    reassignment_path,
)


def lost_records(snapshot: Snapshot) -> Iterator[Finding]:
    """Find records of reassignments whose partition does not exist."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        if snapshot.znodes.assignment(partition) is not None:
            continue
        yield warning(
            "lost_record",
            reassignment_path(partition),
            f"to {ids(spec.target)} by {spec.request}, but the partition does not exist",
            "a running daemon ends it; if it stays, delete the znode",
        )


def left_records(snapshot: Snapshot) -> Iterator[Finding]:
    """Find records of reassignments while no daemon leads."""
    if snapshot.znodes.daemons:
        return
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        assignment = snapshot.znodes.assignment(partition)
        if assignment is None:
            continue
        becomes = f"it stays at {ids(assignment.replicas)}"
        if assignment.is_reassigning:
            becomes = (
                f"the cluster's controller ends the step to {ids(assignment.target_replicas)} "
                "that its topic znode contains"
            )
        yield warning(
            "record_left",
            reassignment_path(partition),
            f"to {ids(spec.target)} by {spec.request}, and no daemon leads; {becomes}",
            NO_DAEMON,
        )


def left_submissions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find submitted requests, queues and cancellations while no daemon leads."""
    for path in () if snapshot.znodes.daemons else snapshot.znodes.submitted:
        yield warning("submission_left", path, "no daemon leads that would read it", NO_DAEMON)


def left_controls(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what operators set for daemons while none leads."""
    for path in () if snapshot.znodes.daemons else snapshot.znodes.controls:
        yield info("control_left", path, "no daemon leads that obeys it", NO_DAEMON)


def dead_targets(snapshot: Snapshot) -> Iterator[Finding]:
    """Find recorded reassignments that wait for target brokers that are not live."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        dead = [r for r in spec.target if r not in snapshot.znodes.brokers]
        if dead:
            yield warning(
                "dead_target",
                str(partition),
                f"to be reassigned to {ids(spec.target)}, and broker {ids(dead)} is not live",
                "start it, or submit a plan with another target",
            )


def unreadable_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes that are unreadable."""
    for path, reason in sorted(snapshot.znodes.unreadable.items()):
        yield critical(
            "unreadable",
            path,
            reason,
            "find out which tool wrote it; repair it, or delete it if it is one of ours",
        )


def rejected_settings(snapshot: Snapshot) -> Iterator[Finding]:
    """Find settings in ``/config`` that brokers reject, and those of which they do not say so."""
    for entity, why in sorted(snapshot.settings.rejected.items()):
        kind, _, _ = entity.partition("/")
        yield critical(
            "rejected_settings",
            entity_config_path(entity),
            f"brokers reject these settings: {why}",
            "correct the setting before a broker restarts, which may not start with it: "
            f"kafka-configs --alter --entity-type {kind} with --delete-config or --add-config",
        )
    reasons: dict[str, list[Entity]] = {}
    for entity, why in sorted(snapshot.settings.unknown.items()):
        reasons.setdefault(why, []).append(entity)
    for why, entities in sorted(reasons.items()):
        more = len(entities) - 1
        yield info(
            "unvalidated_settings",
            entity_config_path(entities[0]) + (f" and {more} more" if more else ""),
            f"no broker says whether these settings are valid: {why}",
            _validation_remedy(why),
        )


def _validation_remedy(why: str) -> str:
    """Return what lets brokers validate settings that none judged for a reason."""
    match why:
        case NoVerdict.NOT_LIVE:
            return (
                "nothing while the broker is down: it judges its own settings when it starts; if "
                "it does not come back, delete them: kafka-configs --zookeeper ZOOKEEPER --alter "
                "--entity-type brokers --entity-name ID --delete-config NAMES"
            )
        case NoVerdict.ENCRYPTED:
            return "nothing: only the broker itself can decrypt them, when it starts"
        case NoVerdict.NOBODY_ANSWERS:
            return "make a broker reachable from here"
        case _:
            return (
                "optional: where brokers refuse it, allow AlterConfigs on topics and on the "
                "cluster; the examination only validates (validate_only)"
            )


def hidden_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes that ZooKeeper's permissions hide."""
    for path in sorted(snapshot.znodes.hidden):
        yield warning(
            "hidden",
            path,
            "ZooKeeper does not let us read it; the checks that need it are left out",
            "authenticate as the brokers do (zookeeper_auth_scheme or zookeeper_sasl_mechanism), "
            "or set the permissions of Kafka's own znodes",
        )


def legacy_plan(snapshot: Snapshot) -> Iterator[Finding]:
    """Find a legacy plan that is unreadable, or that no daemon carries out."""
    plan = snapshot.znodes.legacy
    if plan is None:
        return
    if plan.unreadable is not None:
        yield critical(
            "legacy_plan_unreadable",
            LEGACY_PLAN,
            plan.unreadable,
            "a running daemon keeps a copy in the outcome of the request, and deletes it",
        )
    elif not snapshot.znodes.daemons:
        yield warning(
            "legacy_plan_left",
            LEGACY_PLAN,
            f"lists {count_text(len(plan.entries), 'partition')}, and no daemon leads",
            "start a daemon; meanwhile a Kafka controller may carry out the whole plan at once",
        )


def kill_switch(snapshot: Snapshot) -> Iterator[Finding]:
    """Find the kill switch."""
    if snapshot.znodes.kill_switch:
        yield warning(
            "kill_switch",
            KILL_SWITCH,
            "it exists: new requests are refused, and accepted entries do not start",
            "run `reassigner enable` when reassignments may start again",
        )


# --- throttles -----------------------------------------------------------------------------------


def orphan_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttles that a daemon set and that no reassignment needs any more."""
    daemons = snapshot.znodes.daemons
    for applied in snapshot.znodes.unneeded_throttles():
        yield Finding(
            "orphan_throttle",
            Severity.INFO if daemons else Severity.WARNING,
            applied.entity,
            f"a daemon set {keys_text(applied)}, and no recorded reassignment needs it",
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
            yield warning(
                "throttle_left",
                entity,
                f"a daemon set {keys_text(applied)} for recorded reassignments, and none leads",
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
                yield warning(
                    "idle_topic_throttle",
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
            yield warning(
                "idle_broker_throttle",
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
