"""The checks of a journal: what a daemon may do passes, and what it may not is found."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from controller.doctor.findings import Severity
from controller.doctor.journal_checks import journal_findings

BEGUN: Final[dict[str, Any]] = {
    "v": 1,
    "at": "2026-01-02T03:04:05.000Z",
    "kind": "phase",
    "topic": "t",
    "partition": 0,
    "phase": "A2",
    "before": "pending",
    "replicas": [1, 2, 3],
    "adding_replicas": [3],
    "removing_replicas": [1],
    "leader": 1,
    "isr": [1, 2],
    "leader_epoch": 4,
    "controller_epoch": 7,
    "zk_version": 9,
}
"""The first step from [1, 2] to [2, 3]."""
SYNCING: Final = {**BEGUN, "phase": "A2-syncing", "before": "A2"}
IN_SYNC: Final = {"leader": 2, "isr": [2, 3], "leader_epoch": 5, "zk_version": 11}
EXCLUDED: Final = {**BEGUN, **IN_SYNC, "phase": "B3", "before": "A2-syncing"}
STOPPED: Final = {**EXCLUDED, "phase": "B5", "before": "B3"}
AT_REST: Final = {"replicas": [2, 3], "adding_replicas": [], "removing_replicas": []}
ENDED: Final = {**STOPPED, **AT_REST, "phase": "ended", "before": "B5"}
WHOLE: Final = (BEGUN, SYNCING, EXCLUDED, STOPPED, ENDED)


def broken_rules(*lines: object) -> list[str]:
    """Return the evidence of each finding about a step."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    *findings, summary = journal_findings("journal", texts)
    checked = sum('"kind": "phase"' in text for text in texts)
    assert summary.evidence == f"{checked} changes of phase were checked"
    assert {f.severity for f in findings} <= {Severity.CRITICAL}
    return [finding.evidence for finding in findings]


def test_a_whole_reassignment_passes() -> None:
    """With lines of other kinds, and one that a crash truncated."""
    other = {"v": 1, "at": "2026-01-02T03:04:05.000Z", "kind": "progress"}
    assert broken_rules(other, *WHOLE, '{"v":1,"at"') == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"before": "ended"}, "B3 may not follow ended"),
        ({"isr": [2, 1], "adding_replicas": [3]}, "[1] are to be dropped"),
        ({"leader": 1, "isr": [2, 3]}, "leader 1"),
        ({"isr": [2]}, "while [3] are not in sync"),
        ({"isr": [2, 3, 5]}, "is not within the replicas"),
        ({"leader_epoch": 3}, "the leader epoch fell from 4 to 3"),
    ],
)
def test_an_exclusion_that_breaks_a_rule_is_found(change: dict[str, Any], why: str) -> None:
    """Each with the time and the partition."""
    found = broken_rules(BEGUN, SYNCING, {**EXCLUDED, **change})
    assert any(why in evidence for evidence in found), found


def test_an_end_with_replicas_to_add_or_remove_is_found() -> None:
    """The step would never end."""
    (found,) = broken_rules(*WHOLE[:4], {**ENDED, "removing_replicas": [1]})
    assert "has replicas to add or remove" in found


def test_lines_that_were_dropped_break_no_rule() -> None:
    """Nor does a new process, which finds a step under way."""
    dropped = {"v": 1, "at": BEGUN["at"], "kind": "journal_dropped", "lines": 2}
    assert broken_rules(BEGUN, SYNCING, dropped, STOPPED, ENDED) == []
    assert broken_rules(BEGUN, SYNCING, STOPPED) != []
