"""
Throughput and partitions in flight of the last hour, for the charts of the status page.

A ring of a fixed number of samples, written by the loop and read by the HTTP server's threads.
Begins anew with the daemon; Prometheus has the longer history.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from controller.core.model import Instant

INTERVAL_S: Final = 5.0
KEPT: Final = 720
"""Samples of one hour."""
SMOOTHED: Final = 4
"""Samples over which a rate is computed: brokers report the progress of copies in intervals."""


class Sample(NamedTuple):
    """The work of one moment."""

    at: Instant
    wall: datetime
    received: int
    """Bytes that brokers received since the daemon started."""
    in_flight: int
    copying: int


class TrendPoint(NamedTuple):
    """One point of the charts."""

    wall: datetime
    bytes_per_s: float
    in_flight: int
    copying: int


class Trends:
    """The samples of the last hour; safe from any thread."""

    def __init__(self) -> None:
        """Start without samples."""
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def add(self, sample: Sample) -> None:
        """Add a sample if the last one is ``INTERVAL_S`` old."""
        with self._lock:
            if not self._samples or sample.at - self._samples[-1].at >= INTERVAL_S:
                self._samples.append(sample)

    def points(self) -> Sequence[TrendPoint]:
        """Return the points of the charts, the oldest first."""
        with self._lock:
            samples = tuple(self._samples)
        return [_point(samples[max(0, n - SMOOTHED)], now) for n, now in enumerate(samples)]


def _point(before: Sample, now: Sample) -> TrendPoint:
    seconds = now.at - before.at
    rate = max(0, now.received - before.received) / seconds if seconds > 0 else 0.0
    return TrendPoint(now.wall, rate, now.in_flight, now.copying)
