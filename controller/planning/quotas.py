"""
The share of each broker in a load, the band around it, and the minimum amount to copy.

For plans of whole clusters. A load is one number for each broker: bytes, replicas or leaders. Rack
diversity limits the replicas of a partition in a rack, and capacity (``limits``) limits a broker;
the others share the excess. Pure, and exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

ROUNDS: Final = 100
"""Bisection steps until a level is exact to the last bit of a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRoom:
    """The brokers of a rack, as indices, and the least and the most load that the rack holds."""

    brokers: tuple[int, ...]
    least: float
    most: float

    @property
    def is_fixed(self) -> bool:
        """Whether no load can move between this rack and another."""
        return self.most - self.least < 0.5  # noqa: PLR2004 - both are sums of integers


@dataclass(frozen=True, slots=True)
class Band:
    """The target of each broker, and the accepted range around it."""

    target: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def excess(self, load: Sequence[float]) -> float:
        """Return the load above the band, summed over brokers."""
        return sum(max(0.0, held - high) for held, high in zip(load, self.high, strict=True))

    def lack(self, load: Sequence[float]) -> float:
        """Return the load missing below the band, summed over brokers."""
        return sum(max(0.0, low - held) for held, low in zip(load, self.low, strict=True))

    def bound(self, load: Sequence[float], fixed: Iterable[Sequence[int]] = ()) -> float:
        """
        Return the minimum amount to copy that brings every broker into the band.

        The excess of a broker leaves it, and the lack of a broker arrives there. A copy does both
        at best. Each of the ``fixed`` groups of brokers ends with the sum of its targets, as racks
        do that have exactly one replica of each partition. The amount that arrives in such a group
        is at least the excess of its brokers plus the gain of the group, and at least the lack of
        its brokers. The sum over groups is larger if some have an excess and others a lack.
        """
        comes = 0.0
        for group in fixed:
            # The loads are whole numbers, and so is the gain.
            gain = round(sum(self.target[b] - load[b] for b in group))
            excess = sum(max(0.0, load[b] - self.high[b]) for b in group)
            lack = sum(max(0.0, self.low[b] - load[b]) for b in group)
            comes += max(excess + gain, lack)
        return max(comes, self.excess(load), self.lack(load))

    def outside(self, load: Sequence[float]) -> list[int]:
        """Return the brokers outside the band."""
        triples = zip(load, self.low, self.high, strict=True)
        return [n for n, (held, low, high) in enumerate(triples) if not low <= held <= high]


def share(
    total: float,
    racks: Sequence[RackRoom],
    limits: Sequence[float],
    capacities: Sequence[float] | None = None,
) -> list[float]:
    """
    Share a load among the brokers of all racks by capacity, as far as racks and limits allow.

    Brokers outside the racks get nothing. Limits are exceeded only if all room is used. Without
    capacities, all brokers share alike.
    """
    shares, widths = [0.0] * len(limits), [1.0] * len(limits)
    if capacities is not None:
        smallest = min((capacities[b] for r in racks for b in r.brokers), default=1.0)
        widths = [capacity / smallest for capacity in capacities]
    per_rack = _level(
        total,
        [
            (
                r.least,
                min(r.most, sum(limits[b] for b in r.brokers)),
                sum(widths[b] for b in r.brokers),
            )
            for r in racks
        ],
    )
    for rack, room in zip(racks, per_rack, strict=True):
        within = _level(room, [(0.0, limits[b], widths[b]) for b in rack.brokers])
        for broker, held in zip(rack.brokers, within, strict=True):
            shares[broker] = held
    return shares


def _level(total: float, vessels: Sequence[tuple[float, float, float]]) -> list[float]:
    """Fill vessels of (least, most, width) to a common level; share the overflow evenly."""
    if not vessels:
        return []

    def held(level: float) -> list[float]:
        return [max(least, min(most, level * width)) for least, most, width in vessels]

    filled = held(crossing(max(total, 1.0), lambda level: sum(held(level)) < total))
    width = sum(width for _, _, width in vessels)
    over = total - sum(filled)
    return [h + over * vessel[2] / width for h, vessel in zip(filled, vessels, strict=True)]


def crossing(high: float, is_below: Callable[[float], bool]) -> float:
    """Return the number from which on a condition does not hold."""
    low = 0.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high


def band(target: Sequence[float], limits: Sequence[float], tolerance: float) -> Band:
    """Return the band around shares of a load; a tolerance of 0.05 is five percent of each."""
    return Band(
        tuple(target),
        tuple(t * (1 - tolerance) for t in target),
        tuple(min(t * (1 + tolerance), m) for t, m in zip(target, limits, strict=True)),
    )


def flows(
    load: Sequence[float], within: Band, group: Sequence[int]
) -> tuple[list[float], list[float]]:
    """
    Return the minimum amounts that each broker of a group gives and takes to be within the band.

    Both sums are equal: the side with the smaller sum moves further towards its targets. A group
    are brokers that can exchange replicas.
    """
    give = {b: max(0.0, load[b] - within.high[b]) for b in group}
    take = {b: max(0.0, within.low[b] - load[b]) for b in group}
    over = {b: load[b] - within.target[b] for b in group}
    wanted = max(sum(give.values()), sum(take.values()))
    gives = _towards(wanted, give, over)
    takes = _towards(wanted, take, {b: -found for b, found in over.items()})
    brokers = range(len(load))
    return [gives.get(b, 0.0) for b in brokers], [takes.get(b, 0.0) for b in brokers]


def _towards(wanted: float, least: dict[int, float], most: dict[int, float]) -> dict[int, float]:
    """Raise the minimum amounts to a given sum, starting furthest from the target."""
    if sum(least.values()) >= wanted:
        return least

    def got(distance: float) -> float:
        return sum(max(least[b], most[b] - distance) for b in least)

    distance = crossing(max(0.0, *most.values()), lambda far: got(far) > wanted)
    return {b: max(least[b], most[b] - distance, 0.0) for b in least}
