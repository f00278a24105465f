"""
The goals of a plan for whole clusters: the loads that it balances, with their bounds and weights.

Each goal is about one load of every broker. The soft bound is the accepted deviation from the
broker's share; the hard bound is a fraction of the broker's capacity, which no move may exceed. The
weight decides between goals that one move serves and another harms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller.errors import InvalidInputError

DISK: Final = "disk"
BYTES_IN: Final = "bytes_in"
BYTES_OUT: Final = "bytes_out"
LEADER_BYTES_IN: Final = "leader_bytes_in"
REPLICAS: Final = "replicas"
LEADERS: Final = "leaders"

GOALS: Final = (DISK, BYTES_IN, BYTES_OUT, LEADER_BYTES_IN, REPLICAS, LEADERS)
RATED: Final = (BYTES_IN, BYTES_OUT, LEADER_BYTES_IN)
"""The goals that need rates."""
LED: Final = (LEADERS, BYTES_OUT, LEADER_BYTES_IN)
"""The loads that only leaders have."""
FULLEST: Final = 0.8
"""The hard bound of network rates, as a fraction of the capacity."""
OFF: Final = "off"

_FRACTION: Final = re.compile(r"(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGoal:
    """The bounds and the weight of one load."""

    name: str
    soft: float | None = None
    """Accepted deviation from the share of a broker, as a fraction; None: the tolerance."""
    hard: float | None = None
    """Fraction of the capacity that no move exceeds; None: no hard bound."""
    weight: float = 1.0
    is_on: bool = True


DEFAULTS: Final = (
    LoadGoal(name=DISK),
    LoadGoal(name=BYTES_IN, hard=FULLEST),
    LoadGoal(name=BYTES_OUT, hard=FULLEST),
    LoadGoal(name=LEADER_BYTES_IN),
    LoadGoal(name=REPLICAS, hard=1.0),
    LoadGoal(name=LEADERS, hard=1.0),
)
"""The hard bound of ``disk`` is the option ``--fill``."""


@dataclass(frozen=True, slots=True)
class LoadGoals:
    """All goals, by name."""

    by_name: Mapping[str, LoadGoal] = field(
        default_factory=lambda: {goal.name: goal for goal in DEFAULTS}
    )

    def __getitem__(self, name: str) -> LoadGoal:
        """Return the goal of a load."""
        return self.by_name[name]

    def without(self, names: Iterable[str]) -> LoadGoals:
        """Return the goals with some of them off."""
        off = {name: replace(self.by_name[name], is_on=False) for name in names}
        return LoadGoals({**self.by_name, **off})

    def with_settings(self, texts: Iterable[str]) -> LoadGoals:
        """
        Return the goals with other bounds, such as ``bytes_out=10%,80%,2``.

        Raises:
            InvalidInputError: a text names no goal, or a bound is out of range.

        """
        found = dict(self.by_name)
        for text in texts:
            goal = _parse(text, found)
            found[goal.name] = goal
        return LoadGoals(found)


def _parse(text: str, known: Mapping[str, LoadGoal]) -> LoadGoal:
    name, equals, values = text.partition("=")
    parts = [part.strip() for part in values.split(",")]
    if name not in known or not equals or len(parts) > 3:  # noqa: PLR2004 - soft, hard, weight
        raise InvalidInputError(
            f"--goal takes NAME=SOFT[,HARD[,WEIGHT]] or NAME=off, such as bytes_out=10%,80%,2, "
            f"with one of {', '.join(known)}: not {text}"
        )
    goal = replace(known[name], is_on=True)
    if parts == [OFF]:
        if name in {DISK, REPLICAS}:
            raise InvalidInputError(f"--goal: {name} cannot be off; a wide bound is {name}=90%")
        return replace(goal, is_on=False)
    soft, hard, weight = (*parts, "", "")[:3]
    if hard and name == DISK:
        raise InvalidInputError(f"--goal: the hard bound of disk is --fill: {text}")
    return replace(
        goal,
        soft=_fraction(soft, text) if soft else goal.soft,
        hard=_fraction(hard, text) if hard else goal.hard,
        weight=_weight(weight, text) if weight else goal.weight,
    )


def _weight(part: str, text: str) -> float:
    found = _FRACTION.fullmatch(part)
    if found is None or found[2] or float(found[1]) <= 0:
        raise InvalidInputError(f"--goal: the weight must be a positive number: {text}")
    return float(found[1])


def _fraction(part: str, text: str) -> float:
    found = _FRACTION.fullmatch(part)
    value = 0.0 if found is None else float(found[1]) / (100 if found[2] else 1)
    if not 0 < value <= 1:
        raise InvalidInputError(
            f"--goal: {part} is not a fraction above 0 and up to 1, such as 0.05 or 5%: {text}"
        )
    return value


# --- what any plan must copy ---------------------------------------------------------------------

Offer = tuple[float, float]
"""A load, and the fewest bytes whose copy moves all of it."""


def least_bytes(amount: float, offers: Iterable[Offer]) -> float:
    """
    Return the fewest bytes whose copies move an amount of a load.

    The cheapest offers come first, and the last one counts in part: no choice of whole replicas
    copies less. More than all offers together cannot be moved, so it costs all of them.
    """
    left, cost = amount, 0.0
    for load, size in sorted(offers, key=lambda offer: offer[1] / offer[0]):
        if left <= 0:
            break
        part = min(1.0, left / load)
        cost += part * size
        left -= part * load
    return cost


def copy_bound(
    excess: Sequence[float],
    lack: Sequence[float],
    held: Sequence[Iterable[Offer]],
    offered: Sequence[Offer],
) -> tuple[list[float], list[float]]:
    """
    Return the fewest bytes that leave each broker, and that arrive there, for one load.

    Args:
        excess: The load of each broker above its band.
        lack: What each broker misses to its band.
        held: The replicas of each broker, as offers.
        offered: Those of the whole cluster, each partition once: a broker holds it at most once.

    """
    gives = [
        least_bytes(amount, offers) if amount > 0 else 0.0
        for amount, offers in zip(excess, held, strict=True)
    ]
    takes = [least_bytes(amount, offered) if amount > 0 else 0.0 for amount in lack]
    return gives, takes
