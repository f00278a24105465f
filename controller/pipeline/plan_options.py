"""What a plan is asked to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The operations and limits of one plan; the default is to balance everything."""

    tolerance: float = 0.05
    """How far from even bytes, replicas and leaders may be, as a share."""
    seed: int = 0
    drain: frozenset[int] = frozenset()
    """Brokers that are to hold nothing."""
    replace: Mapping[int, int] = field(default_factory=dict)
    """Brokers that others take the place of."""
    replication_factor: int | None = None
    only_leaders: bool = False
    only_needed: bool = False
    """Do what was asked for and mend racks, but balance nothing else."""
    include: str | None = None
    """Only topics whose whole name matches this regular expression."""
    exclude: str | None = None
    pinned: frozenset[str] = frozenset()
    """Topics that stay where they are."""
    bytes_max: int | None = None
    moves_max: int | None = None
    fill: float = 1.0
    """Which part of a broker's capacity may be used."""

    def check(self) -> None:
        """
        Refuse what makes no sense.

        Raises:
            PlanInvalidError: it does not.

        """
        if not 0 < self.tolerance < 1:
            raise InvalidInputError(
                f"the tolerance has to be between 0 and 1, not {self.tolerance}"
            )
        if not 0 < self.fill <= 1:
            raise InvalidInputError(f"the fill has to be between 0 and 1, not {self.fill}")
        if self.replication_factor is not None and self.replication_factor < 1:
            raise InvalidInputError("the replication factor has to be positive")
        if self.only_leaders and (self.drain or self.replace or self.replication_factor):
            raise InvalidInputError("leaders alone: nothing can be drained, replaced or replicated")
        for broker, other in self.replace.items():
            if other in self.replace or other in self.drain:
                raise InvalidInputError(
                    f"broker {other} is to take the place of {broker} and to go"
                )

    def chooses(self, topics: tuple[str, ...]) -> list[bool]:
        """
        Return which topics may be changed.

        Raises:
            PlanInvalidError: an expression is wrong, or a pinned topic does not exist.

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
