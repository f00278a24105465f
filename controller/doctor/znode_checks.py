"""Checks of the reassigner's own znodes, and of those of plans."""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments.gates import ids
from controller.doctor.findings import NO_DAEMON, Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import (
    KILL_SWITCH,
    LEGACY_PLAN,
    entity_config_path,
    reassignment_path,
)


def lost_records(snapshot: Snapshot) -> Iterator[Finding]:
    """Find records of reassignments whose partition does not exist."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        if snapshot.znodes.assignment(partition) is not None:
            continue
        yield Finding(
            "lost_record",
            Severity.WARNING,
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
        yield Finding(
            "record_left",
            Severity.WARNING,
            reassignment_path(partition),
            f"to {ids(spec.target)} by {spec.request}, and no daemon leads; {becomes}",
            NO_DAEMON,
        )


def left_submissions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find submitted requests, queues and cancellations while no daemon leads."""
    for path in () if snapshot.znodes.daemons else snapshot.znodes.submitted:
        yield Finding(
            "submission_left",
            Severity.WARNING,
            path,
            "no daemon leads that would read it",
            NO_DAEMON,
        )


def left_controls(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what operators set for daemons while none leads."""
    for path in () if snapshot.znodes.daemons else snapshot.znodes.controls:
        yield Finding(
            "control_left", Severity.INFO, path, "no daemon leads that obeys it", NO_DAEMON
        )


def dead_targets(snapshot: Snapshot) -> Iterator[Finding]:
    """Find recorded reassignments that wait for target brokers that are not live."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        dead = [r for r in spec.target if r not in snapshot.znodes.brokers]
        if dead:
            yield Finding(
                "dead_target",
                Severity.WARNING,
                str(partition),
                f"to be reassigned to {ids(spec.target)}, and broker {ids(dead)} is not live",
                "start it, or submit a plan with another target",
            )


def unreadable_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes that are unreadable."""
    for path, reason in sorted(snapshot.znodes.unreadable.items()):
        yield Finding(
            "unreadable",
            Severity.CRITICAL,
            path,
            reason,
            "find out which tool wrote it; repair it, or delete it if it is one of ours",
        )


def rejected_settings(snapshot: Snapshot) -> Iterator[Finding]:
    """Find settings in ``/config`` that brokers reject, and those of which they do not say so."""
    for entity, why in sorted(snapshot.settings.rejected.items()):
        kind, _, _ = entity.partition("/")
        yield Finding(
            "rejected_settings",
            Severity.CRITICAL,
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
        yield Finding(
            "unvalidated_settings",
            Severity.INFO,
            entity_config_path(entities[0]) + (f" and {more} more" if more else ""),
            f"no broker says whether these settings are valid: {why}",
            "optional: allow AlterConfigs on topics and on the cluster; the examination only "
            "validates (validate_only)",
        )


def hidden_znodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Find znodes that ZooKeeper's permissions hide."""
    for path in sorted(snapshot.znodes.hidden):
        yield Finding(
            "hidden",
            Severity.WARNING,
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
        yield Finding(
            "legacy_plan_unreadable",
            Severity.CRITICAL,
            LEGACY_PLAN,
            plan.unreadable,
            "a running daemon keeps a copy in the outcome of the request, and deletes it",
        )
    elif not snapshot.znodes.daemons:
        yield Finding(
            "legacy_plan_left",
            Severity.WARNING,
            LEGACY_PLAN,
            f"lists {len(plan.entries)} partitions, and no daemon leads",
            "start a daemon; meanwhile a Kafka controller may carry out the whole plan at once",
        )


def kill_switch(snapshot: Snapshot) -> Iterator[Finding]:
    """Find the kill switch."""
    if snapshot.znodes.kill_switch:
        yield Finding(
            "kill_switch",
            Severity.WARNING,
            KILL_SWITCH,
            "it exists: new requests are refused, and accepted entries do not start",
            "run `reassigner enable` when reassignments may start again",
        )
