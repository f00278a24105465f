"""Sizes on disk: every broker is asked, the largest replica counts, and a silent one is named."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import NAMED_MAX, REFUSED, SPACE_VERSION, LogDirQuery
from controller.clocks import MonotonicClock
from controller.core.disks.records import SizesRead
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LiveBroker,
    LogDir,
    TopicPartition,
)
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
def sizes(inbox: CollectingInbox) -> Iterator[LogDirQuery]:
    """Return sizes that know no broker yet; they are stopped when the test ends."""
    made = LogDirQuery(
        inbox, Security(), ListenerChoice(), MonotonicClock(), CAPACITIES.__getitem__
    )
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def registered(fake: FakeBroker, broker: int) -> LiveBroker:
    """Return the fake's registration under this id."""
    known = fake.registration()
    return LiveBroker(BrokerId(broker), known.epoch, known.endpoints)


def measured(
    sizes: LogDirQuery, inbox: CollectingInbox, *partitions: TopicPartition, whole: bool = False
) -> SizesRead:
    """Ask, and return the answer."""
    sizes.measure(partitions or (ORDERS,), whole=whole)
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


def test_only_the_named_brokers_are_queried(sizes: LogDirQuery, inbox: CollectingInbox) -> None:
    """The next query is of all again."""
    with ExitStack() as stack:
        fakes = [
            stack.enter_context(describing(directory((ORDERS, size, False)))) for size in (300, 700)
        ]
        sizes.update_brokers([registered(fake, n) for n, fake in enumerate(fakes, 1)])
        sizes.measure((ORDERS,), whole=False, brokers=frozenset({BrokerId(1), BrokerId(7)}))
        named = inbox.next()
        everywhere = measured(sizes, inbox)
        sizes.update_brokers([])
    assert isinstance(named, SizesRead)
    assert named.replicas == {ORDERS: {1: 300}}
    assert everywhere.replicas == {ORDERS: {1: 300, 2: 700}}


def test_query_of_a_few_brokers_does_not_wait_for_one_of_all(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """A broker that does not answer delays the query of all only."""
    released = threading.Event()
    slow = describing(directory((OTHER, 700, False)))
    at_once = slow.script

    def held(received: Received) -> Reaction:
        reaction = at_once(received)
        assert isinstance(reaction, Answer)
        return Hold(released, reaction)

    slow.script = held
    with describing(directory((ORDERS, 300, False))) as fake, slow:
        sizes.update_brokers([registered(fake, 1), registered(slow, 2)])
        sizes.measure((OTHER,), whole=False)
        sizes.measure((ORDERS,), whole=False, brokers=frozenset({BrokerId(1)}))
        few = inbox.next()
        released.set()
        everywhere = inbox.next()
        sizes.update_brokers([])
    assert isinstance(few, SizesRead)
    assert isinstance(everywhere, SizesRead)
    assert (few.sizes, everywhere.sizes) == ({ORDERS: 300}, {OTHER: 700})


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
    assert (event.sizes, event.errors) == ({}, {})
    assert event.unmeasured == {ORDERS, OTHER}
    assert [d.is_failed for d in event.disks[BrokerId(1)].dirs] == [True, False]


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
    assert event.unable == frozenset()
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
    assert measured(sizes, inbox) == SizesRead({}, unmeasured=frozenset({ORDERS}))


def test_free_space_is_read_where_the_broker_reports_it(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """Kafka 3.3 added it; a failed directory has none."""
    good = directory((ORDERS, 5, False), total=1000, usable=300)
    failed = directory(error=KAFKA_STORAGE_ERROR, path="/failed")
    with describing(good, failed, highest=4) as fake:
        sizes.update_brokers([registered(fake, 1)])
        before = MonotonicClock().now()
        event = measured(sizes, inbox)
        assert fake.received.get_nowait().version == SPACE_VERSION
        sizes.update_brokers([])
    disks = event.disks[BrokerId(1)]
    assert disks.dirs == (LogDir("/data", 1000, 300), LogDir("/failed", is_failed=True))
    assert before <= disks.at <= MonotonicClock().now()
    assert disks.epoch == 100
    assert event.placed == {ORDERS: {1: "/data"}}


def test_logs_are_counted_where_a_broker_has_several_directories(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """The one with the fewest takes the next; with one directory there is nothing to count."""
    first = directory((ORDERS, 5, False), (OTHER, 7, True), path="/1", total=1000, usable=300)
    second = directory(path="/2", total=1000, usable=400)
    with (
        describing(first, second, highest=4) as fake,
        describing(directory((ORDERS, 5, False), total=9, usable=3), highest=4) as single,
    ):
        sizes.update_brokers([registered(fake, 1), registered(single, 2)])
        named = measured(sizes, inbox, whole=True)
        whole = measured(sizes, inbox, whole=True)
        sizes.update_brokers([])
    assert [d.logs for d in named.disks[BrokerId(1)].dirs] == [None, None]
    assert [d.logs for d in whole.disks[BrokerId(1)].dirs] == [2, 0]
    assert [d.logs for d in whole.disks[BrokerId(2)].dirs] == [None]


def test_free_space_of_an_old_broker_is_its_capacity_less_its_logs(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """All of its logs are needed: between, the last estimate stays."""
    old = directory((ORDERS, 5, False), (OTHER, 100, False))
    with describing(old) as fake:
        sizes.update_brokers([registered(fake, 7)])
        named = measured(sizes, inbox)
        whole = measured(sizes, inbox, whole=True)
        sizes.update_brokers([])
    assert named.sizes == {ORDERS: 5}
    assert named.disks == {}
    assert whole.disks[BrokerId(7)].dirs == (LogDir("/data", 1000, 895, 2, is_estimate=True),)


def test_old_broker_without_capacity_has_no_free_space(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """It is not guarded."""
    with describing(directory((ORDERS, 5, False))) as fake:
        sizes.update_brokers([registered(fake, 1)])
        event = measured(sizes, inbox, whole=True)
        sizes.update_brokers([])
    assert event.disks[BrokerId(1)].dirs == (LogDir("/data"),)


def test_broker_that_describes_no_directory_is_named(
    sizes: LogDirQuery, inbox: CollectingInbox
) -> None:
    """Without the permission there is no error code before version 3."""
    with describing() as fake:
        sizes.update_brokers([registered(fake, 1)])
        event = measured(sizes, inbox)
        sizes.update_brokers([])
    assert event.errors == {1: REFUSED}
    assert event.unable == {1}
    assert event.disks == {}


class FakeRig:
    """A fake broker with two directories."""

    partition = ORDERS

    def __init__(self, sizes: LogDirQuery, inbox: CollectingInbox) -> None:
        self._sizes = sizes
        self._inbox = inbox

    def measured(self, *partitions: TopicPartition, whole: bool) -> SizesRead:
        """Query for these partitions and return the answer."""
        self._sizes.measure(partitions, whole=whole)
        event = self._inbox.next()
        assert isinstance(event, SizesRead)
        return event


class TestFakeLogDirs(LogDirsContract):
    """The contract on the fake broker."""

    @pytest.fixture
    def rig(self, sizes: LogDirQuery, inbox: CollectingInbox) -> Iterator[FakeRig]:
        """Return one broker of Kafka 3.3."""
        first = directory((ORDERS, 5, False), path="/1", total=1000, usable=300)
        second = directory((OTHER, 7, False), path="/2", total=1000, usable=400)
        with describing(first, second, highest=4) as fake:
            sizes.update_brokers([registered(fake, 1)])
            yield FakeRig(sizes, inbox)
            sizes.update_brokers([])
