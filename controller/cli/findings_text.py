"""Findings of the checks of a cluster, as lines and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from controller.cli.terminal_tables import Column, Fields, Listing, Name, Part, Words
from controller.doctor.findings import Finding, Severity

EACH_MAX: Final = 10
"""Findings of one check that are printed, unless all are asked for."""
STYLES: Final = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "green"}
"""On a terminal."""


def finding_lines(findings: Sequence[Finding], each_max: int | None) -> Iterator[str]:
    """Describe findings, at most ``each_max`` of each check, with what to do."""
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


def finding_tables(findings: Sequence[Finding]) -> Iterator[Part]:
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
                Column("evidence", lambda f: Words(f.evidence), folds=True),
            ),
            rows=found,
            rows_max=EACH_MAX,
        )
        yield Fields([("what to do:", advice)])
        yield ""
