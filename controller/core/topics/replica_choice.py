"""
Choose brokers for replicas: of new partitions, and in the place of replicas that leave a broker.

Those of new partitions as Kafka's controller does (``AdminUtils``). Partitions go to the brokers in
turn, so that each leads as many as any other. The distance between the first replica and the others
grows with each round, so that the followers of one leader are on different brokers. With racks, the
brokers stand in the turn rack by rack, and a replica goes to a rack that has none as long as there
is one. ``topic_checks.check`` has passed before.

A single replica goes to a rack that has none, then to the broker with the least. ``generate``
plans by the same rule.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Replicas, TopicPartition

# --- new partitions ------------------------------------------------------------------------------

Start = tuple[int, int]
"""The place in the turn of partition 0, and the distance of its second replica."""


def choose(
    brokers: Collection[LiveBroker], count: int, replication_factor: int, seed: str
) -> tuple[Replicas, ...]:
    """Return the replicas of a new topic's partitions; another seed begins with another broker."""
    shift, place = divmod(zlib.crc32(seed.encode()), len(brokers))
    start = (place, shift % len(brokers))
    return _chosen_replicas(
        _in_turn(brokers), racks_of(brokers), range(count), replication_factor, start
    )


def continue_choice(
    brokers: Collection[LiveBroker], first: Replicas, present: int, count: int
) -> tuple[Replicas, ...]:
    """Return the replicas of ``count`` more partitions; ``first`` are those of partition 0."""
    ids = sorted(b.id for b in brokers)
    at = next((n for n, broker in enumerate(ids) if broker >= first[0]), 0)
    numbers = range(present, present + count)
    return _chosen_replicas(_in_turn(brokers), racks_of(brokers), numbers, len(first), (at, at))


def racks_of(brokers: Iterable[LiveBroker]) -> dict[BrokerId, str]:
    """Return the rack of each broker; without racks, all brokers share one."""
    return {b.id: b.rack or "" for b in brokers}


def _in_turn(brokers: Iterable[LiveBroker]) -> list[BrokerId]:
    """Return the brokers, alternating between racks."""
    racks: dict[str, list[BrokerId]] = {}
    for broker in sorted(brokers, key=lambda b: (b.rack or "", b.id)):
        racks.setdefault(broker.rack or "", []).append(broker.id)
    return [b for b in chain.from_iterable(zip_longest(*racks.values())) if b is not None]


def _chosen_replicas(
    turn: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    numbers: Iterable[int],
    replication_factor: int,
    start: Start,
) -> tuple[Replicas, ...]:
    """Return the replicas of partitions with these numbers."""
    place, shift = start
    chosen: list[Replicas] = []
    rack_count = len(set(racks.values()))
    for number in numbers:
        if number > 0 and number % len(turn) == 0:
            shift += 1
        first = (number + place) % len(turn)
        replicas = [turn[first]]
        distance = shift * rack_count
        while len(replicas) < replication_factor:
            broker = turn[(first + 1 + distance % (len(turn) - 1)) % len(turn)]
            distance += 1
            used = {racks[r] for r in replicas}
            if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
                replicas.append(broker)
        chosen.append(tuple(replicas))
    return tuple(chosen)


# --- single replicas -----------------------------------------------------------------------------

Racks = Mapping[BrokerId, str | None]
"""The rack of each broker according to its registration; a missing broker has none."""


def rack_of(broker: BrokerId, racks: Racks) -> str | BrokerId:
    """Return a broker's rack, or the broker itself if it has none."""
    return racks.get(broker) or broker


@dataclass(slots=True)
class PlannedLoads:
    """What each broker has, as planned so far."""

    replicas: Counter[BrokerId] = field(default_factory=Counter)
    of_topics: Counter[tuple[str, BrokerId]] = field(default_factory=Counter)
    """Its replicas of each topic."""
    bytes: Counter[BrokerId] = field(default_factory=Counter)
    """The bytes of its replicas, as far as sizes are known."""
    leaders: Counter[BrokerId] = field(default_factory=Counter)
    """The partitions whose first replica it has."""

    def count(self, partition: TopicPartition, replicas: Replicas, size: int, by: int = 1) -> None:
        """Count the replicas of a partition, or with ``by`` -1 no longer."""
        self.leaders.update(dict.fromkeys(replicas[:1], by))
        for broker in replicas:
            self.count_one(partition, broker, size, by)

    def count_one(self, partition: TopicPartition, broker: BrokerId, size: int, by: int) -> None:
        """Count one replica."""
        self.replicas[broker] += by
        self.of_topics[partition.topic, broker] += by
        self.bytes[broker] += by * size


def best_broker(  # noqa: PLR0913, PLR0917 - what the choice depends on
    candidates: Iterable[BrokerId],
    topic: str,
    replicas: Iterable[BrokerId],
    before: Collection[BrokerId],
    racks: Racks,
    loads: PlannedLoads,
) -> BrokerId:
    """
    Choose the broker of one more replica: in a rack without one, with the least load.

    ``before`` are brokers that have a replica already, so that no copy is needed.
    """
    used = {rack_of(r, racks) for r in replicas}
    return min(
        candidates,
        key=lambda b: (
            rack_of(b, racks) in used,
            b not in before,
            loads.replicas[b],
            loads.of_topics[topic, b],
            loads.bytes[b],
            b,
        ),
    )


def moved_off(  # noqa: PLR0913 - what the choice depends on
    partition: TopicPartition,
    replicas: Replicas,
    leaving: AbstractSet[BrokerId],
    *,
    allowed: Collection[BrokerId],
    racks: Racks,
    loads: PlannedLoads,
) -> Replicas | None:
    """
    Return the replicas of a partition without some brokers; None: too few others are allowed.

    The others stay in their order. Where the first one leaves, that one of them is the first now
    that is the first of the fewest partitions.
    """
    staying = [r for r in replicas if r not in leaving]
    if staying and staying[0] != replicas[0]:
        leader = min(staying, key=lambda r: (loads.leaders[r], staying.index(r)))
        staying.remove(leader)
        staying.insert(0, leader)
    while len(staying) < len(replicas):
        free = [b for b in allowed if b not in staying]
        if not free:
            return None
        staying.append(best_broker(free, partition.topic, staying, (), racks, loads))
    return tuple(staying)
