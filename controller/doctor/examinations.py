"""All checks, and what they find together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from controller.doctor import (
    assignments,
    health,
    logs,
    neighbours,
    records,
    surroundings,
    throttles,
)
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshots import Snapshot

Check = Callable[[Snapshot], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    surroundings.eligibility,
    surroundings.mixed_protocols,
    surroundings.daemons,
    surroundings.notifications,
    surroundings.large_znodes,
    surroundings.permissions,
    neighbours.cruise_control,
    records.unreadable_znodes,
    records.legacy_plan,
    records.kill_switch,
    records.lost_records,
    records.dead_targets,
    health.leaderless,
    health.under_min_isr,
    health.unknown_min_isr,
    health.failed_disks,
    health.offline_replicas,
    health.out_of_sync,
    assignments.dead_brokers,
    assignments.foreign_reassignments,
    assignments.unexplained_replicas,
    logs.orphans,
    logs.stray_logs,
    throttles.orphan_throttles,
    throttles.topic_throttles,
    throttles.broker_throttles,
)

_ORDER: Final = tuple(Severity)


def examine(snapshot: Snapshot) -> list[Finding]:
    """Run every check; the worst findings come first, then in the order of the checks."""
    found = [finding for check in CHECKS for finding in check(snapshot)]
    return sorted(found, key=lambda f: _ORDER.index(f.severity))
