"""
The governor: the replication rate of a broker at which producers meet their latency objective.

A signal compares a value with its objective: at a strain of 1.0 the objective is just met. The rate
follows the strain by additive increase and multiplicative decrease, as a window of TCP does:

- While the objective was never missed, the rate doubles.
- When it is missed, the rate falls by a little, and the rate before is remembered. From then on the
  rate returns quickly to a share of that one, and slowly above it.
- When three readings in succession are far above the objective, the load has risen: the rate falls
  to a tenth.
- When there is far less strain than is usual near the remembered rate, the load has fallen: the
  rate grows faster with each such judgement.

A single reading decides nothing, as it may be a pause of the broker's garbage collector or wrong:
the second highest of the latest ones counts. Readings begun before a rate took effect say nothing
about it. A rate is never below what the copies in flight need to overtake the producers: such a
copy would never end, and fewer copies at a time are the remedy (``governed_rates``).

The constants are those with which ``tests/core/pacing/broker_loads.py`` meets its goals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.core.model import Instant
from controller.core.pacing.model import GovernedRate, Signal, SignalKind

INTERVAL_S: Final = 5.0
"""The shortest time between two changes of a broker's rate, in seconds."""
SETTLE_S: Final = 2.0
"""The time that brokers need to follow a new rate, in seconds."""
FRESH_S: Final = 10.0
"""The age from which a reading of the probe says nothing about the present, in seconds."""
HOLD_S: Final = 30.0
"""The time for which a rate is kept without a fresh reading; then it falls to its floor."""
READINGS_MIN: Final = 3
"""The readings of the probe that a judgement needs."""

CALM: Final = 0.6
"""The strain above which no rate grows."""
SEVERE: Final = 2.0
"""The strain far above the objective."""
SLIGHT_CUT: Final = 0.85
HARD_CUT: Final = 0.5
"""The cut where brokers are so slow that replicas leave the ISR or requests are not answered."""
DEEP_CUT: Final = 0.1

FAST_GROWTH: Final = 2.0
BACK_GROWTH: Final = 1.7
GROWTH: Final = 1.15
FAST_UP_TO: Final = 0.5
NEAR: Final = 0.85
PASSED: Final = 1.1
"""Shares of the rate that was too high: up to one the rate doubles, near it grows slowly, beyond
the last it was not too high after all."""
SLOW_GROWTH: Final = 0.01
SLOW_EVERY_S: Final = 15.0
"""Near the rate that was too high, such a share of it is added at such intervals."""

QUIET: Final = 0.4
"""A strain above this is never quiet."""
QUIET_RISE: Final = 3.0
"""A multiple of the calmest strain below which the broker is quiet."""
QUIET_FALL: Final = 0.25
"""A share of the usual strain below which it is quiet, too."""
QUIET_EVERY_S: Final = 7.0
"""The time between two judgements of quiet near the rate that was too high, in seconds."""
QUICKENING: Final = 0.1
"""What each further quiet judgement adds to the growth there."""
USUAL_WEIGHT: Final = 0.2
"""The weight of a judgement in the usual strain."""
CALMEST_FADES: Final = 1.0005
"""How fast the calmest strain is forgotten with each judgement."""
UNOPPOSED: Final = "no ISR shrank outside the plan, and brokers answer quickly"
"""The evidence for a rate that grows without a reading of latency."""


@dataclass(frozen=True, slots=True)
class RateBounds:
    """The bounds of a rate, in bytes per second."""

    least: int
    most: int


def floor_of(bounds: RateBounds, needed: float) -> int:
    """Return the lowest rate: the least, or what the copies in flight need."""
    return min(max(bounds.least, int(needed)), bounds.most)


def with_floor(rate: GovernedRate, floor: int) -> GovernedRate:
    """Return a rate with another floor; the same where it is not another."""
    return rate if rate.floor == floor else replace(rate, floor=floor)


def begun(present: int | None, floor: int, bounds: RateBounds, now: Instant) -> GovernedRate:
    """Return the first rate: the present one within its bounds, or the lowest."""
    if present is None:
        return GovernedRate(floor, now, "the lowest rate, to begin with", floor=floor)
    kept = min(max(present, floor), bounds.most)
    return GovernedRate(kept, now, "the rate that was in force already", floor=floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of a broker."""

    readings: Sequence[Signal] = ()
    """Those of the probe, in order."""
    others: Sequence[Signal] = ()
    """Those of the query and of the daemon itself: each counts by itself."""
    is_probed: bool = False
    """Whether there are to be readings of the probe."""
    missing: str = ""
    """Which reading is overdue, and why; empty if none is."""


def judged(  # noqa: PLR0911 - one case after another
    rate: GovernedRate, measured: Measured, bounds: RateBounds, now: Instant
) -> GovernedRate:
    """Return a broker's rate after the signals that concern it."""
    if now < rate.changed_at + INTERVAL_S:
        return rate
    bounded = min(max(rate.bytes_per_s, rate.floor), bounds.most)
    if bounded != rate.bytes_per_s:
        why = "the copies in flight need it" if bounded == rate.floor else "the highest rate"
        return _changed(rate, bounded, why, now)
    worst = max(measured.others, key=lambda s: s.strain, default=None)
    if worst is not None and worst.strain > 1.0 and worst.since >= rate.changed_at:
        cut = SLIGHT_CUT if worst.kind is SignalKind.QUERY else HARD_CUT
        return _missed(rate, worst, cut, now)
    latest = [s for s in measured.readings if s.since >= rate.changed_at and now - s.at <= FRESH_S]
    settled = [s for s in latest if s.since >= rate.changed_at + SETTLE_S]
    # What a cut was for may last for a while; what is severe after a growth cannot wait.
    severe = _severe(settled if rate.is_missed else latest)
    if severe is not None:
        return _missed(rate, severe, DEEP_CUT, now)
    if measured.missing:
        return _changed(replace(rate, quiet=0), rate.floor, measured.missing, now)
    is_known = len(settled) >= READINGS_MIN
    if not is_known and (measured.is_probed or latest):
        return rate
    counts = sorted(settled, key=lambda s: s.strain)[-2] if is_known else worst
    if counts is not None and is_known and counts.strain > 1.0:
        return _too_slow(rate, counts, latest[-READINGS_MIN:], now)
    if counts is None or (worst is not None and worst.strain > counts.strain):
        counts = worst
    return _met(rate, counts, bounds, now, is_blind=not is_known)


def idle(rate: GovernedRate, now: Instant) -> GovernedRate:
    """Return a rate while nothing is copied: what comes next begins with the lowest one."""
    if rate.bytes_per_s == rate.floor or now < rate.changed_at + HOLD_S:
        return rate
    lowest = replace(rate, quiet=0, too_high=None, is_missed=False)
    return _changed(lowest, rate.floor, "nothing is being copied", now)


def _severe(readings: Sequence[Signal]) -> Signal | None:
    """Return the calmest of the latest readings, if all of them are severe."""
    latest = readings[-READINGS_MIN:]
    if len(latest) < READINGS_MIN or any(s.strain < SEVERE for s in latest):
        return None
    return min(latest, key=lambda s: s.strain)


def _too_slow(
    rate: GovernedRate, counts: Signal, latest: Sequence[Signal], now: Instant
) -> GovernedRate:
    """Cut the rate a little, unless the strain is ending, or may show to be severe."""
    if latest[-1].strain >= SEVERE:
        return replace(rate, strain=counts.strain)
    if rate.is_missed and sum(s.strain > 1.0 for s in latest) < 2:  # noqa: PLR2004 - a single one
        return rate
    return _missed(rate, counts, SLIGHT_CUT, now)


def _missed(rate: GovernedRate, by: Signal, cut: float, now: Instant) -> GovernedRate:
    too_high = rate.too_high if rate.is_missed else rate.bytes_per_s
    noted = replace(rate, too_high=too_high, is_missed=True, strain=by.strain, quiet=0)
    return _changed(noted, max(rate.floor, int(rate.bytes_per_s * cut)), by, now)


def _met(
    rate: GovernedRate, worst: Signal | None, bounds: RateBounds, now: Instant, *, is_blind: bool
) -> GovernedRate:
    """Let the rate grow, if there is room below the objective."""
    strain = 0.0 if worst is None else worst.strain
    calmest = strain if rate.calmest is None else min(rate.calmest * CALMEST_FADES, strain)
    noted = replace(rate, is_missed=False, strain=strain, calmest=calmest)
    if strain > CALM:
        return replace(noted, quiet=0)
    usual = 0.0 if rate.usual is None else rate.usual
    is_quiet = strain <= min(QUIET, max(calmest * QUIET_RISE, usual * QUIET_FALL))
    if is_blind:
        # Only coarse signals would show that a rate is too high.
        if now < rate.changed_at + SLOW_EVERY_S:
            return noted
        is_quiet = False
    known, present = rate.too_high, rate.bytes_per_s
    if known is not None and present > known * PASSED:
        known = None
    fast = present * (FAST_GROWTH if is_quiet else GROWTH)
    if known is None:
        after = fast
    elif present < known * FAST_UP_TO:
        after = present * (FAST_GROWTH if is_quiet else BACK_GROWTH)
        after = min(after, max(known * FAST_UP_TO, present * GROWTH))
    elif present < round(known * NEAR):
        after = min(present * GROWTH, known * NEAR)
    else:
        return _near(noted, known, worst or UNOPPOSED, bounds, now, is_quiet=is_quiet)
    noted = replace(noted, quiet=0, too_high=known)
    return _changed(noted, min(round(after), bounds.most), worst or UNOPPOSED, now)


def _near(  # noqa: PLR0913 - a judgement, its reason and its time
    rate: GovernedRate,
    known: int,
    by: Signal | str,
    bounds: RateBounds,
    now: Instant,
    *,
    is_quiet: bool,
) -> GovernedRate:
    """Let a rate grow near the one that was too high: slowly, or faster where the load fell."""
    if now < max(rate.changed_at, rate.quiet_at) + QUIET_EVERY_S:
        return rate
    usual = rate.strain
    if rate.usual is not None:
        usual = rate.usual * (1.0 - USUAL_WEIGHT) + rate.strain * USUAL_WEIGHT
    quiet = rate.quiet + 1 if is_quiet else 0
    noted = replace(rate, usual=usual, quiet=quiet, quiet_at=now)
    if quiet > 1:
        after = rate.bytes_per_s * (1.0 + QUICKENING * (quiet - 1))
    elif now >= rate.changed_at + SLOW_EVERY_S:
        after = rate.bytes_per_s + known * SLOW_GROWTH
    else:
        return noted
    return _changed(noted, min(round(after), bounds.most), by, now)


def _changed(rate: GovernedRate, after: int, by: Signal | str, now: Instant) -> GovernedRate:
    if after == rate.bytes_per_s:
        return rate
    signal = by if isinstance(by, Signal) else None
    why = by if isinstance(by, str) else by.evidence
    return replace(rate, bytes_per_s=after, changed_at=now, why=why, by=signal)


def attributed(led: Sequence[Signal], followed: Sequence[Signal]) -> tuple[Signal, ...]:
    """
    Return the readings of the probe that count for a broker, in order.

    An acknowledgement waits for the leader and for its follower. So a broker counts with the lower
    of two simultaneous readings, of the partition that it leads and of the one that it follows: if
    it is slow, both are.
    """
    if not led or not followed:
        return tuple(led or followed)
    beside = {int(s.at): s for s in followed}
    pairs = ((s, beside.get(int(s.at), s)) for s in led)
    return tuple(min(pair, key=lambda s: s.strain) for pair in pairs)
