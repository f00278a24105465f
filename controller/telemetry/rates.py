"""
Rates of copies, from readings of log sizes with their instants; and the rates of past copies.

This is the one measure of what is copied now. The window is the last ``window_s``, or the time
since copying began after a rest. A copy contributes what it gained in the window, divided by its
length. The rate of a broker, of a request and of all is the sum of such contributions, also of
copies that ended in the window. So the rates on all screens add up. A copy that is much younger
than the window contributes to the sums, but has no rate of its own yet: it would be too low.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from controller.core.core_settings import Options
from controller.core.model import BrokerId, Instant, RequestId, TopicPartition
from controller.planning.forecast import Rates

WINDOW_MIN_S: Final = 30.0
READINGS: Final = 3
"""The window has so many intervals between two readings at least."""
SPAN_MIN_S: Final = 5.0
"""A shorter window gives no rate."""
WHOLE: Final = 0.8
"""A copy has a rate of its own if it was read for this part of the window."""

Group = TypeVar("Group", bound=Hashable)


def window_s(options: Options) -> float:
    """Return the length of the window; a copy without a reading in it has no rate any more."""
    return max(WINDOW_MIN_S, READINGS * options.copy_refresh_s)


class Reading(NamedTuple):
    """The bytes of a replica at an instant."""

    at: Instant
    size: int


class Readings:
    """The readings of one copy, as far as the window needs them."""

    def __init__(self) -> None:
        self._kept: deque[Reading] = deque()

    @property
    def last(self) -> Reading | None:
        """The latest reading."""
        return self._kept[-1] if self._kept else None

    @property
    def since(self) -> Instant | None:
        """The instant of the first reading, or of the last one before the window."""
        return self._kept[0].at if self._kept else None

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, reading: Reading, window: float) -> None:
        """Add the latest reading; a size that shrank drops the others: they say no rate."""
        kept = self._kept
        if kept and reading.size < kept[-1].size:
            kept.clear()
        kept.append(reading)
        while len(kept) > 2 and kept[1].at <= reading.at - window:  # noqa: PLR2004 - a slope has two ends
            kept.popleft()

    def gained(self, since: float, until: float, most: float) -> float:
        """Return the bytes gained in a time; it had ``most`` at the end of it at most."""
        return max(0.0, min(self._at(until), most) - self._at(since))

    def _at(self, moment: float) -> float:
        """Return the bytes at a moment; after the last reading, it gains as before."""
        before, after = self._kept[0], self._kept[-1]
        for before, after in pairwise(self._kept):  # noqa: B007 - the last pair is used
            if moment <= after.at:
                break
        seconds = after.at - before.at
        pace = (after.size - before.size) / seconds if seconds > 0 else 0.0
        return before.size + pace * max(0.0, moment - before.at)


@dataclass(slots=True)
class MeasuredCopy:
    """A copy in progress, or one that ended, as the rates count it."""

    partition: TopicPartition
    replica: BrokerId
    request: RequestId
    leader: BrokerId
    size: int | None = None
    """The size of the partition when it was last known."""
    readings: Readings = field(default_factory=Readings)
    ended: Instant | None = None


@dataclass(slots=True)
class MeasuredRates:
    """
    Bytes per second at one instant; None: unknown, as nothing of it was read often enough.

    What has no copies has the rate 0.
    """

    copies: dict[tuple[TopicPartition, BrokerId], float | None] = field(default_factory=dict)
    """The own rates of copies in progress."""
    requests: dict[RequestId, float | None] = field(default_factory=dict)
    received: dict[BrokerId, float | None] = field(default_factory=dict)
    served: dict[BrokerId, float | None] = field(default_factory=dict)

    @property
    def total(self) -> float | None:
        """The sum of all."""
        known = [rate for rate in self.received.values() if rate is not None]
        return sum(known) if known or not self.received else None


def rates_of(copies: Sequence[MeasuredCopy], now: Instant, window: float) -> MeasuredRates:
    """Return the rates of these copies, those that ended in the window included."""
    found = MeasuredRates()
    begun = min((c.readings.since for c in copies if c.readings.since is not None), default=now)
    since = max(begun, now - window)
    span = now - since
    for copy in copies:
        rate = _rate_of(copy, since, now, window) if span >= SPAN_MIN_S else None
        _add(found.requests, copy.request, rate)
        _add(found.received, copy.replica, rate)
        _add(found.served, copy.leader, rate)
        if copy.ended is None:
            first = copy.readings.since
            is_whole = first is not None and now - first >= WHOLE * span
            found.copies[copy.partition, copy.replica] = rate if is_whole else None
    return found


def _rate_of(copy: MeasuredCopy, since: float, now: Instant, window: float) -> float | None:
    last = copy.readings.last
    if last is None or len(copy.readings) <= 1 or last.at < now - window:
        return None
    # An ended copy has all its bytes; another one may have received some since its last reading.
    size = inf if copy.size is None else copy.size
    most = last.size if copy.ended is not None else max(last.size, size)
    return copy.readings.gained(since, now, most) / (now - since)


def _add(sums: dict[Group, float | None], group: Group, rate: float | None) -> None:
    """Add a rate to a sum; what is unknown makes only a sum of nothing else unknown."""
    before = sums.get(group)
    sums[group] = before if rate is None else rate + (before or 0.0)


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
