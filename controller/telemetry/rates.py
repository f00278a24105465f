"""
Rates of work in progress, the ends that follow from them, and the rates of past copies.

A rate comes from samples of the last minutes: the window is divided into slices, and the spread of
their rates (twice the standard error) gives the range of the estimate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, Final, NamedTuple

from controller.core.model import BrokerId, Instant
from controller.planning.forecast import Rates

WINDOW_S: Final = 600.0
"""Older samples are dropped."""
SAMPLE_EVERY_S: Final = 2.0
"""A sample that follows sooner replaces the last one."""
SPAN_MIN_S: Final = 5.0
"""A shorter span gives no rate."""
SLICES_MAX: Final = 6
SLOWEST: Final = 0.25
"""The lowest rate is at least this part of the mean."""
UNCERTAIN: Final = 0.5
"""The margin, as a part of the mean, with only one slice."""


class Sample(NamedTuple):
    """A count at one moment."""

    at: Instant
    total: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Amount per second, with its range."""

    mean: float
    low: float
    high: float


class Range(NamedTuple):
    """Seconds to the end, at best and at worst."""

    low: float
    high: float


class Samples:
    """Samples of a growing count within a window."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._kept: deque[Sample] = deque()

    def add(self, at: Instant, total: float) -> None:
        """
        Add a sample.

        A count below the last one (a size that shrank, a daemon that restarted) drops the earlier
        samples: a rate across the gap would be wrong.
        """
        kept = self._kept
        if kept and total < kept[-1].total:
            kept.clear()
        if len(kept) > 1 and at - kept[-2].at < SAMPLE_EVERY_S:
            kept.pop()
        kept.append(Sample(at, total))
        while len(kept) > 1 and kept[1].at <= at - self._window_s:
            kept.popleft()

    def rate(self) -> Rate | None:
        """Return the rate of the window; None if it cannot be computed."""
        return rate_of(self._kept)


def rate_of(samples: Sequence[Sample]) -> Rate | None:
    """Return the rate with its range; None for a short span or a count that did not grow."""
    if len(samples) < 2:  # noqa: PLR2004 - a rate is between two
        return None
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    if span < SPAN_MIN_S or last.total <= first.total:
        return None
    slices = min(SLICES_MAX, len(samples) - 1)
    edges = [first.at + span * n / slices for n in range(slices + 1)]
    counts = [_count_at(samples, edge) for edge in edges]
    rates = [(b - a) * slices / span for a, b in pairwise(counts)]
    mean = (last.total - first.total) / span
    margin = mean * UNCERTAIN if slices == 1 else 2 * pstdev(rates, fmean(rates)) / sqrt(slices)
    return Rate(mean, max(mean - margin, mean * SLOWEST), mean + margin)


def eta_of(rate: Rate | None, remaining: float) -> Range | None:
    """Return the estimated seconds until ``remaining`` is done; None without a rate."""
    if remaining <= 0:
        return Range(0.0, 0.0)
    return None if rate is None else Range(remaining / rate.high, remaining / rate.low)


def _count_at(samples: Sequence[Sample], at: float) -> float:
    """Return the count between two samples, interpolated linearly."""
    for before, after in pairwise(samples):
        if at <= after.at:
            share = (at - before.at) / (after.at - before.at) if after.at > before.at else 1.0
            return before.total + (after.total - before.total) * min(1.0, max(0.0, share))
    return samples[-1].total


# --- past copies --------------------------------------------------------------------------------

PERIODS_KEPT: Final = 20
BYTES_MIN: Final = 10_000_000
"""In a period with fewer bytes, the overhead of steps hides the rate."""
UNUSUAL: Final = 0.1
"""The share of the bytes that was received faster, and slower, than counts."""


@dataclass(slots=True)
class _Period:
    since: float
    until: float
    bytes: int

    @property
    def rate(self) -> float:
        return self.bytes / max(0.001, self.until - self.since)


class CopyRates:
    """
    The rates at which brokers received past copies, from which forecasts are made.

    Copies of a broker that overlap are one period, with the sum of their bytes. Throttled copies do
    not count: they say what the throttle was. Times are seconds since 1970.
    """

    def __init__(self) -> None:
        self._periods: dict[BrokerId, deque[_Period]] = {}

    def add(self, broker: BrokerId, since: float, until: float, size: int) -> None:
        """Add a whole copy that was not throttled, in the order of the ends."""
        known = self._periods.setdefault(broker, deque(maxlen=PERIODS_KEPT))
        if known and since < known[-1].until:
            last = known[-1]
            last.since, last.until = min(last.since, since), max(last.until, until)
            last.bytes += size
        else:
            known.append(_Period(since, until, size))

    def rates(self) -> dict[BrokerId, Rates]:
        """Return the range of rates at which each broker received most of its bytes."""
        found: dict[BrokerId, Rates] = {}
        for broker, periods in sorted(self._periods.items()):
            counted = [p for p in periods if p.bytes >= BYTES_MIN]
            if counted:
                found[broker] = Rates(_at(UNUSUAL, counted), _at(1 - UNUSUAL, counted))
        return found

    def as_status(self) -> list[dict[str, Any]]:
        """Return the rates for the status document."""
        return [
            {
                "broker": broker,
                "low_bytes_per_s": round(rates.low),
                "high_bytes_per_s": round(rates.high),
            }
            for broker, rates in self.rates().items()
        ]


def _at(share: float, periods: Iterable[_Period]) -> float:
    """Return the rate below which a share of the bytes was received."""
    ordered = sorted(periods, key=lambda p: p.rate)
    left = share * sum(p.bytes for p in ordered)
    for period in ordered:
        left -= period.bytes
        if left < 0:
            return period.rate
    return ordered[-1].rate
