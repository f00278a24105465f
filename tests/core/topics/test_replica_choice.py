"""New partitions get the brokers that Kafka's controller would choose (``AdminUtilsTest``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from controller.core.calls.client_requests import TopicRefusedError
from controller.core.cluster.model import LiveBroker
from controller.core.topics import topic_checks
from controller.core.topics.topic_checks import choose, continue_choice
from tests.core.builders import broker, replicas

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def brokers(*ids: int) -> list[LiveBroker]:
    """Return brokers without racks."""
    return [replace(broker(n), rack=None) for n in ids]


def racked() -> list[LiveBroker]:
    """Return the brokers of ``RACKS``."""
    return [replace(broker(n), rack=rack) for n, rack in RACKS.items()]


def chosen(live: list[LiveBroker], count: int) -> list[list[int]]:
    """Return the replicas, three for each partition, from the first broker on."""
    turn, racks = topic_checks._in_turn(live), topic_checks.racks_of(live)
    return [list(rs) for rs in topic_checks._chosen_replicas(turn, racks, range(count), 3, (0, 0))]


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
    assert topic_checks._in_turn(racked()) == [0, 3, 1, 5, 4, 2]
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
        choose(live, count, factor, "seed")
    assert refusal.value.code == error
