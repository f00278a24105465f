"""
Choose brokers for the replicas of new partitions, as Kafka's controller does (``AdminUtils``).

Partitions go to the brokers in turn, so that each leads as many as any other. The distance between
the first replica and the others grows with each round, so that the followers of one leader are on
different brokers. With racks, the brokers stand in the turn rack by rack, and a replica goes to a
rack that has none as long as there is one.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from controller.core.calls.topic_requests import TopicRefusedError
from controller.core.model import BrokerId, LiveBroker, Replicas
from controller.kafka_errors import (
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    UNKNOWN_SERVER_ERROR,
)

Start = tuple[int, int]
"""The place in the turn of partition 0, and the distance of its second replica."""


def choose(
    brokers: Collection[LiveBroker], count: int, replication_factor: int, seed: str
) -> tuple[Replicas, ...]:
    """
    Return the replicas of the partitions of a new topic.

    Args:
        brokers: Those that are live.
        count: The number of partitions.
        replication_factor: The number of replicas of each.
        seed: Another one begins with another broker.

    Raises:
        TopicRefusedError: the numbers are not possible, or only some brokers have a rack.

    """
    check(brokers, count, replication_factor)
    shift, place = divmod(zlib.crc32(seed.encode()), len(brokers))
    start = (place, shift % len(brokers))
    return _chosen(_in_turn(brokers), racks_of(brokers), range(count), replication_factor, start)


def continue_choice(
    brokers: Collection[LiveBroker], first: Replicas, present: int, count: int
) -> tuple[Replicas, ...]:
    """
    Return the replicas of the partitions that are added to a topic.

    Args:
        brokers: Those that are live.
        first: The replicas of partition 0.
        present: The number of partitions that exist.
        count: The number of partitions that are added.

    Raises:
        TopicRefusedError: as with ``choose``.

    """
    check(brokers, count, len(first))
    ids = sorted(b.id for b in brokers)
    at = next((n for n, broker in enumerate(ids) if broker >= first[0]), 0)
    numbers = range(present, present + count)
    return _chosen(_in_turn(brokers), racks_of(brokers), numbers, len(first), (at, at))


def check(brokers: Collection[LiveBroker], count: int, replication_factor: int) -> None:
    """
    Check the numbers before anything is computed with them.

    Raises:
        TopicRefusedError: as with ``choose``.

    """
    if count <= 0:
        raise TopicRefusedError(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise TopicRefusedError(
            INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise TopicRefusedError(
            INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    with_rack = sum(b.rack is not None for b in brokers)
    if with_rack not in (0, len(brokers)):
        raise TopicRefusedError(
            UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )


def racks_of(brokers: Iterable[LiveBroker]) -> dict[BrokerId, str]:
    """Return the rack of each broker; without racks, all brokers share one."""
    return {b.id: b.rack or "" for b in brokers}


def _in_turn(brokers: Iterable[LiveBroker]) -> list[BrokerId]:
    """Return the brokers, alternating between racks."""
    racks: dict[str, list[BrokerId]] = {}
    for broker in sorted(brokers, key=lambda b: (b.rack or "", b.id)):
        racks.setdefault(broker.rack or "", []).append(broker.id)
    return [b for b in chain.from_iterable(zip_longest(*racks.values())) if b is not None]


def _chosen(
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
