"""The transition table, crossed with every pair of phases, and the picture drawn from it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from controller.core.cycle import apply
from controller.core.model import BrokerId, Instant, LeaderEpoch
from controller.core.reassignments.phases import (
    LABELS,
    LEGAL,
    TRANSITIONS,
    AwaitingController,
    Ended,
    Expanding,
    Pending,
    Phase,
    PhaseCause,
    Placing,
    Shrinking,
    Starting,
    Stopping,
    Syncing,
    legal_phase,
)
from controller.core.reassignments.records import PhaseRecord
from controller.errors import InvariantError
from docs.generate.phases import document
from tests.core.builders import Driver, replicas, tp

PHASES: tuple[Phase, ...] = (
    Pending(),
    AwaitingController(replicas(1, 2), Instant(0.0)),
    Expanding(),
    Starting(LeaderEpoch(1), None),
    Syncing(),
    Shrinking(LeaderEpoch(1)),
    Stopping(frozenset({BrokerId(1)}), frozenset(), Instant(0.0)),
    Placing(),
    Ended(),
)


def test_every_phase_is_in_the_table_and_has_a_name() -> None:
    """No phase can be added without saying what may follow it and how it is shown."""
    assert {type(p) for p in PHASES} == set(LEGAL) == set(LABELS)


@pytest.mark.parametrize("before", PHASES, ids=lambda p: LABELS[type(p)])
@pytest.mark.parametrize("after", PHASES, ids=lambda p: LABELS[type(p)])
def test_apply_refuses_what_the_table_does_not_list(before: Phase, after: Phase) -> None:
    """Each pair is accepted or refused exactly as the table says."""
    driver = Driver({tp(): (1, 2)})
    driver.acknowledges = False
    driver.submit({tp(): (1, 3)})
    driver.view.reassignments.by_partition[tp()].phase = before
    record = PhaseRecord(tp(), after, driver.now, "test")
    if type(after) in LEGAL[type(before)]:
        apply(driver.view, record, driver.now)
        assert driver.view.reassignments.by_partition[tp()].phase == after
    else:
        with pytest.raises(InvariantError, match="cannot be followed by"):
            apply(driver.view, record, driver.now)


def test_each_cause_has_a_table() -> None:
    """A decision, a reset and an update permit exactly what their table lists."""
    for change, before, after in product(PhaseCause, PHASES, PHASES):
        if type(after) in TRANSITIONS[change][type(before)]:
            assert legal_phase(before, after, change, tp()) is after
        else:
            with pytest.raises(InvariantError, match="cannot be followed by"):
                legal_phase(before, after, change, tp())


def test_only_two_methods_assign_a_phase() -> None:
    """Nothing in the product changes a phase without the check."""
    core = Path(__file__).parents[3] / "controller"
    assignment = re.compile(r"\.phase(, \S+)? = ")
    found = [
        line.strip()
        for path in sorted(core.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if assignment.search(line)
    ]
    assert len(found) == 2
    assert all(line.startswith("self.phase = phases.legal_phase(") for line in found)


def test_nothing_follows_the_end() -> None:
    """An ended reassignment stays ended."""
    assert not any(table[Ended] for table in TRANSITIONS.values())


def test_the_documented_diagram_is_the_table() -> None:
    """``docs/reference/phases.md`` is what ``make diagram`` writes."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "phases.md"
    assert page.read_text(encoding="utf-8") == document()
