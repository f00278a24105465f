"""
The loads of all brokers after the plan so far, and the brokers that may take a replica.

Arrays by broker and by (topic, broker): nothing here grows with the number of partitions. Brokers
and topics are indices, in the order of ids and names. Sizes are whole bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from controller.planning.quotas import RackRoom, band, flows, share

UNLIMITED: Final = float(1 << 62)


@dataclass(frozen=True, slots=True)
class BrokerIndex:
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


class Candidate(NamedTuple):
    """A partition of which one replica may move."""

    topic: int
    partition: int
    size: int
    replicas: tuple[int, ...]
    """Indices of brokers."""
    position: int
    """The replica that may move; ``len(replicas)`` to add one."""

    def moved_to(self, broker: int) -> tuple[int, ...]:
        """Return the replicas with this one on another broker."""
        return (*self.replicas[: self.position], broker, *self.replicas[self.position + 1 :])


class PlacementChange(NamedTuple):
    """A partition with other replicas, or another order of them."""

    topic: int
    partition: int
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class PlacementLedger:
    """Loads, bands and limits; ``shift`` applies a change."""

    def __init__(
        self,
        brokers: BrokerIndex,
        by_topic: Any,
        size: Any,
        factors: Mapping[int, tuple[int, int]],
        tolerance: float,
    ) -> None:
        """
        Start from the current loads.

        Args:
            brokers: The brokers.
            by_topic: Replicas by topic and broker.
            size: Bytes by broker.
            factors: Number and bytes of the planned partitions by replication factor.
            tolerance: That of the bands of bytes and replicas.

        """
        self.brokers: Final = brokers
        self.by_topic: Final = by_topic
        self.size: Final = size
        self.count: Final = by_topic.sum(axis=0)
        # The largest number of a topic's replicas on one broker never rises.
        self.cap: Final = by_topic.max(axis=1, initial=0)
        self.racks: Final = brokers.racks
        self._factors: Final = factors
        room, unlimited = brokers.room.tolist(), [UNLIMITED] * len(brokers.ids)
        total = sum(factor * held for factor, (_, held) in factors.items())
        self.sizes: Final = band(
            share(float(total), self._rooms(of_size=True), room), room, tolerance
        )
        total = sum(factor * number for factor, (number, _) in factors.items())
        self.counts: Final = band(
            share(float(total), self._rooms(of_size=False), unlimited), unlimited, tolerance
        )

    # --- shares --------------------------------------------------------------------------------

    @property
    def is_even(self) -> bool:
        """Whether all brokers are within the bands of bytes and replicas."""
        sizes, counts = self.size.tolist(), self.count.tolist()
        return not self.sizes.outside(sizes) and not self.counts.outside(counts)

    def _rooms(self, *, of_size: bool) -> list[RackRoom]:
        """Return the limits of each rack: of a partition at most its fair number of replicas."""
        least = most = 0.0
        for factor, (number, held) in self._factors.items():
            amount = held if of_size else number
            least += amount * (factor // self.racks)
            most += amount * -(-factor // self.racks)
        members: dict[int, list[int]] = {}
        for broker in np.flatnonzero(self.brokers.keeps).tolist():
            members.setdefault(int(self.brokers.rack[broker]), []).append(broker)
        return [
            RackRoom(brokers=tuple(found), least=least, most=most)
            for _, found in sorted(members.items())
        ]

    def flows(self, *, of_size: bool) -> tuple[Any, Any]:
        """Return the minimum amounts that each broker gives and takes of a load."""
        load, within = (self.size, self.sizes) if of_size else (self.count, self.counts)
        gives, takes = np.zeros(len(load)), np.zeros(len(load))
        for group in self.groups():
            give, take = flows(load.tolist(), within, group)
            gives += give
            takes += take
        return gives, takes

    def groups(self) -> list[tuple[int, ...]]:
        """Return the groups of brokers that can exchange replicas: all, or those of each rack."""
        rooms = self._rooms(of_size=False)
        if len(rooms) > 1 and all(room.is_fixed for room in rooms):
            return [room.brokers for room in rooms]
        return [tuple(broker for room in rooms for broker in room.brokers)]

    def settled(self) -> list[tuple[int, ...]]:
        """Return the brokers of each rack if every rack ends with one replica per partition."""
        if any(factor != self.racks for factor in self._factors):
            return []
        return [room.brokers for room in self._rooms(of_size=False)]

    # --- where a replica may go ----------------------------------------------------------------

    def may_take(self, candidate: Candidate) -> Any:
        """Return a mask of the brokers that may take the replica of a candidate."""
        brokers, (topic, _, size, replicas, position) = self.brokers, candidate
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

    def move(self, candidate: Candidate, broker: int) -> PlacementChange:
        """Put the replica of a candidate on another broker."""
        return self.shift(candidate, candidate.moved_to(broker))

    def shift(self, partition: Candidate, after: tuple[int, ...]) -> PlacementChange:
        """Give a partition other replicas."""
        topic, number, size, before, _ = partition
        for broker in set(before) - set(after):
            self.size[broker] -= size
            self.count[broker] -= 1
            self.by_topic[topic, broker] -= 1
        for broker in set(after) - set(before):
            self.size[broker] += size
            self.count[broker] += 1
            self.by_topic[topic, broker] += 1
        return PlacementChange(topic, number, size, before, after)
