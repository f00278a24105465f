"""Rates, the ends that follow from them, and the rates of past copies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, Instant
from controller.planning.forecast import Rates
from controller.telemetry.journal import FILE_NAME
from controller.telemetry.rates import (
    PERIODS_KEPT,
    SLOWEST,
    SPAN_MIN_S,
    CopyRates,
    Range,
    Rate,
    Sample,
    Samples,
    eta_of,
    rate_of,
)
from controller.telemetry.timelines import Timelines, replay

MB = 1_000_000
THREE = BrokerId(3)


def test_overlapping_copies_are_one_period() -> None:
    """Two of 50 MB within ten seconds, then one of 50 MB in ten."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 8.0, 50 * MB)
    rates.add(THREE, 2.0, 10.0, 50 * MB)
    rates.add(THREE, 20.0, 30.0, 50 * MB)
    assert rates.rates() == {THREE: Rates(5 * MB, 10 * MB)}
    assert rates.as_status() == [
        {"broker": 3, "low_bytes_per_s": 5 * MB, "high_bytes_per_s": 10 * MB}
    ]


def test_unusual_rates_do_not_count() -> None:
    """A tenth of the bytes was received slower, and a tenth faster, than the range says."""
    rates = CopyRates()
    for n, seconds in enumerate((100.0, 1.0, *(10.0,) * 18)):
        rates.add(THREE, 1000.0 * n, 1000.0 * n + seconds, 100 * MB)
    assert rates.rates() == {THREE: Rates(10 * MB, 10 * MB)}


def test_few_bytes_give_no_rate_and_old_periods_are_forgotten() -> None:
    """The time of small copies is that of their steps."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 8.0, 50)
    assert rates.rates() == {}
    for n in range(1, PERIODS_KEPT + 2):
        rates.add(THREE, 100.0 * n, 100.0 * n + n, 10 * MB)
    assert 2 * MB < rates.rates()[THREE].high <= 5 * MB


def test_the_journal_restores_rates(tmp_path: Path) -> None:
    """Of whole copies without a throttle; lines of earlier releases do not tell."""
    line = {
        "v": 1,
        "at": "2026-01-02T03:04:05.000Z",
        "kind": "copied",
        "replica": 3,
        "seconds": 5.0,
        "bytes": 100 * MB,
        "throttled": False,
    }
    others = [{**line, "throttled": True}, {**line, "bytes": None}, {**line, "kind": "copying"}]
    earlier = {k: v for k, v in line.items() if k != "throttled"}
    lines = [json.dumps(x, separators=(",", ":")) for x in (earlier, *others, line)]
    (tmp_path / FILE_NAME).write_text("\n".join(lines) + "\n")
    rates = CopyRates()
    replay(tmp_path, Timelines(), rates)
    assert rates.rates() == {THREE: Rates(20 * MB, 20 * MB)}


def samples(*pairs: tuple[float, float]) -> Samples:
    """Return samples of these moments and totals."""
    made = Samples()
    for at, total in pairs:
        made.add(Instant(at), total)
    return made


def test_too_few_samples_have_no_rate() -> None:
    """Neither has a standstill."""
    assert samples().rate() is None
    assert samples((0, 0)).rate() is None
    assert samples((0, 0), (SPAN_MIN_S - 1, 1000)).rate() is None
    assert samples((0, 5), (60, 5), (120, 5)).rate() is None
    assert eta_of(None, 100) is None


def test_even_progress_has_a_narrow_range() -> None:
    """Slices that agree leave no doubt."""
    rate = samples(*((n * 10.0, n * 1000.0) for n in range(20))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(100)
    assert rate.low == pytest.approx(100)
    assert rate.high == pytest.approx(100)
    assert eta_of(rate, 5000) == pytest.approx((50, 50))


def test_uneven_progress_has_a_wide_range() -> None:
    """What went now fast, now slowly, may end sooner or later."""
    totals = (0, 0, 3000, 3000, 6000, 6000, 9000)
    rate = samples(*((n * 10.0, float(total)) for n, total in enumerate(totals))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(150)
    assert rate.low < 75
    assert rate.high > 225
    low, high = eta_of(rate, 1500) or Range(0, 0)
    assert low < 10 < high


def test_single_slice_has_a_wide_range() -> None:
    """Half and half as much again."""
    assert samples((0, 0), (10, 1000)).rate() == Rate(100, 50, 150)


def test_samples_before_the_window_are_dropped() -> None:
    """The rate is that of the last minutes."""
    fast = [(n * 10.0, n * 100_000.0) for n in range(10)]
    slow = [(90 + n * 10.0, 900_000 + n * 10.0) for n in range(1, 100)]
    rate = samples(*fast, *slow).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(1)


def test_falling_total_drops_earlier_samples() -> None:
    """A size that shrank is no negative rate."""
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
