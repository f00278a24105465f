"""Sizes on disk: every broker is asked, the largest replica counts, and a silent one is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import NAMED_MAX, LogDirQuery
from controller.core.events import SizesRead
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LiveBroker,
    TopicPartition,
)
from tests.brokers.fakes import Answer, CollectingInbox, Drop, FakeBroker, Received

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
DESCRIBE_LOG_DIRS = 35
KAFKA_STORAGE_ERROR = 56

Row = tuple[TopicPartition, int, bool]
"""A replica, its size, and whether it is a future one."""


def directory(*rows: Row, error: int = 0) -> tuple[object, ...]:
    """Return one log directory as a broker describes it."""
    topics = [(p.topic, [(p.partition, size, 0, future)]) for p, size, future in rows]
    return (error, "/data", topics)


def describing(*directories: tuple[object, ...]) -> FakeBroker:
    """Return a broker with these log directories."""

    def script(received: Received) -> Answer:
        version = received.version
        return Answer(
            DescribeLogDirsResponse(version=version, throttle_time_ms=0, results=list(directories))
        )

    return FakeBroker(script=script)


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def sizes(inbox: CollectingInbox) -> Iterator[LogDirQuery]:
    """Return sizes that know no broker yet; they are stopped when the test ends."""
    made = LogDirQuery(inbox, Security(), ListenerChoice())
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def registered(fake: FakeBroker, broker: int) -> LiveBroker:
    """Return the fake's registration under this id."""
    known = fake.registration()
    return LiveBroker(BrokerId(broker), known.epoch, known.endpoints)


def measured(sizes: LogDirQuery, inbox: CollectingInbox, *partitions: TopicPartition) -> SizesRead:
    """Ask, and return the answer."""
    sizes.measure(partitions or (ORDERS,))
    event = inbox.next()
    assert isinstance(event, SizesRead)
    return event


def test_largest_replica_counts(sizes: LogDirQuery, inbox: CollectingInbox) -> None:
    """One that is being copied is still small."""
    with ExitStack() as stack:
        fakes = [
            stack.enter_context(describing(directory((ORDERS, size, False))))
            for size in (300, 7000, 10)
        ]
        sizes.update_brokers([registered(fake, n) for n, fake in enumerate(fakes, 1)])
        event = measured(sizes, inbox)
        sizes.update_brokers([])
    assert event.sizes == {ORDERS: 7000}
    assert event.replicas == {ORDERS: {1: 300, 2: 7000, 3: 10}}


def test_only_the_requested_replicas_are_returned(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """A broker that is asked for all of its replicas lists more than is wanted."""
    with describing(directory((ORDERS, 5, False), (OTHER, 6, False))) as fake:
        sizes.update_brokers([registered(fake, 1)])
        event = measured(sizes, inbox)
        assert fake.received.get_nowait().message.topics[0].topic == "orders"
        many = [TopicPartition("orders", n) for n in range(1, NAMED_MAX + 2)]
        assert measured(sizes, inbox, *many).sizes == {OTHER: 6}
        assert fake.received.get_nowait().message.topics is None
        sizes.update_brokers([])
    assert event.sizes == {ORDERS: 5}


def test_a_failed_directory_and_a_future_replica_have_no_size(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """The one is unreadable, the other a copy within the broker."""
    failed = directory((ORDERS, 99, False), error=KAFKA_STORAGE_ERROR)
    with describing(failed, directory((OTHER, 99, True))) as fake:
        sizes.update_brokers([registered(fake, 1)])
        event = measured(sizes, inbox, ORDERS, OTHER)
        sizes.update_brokers([])
    assert event == SizesRead({}, {})


def test_broker_that_does_not_answer_is_named_and_the_others_are_heard(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """One of them in trouble is when sizes matter most."""
    nowhere = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
    dead = LiveBroker(BrokerId(2), BrokerEpoch(1), (nowhere,))
    with describing(directory((ORDERS, 5, False))) as fake:
        sizes.update_brokers([registered(fake, 1), dead])
        event = measured(sizes, inbox)
        sizes.update_brokers([])
    assert event.sizes == {ORDERS: 5}
    assert list(event.errors) == [2]
    assert "127.0.0.1:1" in event.errors[BrokerId(2)]


def test_connection_is_used_again_and_replaced_when_it_breaks(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """Sizes are asked for every minute."""
    with describing(directory((ORDERS, 5, False))) as fake:
        sizes.update_brokers([registered(fake, 1)])
        measured(sizes, inbox)
        measured(sizes, inbox)
        assert fake.connections == 1
        working, fake.script = fake.script, lambda _: Drop()
        assert list(measured(sizes, inbox).errors) == [1]
        fake.script = working
        assert measured(sizes, inbox).sizes == {ORDERS: 5}
        assert fake.connections == 2
        sizes.update_brokers([])


def test_question_is_answered_where_no_broker_is_known(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """Nothing was read, and the event says so."""
    assert measured(sizes, inbox) == SizesRead({}, {})
