"""All checks, and what they find together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from controller.znodes.paths import (
    BROKER_IDS,
    CONTROLLER,
    DELETIONS,
    FEATURE,
    GOALS,
    LEADER,
    LEASES,
    MIGRATION,
    ORPHANS,
    TOPICS,
)

Check = Callable[[Snapshot], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    surroundings.eligibility,
    surroundings.mixed_protocols,
    surroundings.daemons,
    surroundings.unreachable_brokers,
    surroundings.notifications,
    surroundings.large_znodes,
    surroundings.permissions,
    neighbours.cruise_control,
    records.hidden_znodes,
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

NEEDED: Final[Mapping[Check, tuple[str, ...]]] = {
    surroundings.eligibility: (CONTROLLER, FEATURE, MIGRATION, BROKER_IDS),
    surroundings.daemons: (LEADER,),
    records.lost_records: (TOPICS,),
    records.dead_targets: (BROKER_IDS,),
    health.leaderless: (BROKER_IDS,),
    health.under_min_isr: (BROKER_IDS,),
    assignments.dead_brokers: (BROKER_IDS,),
    assignments.foreign_reassignments: (GOALS,),
    assignments.unexplained_replicas: (GOALS,),
    logs.orphans: (TOPICS, BROKER_IDS),
    logs.stray_logs: (TOPICS, ORPHANS, DELETIONS),
    throttles.orphan_throttles: (TOPICS, GOALS, LEASES, LEADER),
    throttles.topic_throttles: (TOPICS, GOALS, LEASES),
    throttles.broker_throttles: (TOPICS, GOALS, LEASES),
}
"""What checks conclude from that it is absent: where that is hidden from us they are left out."""

_ORDER: Final = tuple(Severity)


def examine(snapshot: Snapshot) -> list[Finding]:
    """Run every check that can be made; worst findings first, then in the order of the checks."""
    made = (c for c in CHECKS if not snapshot.znodes.is_hidden(*NEEDED.get(c, ())))
    found = [finding for check in made for finding in check(snapshot)]
    return sorted(found, key=lambda f: _ORDER.index(f.severity))
