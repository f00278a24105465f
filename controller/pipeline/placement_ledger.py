"""
The loads of all brokers after the plan so far, and the brokers that may take a replica.

Arrays by broker and by (topic, broker): nothing here grows with the number of partitions. Brokers
and topics are indices, in the order of ids and names. Sizes are whole bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from controller.planning.load_goals import (
    BYTES_IN,
    BYTES_OUT,
    DISK,
    LEADER_BYTES_IN,
    LEADERS,
    REPLICAS,
    LoadGoals,
)
from controller.planning.quotas import Band, RackRoom, band, flows, share

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
    capacities: Mapping[str, Any] = field(default_factory=dict)
    """What a load is shared by, of every broker, by goal; without an entry, all share alike."""
    measured: frozenset[str] = frozenset()
    """The goals of which this is the capacity itself, and not that of a load that it follows."""

    def limit(self, name: str, goals: LoadGoals) -> Any:
        """Return the hard bound of each broker for a load."""
        found, hard = self.capacities.get(name), goals[name].hard
        if name == DISK:
            return self.room
        if found is None or name not in self.measured or hard is None or not goals[name].is_on:
            return np.full(len(self.ids), UNLIMITED)
        return found * hard

    def shares(self, name: str, total: int) -> list[float]:
        """Share a load among the brokers that may hold replicas, wherever they are."""
        capacities = self.capacity(name)
        if capacities is None:
            even = total / max(1, int(np.count_nonzero(self.keeps)))
            return [even if keeps else 0.0 for keeps in self.keeps.tolist()]
        kept = np.where(self.keeps, capacities, 0.0)
        return list((total * kept / kept.sum()).tolist())

    def capacity(self, name: str) -> list[float] | None:
        """Return the capacities that a load is shared by; None: all brokers share alike."""
        found = self.capacities.get(name)
        return None if found is None else list(found.tolist())

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
    bytes_in: int = 0
    """Bytes per second that producers write; 0 also where no rates are known."""
    bytes_out: int = 0
    """Bytes per second that consumers fetch."""

    def moved_to(self, broker: int) -> tuple[int, ...]:
        """Return the replicas with this one on another broker."""
        return (*self.replicas[: self.position], broker, *self.replicas[self.position + 1 :])


IN, OUT, LEADER_IN = range(3)
"""The rows of ``Traffic.load``."""
TRAFFIC: Final = (BYTES_IN, BYTES_OUT, LEADER_BYTES_IN)
"""Their goals."""


class Traffic:
    """
    The network loads of all brokers, and how much of each one a broker may have.

    Every replica receives what producers write. The leader sends it to each follower, and to
    consumers.
    """

    def __init__(self, load: Any, bands: tuple[Band, Band, Band], limits: Any) -> None:
        """Start from current loads: rows ``IN``, ``OUT``, ``LEADER_IN``, a column per broker."""
        self.load: Final = load
        self.bands: Final = bands
        self.limits: Final = limits

    def add(self, replicas: tuple[int, ...], bytes_in: int, bytes_out: int, sign: int) -> None:
        """Add the loads of a partition, or take them away."""
        for broker in replicas:
            self.load[IN, broker] += sign * bytes_in
        self.load[OUT, replicas[0]] += sign * (bytes_out + (len(replicas) - 1) * bytes_in)
        self.load[LEADER_IN, replicas[0]] += sign * bytes_in

    def may_take(self, candidate: Candidate) -> Any:
        """Return a mask of the brokers that stay within all hard bounds with this replica."""
        rate = candidate.bytes_in
        mask = self.load[IN] + rate <= self.limits[IN]
        if candidate.position == 0:
            sent = candidate.bytes_out + (len(candidate.replicas) - 1) * rate
            mask &= self.load[OUT] + sent <= self.limits[OUT]
            mask &= self.load[LEADER_IN] + rate <= self.limits[LEADER_IN]
        return mask


class PlacementChange(NamedTuple):
    """A partition with other replicas, or another order of them."""

    topic: int
    partition: int
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class PlacementLedger:
    """Loads, bands and limits; ``shift`` applies a change."""

    def __init__(  # noqa: PLR0913, PLR0917 - the state before the plan
        self,
        brokers: BrokerIndex,
        by_topic: Any,
        size: Any,
        led: Any,
        factors: Mapping[int, tuple[int, int]],
        tolerance: float,
        goals: LoadGoals | None = None,
    ) -> None:
        """
        Start from the current loads.

        Args:
            brokers: The brokers.
            by_topic: Replicas by topic and broker.
            size: Bytes by broker.
            led: Preferred leaders by broker.
            factors: Number and bytes of the planned partitions by replication factor.
            tolerance: That of all bands without a soft bound of their own.
            goals: Bounds and weights; None: the usual ones.

        """
        self.brokers: Final = brokers
        self.by_topic: Final = by_topic
        self.size: Final = size
        self.led: Final = led
        self.count: Final = by_topic.sum(axis=0)
        # The largest number of a topic's replicas on one broker never rises.
        self.cap: Final = by_topic.max(axis=1, initial=0)
        self.racks: Final = brokers.racks
        self._tolerance: Final = tolerance
        self.goals: Final = goals or LoadGoals()
        self._numbers: Final = {factor: number for factor, (number, _) in factors.items()}
        self.sizes: Final = self._band(DISK, {f: held for f, (_, held) in factors.items()})
        self.counts: Final = self._band(REPLICAS, self._numbers)
        self._most: Final = brokers.limit(REPLICAS, self.goals)
        self._most_led: Final = brokers.limit(LEADERS, self.goals)
        self.traffic: Traffic | None = None
        """None: rates are unknown, or no goal needs them."""

    # --- shares --------------------------------------------------------------------------------

    @property
    def is_even(self) -> bool:
        """Whether all brokers are within the bands of bytes and replicas."""
        sizes, counts = self.size.tolist(), self.count.tolist()
        return not self.sizes.outside(sizes) and not self.counts.outside(counts)

    @property
    def is_even_in(self) -> bool:
        """Whether all brokers are within the band of bytes in, or no rates are known."""
        if self.traffic is None or not self.goals[BYTES_IN].is_on:
            return True
        return not self.traffic.bands[IN].outside(self.traffic.load[IN].tolist())

    def _band(self, name: str, amounts: Mapping[int, int]) -> Band:
        """Return the band of a load that all replicas of a partition have alike."""
        limits = self.brokers.limit(name, self.goals).tolist()
        total = sum(factor * amount for factor, amount in amounts.items())
        shares = share(float(total), self._rooms(amounts), limits, self.brokers.capacity(name))
        return band(shares, limits, self.soft(name))

    def soft(self, name: str) -> float:
        """Return the accepted deviation of a load."""
        soft = self.goals[name].soft
        return self._tolerance if soft is None else soft

    def leader_band(self, name: str, total: int) -> Band:
        """Return the band of a load that leaders have alone; racks do not limit it."""
        shares = self.brokers.shares(name, total)
        limits = np.minimum(self.brokers.limit(name, self.goals), float(total) + 1.0)
        return band(shares, limits.tolist(), self.soft(name))

    def set_traffic(self, load: Any, rates: Mapping[int, int], sent: int) -> None:
        """
        Set the network loads.

        Args:
            load: As in ``Traffic``.
            rates: The produce rate of the planned partitions by replication factor.
            sent: Bytes per second that consumers fetch from all leaders.

        """
        copied = sum((factor - 1) * rate for factor, rate in rates.items())
        bands = (
            self._band(BYTES_IN, rates),
            self.leader_band(BYTES_OUT, sent + copied),
            self.leader_band(LEADER_BYTES_IN, sum(rates.values())),
        )
        limits = np.stack([self.brokers.limit(name, self.goals) for name in TRAFFIC])
        self.traffic = Traffic(load, bands, limits)

    def _rooms(self, amounts: Mapping[int, int]) -> list[RackRoom]:
        """
        Return the limits of each rack: of a partition at most its fair number of replicas.

        ``amounts`` are of the planned partitions, by replication factor.
        """
        least = most = 0.0
        for factor, amount in amounts.items():
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
        rooms = self._rooms(self._numbers)
        if len(rooms) > 1 and all(room.is_fixed for room in rooms):
            return [room.brokers for room in rooms]
        return [tuple(broker for room in rooms for broker in room.brokers)]

    def settled(self) -> list[tuple[int, ...]]:
        """Return the brokers of each rack if every rack ends with one replica per partition."""
        if any(factor != self.racks for factor in self._numbers):
            return []
        return [room.brokers for room in self._rooms(self._numbers)]

    # --- where a replica may go ----------------------------------------------------------------

    def has_room(self, candidate: Candidate) -> Any:
        """Return a mask of the brokers that stay within all hard bounds with this replica."""
        mask = self.size + candidate.size <= self.brokers.room
        mask &= self.count + 1 <= self._most
        if candidate.position == 0:
            mask &= self.led + 1 <= self._most_led
        if self.traffic is not None:
            mask &= self.traffic.may_take(candidate)
        return mask

    def may_take(self, candidate: Candidate) -> Any:
        """Return a mask of the brokers that may take the replica of a candidate."""
        brokers, (topic, _, _, replicas, position, *_) = self.brokers, candidate
        mask = brokers.keeps & (self.by_topic[topic] < self.cap[topic])
        mask &= self.has_room(candidate)
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
        topic, number, size, before, _, bytes_in, bytes_out = partition
        if self.traffic is not None:
            self.traffic.add(before, bytes_in, bytes_out, -1)
            self.traffic.add(after, bytes_in, bytes_out, 1)
        self.led[before[0]] -= 1
        self.led[after[0]] += 1
        for broker in set(before) - set(after):
            self.size[broker] -= size
            self.count[broker] -= 1
            self.by_topic[topic, broker] -= 1
        for broker in set(after) - set(before):
            self.size[broker] += size
            self.count[broker] += 1
            self.by_topic[topic, broker] += 1
        return PlacementChange(topic, number, size, before, after)
