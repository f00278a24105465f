"""New partitions that brokers placed on the daemon get a broker in its place before their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.core.leadership.records import StateCreatedRecord, StatesRead
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    Replicas,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.role.records import BrokersRead
from controller.core.topics.records import AssignmentRecord, TopicsListed, TopicsRead
from tests.core.builders import Driver, broker, replicas, tp

OWN = 1_000_000


def created(driver: Driver, partitions: Mapping[int, Sequence[int]]) -> None:
    """Let a broker create a topic."""
    assignment = {n: PartitionAssignment(replicas(*r)) for n, r in partitions.items()}
    driver.observe(
        TopicsListed(frozenset({"t", "new"})),
        TopicsRead({"new": TopicAssignment(assignment, ZkVersion(0), Zxid(20))}),
    )
    driver.observe(StatesRead({tp(n, "new"): None for n in partitions}))


def outcome(driver: Driver) -> dict[int, tuple[Replicas, Replicas]]:
    """Return the replicas and the first ISR of each partition, written in one change."""
    found = {}
    for change in driver.changes:
        assigned = [r for r in change.records if isinstance(r, AssignmentRecord)]
        first = [r for r in change.records if isinstance(r, StateCreatedRecord)]
        for record, state in zip(assigned, first, strict=True) if assigned else ():
            assert record.partition == state.partition
            assert not record.assignment.is_reassigning
            found[record.partition.partition] = (record.assignment.replicas, state.isr)
    return found


def test_the_least_loaded_brokers_take_the_place_of_the_daemon() -> None:
    """Each repaired partition counts for the next."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3, 4))
    created(driver, {0: (OWN, 1), 1: (3, OWN), 2: (OWN, 4), 3: (1, 2)})
    assert outcome(driver) == {
        0: (replicas(3, 1), replicas(3, 1)),
        1: (replicas(3, 4), replicas(3, 4)),
        2: (replicas(2, 4), replicas(2, 4)),
    }
    assert driver.view.leadership.states[tp(3, "new")].isr == replicas(1, 2)
    assert driver.view.leadership.states[tp(0, "new")].leader == 3


def test_a_rack_without_a_replica_comes_first() -> None:
    """Brokers spread the replicas over racks, where they have racks."""
    driver = Driver({tp(): (3,)}, brokers=(1, 2, 3))
    racks = {1: "a", 2: "a", 3: "b"}
    driver.observe(
        BrokersRead({BrokerId(b): replace(broker(b), rack=rack) for b, rack in racks.items()})
    )
    created(driver, {0: (1, OWN)})
    assert outcome(driver) == {0: (replicas(1, 3), replicas(1, 3))}


def test_without_another_broker_the_replica_is_dropped() -> None:
    """More replicas than brokers were possible because the daemon was counted."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    created(driver, {0: (1, OWN, 2)})
    assert outcome(driver) == {0: (replicas(1, 2), replicas(1, 2))}


def test_a_partition_with_a_state_is_left_alone() -> None:
    """Another controller created it: only a reassignment changes its replicas."""
    driver = Driver({tp(): (1, OWN)}, brokers=(1, 2, 3))
    assert driver.view.topics.by_name["t"].partitions[0].replicas == replicas(1, OWN)
    driver.submit({tp(): (1, 2)})
    driver.catch_up(tp())
    assert driver.view.topics.by_name["t"].partitions[0].replicas == replicas(1, 2)
    # The daemon had no log: nothing is left to be deleted.
    assert not driver.view.reassignments.orphans


def test_brokers_that_shut_down_take_no_replica() -> None:
    """They would lead a moment later, or not at all."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.view.leadership.shutting_down[BrokerId(3)] = broker(3).epoch
    created(driver, {0: (1, OWN)})
    assert outcome(driver) == {0: (replicas(1, 2), replicas(1, 2))}
