"""
The rates at which brokers received past copies, from which forecasts are made.

Copies of a broker that overlap are one period, with the sum of their bytes. Throttled copies do not
count: they say what the throttle was. The journal restores the periods at start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller.core.model import BrokerId
from controller.planning.forecast import Rates

PERIODS_KEPT: Final = 20
"""The latest periods of each broker."""
BYTES_MIN: Final = 10_000_000
"""In a period with fewer bytes, the overhead of steps hides the rate."""

UNUSUAL: Final = 0.1
"""The share of the bytes that was received faster, and slower, than counts."""


@dataclass(slots=True)
class _Period:
    """A time in which a broker received copies."""

    since: float
    until: float
    bytes: int

    @property
    def rate(self) -> float:
        return self.bytes / max(0.001, self.until - self.since)


def _at(share: float, periods: Iterable[_Period]) -> float:
    """Return the rate below which a share of the bytes was received."""
    ordered = sorted(periods, key=lambda p: p.rate)
    left = share * sum(p.bytes for p in ordered)
    for period in ordered:
        left -= period.bytes
        if left < 0:
            return period.rate
    return ordered[-1].rate


class CopyRates:
    """The latest periods of each broker; times are seconds since 1970."""

    def __init__(self) -> None:
        """Start without periods."""
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
