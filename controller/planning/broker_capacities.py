"""
The capacities of brokers, by rules.

A rule is about the brokers that match all that it names: the id, the rack, the beginning of the
host name. A later rule replaces what an earlier one says, so that exceptions come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.errors import InvalidInputError
from controller.planning.load_goals import (
    BYTES_IN,
    BYTES_OUT,
    DISK,
    LEADER_BYTES_IN,
    LEADERS,
    REPLICAS,
)

SELECTORS: Final = ("broker", "rack", "host")
COLUMNS: Final = {
    "disk_bytes": DISK,
    "bytes_in_per_s": BYTES_IN,
    "bytes_out_per_s": BYTES_OUT,
    "replicas": REPLICAS,
    "leaders": LEADERS,
}
"""The goal of each column."""
FOLLOWS: Final = (
    (LEADER_BYTES_IN, (BYTES_IN,)),
    (REPLICAS, (DISK,)),
    (LEADERS, (BYTES_OUT, DISK)),
)
"""A load without a capacity of its own is shared by that of the first of these that has one."""
SHOWN_MAX: Final = 5


class BrokerTraits(NamedTuple):
    """What rows select a broker by."""

    broker: int
    rack: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """Capacities of the brokers that selectors match."""

    selectors: Mapping[str, str]
    capacities: Mapping[str, float]

    def applies(self, traits: BrokerTraits) -> bool:
        """Return whether it is about a broker."""
        own = self.selectors
        return (
            own.get("broker", str(traits.broker)) == str(traits.broker)
            and own.get("rack", traits.rack) == traits.rack
            and (traits.host or "").startswith(own.get("host", ""))
        )


@dataclass(frozen=True, slots=True)
class Capacities:
    """The rules of a source, which messages name."""

    source: str
    rules: tuple[CapacityRule, ...]

    def of(self, brokers: Sequence[BrokerTraits]) -> dict[str, list[float]]:
        """
        Return the capacity of each broker, by goal, for all goals that the file is about.

        Raises:
            InvalidInputError: a broker has none for a column that others have.

        """
        found: dict[str, list[float]] = {}
        for column, name in COLUMNS.items():
            each = [self._capacity(name, traits) for traits in brokers]
            if any(capacity is not None for capacity in each):
                missing = [str(b.broker) for b, c in zip(brokers, each, strict=True) if c is None]
                if missing:
                    shown = ", ".join(missing[:SHOWN_MAX])
                    more = f" and {len(missing) - SHOWN_MAX} more" * (len(missing) > SHOWN_MAX)
                    raise InvalidInputError(
                        f"{self.source}: column {column} is missing for broker {shown}{more}: "
                        f"shares of capacity need one for every broker"
                    )
                found[name] = [capacity for capacity in each if capacity is not None]
        return found

    def _capacity(self, name: str, traits: BrokerTraits) -> float | None:
        found = None
        for rule in self.rules:
            if name in rule.capacities and rule.applies(traits):
                found = rule.capacities[name]
        return found


def shared_by(capacities: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return what each load is shared by: its own capacity, or that of the load that it follows."""
    found = dict(capacities)
    for name, others in FOLLOWS:
        leading = next((found[other] for other in others if other in found), None)
        if name not in found and leading is not None:
            found[name] = leading
    return found
