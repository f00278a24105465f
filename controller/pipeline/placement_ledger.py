"""
The loads of all brokers after the plan so far, and the brokers that may take a replica.

Arrays by broker and by (topic, broker): nothing here grows with the number of partitions. Brokers
and topics are indices, in the order of ids and names. Sizes are whole bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from controller.planning.quotas import Band, RackRoom, band, flows, share

UNLIMITED: Final = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of a cluster, by index."""

    ids: tuple[int, ...]
    rack: Any
    """An index for each broker; a broker without a rack is a rack of its own."""
    keeps: Any
    """Whether it may hold replicas; a broker that may not is emptied."""
    room: Any
    """The capacity in bytes."""

    @property
    def racks(self) -> int:
        """The number of racks with a broker that may hold replicas."""
        return len(set(self.rack[self.keeps].tolist()))

    def index(self) -> dict[int, int]:
        """Return each id's index."""
        return {broker: n for n, broker in enumerate(self.ids)}


@dataclass(frozen=True, slots=True)
class Factors:
    """The number and the bytes of the partitions with one replication factor."""

    replication_factor: int
    partitions: int
    size: int


class Candidate(NamedTuple):
    """A partition of which one replica may move."""

    topic: int
    partition: int
    size: int
    replicas: tuple[int, ...]
    """Indices of brokers."""
    position: int
    """The replica that may move."""


class PlacementChange(NamedTuple):
    """A partition with other replicas, or another order of them."""

    topic: int
    partition: int
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def placement_change(candidate: Candidate, broker: int) -> PlacementChange:
    """Return the change that puts the candidate on another broker."""
    after = list(candidate.replicas)
    after[candidate.position] = broker
    return PlacementChange(
        candidate.topic, candidate.partition, candidate.size, candidate.replicas, tuple(after)
    )


class PlacementLedger:
    """Loads, bands and limits; ``shift`` applies a change."""

    def __init__(
        self, brokers: Brokers, by_topic: Any, size: Any, factors: Sequence[Factors]
    ) -> None:
        """
        Start from the current loads.

        Args:
            brokers: The brokers.
            by_topic: Replicas by topic and broker.
            size: Bytes by broker.
            factors: Planned partitions of each replication factor.

        """
        self.brokers: Final = brokers
        self.by_topic: Final = by_topic
        self.size: Final = size
        self.count: Final = by_topic.sum(axis=0)
        self.factors: Final = tuple(factors)
        # The largest number of a topic's replicas on one broker never rises.
        self.cap: Final = by_topic.max(axis=1, initial=0)
        self.racks: Final = brokers.racks

    def with_factors(self, factors: Mapping[int, tuple[int, int]]) -> PlacementLedger:
        """Return the same loads with other planned factors: partitions and bytes by factor."""
        found = [Factors(factor, n, size) for factor, (n, size) in sorted(factors.items()) if n]
        return PlacementLedger(self.brokers, self.by_topic, self.size, found)

    # --- shares --------------------------------------------------------------------------------

    def bands(self, tolerance: float) -> tuple[Band, Band]:
        """Return the bands of bytes and of replicas."""
        sizes = share(
            float(sum(f.replication_factor * f.size for f in self.factors)),
            self.rooms(of_size=True),
            self.brokers.room.tolist(),
        )
        counts = share(
            float(sum(f.replication_factor * f.partitions for f in self.factors)),
            self.rooms(of_size=False),
            [UNLIMITED] * len(self.brokers.ids),
        )
        limits = [UNLIMITED] * len(counts)
        return (
            band(sizes, self.brokers.room.tolist(), tolerance),
            band(counts, limits, tolerance),
        )

    def rooms(self, *, of_size: bool) -> list[RackRoom]:
        """Return the limits of each rack: of a partition at most its fair number of replicas."""
        least = most = 0.0
        for found in self.factors:
            amount = found.size if of_size else found.partitions
            least += amount * (found.replication_factor // self.racks)
            most += amount * -(-found.replication_factor // self.racks)
        members: dict[int, list[int]] = {}
        for broker in np.flatnonzero(self.brokers.keeps).tolist():
            members.setdefault(int(self.brokers.rack[broker]), []).append(broker)
        return [
            RackRoom(brokers=tuple(found), least=least, most=most)
            for _, found in sorted(members.items())
        ]

    def flows(self, within: Band, *, of_size: bool) -> tuple[Any, Any]:
        """Return the minimum amounts that each broker gives and takes of a load."""
        load = (self.size if of_size else self.count).tolist()
        gives, takes = np.zeros(len(load)), np.zeros(len(load))
        for group in self.groups():
            give, take = flows(load, within, group)
            gives += give
            takes += take
        return gives, takes

    def groups(self) -> list[tuple[int, ...]]:
        """Return the groups of brokers that can exchange replicas: all, or those of each rack."""
        rooms = self.rooms(of_size=False)
        if len(rooms) > 1 and all(room.is_fixed for room in rooms):
            return [room.brokers for room in rooms]
        return [tuple(broker for room in rooms for broker in room.brokers)]

    def settled(self) -> list[tuple[int, ...]]:
        """Return the brokers of each rack if every rack ends with one replica per partition."""
        if any(found.replication_factor != self.racks for found in self.factors):
            return []
        return [room.brokers for room in self.rooms(of_size=False)]

    # --- where a replica may go ----------------------------------------------------------------

    def may_take(self, topic: int, size: int, replicas: Sequence[int], position: int) -> Any:
        """
        Return a mask of the brokers that may take one replica of a partition.

        Args:
            topic: The partition's topic.
            size: Its bytes.
            replicas: All its replicas.
            position: The replica that leaves its broker; ``len(replicas)`` to add one.

        """
        brokers = self.brokers
        mask = brokers.keeps & (self.by_topic[topic] < self.cap[topic])
        mask &= self.size + size <= brokers.room
        mask[list(replicas)] = False
        others = [int(brokers.rack[b]) for n, b in enumerate(replicas) if n != position]
        fair = -(-(len(others) + 1) // self.racks)
        own = int(brokers.rack[replicas[position]]) if position < len(replicas) else -1
        # The only replica in its rack cannot move to a rack in use: a rack would be lost.
        alone = own >= 0 and own not in others
        for rack in set(others):
            if rack != own and (alone or others.count(rack) >= fair):
                mask &= brokers.rack != rack
        return mask

    def shift(self, topic: int, size: int, before: Sequence[int], after: Sequence[int]) -> None:
        """Apply a change of a partition's replicas."""
        for broker in set(before) - set(after):
            self.size[broker] -= size
            self.count[broker] -= 1
            self.by_topic[topic, broker] -= 1
        for broker in set(after) - set(before):
            self.size[broker] += size
            self.count[broker] += 1
            self.by_topic[topic, broker] += 1
