"""Log directories: each broker answers on its own, queries and requests once for each of them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import AlterReplicaLogDirsResponse, DescribeLogDirsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers import log_dirs as adapter
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.log_dirs import NAMED_MAX, REFUSED, SPACE_VERSION, BrokerLogDirs
from controller.clocks import MonotonicClock
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.disks.placements import NO_ANSWER
from controller.core.disks.records import DirectoryResult, LogDirsAltered, LogDirsDescribed
from controller.core.model import BrokerEpoch, BrokerId, LogDir, PlacedReplica, TopicPartition
from controller.kafka_errors import KAFKA_STORAGE_ERROR
from tests.brokers.fakes import (
    KAFKA_2_6,
    Answer,
    CollectingInbox,
    Drop,
    FakeBroker,
    Hold,
    Reaction,
    Received,
)
from tests.contracts.log_dirs_contract import LogDirsContract

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
CAPACITIES = defaultdict(dict[str, int], {BrokerId(7): {"/data": 1000}})

Row = tuple[TopicPartition, int, bool]
"""A replica, its size, and whether it is a future one."""


def directory(
    *rows: Row, error: int = 0, path: str = "/data", total: int = -1, usable: int = -1
) -> tuple[object, ...]:
    """Return one log directory as a broker describes it."""
    topics = [(p.topic, [(p.partition, size, 0, future)]) for p, size, future in rows]
    return (error, path, topics, total, usable)


def describing(*directories: tuple[object, ...], highest: int = 2) -> FakeBroker:
    """Return a broker with these log directories, and its highest version of the query."""

    def script(received: Received) -> Answer:
        version = received.version
        width = 5 if version >= SPACE_VERSION else 3
        wanted = received.message.topics
        results = [_named(d, wanted)[:width] for d in directories]
        return Answer(DescribeLogDirsResponse(version=version, throttle_time_ms=0, results=results))

    return FakeBroker(script=script, understood={**KAFKA_2_6, ApiKey.DescribeLogDirs: (0, highest)})


def _named(described: tuple[Any, ...], wanted: Any) -> tuple[Any, ...]:  # noqa: ANN401 - kafka-python has no types
    """Return a directory with the replicas that the request names, all where it names none."""
    error, path, topics, *space = described
    if wanted is not None:
        names = {(t.topic, n) for t in wanted for n in t.partitions}
        topics = [t for t in topics if (t[0], t[1][0][0]) in names]
    return (error, path, topics, *space)


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def log_dirs(inbox: CollectingInbox) -> Iterator[BrokerLogDirs]:
    """Return the adapter; it is stopped when the test ends."""
    made = BrokerLogDirs(inbox, ConnectionSettings(), MonotonicClock(), CAPACITIES.__getitem__)
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def registered(fake: FakeBroker, broker: int) -> LiveBroker:
    """Return the fake's registration under this id."""
    known = fake.registration()
    return LiveBroker(BrokerId(broker), known.epoch, known.endpoints)


def described(
    log_dirs: BrokerLogDirs,
    inbox: CollectingInbox,
    broker: LiveBroker,
    *partitions: TopicPartition,
    is_whole: bool = False,
) -> LogDirsDescribed:
    """Query a broker, and return the answer."""
    log_dirs.describe([broker], partitions or (ORDERS,), is_whole=is_whole)
    return answered(inbox)


def answered(inbox: CollectingInbox) -> LogDirsDescribed:
    """Return the next answer to a query."""
    event = inbox.next()
    assert isinstance(event, LogDirsDescribed)
    return event


def test_each_broker_answers_for_its_own_replicas(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """The answer has the registration of the broker and the partitions of the query."""
    with ExitStack() as stack:
        fakes = [
            stack.enter_context(describing(directory((ORDERS, size, False)))) for size in (300, 700)
        ]
        brokers = [registered(fake, n) for n, fake in enumerate(fakes, 1)]
        log_dirs.describe(brokers, (ORDERS, OTHER), is_whole=False)
        events = sorted((answered(inbox) for _ in brokers), key=lambda e: e.broker)
        log_dirs.update_brokers([])
    assert [(e.broker, e.broker_epoch, e.partitions) for e in events] == [
        (b.id, b.epoch, {ORDERS, OTHER}) for b in brokers
    ]
    assert [e.replicas for e in events] == [
        {ORDERS: PlacedReplica("/data", size)} for size in (300, 700)
    ]


def test_broker_that_does_not_answer_delays_no_other_and_is_queried_once_more(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """What is requested of it meanwhile is one query."""
    released = threading.Event()
    slow = describing(directory((ORDERS, 1, False), (OTHER, 700, False)))
    at_once = slow.script

    def held(received: Received) -> Reaction:
        reaction = at_once(received)
        assert isinstance(reaction, Answer)
        return Hold(released, reaction)

    slow.script = held
    with describing(directory((ORDERS, 300, False))) as fake, slow:
        brokers = [registered(fake, 1), registered(slow, 2)]
        log_dirs.describe(brokers, (OTHER,), is_whole=False)
        assert answered(inbox).broker == 1
        log_dirs.describe(brokers, (ORDERS,), is_whole=False)
        assert answered(inbox).broker == 1
        log_dirs.describe(brokers[1:], (OTHER,), is_whole=False)
        slow.received.get()
        released.set()
        first, merged = answered(inbox), answered(inbox)
        log_dirs.update_brokers([])
    assert (first.partitions, merged.partitions) == ({OTHER}, {ORDERS, OTHER})
    assert {p: r.size for p, r in merged.replicas.items()} == {ORDERS: 1, OTHER: 700}


def test_only_the_requested_replicas_are_returned(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """A broker that is asked for all of its replicas lists more than is wanted."""
    with describing(directory((ORDERS, 5, False), (OTHER, 6, False))) as fake:
        broker = registered(fake, 1)
        event = described(log_dirs, inbox, broker)
        assert fake.received.get_nowait().message.topics[0].topic == "orders"
        many = [TopicPartition("orders", n) for n in range(1, NAMED_MAX + 2)]
        assert described(log_dirs, inbox, broker, *many).replicas.keys() == {OTHER}
        assert fake.received.get_nowait().message.topics is None
        log_dirs.update_brokers([])
    assert event.replicas.keys() == {ORDERS}


def test_replica_is_described_with_its_future_log(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """That of a move within the broker; a failed directory lists nothing that counts."""
    failed = directory((OTHER, 99, False), error=KAFKA_STORAGE_ERROR, path="/3")
    here, there = (
        directory((ORDERS, 500, False), path="/1"),
        directory((ORDERS, 200, True), path="/2"),
    )
    with describing(here, there, failed) as fake:
        event = described(log_dirs, inbox, registered(fake, 1), ORDERS, OTHER)
        log_dirs.update_brokers([])
    assert event.problem is None
    assert event.replicas == {ORDERS: PlacedReplica("/1", 500, "/2", 200)}
    assert {d.path: d.is_failed for d in event.dirs} == {"/1": False, "/2": False, "/3": True}


def test_broker_that_cannot_be_reached_is_reported(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """One of them in trouble is when the answers of the others matter most."""
    nowhere = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
    dead = LiveBroker(BrokerId(2), BrokerEpoch(1), (nowhere,))
    event = described(log_dirs, inbox, dead)
    assert (event.broker, event.broker_epoch, event.partitions) == (2, 1, {ORDERS})
    assert event.problem is not None
    assert "127.0.0.1:1" in event.problem
    assert not event.is_refused
    assert (event.replicas, event.dirs) == ({}, ())


def test_connection_is_used_again_and_replaced_when_it_breaks(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """Sizes are queried every minute."""
    with describing(directory((ORDERS, 5, False))) as fake:
        broker = registered(fake, 1)
        described(log_dirs, inbox, broker)
        described(log_dirs, inbox, broker)
        assert fake.connections == 1
        working, fake.script = fake.script, lambda _: Drop()
        assert described(log_dirs, inbox, broker).problem
        fake.script = working
        assert described(log_dirs, inbox, broker).replicas.keys() == {ORDERS}
        assert fake.connections == 2
        log_dirs.update_brokers([])


def test_free_space_is_read_where_the_broker_reports_it(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """Kafka 3.3 added it; a failed directory has none."""
    good = directory((ORDERS, 5, False), total=1000, usable=300)
    failed = directory(error=KAFKA_STORAGE_ERROR, path="/failed")
    with describing(good, failed, highest=4) as fake:
        before = MonotonicClock().now()
        event = described(log_dirs, inbox, registered(fake, 1))
        assert fake.received.get_nowait().version == SPACE_VERSION
        log_dirs.update_brokers([])
    assert event.dirs == (LogDir("/data", 1000, 300), LogDir("/failed", is_failed=True))
    assert before <= event.at <= MonotonicClock().now()
    assert event.broker_epoch == 100


def test_logs_are_counted_where_a_broker_has_several_directories(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """The one with the fewest takes the next; with one directory there is nothing to count."""
    first = directory((ORDERS, 5, False), (OTHER, 7, True), path="/1", total=1000, usable=300)
    second = directory(path="/2", total=1000, usable=400)
    with (
        describing(first, second, highest=4) as fake,
        describing(directory((ORDERS, 5, False), total=9, usable=3), highest=4) as single,
    ):
        several, one = registered(fake, 1), registered(single, 2)
        counts = [
            [d.logs for d in described(log_dirs, inbox, broker, is_whole=True).dirs]
            for broker in (several, several, one, one)
        ]
        log_dirs.update_brokers([])
    assert counts == [[None, None], [2, 0], [None], [None]]


def test_free_space_of_an_old_broker_is_its_capacity_less_its_logs(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """All of its logs are needed for that, whatever it is queried about."""
    old = directory((ORDERS, 5, False), (OTHER, 100, False))
    with describing(old) as fake:
        event = described(log_dirs, inbox, registered(fake, 7))
        log_dirs.update_brokers([])
    assert event.replicas == {ORDERS: PlacedReplica("/data", 5)}
    assert event.dirs == (LogDir("/data", 1000, 895, 2, is_estimate=True),)


def test_old_broker_without_capacity_has_no_free_space(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """It is not guarded."""
    with describing(directory((ORDERS, 5, False))) as fake:
        event = described(log_dirs, inbox, registered(fake, 1), is_whole=True)
        log_dirs.update_brokers([])
    assert event.dirs == (LogDir("/data"),)


def test_broker_that_describes_no_directory_refuses(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """Without the permission there is no error code before version 3."""
    with describing() as fake:
        event = described(log_dirs, inbox, registered(fake, 1))
        log_dirs.update_brokers([])
    assert (event.problem, event.is_refused, event.dirs) == (REFUSED, True, ())


# --- requested directories -----------------------------------------------------------------------


def altering(received: Received) -> Answer:
    """Accept a directory for partition 0, and refuse it for the others."""
    assert received.api_key == ApiKey.AlterReplicaLogDirs
    rows = [
        (topic.name, [(n, 0 if n == 0 else 57) for n in topic.partitions])
        for found in received.message.dirs
        for topic in found.topics
    ]
    return Answer(AlterReplicaLogDirsResponse(version=1, throttle_time_ms=0, results=rows))


def test_each_requested_replica_is_answered(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """Together in one request."""
    with FakeBroker(script=altering) as fake:
        broker = fake.registration()
        log_dirs.alter(broker, {ORDERS: "/1", OTHER: "/9"})
        event = inbox.next()
        assert fake.received.get_nowait().api_key == ApiKey.AlterReplicaLogDirs
        log_dirs.update_brokers([])
    results = (DirectoryResult(ORDERS, "/1", 0), DirectoryResult(OTHER, "/9", 57))
    assert event == LogDirsAltered(broker.id, broker.epoch, results)


def test_request_without_an_answer_is_reported(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox
) -> None:
    """Whether the broker cannot be reached, or ends the connection."""
    with FakeBroker(script=lambda _: Drop()) as fake:
        broker = fake.registration()
        nowhere = replace(broker, endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT"),))
        for live in (broker, nowhere):
            log_dirs.alter(live, {ORDERS: "/1"})
            altered = inbox.next()
            assert isinstance(altered, LogDirsAltered)
            ((partition, path, error, why),) = altered.results
            assert (partition, path, error) == (ORDERS, "/1", NO_ANSWER)
            assert why
        log_dirs.update_brokers([])


def test_request_that_waited_too_long_is_not_sent(
    log_dirs: BrokerLogDirs, inbox: CollectingInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been cancelled since."""
    monkeypatch.setattr(adapter, "FRESH_S", 0.0)
    with FakeBroker(script=altering) as fake:
        log_dirs.alter(fake.registration(), {ORDERS: "/1"})
        event = inbox.next()
        assert isinstance(event, LogDirsAltered)
        assert event.results[0].error == NO_ANSWER
        assert fake.received.empty()
        log_dirs.update_brokers([])


class FakeRig:
    """A fake broker with two directories."""

    partition = ORDERS

    def __init__(self, log_dirs: BrokerLogDirs, inbox: CollectingInbox, broker: LiveBroker) -> None:
        self._log_dirs = log_dirs
        self._inbox = inbox
        self._broker = broker

    def described(self, *partitions: TopicPartition, is_whole: bool) -> LogDirsDescribed:
        """Query the broker, and return the answer."""
        self._log_dirs.describe([self._broker], partitions, is_whole=is_whole)
        return answered(self._inbox)


class TestFakeLogDirs(LogDirsContract):
    """The contract on the fake broker."""

    @pytest.fixture
    def rig(self, log_dirs: BrokerLogDirs, inbox: CollectingInbox) -> Iterator[FakeRig]:
        """Return one broker of Kafka 3.3."""
        first = directory((ORDERS, 5, False), path="/1", total=1000, usable=300)
        second = directory((OTHER, 7, False), path="/2", total=1000, usable=400)
        with describing(first, second, highest=4) as fake:
            yield FakeRig(log_dirs, inbox, registered(fake, 1))
            log_dirs.update_brokers([])
