"""
The governor: the replication rate of each broker under which clients meet their objective.

It is a pure function of what was measured. A signal compares a value with its objective: its strain
is 1.0 where the objective is just met. Additive increase and multiplicative decrease, as in TCP:

- Below ``CALM`` the rate grows: it doubles until the objective was missed once, then grows by a
  share of the rate at which that was. Above that rate it grows faster again: the load has fallen.
- Between ``CALM`` and 1.0 the rate stays.
- Above 1.0 it falls, the further the higher the strain. One reading alone may be a pause of a
  broker's garbage collector, so that it costs little; the second in succession counts in full.
- What is measured before a rate took effect says nothing about it. A broker without a fresh
  reading keeps its rate for ``HOLD_S``; then it gets the minimum.

A rate is never below what the copies in flight need to overtake the producers: such a copy would
never end. At that rate fewer copies help, and ``copies_allowed`` answers how many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from controller.core.model import BrokerId, Instant

INTERVAL_S: Final = 5.0
"""The shortest time between two changes of a broker's rate, in seconds."""
SETTLE_S: Final = 2.0
"""The time that brokers need to follow a new rate; readings begun before are not of it."""
FRESH_S: Final = 15.0
"""The age at which a reading says nothing about the present any more, in seconds."""
HOLD_S: Final = 30.0
"""The time for which a rate is kept without a fresh reading, in seconds."""
CALM: Final = 0.7
"""The strain below which a rate grows."""
QUIET: Final = 0.4
"""The strain below which a rate may double."""
RISEN: Final = 3.0
"""The multiple of the calmest strain from which a broker is taken to be nearly busy."""
FALLING: Final = 0.95
"""The share of the last strain below which a backlog is being worked off: the rate is low enough."""
SEVERE: Final = 2.0
"""The strain that counts in full at once."""
GENTLE_CUT: Final = 0.8
DEEP_CUT: Final = 0.5
FAST_GROWTH: Final = 2.0
GROWTH: Final = 1.15
FINE_GROWTH: Final = 0.03
"""The share of the last rate that was too high which each interval near it adds."""
NEAR: Final = 0.85
PASSED: Final = 1.1
"""The shares of that rate between which growth is fine."""


class SignalKind(StrEnum):
    """What was measured."""

    PROBE = "probe"
    """The acknowledgement of records of the produce probe, by the broker that leads them."""
    QUERY = "query"
    """The operator's Prometheus query, for the whole cluster."""
    ISR = "isr"
    """ISRs outside of the plan that lost a replica."""
    ANSWER = "answer"
    """The time a broker takes to answer a controller request."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One reading: its strain is the value divided by its objective."""

    kind: SignalKind
    strain: float
    since: Instant
    """When the measured interval began."""
    at: Instant
    evidence: str
    """For operators: the value with its unit."""
    broker: BrokerId | None = None
    """None: it concerns every broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorLimits:
    """The bounds of every rate, in bytes per second and broker."""

    rate_min: int
    rate_max: int


@dataclass(frozen=True, slots=True)
class GovernedRate:
    """The rate of one broker."""

    bytes_per_s: int
    changed_at: Instant
    judged_at: Instant
    """When it was last judged by a fresh reading."""
    too_high: int | None = None
    """The rate at which the objective was last missed; None: it is not known."""
    strained: int = 0
    """How many judgements in succession found the objective missed."""
    strain: float = 0.0
    """The strain at the last judgement."""
    calmest: float | None = None
    """The lowest strain of any judgement: that of a broker without copies, or nearly so."""
    floor: int = 0
    """What the copies in flight needed when it was judged."""

    @property
    def is_at_floor(self) -> bool:
        """Return whether the objective is missed at the lowest rate that ends the copies."""
        return self.strained > 0 and self.bytes_per_s <= self.floor


@dataclass(frozen=True, slots=True)
class RateChange:
    """A rate from now on, and the evidence for it; None where the text is empty: as before."""

    rate: GovernedRate
    evidence: str = ""


def first_rate(limits: GovernorLimits, needed: int, now: Instant) -> GovernedRate:
    """Return the rate to begin with: the minimum, or what the copies in flight need."""
    floor = _floor(limits, needed)
    return GovernedRate(floor, now, now, floor=floor)


def governed(
    rate: GovernedRate,
    signals: Sequence[Signal],
    expected: Collection[SignalKind],
    limits: GovernorLimits,
    needed: int,
    now: Instant,
) -> RateChange:
    """
    Return a broker's rate after the signals that concern it.

    ``expected`` are the kinds of which a reading is to be had at all times. ``needed`` is the rate,
    in bytes per second, with which the copies in flight just overtake the producers.
    """
    rate = replace(rate, floor=_floor(limits, needed))
    bounded = min(max(rate.bytes_per_s, rate.floor), limits.rate_max)
    if bounded != rate.bytes_per_s:
        return _changed(rate, bounded, "the limits, or the copies in flight, require it", now)
    if now < rate.changed_at + INTERVAL_S or now < rate.judged_at + INTERVAL_S:
        return RateChange(rate)
    known = [s for s in signals if s.since >= rate.changed_at + SETTLE_S and now - s.at <= FRESH_S]
    missing = sorted(set(expected) - {s.kind for s in known})
    worst = max(known, key=lambda s: s.strain, default=None)
    if worst is not None and worst.strain > 1.0:
        return _decreased(rate, worst, now)
    if missing:
        return _without_reading(rate, missing, now)
    return _increased(rate, worst, limits, now)


def _floor(limits: GovernorLimits, needed: int) -> int:
    return min(max(limits.rate_min, needed), limits.rate_max)


def _decreased(rate: GovernedRate, worst: Signal, now: Instant) -> RateChange:
    is_first = rate.strained == 0
    too_high = rate.bytes_per_s if is_first else rate.too_high
    judged = replace(
        rate, too_high=too_high, strained=rate.strained + 1, strain=worst.strain, judged_at=now
    )
    if not is_first and worst.strain < rate.strain * FALLING:
        return RateChange(judged)
    is_slight = is_first
    after = int(rate.bytes_per_s * (GENTLE_CUT if is_slight else DEEP_CUT))
    return _changed(judged, max(rate.floor, after), worst.evidence, now)


def _without_reading(rate: GovernedRate, missing: Sequence[SignalKind], now: Instant) -> RateChange:
    if now < rate.judged_at + HOLD_S:
        return RateChange(rate)
    waited = int(now - rate.judged_at)
    return _changed(rate, rate.floor, f"no reading of {', '.join(missing)} for {waited} s", now)


def _increased(
    rate: GovernedRate, worst: Signal | None, limits: GovernorLimits, now: Instant
) -> RateChange:
    strain = 0.0 if worst is None else worst.strain
    calmest = strain if rate.calmest is None else min(rate.calmest, strain)
    calm = replace(rate, strained=0, strain=strain, calmest=calmest, judged_at=now)
    if strain > CALM:
        return RateChange(calm)
    now_bytes, known = rate.bytes_per_s, rate.too_high
    if known is not None and now_bytes > known * PASSED:
        known = None
    is_quiet = strain <= min(QUIET, calmest * RISEN)
    if known is None:
        after = now_bytes * (FAST_GROWTH if is_quiet else GROWTH)
    elif now_bytes < int(known * NEAR):
        after = min(now_bytes * (FAST_GROWTH if is_quiet else GROWTH), known * NEAR)
    else:
        after = now_bytes * GROWTH if is_quiet else now_bytes + known * FINE_GROWTH
    bounded = min(int(after), limits.rate_max)
    why = "the objective is met" if worst is None else worst.evidence
    return _changed(replace(calm, too_high=known), bounded, why, now)


def _changed(rate: GovernedRate, after: int, evidence: str, now: Instant) -> RateChange:
    if after == rate.bytes_per_s:
        return RateChange(rate)
    return RateChange(replace(rate, bytes_per_s=after, changed_at=now), evidence)
