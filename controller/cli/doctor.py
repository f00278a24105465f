"""
``doctor``: read a snapshot of the cluster, run the checks, and print the findings.

``--fix`` removes throttles that a daemon set and that no reassignment needs, and with
``--no-daemon`` everything that daemons left (``repairs``). It changes nothing while a daemon leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from controller.cli import options, repairs
from controller.cli.context import CommandContext, context_of, query_leader
from controller.cli.exits import Exit
from controller.cli.output import print_json, print_line, print_lines
from controller.cli.tables import Column, Listing, Name, Screen, fields
from controller.core.options import EngineName
from controller.doctor.checks import examine
from controller.doctor.findings import Finding, Severity
from controller.doctor.snapshot import Snapshot
from controller.endpoint.listing import configured_entry
from controller.errors import InvalidInputError
from controller.settings import EndpointMode, Settings
from controller.zk.operator_client import OperatorClient

EACH_MAX: Final = 10
"""Findings of one check that are printed, unless all are asked for."""
STYLES: Final = {
    Severity.CRITICAL: "red",
    Severity.WARNING: "yellow",
    Severity.INFO: "green",
}
"""On a terminal."""


def doctor(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Remove throttles of a daemon that no reassignment needs.")
    ] = False,
    no_daemon: Annotated[
        bool,
        typer.Option(
            "--no-daemon",
            help="With --fix, where no daemon will run again: restore the settings before all "
            "throttles of daemons, and delete all their records, requests and controls.",
        ),
    ] = False,
    dry_run: options.DryRunOption = False,
    all_rows: options.AllRowsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Find problems of the cluster and of the daemon's znodes.

    Example: reassigner doctor --zookeeper zk1:2181/kafka

    Reads ZooKeeper, queries the brokers for their log directories, and lets them validate the
    settings of topics and brokers. Changes nothing without --fix. Exit code: 0 no findings that
    need attention, 1 error, 2 findings.
    """
    if dry_run and not fix:
        raise InvalidInputError("--dry-run needs --fix: nothing else changes anything")
    if no_daemon and not fix:
        raise InvalidInputError("--no-daemon needs --fix: it selects what is repaired")
    context = context_of(ctx)
    settings = context.settings({"zookeeper": zookeeper}, config)
    with context.connect(settings) as operator:
        snapshot = take_snapshot(context, operator, settings)
        fixing = operator if fix else None
        screen = context.screen(all_rows=all_rows)
        raise typer.Exit(
            diagnose(
                snapshot,
                fixing,
                screen,
                retires=no_daemon,
                dry_run=dry_run,
                all_rows=all_rows,
                as_json=as_json,
            )
        )


def take_snapshot(
    context: CommandContext, operator: OperatorClient, settings: Settings
) -> Snapshot:
    """Read ZooKeeper, then the brokers, then ZooKeeper again (see ``Snapshot``)."""
    with operator.noting_hidden() as hidden:
        topics = operator.survey_topics()
        brokers = operator.cluster.brokers()
        answers = context.query_brokers(settings, brokers.values(), topics)
        znodes = replace(operator.survey(), hidden=frozenset(hidden))
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
        daemon_problem=problem,
        engine=_engine_in(status),
        daemon_refusals=tuple(map(str, (status or {}).get("refused_because") or ())),
        unreachable=(status or {}).get("unreachable_brokers", {}),
        unguarded=(status or {}).get("disks", {}).get("unguarded", {}),
    )


def _engine_in(status: Mapping[str, Any] | None) -> EngineName | None:
    name = (status or {}).get("engine")
    return next((e for e in EngineName if e.value == name and e is not EngineName.AUTO), None)


def diagnose(  # noqa: PLR0913 - what is examined, and how it is printed
    snapshot: Snapshot,
    operator: OperatorClient | None = None,
    screen: Screen | None = None,
    *,
    retires: bool = False,
    dry_run: bool = False,
    all_rows: bool = False,
    as_json: bool,
) -> Exit:
    """
    Print the findings, and fix those that can be fixed.

    Args:
        snapshot: The state of the cluster.
        operator: The connection that fixes; None: fix nothing.
        screen: The terminal, None if the output goes elsewhere.
        all_rows: Print every finding, not only the first ``EACH_MAX`` of each check.
        retires: Remove everything that daemons left.
        dry_run: Print what would be fixed.
        as_json: Print JSON.

    Raises:
        ReassignmentConflictError: a setting that has to be restored cannot be read, or everything
            is to be removed and a daemon lives.

    """
    findings = examine(snapshot)
    repair = repairs.retire if retires else repairs.fix_throttles
    fixes = [] if operator is None else list(repair(snapshot, operator, dry_run=dry_run))
    if as_json:
        document: dict[str, Any] = {
            "findings": [asdict(f) for f in findings],
            "counts": _counts(findings),
        }
        if operator is not None:
            document |= {"dry_run": dry_run, "fixed": [asdict(f) for f in fixes]}
        print_json(document)
    else:
        each_max = None if all_rows else EACH_MAX
        if screen is not None:
            screen.print(*_screen(findings, each_max))
        else:
            print_lines(_lines(findings, each_max))
        print_lines(map(str, fixes))
        if operator is not None and retires:
            print_lines(repairs.steps_left(snapshot))
        if operator is not None and not fixes:
            print_line(f"Nothing was fixed: {repairs.why_nothing(snapshot)}.")
    left = repairs.unrepaired_findings(findings, fixes, retires=retires)
    is_sound = all(f.severity is Severity.INFO for f in left)
    return Exit.DONE if is_sound else Exit.FINDINGS


def _counts(findings: list[Finding]) -> dict[str, int]:
    counted = Counter(f.severity for f in findings)
    return {severity.value: counted[severity] for severity in Severity}


def _lines(findings: list[Finding], each_max: int | None) -> Iterator[str]:
    alike = Counter((f.check, f.advice) for f in findings)
    printed: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        kind = finding.check, finding.advice
        printed[kind] += 1
        limit = alike[kind] if each_max is None else each_max
        if printed[kind] <= limit:
            head = f"{finding.severity.value}: {finding.check}"
            yield f"{head}: {finding.subject}: {finding.evidence}"
        if printed[kind] == min(alike[kind], limit):
            more = alike[kind] - limit
            if more > 0:
                yield f"  and {more} more like this (all with --all-rows)"
            yield f"  what to do: {finding.advice}"
    yield _counts_line(findings)


def _counts_line(findings: list[Finding]) -> str:
    return ", ".join(f"{number} {severity}" for severity, number in _counts(findings).items())


def _screen(findings: list[Finding], each_max: int | None) -> Iterator[RenderableType]:
    """Return the findings for a terminal, those of one check below each other."""
    checks: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in findings:
        about = finding.severity, finding.check, finding.advice
        checks.setdefault(about, []).append(finding)
    for (severity, check, advice), found in checks.items():
        yield Listing(
            title=f"{severity.value}: {check}",
            style=STYLES[severity],
            columns=(
                Column("subject", lambda f: Name(f.subject)),
                Column("evidence", lambda f: Text(f.evidence), folds=True),
            ),
            rows=found,
            rows_max=each_max,
        )
        yield fields([("what to do:", advice)])
        yield ""
    worst = findings[0].severity if findings else None
    yield Text(_counts_line(findings), "green" if worst is None else STYLES[worst])
