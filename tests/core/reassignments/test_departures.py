"""Replicas that another controller dropped before a claim: its StopReplica may be lost."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.effects import ClaimController, SendStopReplica
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    PartitionState,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.records import TimerFired
from controller.core.role.claims_and_resignations import CLAIM_TIMER
from controller.core.role.records import ClaimGuardsRead, ControllerClaimed, Deposed
from controller.core.role.tenure_reset import DEPARTED_S
from controller.core.topics.records import TopicsRead
from tests.core.builders import EPOCH, Driver, replicas, tp

SINCE = (2, 4, 3)
"""Where another controller left a partition that was on 1 to 5."""


def others_move(driver: Driver, to: tuple[int, ...], *, version: int) -> None:
    """Read a topic znode that another controller wrote."""
    czxid = driver.view.topics.by_name[tp().topic].czxid
    moved = {0: PartitionAssignment(replicas(*to))}
    driver.observe(TopicsRead({tp().topic: TopicAssignment(moved, ZkVersion(version), czxid)}))


def created_again(driver: Driver) -> None:
    """Read the topic as deleted and created again on the replicas that the other left."""
    czxid = driver.view.topics.by_name[tp().topic].czxid
    moved = {0: PartitionAssignment(replicas(*SINCE))}
    later = Zxid(czxid + 1)
    driver.observe(TopicsRead({tp().topic: TopicAssignment(moved, ZkVersion(0), later)}))


def claim(driver: Driver, isr: tuple[int, ...]) -> None:
    """Take the role again and read the state the other controller left."""
    first = driver.first_states[tp()]
    driver.observe(*driver.own_records())
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 2)))
    state = PartitionState(
        BrokerId(isr[0]), first.leader_epoch, replicas(*isr), first.controller_epoch, ZkVersion(9)
    )
    driver.observe(StatesRead({tp(): state}))


def deleted(driver: Driver) -> list[int]:
    """Return the brokers that got StopReplica with deletion."""
    return sorted(e.broker for e in driver.sent if isinstance(e, SendStopReplica) and e.delete)


@pytest.fixture
def driver() -> Driver:
    """Give a daemon that had the role and lost it."""
    driver = Driver({tp(): (5, 1, 2, 3, 4)})
    driver.observe(Deposed("a broker took the role"))
    return driver


def test_what_was_dropped_just_before_the_claim_is_deleted_again(driver: Driver) -> None:
    """The record is gone once the brokers said that nothing is left."""
    others_move(driver, SINCE, version=3)
    driver.acknowledges = False
    claim(driver, SINCE)
    assert sorted(b for b, _ in driver.view.reassignments.orphans) == [1, 5]
    assert deleted(driver) == []  # no deletion before the leader acknowledged its epoch
    driver.acknowledges = True
    driver.acknowledge(tp(), replicas(*SINCE))
    driver.settle()
    assert deleted(driver) == [1, 5]
    assert driver.view.reassignments.orphans == {}


def test_what_is_dropped_while_the_claim_is_being_made_is_deleted_again() -> None:
    """``/controller`` is ours already, and the broker that lost it ends what it was at."""
    driver = Driver({tp(): (5, 1, 2, 3, 4)}, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(Deposed("a broker took the role"), *driver.own_records())
    driver.now = Instant(driver.now + 60.0)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert isinstance(driver.sent[-1], ClaimController)
    driver.observe(ClaimGuardsRead(BrokerId(1_000_000), True, -1, False, None))  # noqa: FBT003 - the event's fields in order
    others_move(driver, SINCE, version=3)
    claim(driver, SINCE)
    assert deleted(driver) == [1, 5]


def test_what_was_dropped_long_before_the_claim_is_left_alone(driver: Driver) -> None:
    """Its controller had the time to send StopReplica."""
    others_move(driver, SINCE, version=3)
    driver.now = Instant(driver.now + DEPARTED_S + 1)
    claim(driver, SINCE)
    assert (driver.view.reassignments.orphans, deleted(driver)) == ({}, [])


def test_what_was_dropped_from_a_former_topic_is_left_alone(driver: Driver) -> None:
    """A record would name the new topic."""
    others_move(driver, SINCE, version=3)
    created_again(driver)
    claim(driver, SINCE)
    assert (driver.view.reassignments.orphans, deleted(driver)) == ({}, [])


def test_what_is_a_replica_again_is_left_alone(driver: Driver) -> None:
    """Whatever else happened meanwhile."""
    others_move(driver, SINCE, version=3)
    others_move(driver, (2, 4, 3, 5, 1), version=4)
    claim(driver, (2, 4, 3, 5, 1))
    assert (driver.view.reassignments.orphans, deleted(driver)) == ({}, [])


def test_nothing_is_sent_before_the_topic_was_read_under_the_claim(driver: Driver) -> None:
    """The other controller may have written once more after we read."""
    others_move(driver, SINCE, version=3)
    driver.answers_topics = False
    claim(driver, SINCE)
    assert driver.view.reassignments.orphans == {}
    others_move(driver, (2, 4, 3, 5), version=4)
    driver.acknowledge(tp(), replicas(*SINCE))
    driver.settle()
    driver.catch_up(tp())
    assert deleted(driver) == [1]
