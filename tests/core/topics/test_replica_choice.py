"""New partitions get the brokers that Kafka's controller would choose (``AdminUtilsTest``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.calls.client_requests import TopicRefusedError
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Replicas
from controller.core.topics import replica_choice, topic_checks
from controller.core.topics.replica_choice import (
    PlannedLoads,
    best_broker,
    choose,
    continue_choice,
    moved_off,
)
from tests.core.builders import broker, replicas, tp

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def brokers(*ids: int) -> list[LiveBroker]:
    """Return brokers without racks."""
    return [replace(broker(n), rack=None) for n in ids]


def racked() -> list[LiveBroker]:
    """Return the brokers of ``RACKS``."""
    return [replace(broker(n), rack=rack) for n, rack in RACKS.items()]


def chosen(live: list[LiveBroker], count: int) -> list[list[int]]:
    """Return the replicas, three for each partition, from the first broker on."""
    turn, racks = replica_choice._in_turn(live), replica_choice.racks_of(live)
    return [
        list(rs) for rs in replica_choice._chosen_replicas(turn, racks, range(count), 3, (0, 0))
    ]


def test_brokers_without_racks_take_turns() -> None:
    """The distance of the followers grows with each round."""
    assert chosen(brokers(0, 1, 2, 3, 4), 10) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]


def test_racks_alternate() -> None:
    """Each partition has a replica in each rack."""
    assert replica_choice._in_turn(racked()) == [0, 3, 1, 5, 4, 2]
    assert chosen(racked(), 7) == [
        [0, 3, 1],
        [3, 1, 5],
        [1, 5, 4],
        [5, 4, 2],
        [4, 2, 0],
        [2, 0, 3],
        [0, 4, 2],
    ]


def test_more_replicas_than_racks_are_on_different_brokers() -> None:
    """Every rack has one before any has two."""
    for found in choose(racked(), 12, 5, "seed"):
        assert len(set(found)) == 5
        assert {RACKS[r] for r in found[:3]} == set(RACKS.values())


def test_leaderships_are_even_and_the_begin_depends_on_the_seed() -> None:
    """Topics with one partition would all be on the same broker otherwise."""
    live = brokers(1, 2, 3, 4)
    assert set(Counter(rs[0] for rs in choose(live, 16, 2, "a topic id")).values()) == {4}
    begins = {choose(live, 1, 2, f"topic {n}") for n in range(50)}
    assert {rs[0] for (rs,) in begins} == {1, 2, 3, 4}
    assert choose(live, 3, 2, "same") == choose(live, 3, 2, "same")


def test_added_partitions_continue_the_turn() -> None:
    """From the first replica of partition 0 on."""
    assert continue_choice(brokers(1, 2, 3), replicas(2, 3), 2, 2) == (
        replicas(1, 3),
        replicas(2, 3),
    )


@pytest.mark.parametrize(
    ("live", "count", "factor", "error", "text"),
    [
        (brokers(1), 0, 1, 37, "Number of partitions must be larger than 0."),
        (brokers(1), 1, 0, 38, "Replication factor must be larger than 0."),
        (brokers(1), 1, 2, 38, "Replication factor: 2 larger than available brokers: 1."),
        ([*brokers(9), *racked()], 1, 1, -1, "Not all brokers have rack information"),
    ],
)
def test_impossible_numbers_are_refused(
    live: list[LiveBroker], count: int, factor: int, error: int, text: str
) -> None:
    """With Kafka's errors."""
    with pytest.raises(TopicRefusedError, match=text) as refusal:
        topic_checks.check(live, count, factor)
    assert refusal.value.code == error


# --- single replicas -----------------------------------------------------------------------------


def loaded(**counts: int) -> PlannedLoads:
    """Return loads of brokers, by ``bN``: partitions of another topic, none of which leads."""
    loads = PlannedLoads()
    for name, count in counts.items():
        loads.replicas[BrokerId(int(name[1:]))] = count
    return loads


def test_a_replica_goes_to_a_rack_without_one_then_to_the_broker_with_the_fewest() -> None:
    """Of equal ones, to the one with fewer of its topic, then with fewer bytes."""
    racks = {BrokerId(b): rack for b, rack in ((1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "b"))}
    free, loads = replicas(3, 4, 5), loaded(b3=0, b4=9, b5=9)
    assert best_broker(free, "t", replicas(1), (), racks, loads) == 4
    loads.of_topics["t", BrokerId(4)] = 1
    assert best_broker(free, "t", replicas(1), (), racks, loads) == 5
    loads.of_topics["t", BrokerId(5)] = 1
    loads.bytes[BrokerId(4)] = 1
    assert best_broker(free, "t", replicas(1), (), racks, loads) == 5
    assert best_broker(free, "t", replicas(1, 2), (), racks, loads) == 3
    assert best_broker(free, "t", replicas(1, 2), replicas(4), racks, loads) == 4


def test_replicas_move_off_brokers_and_the_others_keep_their_order() -> None:
    """Where the first one leaves, the one leads that is the first of the fewest partitions."""
    loads = loaded(b4=1, b5=2)
    loads.leaders[BrokerId(2)] = 3

    def moved(*leaving: int, among: Sequence[int] = (4, 5)) -> Replicas | None:
        gone, allowed = frozenset(map(BrokerId, leaving)), replicas(*among)
        return moved_off(tp(), replicas(1, 2, 3), gone, allowed=allowed, racks={}, loads=loads)

    assert moved(2) == replicas(1, 3, 4)
    assert moved(1) == replicas(3, 2, 4)
    assert moved(1, 2, 3, among=(4, 5, 6)) == replicas(6, 4, 5)
    assert moved(1, 2, 3) is None
