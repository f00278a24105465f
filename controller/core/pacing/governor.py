"""
The governor: the replication rate of a broker at which producers meet their latency objective.

A signal compares a value with its objective: at a strain of 1.0 the objective is just met. The rate
follows the strain by multiplicative increase and decrease, with the rate that was too high
remembered, as a window of TCP does:

- While the objective was never missed, the rate grows with each judgement, the less the more
  strain there is. Kafka's quota is an average of some seconds, so a higher one begins with a burst
  in which producers wait: the growth is never more than ``MOST_GROWTH``.
- A queue's wait is the inverse of what is left of its capacity: the inverse of the strain falls in
  a straight line as the rate grows. Where the line through the rates so far meets the objective,
  there is the rate that is possible (``possible``), and the growth ends before it.
- When the objective is missed, the rate falls by a little, and the rate before is remembered. From
  then on the rate returns quickly to a share of that one, and slowly above it.
- When three readings in succession are far above the objective, the rate was far too high, or the
  load has risen: it falls to a tenth. What is remembered is less than the rate before: that may
  have been twice what was possible.
- When there is less strain near the remembered rate than is usual there, again and again, the load
  has fallen: the rate grows, faster with each such judgement. How much less counts depends on how
  much the strain varies there.

A single reading decides nothing, as it may be a pause of the broker's garbage collector or wrong:
the second highest of the latest ones counts. Readings begun before a rate took effect say nothing
about it. A rate is never below what the copies in flight need to overtake the producers: such a
copy would never end, and fewer copies at a time are the remedy (``governed_rates``). It does not
grow while the copies use a small share of it.

The constants are those with which ``tests/core/pacing/broker_loads.py`` meets its goals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
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
SLIGHT_CUT: Final = 0.88
AGAIN_CUT: Final = 0.4
"""The cut where a slight one did not help: the load of producers rose, or there is a backlog."""
HARD_CUT: Final = 0.5
"""The cut where brokers are so slow that replicas leave the ISR or requests are not answered."""
DEEP_CUT: Final = 0.1
FAR_ABOVE: Final = 0.75
"""The share of the rate before a deep cut that is remembered as too high."""

MOST_GROWTH: Final = 1.0
"""By which share a rate grows without strain."""
LEAST_GROWTH: Final = 0.02
"""The same near the strain above which none grows."""
STEEPNESS: Final = 0.2
"""How fast growth rises with the room below that strain."""
GROWTH: Final = 1.15
"""The growth without readings, and on the way back to the rate that was too high."""
POINTS: Final = 8
"""The rates, with their strain, that say which rate is possible."""
POSSIBLE_STRAIN: Final = 0.8
"""The typical strain at the rate that is possible."""
APPROACH: Final = 0.9
"""The share of the way to that rate by which one grows."""
SURE_GROWTH: Final = 0.5
SURE_UP_TO: Final = 0.05
"""Up to this typical strain it grows by that share at least: so far away the line says little."""
FAST_UP_TO: Final = 0.5
NEAR: Final = 0.85
PASSED: Final = 1.1
"""Shares of the rate that was too high: up to one growth is as if none were known, near it slow."""
BEYOND: Final = 1.05
"""Beyond the last, growth is this multiple of what the rate is of it: it was not too high."""
SLOW_GROWTH: Final = 0.01
SLOW_EVERY_S: Final = 15.0
"""Near the rate that was too high, such a share of it is added at such intervals."""
USED: Final = 0.7
"""The share of a rate that copies have to use before it grows."""

QUIET: Final = 0.4
"""A strain above this is never quiet."""
QUIET_RISE: Final = 3.0
"""A multiple of the calmest strain below which the broker is quiet: that counts twice."""
QUIET_FALL: Final = 0.25
"""A share of the usual strain below which that is so, too."""
ROOMY: Final = 0.1
"""A strain below which there is room, whatever is usual."""
QUIETER: Final = 0.75
DEVIATIONS: Final = 2.0
"""It is quiet also below this share of the usual strain, and by so many usual deviations."""
QUIET_EVERY_S: Final = 5.0
"""The time between two judgements of quiet near the rate that was too high, in seconds."""
QUIET_FROM: Final = 3
"""The count of quiet judgements in succession from which the rate grows."""
QUICKENING: Final = 0.05
"""The growth there for each of them."""
USUAL_WEIGHT: Final = 0.2
"""The weight of a judgement in the usual strain."""
USUAL_WEIGHT_QUIET: Final = 0.05
"""The same of a quiet judgement: what is usual is not to follow a load that has fallen at once."""
STRAIN_MIN: Final = 0.001
CALMEST_FADES: Final = 1.0005
"""How fast the calmest strain is forgotten with each judgement."""

REMEMBERED_S: Final = 900.0
"""The age up to which the last rate of earlier requests says what to begin with."""
AGAIN: Final = 1 / 3
"""The share of it that is the first one."""
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


def begun(
    present: int | None,
    floor: int,
    bounds: RateBounds,
    now: Instant,
    former: GovernedRate | None = None,
) -> GovernedRate:
    """
    Return the first rate: the present one within its bounds, or the lowest.

    After earlier requests of this daemon (``former``, of the time when they ended) it is a share of
    their last rate, and what was learned of the broker is kept.
    """
    if former is None or now - former.changed_at > REMEMBERED_S:
        former = GovernedRate(floor, now, "")
    why, first = "the lowest rate, to begin with", floor
    if present is not None:
        why, first = "the rate that was in force already", present
    elif former.bytes_per_s * AGAIN > floor:
        first, age = round(former.bytes_per_s * AGAIN), now - former.changed_at
        why = f"a third of the rate {age:.0f} s ago, to begin with"
    kept = replace(former, changed_at=now, why=why, by=None, floor=floor, quiet=0, misses=0)
    return replace(kept, bytes_per_s=min(max(first, floor), bounds.most), typical=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of a broker."""

    readings: Sequence[Signal] = ()
    """Those of the probe, in order."""
    led: Sequence[Signal] = ()
    """All those of the partition that it leads."""
    others: Sequence[Signal] = ()
    """Those of the query and of the daemon itself: each counts by itself."""
    is_probed: bool = False
    """Whether there are to be readings of the probe."""
    is_queried: bool = False
    """Whether there are to be results of the query."""
    is_unused: bool = False
    """Whether copies use a small share of the rate."""
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
    begun = Instant(rate.changed_at + SETTLE_S) if rate.is_missed else rate.changed_at
    led = [s for s in measured.led if s.since >= begun and now - s.at <= FRESH_S]
    severe = _severe([s for s in latest if s.since >= begun]) or _severe(led)
    if severe is not None:
        return _missed(rate, severe, DEEP_CUT, now)
    if measured.missing:
        return _changed(replace(rate, quiet=0), rate.floor, measured.missing, now)
    if len(settled) < READINGS_MIN and (measured.is_probed or latest):
        return rate
    return _followed(rate, measured, latest, bounds, now)


def _followed(
    rate: GovernedRate,
    measured: Measured,
    latest: Sequence[Signal],
    bounds: RateBounds,
    now: Instant,
) -> GovernedRate:
    """Return a rate after the readings of the probe that are of it, or without any."""
    settled = [s for s in latest if s.since >= rate.changed_at + SETTLE_S]
    is_known = len(settled) >= READINGS_MIN
    if not is_known and measured.is_queried and not _is_reported(rate, measured.others):
        return rate
    worst = max(measured.others, key=lambda s: s.strain, default=None)
    counts = sorted(settled, key=lambda s: s.strain)[-2] if is_known else worst
    if counts is not None and is_known and counts.strain > 1.0:
        return _too_slow(rate, counts, settled[-READINGS_MIN:], now)
    if counts is None or (worst is not None and worst.strain > counts.strain):
        counts = worst
    is_blind = not is_known and not measured.is_queried
    if is_known:
        logs = [log(max(s.strain, STRAIN_MIN)) for s in settled]
        rate = replace(rate, typical=exp(sum(logs) / len(logs)))
    met = _met(rate, counts, bounds, now, is_blind=is_blind)
    if met.bytes_per_s <= rate.bytes_per_s:
        return met
    if measured.is_unused:
        return replace(rate, misses=0, strain=met.strain, calmest=met.calmest)
    if any(s.strain > CALM for s in latest):
        # Perhaps the burst with which the rate began: the next one is to be smaller.
        return replace(met, bytes_per_s=min(met.bytes_per_s, round(rate.bytes_per_s * GROWTH)))
    return met


def idle(rate: GovernedRate, now: Instant) -> GovernedRate:
    """Return a rate while nothing is copied: what comes next begins with the lowest one."""
    if rate.bytes_per_s == rate.floor or now < rate.changed_at + HOLD_S:
        return rate
    lowest = replace(rate, quiet=0, misses=0)
    return _changed(lowest, rate.floor, "nothing is being copied", now)


def _is_reported(rate: GovernedRate, others: Sequence[Signal]) -> bool:
    """
    Return whether a result of the query shows the effect of the rate, if there is one.

    Half of its range is enough: a percentile shows slow records also where they are few.
    """
    results = (s for s in others if s.kind is SignalKind.QUERY)
    return any(s.at - (s.at - s.since) / 2 >= rate.changed_at + SETTLE_S for s in results)


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
    return _missed(rate, counts, AGAIN_CUT if rate.is_missed else SLIGHT_CUT, now)


def _missed(rate: GovernedRate, by: Signal, cut: float, now: Instant) -> GovernedRate:
    too_high = rate.too_high
    if not rate.is_missed:
        too_high = round(rate.bytes_per_s * (FAR_ABOVE if cut == DEEP_CUT else 1.0))
        known = rate.too_high
        if known is not None and (cut > DEEP_CUT or too_high < known * FAST_UP_TO):
            # It may have been missed for another reason, now or before.
            too_high = round(sqrt(too_high * known))
    noted = replace(rate, too_high=too_high, misses=rate.misses + 1, strain=by.strain, quiet=0)
    return _changed(noted, max(rate.floor, int(rate.bytes_per_s * cut)), by, now)


def _met(
    rate: GovernedRate, worst: Signal | None, bounds: RateBounds, now: Instant, *, is_blind: bool
) -> GovernedRate:
    """Let the rate grow, if there is room below the objective."""
    strain = 0.0 if worst is None else worst.strain
    noted = replace(rate, misses=0, strain=strain)
    if is_blind:
        # Only coarse signals would show that a rate is too high.
        if strain > CALM or now < rate.changed_at + SLOW_EVERY_S:
            return noted
        known, growth = rate.too_high, GROWTH
    else:
        calmest = strain if rate.calmest is None else min(rate.calmest * CALMEST_FADES, strain)
        noted = replace(noted, calmest=calmest)
        if strain > CALM:
            return replace(noted, quiet=0)
        known, growth = rate.too_high, _growth(rate, strain)
    by, present = worst or UNOPPOSED, rate.bytes_per_s
    if known is None:
        after = present * growth
    elif present > known * PASSED:
        after = present * min(growth, present / known * BEYOND)
    elif present < known * FAST_UP_TO:
        after = min(present * growth, max(known * FAST_UP_TO, present * GROWTH))
    elif present < round(known * NEAR):
        after = min(present * GROWTH, known * NEAR)
    else:
        return _near(noted, known, by, bounds, now, is_blind=is_blind)
    noted = replace(noted, quiet=0)
    return _changed(noted, min(round(after), bounds.most), by, now)


def _growth(rate: GovernedRate, strain: float) -> float:
    """Return how fast a rate grows: the slower the more strain there is, and up to the possible."""
    growth = min(MOST_GROWTH, STEEPNESS * (CALM / max(strain, STRAIN_MIN) - 1.0))
    at = possible((*rate.points, (rate.bytes_per_s, rate.typical))) if rate.typical else None
    if at is not None:
        sure = SURE_GROWTH * min(1.0, SURE_UP_TO / rate.typical) ** 2
        growth = min(growth, max(sure, APPROACH * (at / rate.bytes_per_s - 1.0)))
    return 1.0 + max(LEAST_GROWTH, growth)


def possible(points: Sequence[tuple[int, float]]) -> float | None:
    """
    Return the rate at which the strain reaches ``POSSIBLE_STRAIN``, by a line through the inverse.

    The weights are those of errors in proportion to the strain: points with much strain say most.

    Returns:
        None where the points do not say, as the strain does not rise with the rate.

    """
    weights = [strain * strain for _, strain in points]
    total = sum(weights)
    rate = sum(w * r for w, (r, _) in zip(weights, points, strict=True)) / total
    inverse = sum(w / s for w, (_, s) in zip(weights, points, strict=True)) / total
    apart = [(w, r - rate, 1.0 / s - inverse) for w, (r, s) in zip(weights, points, strict=True)]
    falls = -sum(w * r * s for w, r, s in apart)
    if falls <= 0.0:
        return None
    return rate + (inverse - 1.0 / POSSIBLE_STRAIN) * sum(w * r * r for w, r, _ in apart) / falls


def _near(  # noqa: PLR0913 - a judgement, its reason and its time
    rate: GovernedRate,
    known: int,
    by: Signal | str,
    bounds: RateBounds,
    now: Instant,
    *,
    is_blind: bool,
) -> GovernedRate:
    """Let a rate grow near the one that was too high: slowly, or faster where the load fell."""
    if now < max(rate.changed_at, rate.quiet_at) + QUIET_EVERY_S:
        return rate
    noted = replace(rate, quiet=0, quiet_at=now) if is_blind else _compared(rate, now)
    if noted.quiet >= QUIET_FROM:
        after = rate.bytes_per_s * (1.0 + QUICKENING * noted.quiet)
    elif now >= rate.changed_at + SLOW_EVERY_S:
        after = rate.bytes_per_s + known * SLOW_GROWTH
    else:
        return noted
    return _changed(noted, min(round(after), bounds.most), by, now)


def _compared(rate: GovernedRate, now: Instant) -> GovernedRate:
    """Compare the strain with what is usual near the rate that was too high."""
    strain = max(rate.strain, STRAIN_MIN)
    usual = strain if rate.usual is None else rate.usual
    quiet = max((rate.calmest or 0.0) * QUIET_RISE, usual * QUIET_FALL)
    quieter = max(quiet, usual * min(QUIETER, exp(-DEVIATIONS * rate.deviation)))
    is_quieter = strain <= max(ROOMY, min(QUIET, quieter))
    counts_twice = strain <= min(QUIET, quiet)
    weight = USUAL_WEIGHT_QUIET if is_quieter else USUAL_WEIGHT
    apart = abs(log(strain / usual))
    return replace(
        rate,
        usual=usual ** (1.0 - weight) * strain**weight,
        deviation=rate.deviation * (1.0 - weight) + apart * weight,
        quiet=rate.quiet + (2 if counts_twice else 1) if is_quieter else 0,
        quiet_at=now,
    )


def _changed(rate: GovernedRate, after: int, by: Signal | str, now: Instant) -> GovernedRate:
    if after == rate.bytes_per_s:
        return rate
    signal = by if isinstance(by, Signal) else None
    why = by if isinstance(by, str) else by.evidence
    points = rate.points if after > rate.bytes_per_s else ()
    if after > rate.bytes_per_s and rate.typical:
        points = (*points, (rate.bytes_per_s, rate.typical))[-POINTS:]
    noted = replace(rate, points=points, typical=0.0)
    return replace(noted, bytes_per_s=after, changed_at=now, why=why, by=signal)


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
