"""The transition table, crossed with every pair of phases, and the picture drawn from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.apply import apply
from controller.core.model import BrokerId, Instant, LeaderEpoch
from controller.core.phases import (
    LABELS,
    LEGAL,
    AwaitingController,
    Ended,
    Expanding,
    Pending,
    Phase,
    Shrinking,
    Starting,
    Stopping,
    Syncing,
)
from controller.core.records import PhaseRecord
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
    Ended(),
)


def test_every_phase_is_in_the_table_and_has_a_name() -> None:
    """No phase can be added without saying what may follow it and how it is shown."""
    assert {type(p) for p in PHASES} == set(LEGAL) == set(LABELS)


@pytest.mark.parametrize("before", PHASES, ids=lambda p: LABELS[type(p)])
@pytest.mark.parametrize("after", PHASES, ids=lambda p: LABELS[type(p)])
def test_only_the_table_decides_what_may_follow(before: Phase, after: Phase) -> None:
    """Each pair is accepted or refused exactly as the table says."""
    driver = Driver({tp(): (1, 2)})
    driver.acknowledges = False
    driver.submit({tp(): (1, 3)})
    driver.view.reassignments[tp()].phase = before
    record = PhaseRecord(tp(), after, driver.now, "test")
    if type(after) in LEGAL[type(before)]:
        apply(driver.view, record, driver.now)
        assert driver.view.reassignments[tp()].phase == after
    else:
        with pytest.raises(InvariantError, match="cannot be followed by"):
            apply(driver.view, record, driver.now)


def test_nothing_follows_the_end() -> None:
    """An ended reassignment stays ended."""
    assert LEGAL[Ended] == frozenset()


def test_the_documented_diagram_is_the_table() -> None:
    """``docs/reference/phases.md`` is what ``make diagram`` writes."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "phases.md"
    assert page.read_text(encoding="utf-8") == document()
