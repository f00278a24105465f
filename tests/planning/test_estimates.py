"""Estimates are ranges that follow from bytes, rates, throttles and limits, or have a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planning.estimates import (
    OUTGROWN,
    SIZELESS,
    STILL,
    UNMEASURED,
    Estimate,
    WorkLeft,
    time_left,
)

WORK = WorkLeft(bytes=6000.0, rate=10.0)


def test_range_lies_around_the_measured_rate() -> None:
    """It may be a quarter higher, or two fifths lower."""
    assert time_left(WORK) == Estimate(480.0, 1000.0)


def test_throttle_is_a_bound() -> None:
    """Whatever was measured before it was set."""
    assert time_left(replace(WORK, throttled_s=900.0)) == Estimate(900.0, 1500.0)
    assert time_left(replace(WORK, throttled_s=60.0)) == Estimate(480.0, 1000.0)


def test_steps_take_time_besides_their_copies() -> None:
    """As many at once as the limit permits."""
    assert time_left(replace(WORK, steps=100, at_once=10)).high_s == 1010.0
    empty = WorkLeft(bytes=0.0, rate=None, steps=100, at_once=7)
    assert time_left(empty) == Estimate(0.0, 15.0)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (replace(WORK, bytes=None), SIZELESS),
        (replace(WORK, rate=None), UNMEASURED),
        (replace(WORK, rate=0.0), STILL),
        (replace(WORK, growth=10.0), OUTGROWN),
        (replace(WORK, blocked="everything is paused"), "everything is paused"),
    ],
)
def test_there_is_a_reason_without_an_estimate(work: WorkLeft, why: str) -> None:
    """Only what does not end by itself concerns what contains the work."""
    found = time_left(work)
    assert found.document() == {"eta_s": None, "no_estimate": why}
    around = time_left(WORK, [found])
    assert around.why == (why if work.blocked else "")


AMOUNTS = st.floats(0, 1e15)
ESTIMATES = st.builds(
    time_left,
    st.builds(
        WorkLeft,
        bytes=st.none() | AMOUNTS,
        rate=st.none() | st.floats(0, 1e10),
        growth=st.floats(0, 1e9),
        throttled_s=st.floats(0, 1e8),
        steps=st.integers(0, 10**6),
        at_once=st.integers(0, 1000),
        blocked=st.sampled_from(["", "", "", "paused"]),
    ),
)


@given(st.lists(ESTIMATES, max_size=5), AMOUNTS, st.floats(0, 1e10))
def test_estimate_is_never_shorter_than_that_of_a_part(
    parts: list[Estimate], left: float, rate: float
) -> None:
    """Also as it is shown; without an end of a part there is none of the whole."""
    whole = time_left(WorkLeft(bytes=left, rate=rate), parts)
    assert not any(part.is_lasting for part in parts) or whole.is_lasting
    shown = whole.document()["eta_s"]
    if shown is not None:
        assert 0 <= shown[0] <= shown[1]
        for part in (p.document()["eta_s"] for p in parts if not p.why):
            assert all(w >= p for w, p in zip(shown, part, strict=True))
