"""
Rates of copies, from readings of log sizes with their instants; and the rates of past copies.

This is the one measure of what is copied now. The rate of a copy is what it gained since it began,
or in the last ``window_s`` if it is older, per second. The rate of a broker, of a request and of
all is the sum of the rates of their copies in progress, at the same instant. So the rates on all
screens add up. A copy that was not read often enough has the mean rate of the copies to its broker
in the window, also of those that ended: else many short copies would have no rate at all.

Estimates need what to expect rather than what is now: the ``paces``, the average of the window,
with the pauses between copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
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

Group = TypeVar("Group", bound=Hashable)
Rate = TypeVar("Rate", int, float)


def window_s(options: Options) -> float:
    """Return the length of the window; a copy without a reading in it has no rate any more."""
    return max(WINDOW_MIN_S, READINGS * options.copy_refresh_s)


class Reading(NamedTuple):
    """The bytes of a replica at an instant."""

    at: Instant
    size: int


class Readings:
    """The readings of one copy, as far as the window needs them."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[Reading, ...] = ()
        """A few; there is one of these for each copy, and a queue would take 760 bytes."""

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
            kept = ()
        kept = (*kept, reading)
        while len(kept) > 2 and kept[1].at <= reading.at - window:  # noqa: PLR2004 - a slope has two ends
            kept = kept[1:]
        self._kept = kept

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

    copies: dict[tuple[TopicPartition, BrokerId], int | None] = field(default_factory=dict)
    """The rates of copies in progress, of which all others but the paces are sums."""
    estimated: set[tuple[TopicPartition, BrokerId]] = field(default_factory=set)
    """Of these, the copies with the mean rate of others."""
    requests: dict[RequestId, int | None] = field(default_factory=dict)
    received: dict[BrokerId, int | None] = field(default_factory=dict)
    served: dict[BrokerId, int | None] = field(default_factory=dict)
    paces: dict[RequestId, float | None] = field(default_factory=dict)
    """Averages of the window, for estimates; of requests with copies in it."""

    @property
    def total(self) -> int | None:
        """The sum of all."""
        return _sum(self.received)

    @property
    def pace(self) -> float | None:
        """The average of all in the window."""
        return _sum(self.paces)


def rates_of(
    copies: Sequence[MeasuredCopy],
    now: Instant,
    window: float,
    live: Container[BrokerId] | None = None,
) -> MeasuredRates:
    """
    Return the rates of these copies; those that ended in the window count for the paces.

    A copy of which a broker is not ``live`` has the rate 0, whatever it gained before; None: all
    are.
    """
    found = MeasuredRates()
    _add_paces(found, copies, now, window)
    running = [copy for copy in copies if copy.ended is None]
    gains = {id(copy): _gain_of(copy, now, window) for copy in copies}
    means = _MeanRates()
    for copy in copies:
        means.add(copy, gains[id(copy)])
    for copy in running:
        gain, key = gains[id(copy)], (copy.partition, copy.replica)
        rate = None if gain is None else gain.bytes / gain.seconds
        if live is not None and not (copy.replica in live and copy.leader in live):
            rate = 0.0
        elif rate is None and _is_young(copy, now, window):
            rate = means.of(copy)
            if rate is not None:
                found.estimated.add(key)
        # Rounded here, so that the sums of what is shown are exact.
        rounded = found.copies[key] = None if rate is None else round(rate)
        _add(found.requests, copy.request, rounded)
        _add(found.received, copy.replica, rounded)
        _add(found.served, copy.leader, rounded)
    return found


class _Gain(NamedTuple):
    """Bytes that a copy gained, in which time."""

    bytes: float
    seconds: float


def _gain_of(copy: MeasuredCopy, now: Instant, window: float) -> _Gain | None:
    """Return what a copy gained in the window, or since its begin; None: unknown."""
    until = now if copy.ended is None else copy.ended
    if not _is_read(copy, now, window):
        return None
    since = max(copy.readings.since or 0.0, until - window)
    if copy.ended is None and until - since < SPAN_MIN_S:
        return None
    gained = copy.readings.gained(since, until, _most(copy))
    return _Gain(gained, until - since) if until > since else None


class _MeanRates:
    """The mean rate of a copy to each broker, and to any, weighted by time."""

    def __init__(self) -> None:
        self._sums: dict[BrokerId | None, tuple[float, float]] = {}

    def add(self, copy: MeasuredCopy, gain: _Gain | None) -> None:
        """Add what a copy gained."""
        if gain is None:
            return
        for broker in (copy.replica, None):
            size, seconds = self._sums.get(broker, (0.0, 0.0))
            self._sums[broker] = size + gain.bytes, seconds + gain.seconds

    def of(self, copy: MeasuredCopy) -> float | None:
        """Return the rate to expect of a copy: that of others to its broker, or of any."""
        size, seconds = self._sums.get(copy.replica) or self._sums.get(None) or (0.0, 0.0)
        return size / seconds if seconds else None


def _is_young(copy: MeasuredCopy, now: Instant, window: float) -> bool:
    """Return whether a copy began too recently to be measured; an old one may stand still."""
    since = copy.readings.since
    return since is not None and now - since < window


def _add_paces(
    found: MeasuredRates, copies: Sequence[MeasuredCopy], now: Instant, window: float
) -> None:
    begun = min((c.readings.since for c in copies if c.readings.since is not None), default=now)
    since = max(begun, now - window)
    span = now - since
    for copy in copies:
        is_read = span >= SPAN_MIN_S and _is_read(copy, now, window)
        gained = copy.readings.gained(since, now, _most(copy)) if is_read else None
        _add(found.paces, copy.request, None if gained is None else gained / span)


def _is_read(copy: MeasuredCopy, now: Instant, window: float) -> bool:
    """Return whether a copy was read often enough, and not too long ago."""
    last = copy.readings.last
    return last is not None and len(copy.readings) > 1 and last.at >= now - window


def _most(copy: MeasuredCopy) -> float:
    """Return the bytes that a copy may have by now; one that ended has all its bytes."""
    last = copy.readings.last
    held = 0 if last is None else last.size
    if copy.ended is not None:
        return held
    # It may have received some since its last reading.
    return max(held, inf if copy.size is None else copy.size)


def _add(sums: dict[Group, Rate | None], group: Group, rate: Rate | None) -> None:
    """Add a rate to a sum; what is unknown makes only a sum of nothing else unknown."""
    before = sums.get(group)
    sums[group] = before if rate is None else rate + (before or 0)


def _sum(rates: Mapping[Group, Rate | None]) -> Rate | None:
    """Return the sum of known rates; None where there are only unknown ones."""
    known = [rate for rate in rates.values() if rate is not None]
    return sum(known) if known or not rates else None


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
