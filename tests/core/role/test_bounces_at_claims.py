"""Brokers that restart around a claim are treated as failed, unless a controller did that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.core.cycle import record_effect, take_due
from controller.core.decide import decide
from controller.core.effects import (
    ClaimController,
    ResignController,
    SendLeaderAndIsr,
    SendStopReplica,
)
from controller.core.leadership.fold import UNTREATED_S
from controller.core.leadership.records import StateRecord, StatesRead
from controller.core.model import (
    UNKNOWN_ZXID,
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    PartitionState,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.role.invalidation import invalidate
from controller.core.role.records import ClaimFailed, ControllerClaimed, Deposed
from controller.core.topics.records import TopicsRead
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.core.leadership.test_duties import live

CLAIMED = ControllerClaimed(ControllerEpoch(EPOCH + 1))


def claim(driver: Driver, after_s: float = 1.0) -> None:
    """Ask for the role, some time after whatever was observed last."""
    driver.now = Instant(driver.now + after_s)
    record_effect(driver.view, ClaimController(), driver.now)


def written_at(
    mzxid: int, states: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, PartitionState]:
    """Return states as last written by this transaction; a broker's epoch is one as well."""
    return {p: replace(s, mzxid=Zxid(mzxid)) for p, s in states.items()}


def as_read(
    driver: Driver, before: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, PartitionState]:
    """Return the states as they are read again; those written since have a later transaction."""
    states = driver.view.leadership.states
    return {p: s if s == before[p] else replace(s, mzxid=Zxid(950)) for p, s in states.items()}


@pytest.mark.parametrize(
    ("mzxid", "before_s", "leader"),
    [
        (900, 1.0, 2),
        (900, UNTREATED_S, 2),
        (902, 1.0, 1),
        (900, UNTREATED_S + 1.0, 1),
        (UNKNOWN_ZXID, 1.0, 1),
    ],
    ids=["untreated", "a minute ago", "treated", "long ago", "unknown"],
)
def test_a_bounce_just_before_the_claim_is_treated_where_no_controller_did(
    mzxid: int, before_s: float, leader: int
) -> None:
    """What the former controller made of it is in the state, written after the registration."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = written_at(mzxid, driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records())
    driver.observe(live(1, 2, 3, bounced=(1,)))
    claim(driver, before_s)
    driver.observe(CLAIMED)
    driver.sent.clear()
    driver.observe(StatesRead(known))
    state = driver.view.leadership.states[tp()]
    assert state.leader == leader
    sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    assert len(sent) == 1  # Nothing of the epoch before the bounce.
    assert (state == known[tp()]) == (leader == 1)


def test_a_bounce_of_a_follower_is_treated_where_no_controller_did() -> None:
    """It may lack what was acknowledged, and would lead next."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = written_at(900, driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records())
    driver.observe(live(1, 2, 3, bounced=(2,)))
    claim(driver)
    driver.observe(CLAIMED)
    driver.observe(StatesRead(known))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(1), replicas(1, 3))


def test_a_bounce_while_resigning_is_treated_in_the_next_tenure() -> None:
    """``/controller`` is ours until then: no Kafka controller treats it."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = written_at(900, driver.view.leadership.states)
    record_effect(driver.view, ResignController("x"), driver.now)
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(Deposed("resigned"), *driver.own_records())
    claim(driver)
    driver.observe(CLAIMED)
    driver.observe(StatesRead(known))
    assert driver.view.leadership.states[tp()].leader == 2


def test_a_bounce_during_a_claim_without_an_answer_is_treated_after_the_next() -> None:
    """The first claim may have been made."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = written_at(900, driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records())
    claim(driver)
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(ClaimFailed("the claim failed: SessionSuspendedError()"))
    claim(driver)
    driver.observe(CLAIMED)
    driver.observe(StatesRead(known))
    assert driver.view.leadership.states[tp()].leader == 2


@pytest.mark.parametrize("is_topic_first", [True, False])
@pytest.mark.parametrize("is_in_tenure", [True, False])
def test_a_bounce_of_a_replica_that_the_former_controller_added_is_treated(
    *, is_topic_first: bool, is_in_tenure: bool
) -> None:
    """The assignment as known when it bounced does not have it."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), answers_topics=False)
    moved = {0: PartitionAssignment(replicas(3, 2))}
    state = replace(driver.view.leadership.states[tp()], leader=BrokerId(3), isr=replicas(3, 2))
    driver.observe(Deposed("x"), *driver.own_records())
    claim(driver)
    bounce = live(1, 2, 3, bounced=(3,))
    if is_in_tenure:
        driver.observe(CLAIMED, bounce)
    else:
        driver.observe(bounce, CLAIMED)
    read = (
        TopicsRead({"t": TopicAssignment(moved, ZkVersion(2), Zxid(9))}),
        StatesRead(written_at(900, {tp(): state})),
    )
    driver.observe(read[not is_topic_first])
    driver.observe(read[is_topic_first])
    assert driver.view.leadership.states[tp()].leader == 2


def test_brokers_that_the_first_read_shows_have_not_bounced() -> None:
    """A daemon that starts does not know when they registered."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    assert not driver.view.cluster.registered
    driver.observe(live(1, 2, 3, bounced=(1,)))
    assert driver.view.cluster.registered == {BrokerId(1): driver.now}


@pytest.mark.parametrize("replica", [1, 2], ids=["leader", "follower"])
@pytest.mark.parametrize("was_known", [True, False], ids=["died before", "bounced"])
def test_a_registration_that_is_read_just_after_the_state_is_treated(
    replica: int, *, was_known: bool
) -> None:
    """After a pause, both are handled in one cycle: none examined the state of a dead broker."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = written_at(900, driver.view.leadership.states)
    others = [b for b in (1, 2, 3) if b != replica]
    driver.observe(Deposed("x"), *driver.own_records())
    if was_known:
        driver.observe(live(*others))
    claim(driver)
    driver.observe(CLAIMED)
    driver.observe(StatesRead(known), live(1, 2, 3, bounced=(replica,)))
    driver.observe(StatesRead(as_read(driver, known)))
    state = driver.view.leadership.states[tp()]
    assert replica not in state.isr
    assert state.leader_epoch == known[tp()].leader_epoch + 1


def test_no_step_begins_before_a_bounce_is_treated() -> None:
    """The state is read again first; a step would write a leader that may lack records."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.submit({tp(): (1, 3)})
    again = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": again}))
    assert tp() in driver.view.reassignments.by_partition
    assert driver.states[tp()] == []
    driver.observe(StatesRead({tp(): driver.view.leadership.states[tp()]}))
    assert driver.states[tp()][0].leader == 2


def test_a_replica_whose_bounce_waits_does_not_replace_a_leader_that_died() -> None:
    """One that was in sync all the time does, though it comes later in the assignment."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.observe(live(1, 2, 3, bounced=(1, 2)))
    again = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": again}))
    assert driver.states[tp()] == []
    driver.observe(live(2, 3, bounced=(2,)))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(3), replicas(3))


def test_a_restart_is_treated_though_the_isr_was_read_after_it() -> None:
    """
    A replica enters the ISR, loses its log and is back before the daemon reads that it entered.

    By the ISR that is known then, there is nothing to treat; only the leader epoch is raised, which
    is rejected. The state that is read next is older than the registration.
    """
    driver = Driver({tp(): (1,)}, brokers=(1, 2))
    driver.submit({tp(): (2,)})
    known = driver.view.leadership.states[tp()]
    assert known.isr == replicas(1)
    driver.observe(live(1))
    driver.fold(live(1, 2, bounced=(2,)))
    for change in decide(driver.view, take_due(driver.view), driver.now).changes:
        if any(isinstance(record, StateRecord) for record in change.records):
            invalidate(driver.view, change)
    assert tp() not in driver.view.leadership.states
    entered = replace(known, isr=replicas(1, 2), version=ZkVersion(known.version + 1))
    driver.sent.clear()
    driver.observe(StatesRead(written_at(500, {tp(): entered})))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(1), replicas(1))
    assert not [e for e in driver.sent if isinstance(e, SendStopReplica)]


def rejected(driver: Driver) -> int:
    """Decide, reject every change that writes a state, and return how many there were."""
    count = 0
    for change in decide(driver.view, take_due(driver.view), driver.now).changes:
        if any(isinstance(record, StateRecord) for record in change.records):
            invalidate(driver.view, change)
            count += 1
    return count


@pytest.mark.parametrize("mzxid", [500, 5000], ids=["before the restart", "after the restart"])
def test_a_restart_is_treated_though_the_leader_wrote_the_isr_since(mzxid: int) -> None:
    """
    Replica 2 enters the ISR, loses its log and is back; then the leader lets 3 into the ISR, too.

    The state that is read after the rejected write may be newer than the registration. Its leader
    epoch is older, and so may be what the ISR says about 2.
    """
    driver = Driver({tp(): (1, 3)}, brokers=(1, 2, 3))
    driver.submit({tp(): (2, 3)})
    known = driver.view.leadership.states[tp()]
    alone = replace(known, isr=replicas(1), version=ZkVersion(known.version + 1))
    driver.observe(StatesRead({tp(): alone}))
    alone = driver.view.leadership.states[tp()]
    driver.observe(live(1, 3))
    driver.fold(live(1, 2, 3, bounced=(2,)))
    assert rejected(driver)
    entered = replace(alone, isr=replicas(1, 2, 3), version=ZkVersion(alone.version + 2))
    driver.sent.clear()
    driver.observe(StatesRead(written_at(mzxid, {tp(): entered})))
    assert BrokerId(2) not in driver.view.leadership.states[tp()].isr
    assert not [e for e in driver.sent if isinstance(e, SendStopReplica)]


def test_the_epoch_rises_for_a_restart_outside_the_isr_though_the_leader_wrote_the_isr() -> None:
    """The raise was rejected; a request of before the restart could still let the replica in."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    first = driver.view.leadership.states[tp()]
    alone = replace(first, isr=replicas(1), version=ZkVersion(first.version + 1))
    driver.observe(StatesRead(written_at(100, {tp(): alone})))
    known = driver.view.leadership.states[tp()]
    driver.fold(live(1, 2, 3, bounced=(2,)))
    assert rejected(driver) == 1
    entered = replace(known, isr=replicas(1, 3), version=ZkVersion(known.version + 1))
    driver.observe(StatesRead(written_at(5000, {tp(): entered})))
    assert driver.view.leadership.states[tp()].leader_epoch > known.leader_epoch
