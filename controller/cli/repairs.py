"""
What ``doctor --fix`` repairs: throttles that a daemon left, and with ``--no-daemon`` all it left.

Nothing is repaired while a daemon leads, which removes its throttles itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments.gates import ids
from controller.doctor.findings import Finding
from controller.doctor.snapshot import Snapshot
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths

UNNEEDED: Final = frozenset({"orphan_throttle"})
"""The check whose findings ``--fix`` repairs."""
OWNED: Final = UNNEEDED | {
    "throttle_left",
    "record_left",
    "lost_record",
    "dead_target",
    "submission_left",
    "control_left",
    "kill_switch",
    "no_daemon",
}
"""The checks whose findings end with the records of the daemon."""


@dataclass(frozen=True, slots=True)
class ThrottleFix:
    """One throttle that was removed, would be removed, or was left alone."""

    entity: Entity
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    """The restored settings; None: the setting was deleted."""
    is_done: bool = False

    def __str__(self) -> str:
        return ", ".join((f"{self.what} {self.entity}", *_settings(self.restored)))


@dataclass(frozen=True, slots=True)
class RecordFix:
    """Records of a daemon that were deleted, would be deleted, or had to stay."""

    subject: str
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    is_done: bool = False
    stays: bool = False
    """Whether it could not be deleted."""

    def __str__(self) -> str:
        head = f"{self.subject} {self.what}" if self.stays else f"{self.what} {self.subject}"
        return ", ".join((head, *_settings(self.restored)))


Fix = ThrottleFix | RecordFix


def _settings(restored: Mapping[str, str | None]) -> Iterator[str]:
    return (f"{k} {'is deleted' if v is None else f'is {v}'}" for k, v in restored.items())


def fix_throttles(
    snapshot: Snapshot, operator: OperatorClient, *, dry_run: bool
) -> Iterator[ThrottleFix]:
    """
    Remove the throttles that a daemon left, one after the other.

    Raises:
        ReassignmentConflictError: a setting cannot be read.

    """
    if snapshot.znodes.daemons:
        return
    for throttle in snapshot.znodes.unneeded_throttles():
        restored = None if dry_run else operator.throttle_writes.lift(throttle)
        if restored is not None:
            yield ThrottleFix(throttle.entity, "removed the throttle of", restored, is_done=True)
        elif dry_run:
            yield ThrottleFix(throttle.entity, "would remove the throttle of")
        else:
            yield ThrottleFix(throttle.entity, "left alone, because it has just changed:")


def why_nothing(snapshot: Snapshot) -> str:
    """Return why nothing was repaired."""
    if snapshot.znodes.daemons:
        return "a daemon leads, which removes its throttles itself"
    if snapshot.znodes.hidden:
        return "znodes that may not be read may need the throttles"
    return "no throttle of a daemon is left that no reassignment needs"


def retire(snapshot: Snapshot, operator: OperatorClient, *, dry_run: bool) -> Iterator[Fix]:
    """
    Restore the settings before every throttle of a daemon, and delete its records.

    Raises:
        ReassignmentConflictError: a daemon lives, or others change the same znodes all the time.

    """
    if not dry_run:
        for done in operator.retirement.retire():
            yield RecordFix(
                done.subject, done.what, done.restored, done.is_done, stays=not done.is_done
            )
        return
    operator.retirement.refuse_daemons()
    znodes = snapshot.znodes
    for entity in sorted(znodes.applied_throttles):
        yield ThrottleFix(entity, "would remove the throttle of")
    for path in operator.retirement.records():
        yield RecordFix(path, "would delete")


def unrepaired_findings(
    findings: Iterable[Finding], fixes: Iterable[Fix], *, retires: bool
) -> list[Finding]:
    """Return the findings that stand after the repairs."""
    if retires:
        is_over = all(fix.is_done for fix in fixes)
        return [f for f in findings if not is_over or not _is_owned(f)]
    gone = {fix.entity for fix in fixes if isinstance(fix, ThrottleFix) and fix.is_done}
    return [f for f in findings if f.check not in UNNEEDED or f.subject not in gone]


def _is_owned(finding: Finding) -> bool:
    """Return whether a finding ends with the records of the daemon."""
    is_ours = finding.subject.startswith((paths.ROOT, paths.REQUESTS, paths.REASSIGNMENTS))
    return finding.check in OWNED or (finding.check == "unreadable" and is_ours)


def steps_left(snapshot: Snapshot) -> Iterator[str]:
    """Describe the steps that the cluster's controller ends once the records are gone."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        assignment = snapshot.znodes.assignment(partition)
        if assignment is not None and assignment.is_reassigning:
            to = ids(assignment.target_replicas)
            yield (
                f"{partition}: the cluster's controller ends the step to {to}, unthrottled; "
                f"its target was {ids(spec.target)}"
            )
