"""All checks, and their findings in order of severity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from controller.doctor import (
    environment_checks,
    migration_checks,
    partition_checks,
    readiness_checks,
    znode_checks,
)
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.znodes import paths

SnapshotCheck = Callable[[Snapshot], Iterator[Finding]]

_THROTTLED: Final = (paths.TOPICS, paths.REASSIGNMENTS, paths.APPLIED_THROTTLES)

CHECKS: Final[Mapping[SnapshotCheck, tuple[str, ...]]] = {
    environment_checks.eligibility: (
        paths.CONTROLLER,
        paths.FEATURE,
        paths.MIGRATION,
        paths.BROKER_IDS,
    ),
    environment_checks.endpoint_modes: (paths.BROKER_IDS,),
    environment_checks.clients_wait: (paths.BROKER_IDS,),
    environment_checks.mixed_protocols: (),
    environment_checks.daemons: (paths.LEADER,),
    environment_checks.unreachable_brokers: (),
    environment_checks.unguarded_disks: (),
    environment_checks.notifications: (),
    environment_checks.large_znodes: (),
    environment_checks.permissions: (),
    environment_checks.cruise_control: (),
    znode_checks.hidden_znodes: (),
    znode_checks.unreadable_znodes: (),
    znode_checks.rejected_settings: (),
    znode_checks.legacy_plan: (),
    znode_checks.kill_switch: (),
    znode_checks.lost_records: (paths.TOPICS,),
    znode_checks.left_records: (paths.TOPICS, paths.LEADER),
    znode_checks.left_submissions: (paths.LEADER,),
    znode_checks.left_controls: (paths.LEADER,),
    znode_checks.dead_targets: (paths.BROKER_IDS,),
    partition_checks.leaderless: (paths.BROKER_IDS,),
    partition_checks.under_min_isr: (paths.BROKER_IDS,),
    partition_checks.unknown_min_isr: (),
    partition_checks.failed_disks: (),
    partition_checks.offline_replicas: (),
    partition_checks.out_of_sync: (),
    partition_checks.dead_brokers: (paths.BROKER_IDS,),
    partition_checks.unknown_drains: (paths.BROKER_IDS, paths.TOPICS),
    readiness_checks.evacuations: (),
    partition_checks.waiting_deletions: (paths.BROKER_IDS, paths.DELETIONS),
    partition_checks.controller_replicas: (paths.BROKER_IDS,),
    partition_checks.foreign_reassignments: (paths.REASSIGNMENTS,),
    partition_checks.unexplained_replicas: (paths.REASSIGNMENTS,),
    partition_checks.old_copies: (paths.TOPICS, paths.BROKER_IDS),
    partition_checks.stray_logs: (paths.TOPICS, paths.ORPHANS, paths.DELETIONS),
    znode_checks.orphan_throttles: (*_THROTTLED, paths.LEADER),
    znode_checks.left_throttles: (*_THROTTLED, paths.LEADER),
    znode_checks.topic_throttles: _THROTTLED,
    znode_checks.broker_throttles: _THROTTLED,
}
"""
All checks in their order, each with the znodes whose absence it relies on.

A check is left out where one of these is hidden.
"""

READINESS: Final[Mapping[SnapshotCheck, tuple[str, ...]]] = {
    znode_checks.hidden_znodes: (),
    znode_checks.unreadable_znodes: (),
    readiness_checks.missing_daemon: (paths.LEADER,),
    readiness_checks.open_submissions: (),
    readiness_checks.open_requests: (),
    readiness_checks.evacuated_brokers: (paths.EVACUATIONS,),
    readiness_checks.reassignments: (),
    partition_checks.foreign_reassignments: (paths.REASSIGNMENTS,),
    partition_checks.orphans: (paths.TOPICS, paths.BROKER_IDS),
    readiness_checks.applied_throttles: (),
    readiness_checks.held_role: (),
}
"""The checks of ``quiesce``: without findings, nothing of a daemon is left in the cluster."""

MIGRATION: Final[Mapping[SnapshotCheck, tuple[str, ...]]] = {
    migration_checks.migration_state: (paths.CONTROLLER, paths.MIGRATION),
    migration_checks.protocols: (),
    migration_checks.unquiesced_daemon: (paths.LEADER, paths.PAUSES),
    **READINESS,
    migration_checks.pending_deletions: (),
    migration_checks.missing_ids: (),
    migration_checks.missing_states: (paths.TOPICS,),
    partition_checks.leaderless: (paths.BROKER_IDS,),
    partition_checks.under_min_isr: (paths.BROKER_IDS,),
    partition_checks.out_of_sync: (),
    partition_checks.dead_brokers: (paths.BROKER_IDS,),
    partition_checks.failed_disks: (),
    partition_checks.offline_replicas: (),
    partition_checks.controller_replicas: (paths.BROKER_IDS,),
    partition_checks.unexplained_replicas: (paths.REASSIGNMENTS,),
    partition_checks.stray_logs: (paths.TOPICS, paths.ORPHANS, paths.DELETIONS),
    znode_checks.rejected_settings: (),
    znode_checks.topic_throttles: _THROTTLED,
    znode_checks.broker_throttles: _THROTTLED,
}
"""The checks of ``doctor --migration``."""

_ORDER: Final = tuple(Severity)


def examine(
    snapshot: Snapshot,
    others: Iterable[Finding] = (),
    *,
    checks: Mapping[SnapshotCheck, tuple[str, ...]] = CHECKS,
) -> list[Finding]:
    """
    Run every check that is possible; worst findings first, then in the order of the checks.

    Args:
        snapshot: The cluster.
        others: Findings about something else, which come last.
        checks: What to run, as ``CHECKS``.

    """
    made = (check for check, needed in checks.items() if not snapshot.znodes.is_hidden(*needed))
    found = [finding for check in made for finding in check(snapshot)]
    return sorted([*found, *others], key=lambda f: _ORDER.index(f.severity))
