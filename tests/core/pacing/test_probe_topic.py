"""The brokers of the produce probe, and the partitions of its topic."""

from __future__ import annotations

from controller.core.model import BrokerId, PartitionAssignment, TopicPartition, ZkVersion, Zxid
from controller.core.pacing.controls import Controls, Drain, Drains
from controller.core.pacing.probe_topic import (
    MOST_PER_BROKER,
    PROBE_TOPIC,
    first_replicas,
    missing_replicas,
    probe_hosts,
)
from controller.core.pacing.records import ControlsRead
from tests.core.builders import Driver, replicas, tp

OF_PROBE = TopicPartition(PROBE_TOPIC, 0)


def ids(*brokers: int) -> frozenset[BrokerId]:
    """Return ids of brokers."""
    return frozenset(map(BrokerId, brokers))


def assigned(*partitions: tuple[int, ...]) -> dict[int, PartitionAssignment]:
    """Return partitions with these replicas."""
    return {n: PartitionAssignment(replicas(*r)) for n, r in enumerate(partitions)}


def test_brokers_with_replicas_of_other_topics_are_hosts() -> None:
    """One that has none, or one of the probe alone, is not in use."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3), OF_PROBE: (4, 1)}, brokers=range(1, 6))
    assert probe_hosts(driver.view) == ids(1, 2, 3)


def test_a_broker_that_receives_is_a_host_and_one_that_is_emptied_is_not() -> None:
    """As soon as the reassignments are accepted."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 3)}, brokers=range(1, 6))
    driver.submit({tp(0): (4, 2), tp(1): (4, 3)})
    assert probe_hosts(driver.view) == ids(2, 3, 4)


def test_a_broker_that_is_drained_or_dead_is_no_host() -> None:
    """The probe puts no replica on either."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3), tp(2): (9, 1)}, brokers=range(1, 4))
    drains = Drains({BrokerId(2): Drain("swap", "ann", 5)}, version=ZkVersion(0), czxid=Zxid(90))
    driver.observe(ControlsRead(Controls(drains=drains)))
    assert probe_hosts(driver.view) == ids(1, 3)


def test_each_host_leads_a_partition_that_the_next_one_follows() -> None:
    """A single broker has no follower."""
    assert first_replicas(ids(7, 2, 5)) == ((2, 5), (5, 7), (7, 2))
    assert first_replicas(ids(3)) == ((3,),)
    assert first_replicas(()) == ()


def test_a_partition_is_added_for_a_host_without_a_replica() -> None:
    """A broker that follows only, as its leaders were moved off, gets none."""
    assert missing_replicas(assigned((1, 2)), ids(1, 2)) == ()
    assert missing_replicas(assigned((1, 2), (2, 1)), ids(1, 2, 3, 4)) == ((3, 4), (4, 1))
    assert missing_replicas({}, ids(1, 2)) == ((1, 2), (2, 1))


def test_the_topic_does_not_grow_without_end() -> None:
    """However often its brokers are drained."""
    many = assigned(*[(1, 2)] * (3 * MOST_PER_BROKER))
    assert missing_replicas(many, ids(1, 2, 3)) == ()
