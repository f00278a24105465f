"""
Read a snapshot of the cluster, run the checks of ``doctor``, and print the findings.

``--fix`` removes throttles that a daemon set and that no reassignment needs, and with
``--no-daemon`` everything that daemons left. It changes nothing while a daemon leads, which removes
its throttles itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from controller.cli.context import CommandContext, query_leader
from controller.cli.findings_text import EACH_MAX, STYLES, finding_lines, finding_tables
from controller.cli.output import Exit, print_line, print_lines
from controller.cli.terminal_tables import Words
from controller.core.core_settings import EngineName
from controller.core.model import ids
from controller.core.pacing.throttle_settings import Entity
from controller.doctor.checks import CHECKS, MIGRATION, examine
from controller.doctor.findings import Finding, Severity
from controller.doctor.journal_checks import journal_findings
from controller.doctor.snapshot import Snapshot
from controller.endpoint.broker_entry import configured_entry
from controller.errors import TokenNeededError
from controller.settings import EndpointMode, Settings
from controller.telemetry.journal_files import lines_of_journal
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient
    from controller.zk.retirement import Retired

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


def diagnose(
    context: CommandContext,
    *,
    fix: bool,
    no_daemon: bool,
    migration: bool,
    journals: Sequence[Path],
) -> Exit:
    """Run the checks, repair what was asked for, print both; return the exit code."""
    settings = context.settings()
    with context.connect(settings) as operator:
        snapshot = _take_snapshot(context, operator, settings)
        if migration:
            brokers = snapshot.znodes.brokers.values()
            snapshot = replace(snapshot, protocols=context.query_protocols(settings, brokers))
        others = (f for path in journals for f in findings_of_journal(path))
        checks = MIGRATION if migration else CHECKS
        findings, fixes = examine(snapshot, others, checks=checks), list[Fix]()
        if fix:
            repair = _retire if no_daemon else _fix_throttles
            fixes += repair(snapshot, operator, dry_run=context.dry_run)
    document: dict[str, object] = {
        "findings": [asdict(f) for f in findings],
        "counts": _counts(findings),
    }
    if fix:
        document |= {"dry_run": context.dry_run, "fixed": [asdict(f) for f in fixes]}
    lines = finding_lines(findings, None if context.all_rows else EACH_MAX)
    worst = STYLES[findings[0].severity] if findings else None
    summary = Words(_counts_line(findings), worst or "green")
    context.print_result(
        lambda: document,
        chain(lines, [summary.text]),
        chain(finding_tables(findings), [summary]),
    )
    if fix and not context.as_json:
        print_lines(map(_fix_line, fixes))
        if no_daemon:
            print_lines(_steps_left(snapshot))
        if not fixes:
            print_line(f"Nothing was fixed: {_why_nothing(snapshot)}.")
    left = _unrepaired_findings(findings, fixes, retires=no_daemon)
    is_sound = all(f.severity is Severity.INFO for f in left)
    return Exit.DONE if is_sound else Exit.FINDINGS


def findings_of_journal(directory: Path) -> Iterator[Finding]:
    """
    Return what the checks of a daemon's journal find.

    Raises:
        InvalidInputError: there is no journal, or it cannot be read.

    """
    yield from journal_findings(str(directory), lines_of_journal(directory))


def _take_snapshot(
    context: CommandContext, operator: OperatorClient, settings: Settings
) -> Snapshot:
    """Read ZooKeeper, then the brokers, then ZooKeeper again (see ``Snapshot``)."""
    with operator.noting_hidden() as hidden:
        topics = operator.partitions.readable_topics()
        brokers = operator.cluster.brokers()
        answers = context.query_brokers(settings, brokers.values(), topics)
        znodes = replace(operator.survey.everything(), hidden=frozenset(hidden))
        status, problem = query_leader(operator, context.fetch)
    verdicts = context.judge_settings(settings, znodes)
    return Snapshot(
        znodes=znodes,
        topics_before=topics,
        brokers=answers,
        settings=verdicts,
        controller_id=settings.controller_id,
        endpoint=configured_entry(settings),
        serves_clients=settings.controller_endpoint is EndpointMode.PUBLIC,
        jute_maxbuffer=settings.zookeeper_jute_maxbuffer,
        daemon_problem=None if problem is None else str(problem),
        needs_token=isinstance(problem, TokenNeededError),
        engine=_engine_in(status),
        daemon_refusals=tuple(map(str, (status or {}).get("refused_because") or ())),
        unreachable=(status or {}).get("unreachable_brokers", {}),
        unguarded=(status or {}).get("disks", {}).get("unguarded", {}),
    )


def _engine_in(status: Mapping[str, Any] | None) -> EngineName | None:
    name = (status or {}).get("engine")
    return next((e for e in EngineName if e.value == name and e is not EngineName.AUTO), None)


def _counts(findings: list[Finding]) -> dict[str, int]:
    counted = Counter(f.severity for f in findings)
    return {severity.value: counted[severity] for severity in Severity}


def _counts_line(findings: list[Finding]) -> str:
    return ", ".join(f"{number} {severity}" for severity, number in _counts(findings).items())


# --- repairs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThrottleFix:
    """One throttle that was removed, would be removed, or was left alone."""

    entity: Entity
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    """The restored settings; None: the setting was deleted."""
    is_done: bool = False


Fix: TypeAlias = "ThrottleFix | Retired"


def _fix_line(fix: Fix) -> str:
    subject = fix.entity if isinstance(fix, ThrottleFix) else fix.subject
    stays = not isinstance(fix, ThrottleFix) and fix.stays
    head = f"{subject} {fix.what}" if stays else f"{fix.what} {subject}"
    settings = (f"{k} {'is deleted' if v is None else f'is {v}'}" for k, v in fix.restored.items())
    return ", ".join((head, *settings))


def _fix_throttles(
    snapshot: Snapshot, operator: OperatorClient, *, dry_run: bool
) -> Iterator[ThrottleFix]:
    """Remove the throttles that a daemon left, one after the other."""
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


def _why_nothing(snapshot: Snapshot) -> str:
    if snapshot.znodes.daemons:
        return "a daemon leads, which removes its throttles itself"
    if snapshot.znodes.hidden:
        return "znodes that may not be read may need the throttles"
    return "no throttle of a daemon is left that no reassignment needs"


def _retire(snapshot: Snapshot, operator: OperatorClient, *, dry_run: bool) -> Iterator[Fix]:
    """Restore the settings before every throttle of a daemon, and delete its records."""
    if not dry_run:
        yield from operator.retirement.retire()
        return
    from controller.zk.retirement import Retired  # noqa: PLC0415 - for this option alone

    operator.retirement.refuse_daemons()
    znodes = snapshot.znodes
    for entity in sorted(znodes.applied_throttles):
        yield ThrottleFix(entity, "would remove the throttle of")
    for path in operator.retirement.records():
        yield Retired(path, "would delete", is_done=False)


def _unrepaired_findings(
    findings: Iterable[Finding], fixes: Iterable[Fix], *, retires: bool
) -> list[Finding]:
    if retires:
        is_over = all(fix.is_done for fix in fixes)
        return [f for f in findings if not is_over or not _is_owned(f)]
    gone = {fix.entity for fix in fixes if isinstance(fix, ThrottleFix) and fix.is_done}
    return [f for f in findings if f.check not in UNNEEDED or f.subject not in gone]


def _is_owned(finding: Finding) -> bool:
    is_ours = finding.subject.startswith((paths.ROOT, paths.REQUESTS, paths.REASSIGNMENTS))
    return finding.check in OWNED or (finding.check == "unreadable" and is_ours)


def _steps_left(snapshot: Snapshot) -> Iterator[str]:
    """Describe the steps that the cluster's controller ends once the records are gone."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        assignment = snapshot.znodes.assignment(partition)
        if assignment is not None and assignment.is_reassigning:
            to = ids(assignment.target_replicas)
            yield (
                f"{partition}: the cluster's controller ends the step to {to}, unthrottled; "
                f"its target was {ids(spec.target)}"
            )
