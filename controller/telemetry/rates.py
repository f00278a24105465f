"""
How fast a request comes on, and when it may end: a range, from what was measured.

Pure: samples of a growing count go in, a rate with its spread comes out. The window is cut into
slices; the mean of their rates is known about as well as they agree (twice the standard error),
and that is the range. Nothing measured, or nothing moved in the whole window: nothing is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean, pstdev
from typing import Final, NamedTuple

from controller.core.model import Instant

WINDOW_S: Final = 600.0
"""Older samples are forgotten: a rate of an hour ago says nothing of the next."""
SAMPLE_EVERY_S: Final = 2.0
"""Samples that follow closer replace the last one."""
SPAN_MIN_S: Final = 5.0
"""A shorter time says nothing of a rate."""
SLICES_MAX: Final = 6
SLOWEST: Final = 0.25
"""The worst rate is never taken for less than this part of the mean."""
UNCERTAIN: Final = 0.5
"""The margin, as a part of the mean, while there is only one slice."""


class Sample(NamedTuple):
    """A count at a moment."""

    at: Instant
    total: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Per second."""

    mean: float
    low: float
    high: float


class Range(NamedTuple):
    """Seconds to the end, at best and at worst."""

    low: float
    high: float


class Samples:
    """The last minutes of a count that only grows."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """Begin with nothing."""
        self._window_s = window_s
        self._kept: deque[Sample] = deque()

    def note(self, at: Instant, total: float) -> None:
        """
        Add a sample.

        A count below the last one (a size that shrank, a daemon that knows less after its start)
        begins anew: a rate across the gap would be made up.
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
        """Return the rate of the window; None while nothing can be said."""
        return rate_of(self._kept)


def rate_of(samples: Sequence[Sample]) -> Rate | None:
    """Return the rate with its spread; None where too little was seen, or nothing moved."""
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
    """Return when so much more will be done; None where nothing can be said."""
    if remaining <= 0:
        return Range(0.0, 0.0)
    if rate is None:
        return None
    return Range(remaining / rate.high, remaining / rate.low)


def _count_at(samples: Sequence[Sample], at: float) -> float:
    """Return the count at a moment between samples, as if it had grown evenly."""
    for before, after in pairwise(samples):
        if at <= after.at:
            share = (at - before.at) / (after.at - before.at) if after.at > before.at else 1.0
            return before.total + (after.total - before.total) * min(1.0, max(0.0, share))
    return samples[-1].total
