"""The answers of brokers: which count, and what each of them says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kafka import errors

from controller.core.effects import ResignController
from controller.core.leadership.fold import leader_and_isr_answered
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
    ZkVersion,
)
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import (
    OrphansRead,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.role.claims_and_resignations import has_orphans
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_CONTROLLER_EPOCH,
    UNSUPPORTED_VERSION,
)
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.core.requests.test_submitted import submission, submit

LEADER = BrokerId(1)
OTHER = tp(1)
UNMOVED = tp(2)


def unanswered() -> Driver:
    """Return steps in flight of which no leader acknowledged anything."""
    partitions = (tp(), OTHER, UNMOVED)
    driver = Driver(dict.fromkeys(partitions, (1, 2, 3)), acknowledges=False)
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4), OTHER: (1, 2, 4)}))
    assert driver.view.pacing.in_flight == 2
    assert not driver.view.leadership.acked
    return driver


def answer(
    driver: Driver,
    results_of: Mapping[TopicPartition, int],
    *,
    epoch: BrokerEpoch | None = None,
    resent: bool = False,
) -> None:
    """Let the leader answer for partitions, in their order."""
    epoch = driver.epoch(LEADER) if epoch is None else epoch
    results = tuple(
        LeaderAndIsrResult(p, driver.view.leadership.states[p].leader_epoch, error)
        for p, error in results_of.items()
    )
    event = LeaderAndIsrAnswered(LEADER, epoch, NONE, results, resent=resent)
    leader_and_isr_answered(driver.view, event)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (NONE, errors.NoError),
        (STALE_CONTROLLER_EPOCH, errors.StaleControllerEpochError),
        (CLUSTER_AUTHORIZATION_FAILED, errors.ClusterAuthorizationFailedError),
        (UNSUPPORTED_VERSION, errors.UnsupportedVersionError),
        (KAFKA_STORAGE_ERROR, errors.KafkaStorageError),
    ],
)
def test_error_codes_are_those_of_the_protocol(
    code: int, error: type[errors.BrokerResponseError]
) -> None:
    """A broker's answer has a number, and no name."""
    assert code == error.errno


def test_the_role_is_given_back_where_a_broker_knows_a_newer_controller() -> None:
    """Its epoch fences every request of ours; the loss of the znode is heard of later."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.observe(UpdateMetadataAnswered(LEADER, driver.epoch(LEADER), STALE_CONTROLLER_EPOCH))
    resigned = [e.reason for e in driver.sent if isinstance(e, ResignController)]
    assert resigned == ["broker 1 knows a newer controller"]


def test_an_answer_of_an_earlier_registration_counts_for_nothing() -> None:
    """The broker may have restarted since, and know nothing of what it acknowledged."""
    driver, both = unanswered(), {tp(): NONE, OTHER: NONE}
    answer(driver, both, epoch=BrokerEpoch(driver.epoch(LEADER) - 1))
    assert not driver.view.leadership.acked
    answer(driver, both)
    assert set(driver.view.leadership.acked) == {tp(), OTHER}


def test_an_answer_says_of_each_partition_what_it_says_of_that_one() -> None:
    """A broker answers for all partitions at once, moved or not, of whichever log directory."""
    driver = unanswered()
    answer(driver, {UNMOVED: NONE, tp(): KAFKA_STORAGE_ERROR, OTHER: NONE})
    assert set(driver.view.leadership.acked) == {OTHER}
    assert driver.view.leadership.offline == {(LEADER, tp())}


@pytest.mark.parametrize(
    ("writer", "resent", "counts"),
    [
        (EPOCH, False, True),
        (ControllerEpoch(EPOCH - 1), True, True),
        (ControllerEpoch(EPOCH - 1), False, False),
    ],
)
def test_a_leader_that_has_the_epoch_already_acknowledges_what_only_this_tenure_sent(
    writer: ControllerEpoch, *, resent: bool, counts: bool
) -> None:
    """Of an epoch of another controller it may have heard from that one."""
    driver = unanswered()
    state = PartitionState(LEADER, LeaderEpoch(5), replicas(1, 2, 3), writer, ZkVersion(5))
    driver.view.leadership.states[tp()] = state
    answer(driver, {tp(): STALE_CONTROLLER_EPOCH}, resent=resent)
    assert (tp() in driver.view.leadership.acked) == counts


def test_an_orphan_that_could_not_be_deleted_is_not_tried_again_in_the_tenure() -> None:
    """Its disk failed: the broker would answer the same, and the role is not held for it."""
    driver = Driver({tp(): (1, 2)}, acknowledges=False)
    four = BrokerId(4)
    orphan = Orphan(four, tp(), driver.view.topics.by_name["t"].czxid, "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.acknowledge(tp(), driver.view.cluster.brokers)
    driver.settle()
    assert has_orphans(driver.view, driver.now)
    result = StopReplicaResult(
        tp(),
        driver.view.leadership.states[tp()].leader_epoch,
        True,  # noqa: FBT003 - the result's fields in order
        KAFKA_STORAGE_ERROR,
    )
    driver.observe(StopReplicaAnswered(four, driver.epoch(four), NONE, (result,), resent=False))
    assert not has_orphans(driver.view, driver.now)
    assert driver.view.reassignments.orphans
