"""When a request may end is a range, from what was measured; otherwise nothing is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import Instant
from controller.telemetry.rates import (
    SLOWEST,
    SPAN_MIN_S,
    Range,
    Rate,
    Sample,
    Samples,
    eta_of,
    rate_of,
)


def samples(*pairs: tuple[float, float]) -> Samples:
    """Return samples of these moments and totals."""
    made = Samples()
    for at, total in pairs:
        made.note(Instant(at), total)
    return made


def test_nothing_is_said_before_anything_was_measured() -> None:
    """One sample, or two that follow closely, make no rate; neither does a standstill."""
    assert samples().rate() is None
    assert samples((0, 0)).rate() is None
    assert samples((0, 0), (SPAN_MIN_S - 1, 1000)).rate() is None
    assert samples((0, 5), (60, 5), (120, 5)).rate() is None
    assert eta_of(None, 100) is None


def test_even_course_makes_a_narrow_range() -> None:
    """Slices that agree leave no doubt."""
    rate = samples(*((n * 10.0, n * 1000.0) for n in range(20))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(100)
    assert rate.low == pytest.approx(100)
    assert rate.high == pytest.approx(100)
    assert eta_of(rate, 5000) == pytest.approx((50, 50))


def test_uneven_course_makes_a_wide_range() -> None:
    """What went now fast, now slowly, may end sooner or later."""
    totals = (0, 0, 3000, 3000, 6000, 6000, 9000)
    rate = samples(*((n * 10.0, float(total)) for n, total in enumerate(totals))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(150)
    assert rate.low < 75
    assert rate.high > 225
    low, high = eta_of(rate, 1500) or Range(0, 0)
    assert low < 10 < high


def test_single_slice_is_not_trusted() -> None:
    """Of two samples nobody knows how they would vary: half and half as much again."""
    assert samples((0, 0), (10, 1000)).rate() == Rate(100, 50, 150)


def test_what_is_long_ago_does_not_count() -> None:
    """The rate is that of the last minutes."""
    fast = [(n * 10.0, n * 100_000.0) for n in range(10)]
    slow = [(90 + n * 10.0, 900_000 + n * 10.0) for n in range(1, 100)]
    rate = samples(*fast, *slow).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(1)


def test_total_that_falls_begins_anew() -> None:
    """A size that shrank, or a daemon that knows less after its start, is no negative rate."""
    rate = samples((0, 9_000), (10, 10_000), (20, 0), (30, 500), (40, 1000)).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(50)


def test_nothing_remaining_ends_now() -> None:
    """Also where no rate is known."""
    assert eta_of(None, 0) == (0, 0)


@given(
    st.lists(st.tuples(st.floats(2, 30), st.integers(0, 10**12)), min_size=2, max_size=80),
    st.integers(1, 10**15),
)
def test_range_is_ordered_positive_and_bounded(
    steps: list[tuple[float, int]], remaining: int
) -> None:
    """Whatever was measured: low before high, both finite, and the mean's end between them."""
    at, total, kept = 0.0, 0, [Sample(Instant(0.0), 0)]
    for seconds, more in steps:
        at, total = at + seconds, total + more
        kept.append(Sample(Instant(at), total))
    rate = rate_of(kept)
    eta = eta_of(rate, remaining)
    if total == 0 or at < SPAN_MIN_S:
        assert eta is None
        return
    assert rate is not None
    assert eta is not None
    middle = remaining / rate.mean
    assert 0 < eta.low <= middle * (1 + 1e-9)
    assert middle <= eta.high * (1 + 1e-9)
    assert eta.high <= middle / SLOWEST * (1 + 1e-9)
