"""
How much each broker ought to hold, how much it may hold, and how much has to be copied at least.

For plans of whole clusters: a load is one number per broker, be it bytes, replicas or leaders. A
rack holds no more replicas of a partition than rack diversity allows, and a broker no more than its
capacity; what does not fit there is shared by the others. Pure and exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

ROUNDS: Final = 100
"""Halvings until a level is exact to the last bit of a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRoom:
    """The brokers of a rack, as indices, and how much load the rack can hold at least and most."""

    brokers: tuple[int, ...]
    least: float
    most: float

    @property
    def is_fixed(self) -> bool:
        """Whether nothing can go to another rack or come from there."""
        return self.most - self.least < 0.5  # noqa: PLR2004 - both are sums of integers


@dataclass(frozen=True, slots=True)
class Band:
    """What each broker ought to hold, and between what and what it is content."""

    target: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def excess(self, load: Sequence[float]) -> float:
        """Return how much lies above the band, summed over brokers."""
        return sum(max(0.0, held - high) for held, high in zip(load, self.high, strict=True))

    def lack(self, load: Sequence[float]) -> float:
        """Return how much is missing below the band, summed over brokers."""
        return sum(max(0.0, low - held) for held, low in zip(load, self.low, strict=True))

    def bound(self, load: Sequence[float]) -> float:
        """
        Return how much any plan copies that brings every broker into the band.

        What a broker has too much of leaves it, what one lacks comes to it, and each copy does both
        at best.
        """
        return max(self.excess(load), self.lack(load))

    def bound_within(self, load: Sequence[float], groups: Iterable[Sequence[int]]) -> float:
        """
        Return how much any plan copies where it is settled what each group ends with altogether.

        That is so in racks which hold one replica of each partition. What comes to a group is what
        leaves its brokers and what the group as a whole gains: at least its brokers' excess and its
        gain, at least what they lack, and more than each on its own where one group has too much on
        some brokers and another too little.

        Args:
            load: What every broker holds.
            groups: Brokers that end with the sum of their targets.

        """
        comes = 0.0
        for group in groups:
            # A sum of whole numbers.
            gain = round(sum(self.target[b] - load[b] for b in group))
            excess = sum(max(0.0, load[b] - self.high[b]) for b in group)
            lack = sum(max(0.0, self.low[b] - load[b]) for b in group)
            comes += max(excess + gain, lack)
        return max(comes, self.bound(load))

    def outside(self, load: Sequence[float]) -> list[int]:
        """Return the brokers that are not within the band."""
        triples = zip(load, self.low, self.high, strict=True)
        return [n for n, (held, low, high) in enumerate(triples) if not low <= held <= high]


def share(
    total: float,
    racks: Sequence[RackRoom],
    limits: Sequence[float],
) -> list[float]:
    """
    Share a load evenly among the brokers of all racks, as far as racks and limits allow.

    Args:
        total: What there is to hold.
        racks: Of the brokers that may hold anything; all others get nothing.
        limits: How much each broker can hold; more is given only when nothing else is left.

    """
    shares = [0.0] * len(limits)
    per_rack = _level(
        total,
        [(r.least, min(r.most, sum(limits[b] for b in r.brokers)), len(r.brokers)) for r in racks],
    )
    for rack, room in zip(racks, per_rack, strict=True):
        within = _level(room, [(0.0, limits[b], 1) for b in rack.brokers])
        for broker, held in zip(rack.brokers, within, strict=True):
            shares[broker] = held
    return shares


def _level(total: float, vessels: Sequence[tuple[float, float, int]]) -> list[float]:
    """Fill vessels of (least, most, width) to a common level; the rest overflows evenly."""
    if not vessels:
        return []
    low, high = 0.0, max(total, 1.0)
    for _ in range(ROUNDS):
        level = (low + high) / 2
        held = sum(_fill(level, *vessel) for vessel in vessels)
        low, high = (level, high) if held < total else (low, level)
    filled = [_fill(high, *vessel) for vessel in vessels]
    width = sum(width for _, _, width in vessels)
    over = total - sum(filled)
    return [held + over * vessel[2] / width for held, vessel in zip(filled, vessels, strict=True)]


def _fill(level: float, least: float, most: float, width: int) -> float:
    return max(least, min(most, level * width))


def band(target: Sequence[float], limits: Sequence[float], tolerance: float) -> Band:
    """
    Return the band around a share of a load.

    Args:
        target: What each broker ought to hold.
        limits: How much each broker can hold.
        tolerance: How far off is content, as a share of the target: 0.05 is five percent.

    """
    return Band(
        tuple(target),
        tuple(t * (1 - tolerance) for t in target),
        tuple(min(t * (1 + tolerance), m) for t, m in zip(target, limits, strict=True)),
    )


def flows(
    load: Sequence[float], within: Band, group: Sequence[int]
) -> tuple[list[float], list[float]]:
    """
    Return how much each broker of a group has to give, and how much to take, at the very least.

    Both sums are equal: where one side has less to do, its brokers go on towards their target.

    Args:
        load: What every broker holds.
        within: The band to come into.
        group: The brokers among which replicas can be exchanged.

    """
    give = {b: max(0.0, load[b] - within.high[b]) for b in group}
    take = {b: max(0.0, within.low[b] - load[b]) for b in group}
    wanted = max(sum(give.values()), sum(take.values()))
    gives = [0.0] * len(load)
    takes = [0.0] * len(load)
    for b, held in _towards(wanted, give, {b: load[b] - within.target[b] for b in group}).items():
        gives[b] = held
    for b, held in _towards(wanted, take, {b: within.target[b] - load[b] for b in group}).items():
        takes[b] = held
    return gives, takes


def _towards(wanted: float, least: dict[int, float], most: dict[int, float]) -> dict[int, float]:
    """Raise what is least to be exchanged until it sums up, from those furthest from the target."""
    if sum(least.values()) >= wanted:
        return least
    low, high = 0.0, max(0.0, *most.values())
    # The level is how far from its target a broker may stay.
    for _ in range(ROUNDS):
        level = (low + high) / 2
        got = sum(max(least[b], most[b] - level) for b in least)
        low, high = (level, high) if got > wanted else (low, level)
    return {b: max(least[b], most[b] - high, 0.0) for b in least}
