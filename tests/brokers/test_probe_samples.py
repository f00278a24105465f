"""The readings of the produce probe: what records count, with which time, and for whom."""

from __future__ import annotations

from dataclasses import dataclass

from controller.brokers.probe_samples import (
    LEAST_AGE_S,
    UNDER_WAY_MAX,
    ProbeSamples,
    Target,
    targets_of,
)
from controller.core.model import BrokerId, Instant

ONE, TWO, THREE = (BrokerId(n) for n in (1, 2, 3))
FIRST, SECOND = Target(0, ONE, TWO), Target(1, TWO, THREE)
OBJECTIVE_S = 0.5


@dataclass
class Partition:
    """A partition as librdkafka describes it."""

    id: int
    leader: int
    isrs: list[int]


def samples(*targets: Target) -> ProbeSamples:
    """Return samples of targets that have acknowledged a record before."""
    made = ProbeSamples(OBJECTIVE_S)
    for target in targets:
        made.acknowledge(made.send(target, Instant(0)), 9.0)
    assert made.take(Instant(1)) == ()
    return made


def test_the_first_record_to_a_broker_is_no_sample() -> None:
    """It opens the connection."""
    samples(FIRST)


def test_a_reading_is_the_99th_percentile_of_the_records_since_the_last() -> None:
    """With its median, its begin, its leader and its follower; each record is of one reading."""
    made = samples(FIRST, SECOND)
    for n in range(10):
        made.acknowledge(made.send(FIRST, Instant(10 + n / 10)), 0.01 * (1 + n))
    made.acknowledge(made.send(SECOND, Instant(10.5)), 0.3)
    first, second = made.take(Instant(11))
    assert (first.value, first.since, first.at) == (0.1, Instant(10), Instant(11))
    assert first.median is not None
    assert round(first.median, 3) == 0.055
    assert (first.broker, first.follower, first.strain) == (1, 2, 0.2)
    assert (second.value, second.since, second.broker, second.follower) == (0.3, 10.5, 2, 3)
    assert made.take(Instant(12)) == ()


def test_a_record_on_its_way_counts_with_its_age_when_it_is_the_slowest() -> None:
    """At first not before it is a second old: a shorter age says nothing."""
    made = samples(FIRST)
    record = made.send(FIRST, Instant(10))
    made.send(FIRST, Instant(10.1))
    assert made.take(Instant(10 + LEAST_AGE_S)) == ()
    assert [(r.value, r.since) for r in made.take(Instant(14))] == [(4.0, Instant(10))]
    made.acknowledge(record, 4.5)
    assert [(r.value, r.since) for r in made.take(Instant(14.5))] == [(4.5, Instant(10))]
    assert [(r.value, r.since) for r in made.take(Instant(15))] == [(4.9, Instant(10.1))]


def test_an_age_below_the_slowest_acknowledgement_does_not_count() -> None:
    """The reading begins with the acknowledged records then."""
    made = samples(FIRST)
    made.acknowledge(made.send(FIRST, Instant(11)), 0.2)
    made.send(FIRST, Instant(11.9))
    (reading,) = made.take(Instant(12))
    assert (reading.value, reading.since, reading.median) == (0.2, Instant(11), 0.2)


def test_records_wait_behind_others_as_those_of_a_producer_do() -> None:
    """So many at most; the first to a broker, which opens the connection, goes alone."""
    made = ProbeSamples(OBJECTIVE_S)
    record = made.send(FIRST, Instant(9))
    assert not made.is_free(FIRST)
    made.acknowledge(record, 0.1)
    for n in range(UNDER_WAY_MAX):
        assert made.is_free(FIRST)
        made.send(FIRST, Instant(10 + n / 10))
    assert not made.is_free(FIRST)
    assert made.is_free(SECOND)


def test_records_of_a_former_leader_are_forgotten() -> None:
    """Their time is that of the failover; a late acknowledgement is ignored."""
    made = samples(FIRST)
    record = made.send(FIRST, Instant(10))
    moved = Target(0, TWO, ONE)
    made.follow([moved])
    assert made.take(Instant(20)) == ()
    assert made.is_free(FIRST)
    made.acknowledge(record, 9.0)
    assert made.take(Instant(21)) == ()


def test_a_dropped_record_frees_its_broker() -> None:
    """It was refused: that takes no time."""
    made = samples(FIRST)
    made.drop(made.send(FIRST, Instant(10)))
    assert made.is_free(FIRST)
    assert made.take(Instant(20)) == ()


def test_each_leader_has_one_partition_with_a_follower_if_there_is_one() -> None:
    """A partition without a leader has none."""
    partitions = [
        Partition(0, 1, [1]),
        Partition(1, -1, [2]),
        Partition(2, 1, [3, 1]),
        Partition(3, 3, [3]),
        Partition(4, 1, [2, 1]),
    ]
    assert targets_of(partitions) == {ONE: Target(2, ONE, THREE), THREE: Target(3, THREE, None)}
