"""
``doctor``: take a snapshot of the cluster, run the checks, print what they find.

With ``--fix``, throttles that a daemon set and nobody lifted are lifted; nothing else is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.ports import InspectorPort, OperatorPort
from controller.cli.report_text import say, say_json
from controller.cli.throttle_cleanup import MENDABLE, clean_throttles, nothing_mended
from controller.doctor.checks import examine
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.errors import TransientError
from controller.settings import Settings

EACH_MAX: Final = 10
"""Findings of one check that are printed; --json prints them all."""


def take_snapshot(around: CommandContext, inspector: InspectorPort, settings: Settings) -> Snapshot:
    """Look at ZooKeeper, then at the brokers, then at ZooKeeper again (see ``Snapshot``)."""
    with inspector.noting_hidden() as hidden:
        topics = inspector.survey_topics()
        brokers = inspector.survey_brokers()
        answers = around.ask_brokers(settings, brokers.values(), topics)
        znodes = replace(inspector.survey(), hidden=frozenset(hidden))
        status, problem = _ask_daemon(around, inspector.leader_address())
    return Snapshot(
        znodes=znodes,
        topics_before=topics,
        brokers=answers,
        controller_id=settings.controller_id,
        jute_maxbuffer=settings.zookeeper_jute_maxbuffer,
        daemon_problem=problem,
        daemon_refusals=tuple(map(str, status.get("refused_because") or ())),
        unreachable=status.get("unreachable_brokers", {}),
    )


def _ask_daemon(
    around: CommandContext, address: str | None
) -> tuple[Mapping[str, Any], str | None]:
    """Return the leader's status, and why there is none though there is a leader."""
    if address is None:
        return {}, None
    try:
        return around.fetch(address), None
    except TransientError as error:
        return {}, str(error)


def diagnose(
    snapshot: Snapshot,
    operator: OperatorPort | None = None,
    *,
    dry_run: bool = False,
    as_json: bool,
) -> Exit:
    """
    Print what the checks find, and mend what can be mended.

    Args:
        snapshot: What is looked at.
        operator: Mends; None: nothing is mended.
        dry_run: Only tell what would be.
        as_json: For a program.

    Raises:
        ReassignmentConflictError: what is to be mended cannot be read.

    """
    findings = examine(snapshot)
    fixed = [] if operator is None else list(clean_throttles(snapshot, operator, dry_run=dry_run))
    if as_json:
        document: dict[str, Any] = {
            "findings": [asdict(f) for f in findings],
            "counts": _counts(findings),
        }
        if operator is not None:
            document |= {"dry_run": dry_run, "fixed": [asdict(m) for m in fixed]}
        say_json(document)
    else:
        for line in (*_lines(findings), *map(str, fixed)):
            say(line)
        if operator is not None and not fixed:
            say(nothing_mended(snapshot))
    gone = {m.entity for m in fixed if m.is_done}
    left = [f for f in findings if f.check != MENDABLE or f.subject not in gone]
    is_sound = all(f.severity is Severity.INFO for f in left)
    return Exit.DONE if is_sound else Exit.FINDINGS


# --- printing ------------------------------------------------------------------------------------


def _counts(findings: list[Finding]) -> dict[str, int]:
    counted = Counter(f.severity for f in findings)
    return {severity.value: counted[severity] for severity in Severity}


def _lines(findings: list[Finding]) -> Iterator[str]:
    of_check = Counter(f.check for f in findings)
    printed: Counter[str] = Counter()
    for finding in findings:
        printed[finding.check] += 1
        if printed[finding.check] <= EACH_MAX:
            head = f"{finding.severity.value}: {finding.check}"
            yield f"{head}: {finding.subject}: {finding.evidence}"
        if printed[finding.check] == min(of_check[finding.check], EACH_MAX):
            more = of_check[finding.check] - EACH_MAX
            if more > 0:
                yield f"  and {more} more like this (all with --json)"
            yield f"  what to do: {finding.advice}"
    counts = _counts(findings)
    yield ", ".join(f"{number} {severity}" for severity, number in counts.items())
