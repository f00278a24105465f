"""The options of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controller.errors import InvalidInputError
from controller.planning.broker_capacities import Capacities
from controller.planning.load_goals import LoadGoals


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The operations and limits of one plan; the default is to balance everything."""

    tolerance: float = 0.05
    """Accepted deviation of bytes, replicas and leaders from even, as a fraction."""
    seed: int = 0
    drain: frozenset[int] = frozenset()
    """Brokers to empty."""
    replace: Mapping[int, int] = field(default_factory=dict)
    """Broker to replace -> its replacement."""
    replication_factor: int | None = None
    only_leaders: bool = False
    only_needed: bool = False
    """Apply the other options and repair rack spread, but do not balance."""
    include: str | None = None
    """Change only topics whose whole name matches this regular expression."""
    exclude: str | None = None
    pinned: frozenset[str] = frozenset()
    """Topics that do not change."""
    bytes_max: int | None = None
    moves_max: int | None = None
    fill: float = 1.0
    """Usable fraction of a broker's capacity, and of the volumes of its log directories."""
    place_dirs: bool = False
    """Name the log directory of each new replica."""
    balance_dirs: bool = False
    """Even out the log directories of brokers; copy nothing between brokers."""
    goals: LoadGoals = field(default_factory=LoadGoals)
    """Bounds and weights of the loads."""
    capacities: Capacities | None = None
    """The capacities of brokers, which loads are shared by; None: all brokers share alike."""
    dir_brokers: frozenset[int] = frozenset()
    """The brokers of which the log directories are evened out; empty: all."""

    def cap_note(self, size: int, moves: int) -> str | None:
        """Return the note of a plan that so many bytes and moves end early; None: it continues."""
        for what, cap, used in (("bytes", self.bytes_max, size), ("moves", self.moves_max, moves)):
            if cap is not None and used >= cap:
                return f"the cap of {cap} {what} ended the plan early"
        return None

    def check(self) -> None:
        """
        Refuse contradictory options and values out of range.

        Raises:
            InvalidInputError: an option is invalid.

        """
        for problem in self._problems():
            raise InvalidInputError(problem)

    def _problems(self) -> Iterator[str]:
        if not 0 < self.tolerance < 1:
            yield f"the tolerance must be between 0 and 1, not {self.tolerance}"
        if not 0 < self.fill <= 1:
            yield f"the fill must be between 0 and 1, not {self.fill}"
        if self.replication_factor is not None and self.replication_factor < 1:
            yield "the replication factor must be positive"
        places = self.drain or self.replace or self.replication_factor
        if self.only_leaders and places:
            yield (
                "a plan of leaders alone cannot drain or replace brokers or change the "
                "replication factor"
            )
        others = places or self.only_leaders or self.only_needed or self.place_dirs
        if self.balance_dirs and others:
            yield (
                "a plan that evens out log directories changes nothing else: make another plan "
                "for the other options"
            )
        if self.dir_brokers and not self.balance_dirs:
            yield "--broker needs --balance-dirs"
        for broker, other in self.replace.items():
            if other in self.replace or other in self.drain:
                yield f"broker {other} cannot replace {broker}: it is to be emptied"

    def chooses(self, topics: tuple[str, ...]) -> list[bool]:
        """
        Return for each topic whether it may change.

        Raises:
            InvalidInputError: a regular expression is invalid, or a pinned topic does not exist.

        """
        include, exclude = _expression(self.include), _expression(self.exclude)
        strangers = sorted(self.pinned - set(topics))
        if strangers:
            raise InvalidInputError(f"the pinned topic {strangers[0]} is not in the snapshot")
        return [
            (include is None or include.fullmatch(topic) is not None)
            and (exclude is None or exclude.fullmatch(topic) is None)
            and topic not in self.pinned
            for topic in topics
        ]


def _expression(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInputError(f"{text} is not a regular expression: {error}") from error
