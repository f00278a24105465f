"""Responses of brokers that a tenure needs before it changes anything, or that end it."""

from __future__ import annotations

import pytest

from controller.core import effects
from controller.core.blocked_reasons import BlockedReasons
from controller.core.core_settings import Options
from controller.core.decide import ACK_TIMER
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    StateRecord,
    StatesRead,
)
from controller.core.model import BlockedBy, BrokerEpoch, BrokerId, ControllerEpoch, Instant
from controller.core.reassignments.phases import Stopping
from controller.core.reassignments.records import (
    SpecRecord,
    SpecsRead,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import TimerFired
from controller.core.role.claims_and_resignations import ACCEPTANCE_TIMER, CLAIM_TIMER
from controller.core.role.eligibility import ACCEPTANCE_PATIENCE_S, refusals
from controller.core.role.records import ControllerClaimed, Deposed, UpdateMetadataAnswered
from controller.core.role.tenure_reset import REJECTED_RETRY_S
from controller.core.topics.records import TopicsListed
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    STALE_CONTROLLER_EPOCH,
    UNSUPPORTED_VERSION,
)
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.core.leadership.test_duties import live
from tests.core.requests.test_submitted import submission, submit


def rejected_driver(*, leads: int = 1) -> Driver:
    """Return a claim that no broker has answered yet, with a request in ZooKeeper."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4), accepts=False, leaders={tp(): leads})
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    return driver


def answer(driver: Driver, error: int, *brokers: int) -> None:
    """Let brokers answer an UpdateMetadata."""
    for n in brokers:
        broker = BrokerId(n)
        driver.observe(UpdateMetadataAnswered(broker, driver.epoch(broker), error))


def written(driver: Driver) -> list[type]:
    """Return the kinds of what was written so far."""
    return [type(r) for change in driver.changes for r in change.records]


def resignations(driver: Driver) -> list[str]:
    """Return why the role is given back."""
    return [e.reason for e in driver.sent if isinstance(e, effects.ResignController)]


def test_nothing_is_read_or_written_before_a_broker_accepts_the_first_request() -> None:
    """A write without a broker to send it to is a leader epoch that no broker ever gets."""
    driver = rejected_driver()
    driver.observe(live(1, 2, 3, 4, bounced=(1,)), StatesRead(driver.first_states))
    assert StateRecord not in written(driver)
    assert SpecRecord not in written(driver)
    assert not any(isinstance(e, effects.ReadStates) for e in driver.sent)
    common = BlockedReasons(driver.view, driver.now).common
    assert common is not None
    assert common.by is BlockedBy.CONTROLLER_ROLE
    answer(driver, 0, 3)
    assert SpecRecord in written(driver)
    assert StateRecord in written(driver)


def test_states_are_read_when_the_first_broker_accepts() -> None:
    """One is enough: others may be out of reach."""
    driver = rejected_driver()
    driver.observe(Deposed("another one"), *driver.own_records())
    driver.sent.clear()
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert not any(isinstance(e, effects.ReadStates) for e in driver.sent)
    answer(driver, 0, 2)
    requested = [e for e in driver.sent if isinstance(e, effects.ReadStates)]
    assert [(e.partitions, e.purpose) for e in requested] == [((tp(),), effects.ReadPurpose.SEED)]


def test_a_reassignment_of_a_deleted_topic_ends_when_a_broker_accepts_our_requests() -> None:
    """No state of it will ever be read."""
    driver = Driver({tp(): (1, 2, 3), tp(0, "gone"): (1, 2)})
    submit(driver, submission("request_0000000000", {tp(0, "gone"): (1, 4)}))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    _, *others = driver.own_records()
    driver.observe(Deposed("another one"), SpecsRead(specs, {}), *others)
    driver.observe(TopicsListed(frozenset({"t"})))
    driver.accepts = False
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert driver.view.reassignments.by_partition
    answer(driver, 0, 1)
    assert not driver.view.reassignments.by_partition


def test_a_step_in_flight_says_that_no_broker_accepts_our_requests() -> None:
    """It is in the topic znode, and waits for the claim to reach a broker."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    _, *others = driver.own_records()
    driver.observe(Deposed("another one"), SpecsRead(specs, {}), *others)
    driver.accepts = False
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert driver.view.pacing.in_flight
    waits = BlockedReasons(driver.view, driver.now).of(driver.view.reassignments.by_partition[tp()])
    assert waits is not None
    assert waits.by is BlockedBy.CONTROLLER_ROLE


def test_a_step_that_a_tenure_takes_up_says_that_its_state_is_read() -> None:
    """Of ten thousand, the last are read some seconds after the claim."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    _, *others = driver.own_records()
    driver.observe(Deposed("another one"), SpecsRead(specs, {}), *others)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert tp() in driver.view.leadership.seeding
    waits = BlockedReasons(driver.view, driver.now).of(driver.view.reassignments.by_partition[tp()])
    assert waits is not None
    assert waits.by is BlockedBy.STATE_UNKNOWN


@pytest.mark.parametrize("error", [CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION])
def test_a_role_whose_requests_most_brokers_refuse_is_given_back_and_left_alone(error: int) -> None:
    """Claimed again at once it would take the cluster its controller again and again."""
    driver = rejected_driver()
    answer(driver, error, 1, 2)
    assert not resignations(driver)
    answer(driver, error, 3)
    assert len(resignations(driver)) == 1
    assert StateRecord not in written(driver)
    assert "3 of 4 live brokers refuse" in refusals(driver.view)[0]
    driver.observe(Deposed("the role was given back"), *driver.own_records())
    driver.sent.clear()
    driver.now = Instant(driver.now + REJECTED_RETRY_S - 1)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert not any(isinstance(e, effects.ClaimController) for e in driver.sent)
    assert refusals(driver.view)
    driver.now = Instant(driver.now + 1)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert any(isinstance(e, effects.ClaimController) for e in driver.sent)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    answer(driver, 0, 1)
    assert not refusals(driver.view)


def test_a_permission_that_is_taken_away_in_the_tenure_ends_it() -> None:
    """What brokers accepted before does not make them accept the next."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    answer(driver, CLUSTER_AUTHORIZATION_FAILED, 1, 2, 3)
    assert "CLUSTER_AUTHORIZATION_FAILED" in resignations(driver)[0]


def test_brokers_that_accept_again_or_are_gone_do_not_count_as_refusing() -> None:
    """Of four live ones two do not make a majority."""
    driver = rejected_driver()
    answer(driver, CLUSTER_AUTHORIZATION_FAILED, 1, 2)
    answer(driver, 0, 1)
    answer(driver, CLUSTER_AUTHORIZATION_FAILED, 3)
    assert not resignations(driver)
    driver.observe(live(1, 2, 3, 4, bounced=(2,)))
    answer(driver, CLUSTER_AUTHORIZATION_FAILED, 4)
    assert not resignations(driver)
    driver.observe(live(1, 3, 4, bounced=(2,)))
    assert len(resignations(driver)) == 1


def test_a_role_that_reaches_no_broker_is_given_back() -> None:
    """A broker that reaches the others takes it."""
    driver = rejected_driver()
    driver.now = Instant(driver.now + ACCEPTANCE_PATIENCE_S - 1)
    driver.observe(TimerFired(ACCEPTANCE_TIMER))
    assert not resignations(driver)
    driver.now = Instant(driver.now + 1)
    driver.observe(TimerFired(ACCEPTANCE_TIMER))
    assert "none of 4 live brokers accepted" in resignations(driver)[0]
    assert StateRecord not in written(driver)


def test_a_broker_that_accepts_again_gets_what_it_refused() -> None:
    """A refused request is not resent: the broker would lead and follow nothing for good."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    answer(driver, 31, 2)
    driver.sent.clear()
    answer(driver, 0, 2)
    assert any(isinstance(e, effects.SendLeaderAndIsr) and 2 in e.brokers for e in driver.sent)
    driver.sent.clear()
    answer(driver, 0, 2)
    assert not any(isinstance(e, effects.SendLeaderAndIsr) for e in driver.sent)


def test_a_broker_that_refused_requests_is_sent_them_again() -> None:
    """Its permission may be back in a cluster in which nothing else is sent."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    answer(driver, 31, 2)
    driver.sent.clear()
    driver.observe(TimerFired(ACK_TIMER))
    assert any(isinstance(e, effects.SendLiveBrokers) for e in driver.sent)


def stopping() -> tuple[Driver, Stopping]:
    """Return a step that waits for the deletion of the replicas on 2 and 3."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(step_size=None), acknowledges=False)
    submit(driver, submission("request_0000000000", {tp(): (1,)}))
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    driver.acknowledge_stop(tp(), replicas(2, 3))
    phase = driver.view.reassignments.by_partition[tp()].phase
    assert isinstance(phase, Stopping)
    assert phase.deletes
    assert phase.waiting == {2, 3}
    return driver, phase


def test_a_replica_is_deleted_when_it_fetches_no_more() -> None:
    """Where leaders write the ISR: one that handles a last fetch may add the replica again."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(step_size=None), acknowledges=False)
    submit(driver, submission("request_0000000000", {tp(): (1,)}))
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    driver.acknowledge_stop(tp(), replicas(2))
    deletions = [s for s in driver.sent if isinstance(s, effects.SendStopReplica) and s.delete]
    assert not deletions
    stopped(driver, 3, KAFKA_STORAGE_ERROR, delete=False)
    deletions = [s for s in driver.sent if isinstance(s, effects.SendStopReplica) and s.delete]
    assert [s.broker for s in deletions] == [2]
    driver.acknowledge_stop(tp(), replicas(2), delete=True)
    assert list(driver.view.reassignments.orphans) == [(BrokerId(3), tp())]


def stopped(driver: Driver, broker: int, error: int, *, delete: bool = True) -> None:
    """Let a broker answer a StopReplica."""
    one, epoch = BrokerId(broker), driver.view.leadership.states[tp()].leader_epoch
    result = StopReplicaResult(tp(), epoch, delete, error)
    driver.observe(StopReplicaAnswered(one, driver.epoch(one), 0, (result,), resent=False))


@pytest.mark.parametrize(
    ("broker", "error", "delete"),
    [(2, 0, False), (2, 11, True), (2, -1, True), (4, 0, True)],
    ids=["stopped only", "outdated epoch", "unknown error", "another broker"],
)
def test_only_an_answer_that_confirms_the_deletion_counts(
    broker: int, error: int, *, delete: bool
) -> None:
    """The topic znode loses a replica only when its log is gone, or on record as an orphan."""
    driver, phase = stopping()
    stopped(driver, broker, error, delete=delete)
    reassignment = driver.view.reassignments.by_partition[tp()]
    assert (reassignment.phase, reassignment.deleted) == (phase, frozenset())


def test_a_deletion_that_is_confirmed_leaves_no_orphan() -> None:
    """The step waits for the others, and ends with the last."""
    driver, phase = stopping()
    stopped(driver, 2, 0)
    waiting = Stopping(frozenset({BrokerId(3)}), frozenset(), phase.deadline)
    assert driver.view.reassignments.by_partition[tp()].phase == waiting
    assert driver.view.reassignments.by_partition[tp()].deleted == {2}
    stopped(driver, 3, 0)
    assert tp() not in driver.view.reassignments.by_partition
    assert driver.view.reassignments.orphans == {}


def test_a_deletion_that_a_failed_disk_prevents_is_given_up() -> None:
    """It is on record as an orphan, and the step does not wait for it."""
    driver, phase = stopping()
    stopped(driver, 2, KAFKA_STORAGE_ERROR)
    waiting = Stopping(frozenset({BrokerId(3)}), frozenset({BrokerId(2)}), phase.deadline)
    assert driver.view.reassignments.by_partition[tp()].phase == waiting
    assert driver.view.reassignments.by_partition[tp()].deleted == frozenset()
    assert (BrokerId(2), tp()) in driver.view.leadership.offline
    stopped(driver, 3, 0)
    assert list(driver.view.reassignments.orphans) == [(BrokerId(2), tp())]


def test_an_answer_that_another_registration_of_the_broker_gave_does_not_count() -> None:
    """The broker restarted since, with its log or without it."""
    driver, phase = stopping()
    two, epoch = BrokerId(2), driver.view.leadership.states[tp()].leader_epoch
    result = StopReplicaResult(tp(), epoch, delete=True, error=0)
    earlier = BrokerEpoch(driver.epoch(two) - 1)
    driver.observe(StopReplicaAnswered(two, earlier, 0, (result,), resent=False))
    driver.observe(StopReplicaAnswered(two, driver.epoch(two), 11, (result,), resent=False))
    assert driver.view.reassignments.by_partition[tp()].phase == phase


@pytest.mark.parametrize(
    ("error", "is_back"), [(0, True), (STALE_CONTROLLER_EPOCH, True), (3, False)]
)
def test_a_replica_that_the_broker_accepts_again_is_not_on_a_failed_disk(
    error: int, *, is_back: bool
) -> None:
    """A broker refuses a replica of a failed directory each time; another error shows nothing."""
    driver = Driver({tp(): (1, 2, 3)})
    two, epoch = BrokerId(2), driver.view.leadership.states[tp()].leader_epoch
    for code in (KAFKA_STORAGE_ERROR, error):
        result = LeaderAndIsrResult(tp(), epoch, code)
        driver.observe(LeaderAndIsrAnswered(two, driver.epoch(two), 0, (result,), resent=True))
        assert ((two, tp()) in driver.view.leadership.offline) == (
            code == KAFKA_STORAGE_ERROR or not is_back
        )
