"""Blocks of producer ids are durable before they are handed out, and never handed out twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    ProducerIdBlock,
    ProducerIdsAnswer,
)
from controller.core.calls.records import BrokerRequestReceived, ProducerIdsRead, ProducerIdsRecord
from controller.core.cycle import take_due
from controller.core.decide import decide
from controller.core.effects import Respond
from controller.core.model import BrokerEpoch, BrokerId, ControllerEpoch, Instant, ZkVersion
from controller.core.records import Change, TimerFired
from controller.core.role import invalidation
from controller.core.role.records import ControllerClaimed, Deposed
from controller.core.wakeups import PENDING_REQUESTS_TIMER
from controller.kafka_errors import STALE_BROKER_EPOCH
from controller.reactor.ports import Create, SetData
from controller.reactor.znode_operations import operations_of
from controller.znodes import paths
from tests.core.builders import EPOCH, Driver, broker, tp

PREVIOUS = ProducerIdBlock(BrokerId(9), 4000, 4999)
READ = ProducerIdsRead(PREVIOUS, ZkVersion(4))
UNREGISTERED = BrokerId(99)


def opened(read: ProducerIdsRead | None = READ) -> Driver:
    """Return a tenure in which the znode was read."""
    driver = Driver({tp(): (1, 2, 3)})
    if read is not None:
        driver.observe(read)
    return driver


def send(driver: Driver, broker_id: int, ticket: int) -> None:
    """Let a broker ask, without a decision."""
    request = AllocateProducerIds(BrokerId(broker_id), broker(broker_id).epoch)
    driver.fold(BrokerRequestReceived(ticket, request, driver.permission))


def answers(driver: Driver) -> dict[int, ProducerIdsAnswer]:
    """Return what was answered, by ticket."""
    return {
        e.ticket: e.response
        for e in driver.sent
        if isinstance(e, Respond) and isinstance(e.response, ProducerIdsAnswer)
    }


def written(driver: Driver) -> list[ProducerIdsRecord]:
    """Return the writes of the znode."""
    return [r for c in driver.changes for r in c.records if isinstance(r, ProducerIdsRecord)]


def test_requests_of_one_cycle_share_a_write() -> None:
    """The znode names the last block: the next one follows it."""
    driver = opened()
    for ticket in (1, 2, 3):
        send(driver, ticket, ticket)
    driver.settle()
    assert answers(driver) == {
        1: ProducerIdsAnswer(0, 5000, 1000),
        2: ProducerIdsAnswer(0, 6000, 1000),
        3: ProducerIdsAnswer(0, 7000, 1000),
    }
    (record,) = written(driver)
    assert record == ProducerIdsRecord(ProducerIdBlock(BrokerId(3), 7000, 7999), ZkVersion(4))
    (operation,) = operations_of(record, driver.view)
    assert isinstance(operation, SetData)
    assert (operation.path, operation.version) == (paths.PRODUCER_IDS, 4)
    send(driver, 1, 4)
    driver.settle()
    assert answers(driver)[4] == ProducerIdsAnswer(0, 8000, 1000)
    assert written(driver)[-1].expected_version == 5


def test_first_block_begins_at_zero() -> None:
    """Whether the znode exists without content, or not at all."""
    for version in (None, ZkVersion(0)):
        driver = opened(ProducerIdsRead(None, version))
        send(driver, 1, 1)
        driver.settle()
        assert answers(driver) == {1: ProducerIdsAnswer(0, 0, 1000)}
        (operation,) = operations_of(written(driver)[0], driver.view)
        assert isinstance(operation, Create if version is None else SetData)


def test_answer_waits_until_the_znode_is_read_in_the_tenure() -> None:
    """A former controller may have handed out more."""
    driver = opened(None)
    send(driver, 1, 1)
    driver.settle()
    assert not answers(driver)
    driver.observe(ProducerIdsRead(PREVIOUS, ZkVersion(4)))
    assert answers(driver) == {1: ProducerIdsAnswer(0, 5000, 1000)}
    driver.observe(Deposed("a new controller"))
    driver.observe(*driver.own_records(), ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert driver.view.calls.producer_ids is None


def test_request_of_a_former_tenure_gets_no_ids() -> None:
    """The endpoint answered it when that tenure ended; the broker asks again."""
    driver = opened()
    former = driver.permission
    request = AllocateProducerIds(BrokerId(1), broker(1).epoch)
    driver.observe(Deposed("a new controller"), *driver.own_records())
    driver.fold(BrokerRequestReceived(1, request, former))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.fold(BrokerRequestReceived(2, request, former))
    assert not driver.view.calls.heard
    driver.observe(READ)
    assert not answers(driver)
    driver.observe(BrokerRequestReceived(3, request, driver.permission))
    assert answers(driver) == {3: ProducerIdsAnswer(0, 5000, 1000)}


def test_unreadable_znode_hands_out_nothing() -> None:
    """The broker asks again."""
    driver = opened(ProducerIdsRead("no JSON", ZkVersion(4)))
    send(driver, 1, 1)
    driver.settle()
    assert not answers(driver)
    driver.now = Instant(driver.now + 21.0)
    driver.observe(TimerFired(PENDING_REQUESTS_TIMER))
    assert answers(driver) == {1: ProducerIdsAnswer(kafka_errors.NOT_CONTROLLER)}
    assert not written(driver)


def test_rejected_write_is_decided_again_after_a_read() -> None:
    """Another broker of an earlier protocol wrote the znode itself."""
    driver = opened()
    send(driver, 1, 1)
    decision = decide(driver.view, take_due(driver.view), driver.now)
    (rejected,) = [c for c in decision.changes if _hands_out(c)]
    invalidation.invalidate(driver.view, rejected)
    driver.settle()
    assert not answers(driver)
    driver.observe(ProducerIdsRead(ProducerIdBlock(BrokerId(2), 5000, 5999), ZkVersion(5)))
    assert answers(driver) == {1: ProducerIdsAnswer(0, 6000, 1000)}


def _hands_out(change: Change) -> bool:
    return any(isinstance(r, ProducerIdsRecord) for r in change.records)


def test_read_that_a_write_overtook_is_dropped() -> None:
    """Its blocks would be handed out again."""
    driver = opened()
    send(driver, 1, 1)
    driver.settle()
    driver.observe(ProducerIdsRead(PREVIOUS, ZkVersion(4)))
    send(driver, 2, 2)
    driver.settle()
    assert answers(driver)[2] == ProducerIdsAnswer(0, 6000, 1000)


def test_deleted_znode_does_not_make_ids_available_again() -> None:
    """An operator deleted it; producers use its ids."""
    driver = opened()
    driver.observe(ProducerIdsRead(None))
    send(driver, 1, 1)
    driver.settle()
    assert answers(driver) == {1: ProducerIdsAnswer(0, 5000, 1000)}
    assert written(driver)[0].expected_version is None


@pytest.mark.parametrize(
    ("allocation", "error"),
    [
        (
            AllocateProducerIds(BrokerId(99), BrokerEpoch(1)),
            kafka_errors.BROKER_ID_NOT_REGISTERED,
        ),
        (AllocateProducerIds(BrokerId(1), BrokerEpoch(1)), STALE_BROKER_EPOCH),
    ],
)
def test_registration_is_checked(allocation: AllocateProducerIds, error: int) -> None:
    """As in Kafka's controller."""
    driver = opened()
    driver.observe(BrokerRequestReceived(1, allocation, driver.permission))
    assert answers(driver) == {1: ProducerIdsAnswer(error)}
    assert not written(driver)


def test_ids_come_to_an_end() -> None:
    """The last block is not handed out in part."""
    driver = opened()
    assert driver.view.calls.producer_ids is not None
    driver.view.calls.producer_ids = replace(driver.view.calls.producer_ids, following=2**63 - 1500)
    send(driver, 1, 1)
    send(driver, 2, 2)
    driver.settle()
    assert answers(driver) == {
        1: ProducerIdsAnswer(0, 2**63 - 1500, 1000),
        2: ProducerIdsAnswer(kafka_errors.UNKNOWN_SERVER_ERROR),
    }
