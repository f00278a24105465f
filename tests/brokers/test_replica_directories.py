"""Directories of replicas: asked and requested from one broker, each request answered once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.protocol.admin import AlterReplicaLogDirsResponse, DescribeLogDirsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers import replica_directories
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import REFUSED
from controller.brokers.replica_directories import ReplicaDirectories
from controller.clocks import MonotonicClock
from controller.core.disks.directory_ledger import NO_ANSWER
from controller.core.disks.records import DirectoryResult, LogDirsAltered, LogDirsDescribed
from controller.core.model import Endpoint, PlacedReplica, TopicPartition
from tests.brokers.fakes import Answer, CollectingInbox, Drop, FakeBroker, Received

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def answering(received: Received) -> Answer:
    """Answer for two directories, of which one holds a future log; refuse the other partition."""
    if received.api_key == ApiKey.AlterReplicaLogDirs:
        rows = [
            (topic.name, [(n, 0 if n == 0 else 57) for n in topic.partitions])
            for directory in received.message.dirs
            for topic in directory.topics
        ]
        return Answer(AlterReplicaLogDirsResponse(version=1, throttle_time_ms=0, results=rows))
    first = (0, "/1", [("orders", [(0, 500, 0, False)])])
    second = (0, "/2", [("orders", [(0, 200, 0, True)])])
    failed: tuple[int, str, list[object]] = (56, "/3", [])
    results = [first, second, failed]
    return Answer(DescribeLogDirsResponse(version=1, throttle_time_ms=0, results=results))


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def directories(inbox: CollectingInbox) -> Iterator[ReplicaDirectories]:
    """Return the adapter; it is stopped when the test ends."""
    made = ReplicaDirectories(inbox, Security(), ListenerChoice(), MonotonicClock())
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def test_replica_is_described_with_its_future_log(
    directories: ReplicaDirectories, inbox: CollectingInbox
) -> None:
    """Only what the broker has; and which of its directories failed."""
    with FakeBroker(script=answering) as fake:
        broker = fake.registration()
        directories.describe(broker, (ORDERS, OTHER))
        event = inbox.next()
        directories.update_brokers([])
    assert isinstance(event, LogDirsDescribed)
    assert (event.broker, event.broker_epoch, event.problem) == (broker.id, broker.epoch, None)
    assert event.dirs == {"/1": False, "/2": False, "/3": True}
    assert event.requested == {ORDERS, OTHER}
    assert event.replicas == {ORDERS: PlacedReplica("/1", "/2", 200)}


def test_each_requested_replica_is_answered(
    directories: ReplicaDirectories, inbox: CollectingInbox
) -> None:
    """Together in one request."""
    with FakeBroker(script=answering) as fake:
        broker = fake.registration()
        directories.alter(broker, {ORDERS: "/1", OTHER: "/9"})
        event = inbox.next()
        assert fake.received.get_nowait().api_key == ApiKey.AlterReplicaLogDirs
        directories.update_brokers([])
    results = (DirectoryResult(ORDERS, "/1", 0), DirectoryResult(OTHER, "/9", 57))
    assert event == LogDirsAltered(broker.id, broker.epoch, results)


def test_broker_that_does_not_answer_is_reported(
    directories: ReplicaDirectories, inbox: CollectingInbox
) -> None:
    """Whether it cannot be reached, ends the connection or lacks the permission."""
    with FakeBroker(script=lambda _: Drop()) as fake:
        broker = fake.registration()
        nowhere = replace(broker, endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT"),))
        for registered in (broker, nowhere):
            directories.describe(registered, (ORDERS,))
            described = inbox.next()
            assert isinstance(described, LogDirsDescribed)
            assert described.problem
            assert described.requested == {ORDERS}
            directories.alter(registered, {ORDERS: "/1"})
            altered = inbox.next()
            assert isinstance(altered, LogDirsAltered)
            ((partition, directory, error, why),) = altered.results
            assert (partition, directory, error) == (ORDERS, "/1", NO_ANSWER)
            assert why
        none = DescribeLogDirsResponse(version=1, throttle_time_ms=0, results=[])
        fake.script = lambda _: Answer(none)
        directories.describe(broker, ())
        refused = inbox.next()
        assert isinstance(refused, LogDirsDescribed)
        assert refused.problem == REFUSED
        directories.update_brokers([])


def test_request_that_waited_too_long_is_not_sent(
    directories: ReplicaDirectories, inbox: CollectingInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been cancelled since."""
    monkeypatch.setattr(replica_directories, "FRESH_S", 0.0)
    with FakeBroker(script=answering) as fake:
        directories.alter(fake.registration(), {ORDERS: "/1"})
        event = inbox.next()
        assert isinstance(event, LogDirsAltered)
        assert event.results[0].error == NO_ANSWER
        assert fake.received.empty()
        directories.update_brokers([])
