"""The topic of the produce probe in ZooKeeper: created once, and only ever extended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.probe_topic import PROBE_TOPIC, SETTINGS
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import SetData
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.probe_topic_writes import ProbeTopicWrites
from controller.znodes import paths
from controller.znodes.topics import decode_topic, encode_topic
from tests.sim.zookeeper import NO_SESSION, SimZooKeeper
from tests.zk.test_retirement import SimConnection, settings_of

PATH = paths.topic_path(PROBE_TOPIC)
ENTITY = f"topics/{PROBE_TOPIC}"


def brokers(*ids: int) -> frozenset[BrokerId]:
    """Return ids of brokers."""
    return frozenset(map(BrokerId, ids))


def writes(
    zookeeper: SimZooKeeper, before_commit: Callable[[], None] = lambda: None
) -> ProbeTopicWrites:
    """Return writes; ``before_commit`` is what others do between a read and a write."""

    @contextmanager
    def connect() -> Iterator[ZooKeeperConnection]:
        connection = SimConnection(zookeeper)
        connection.before_commit = before_commit
        yield cast("ZooKeeperConnection", connection)
        connection.close()

    return ProbeTopicWrites(connect)


def topic(zookeeper: SimZooKeeper) -> TopicAssignment | None:
    """Return the topic as written."""
    found = zookeeper.get(PATH)
    if found is None:
        return None
    read = decode_topic(found.data, ZkVersion(found.version), Zxid(found.czxid))
    assert isinstance(read, TopicAssignment)
    return read


def replicas(zookeeper: SimZooKeeper) -> list[tuple[int, ...]]:
    """Return the replicas of its partitions in order."""
    found = topic(zookeeper)
    return [] if found is None else [p.replicas for _, p in sorted(found.partitions.items())]


@pytest.fixture
def zookeeper() -> SimZooKeeper:
    """Give a ZooKeeper with Kafka's directories."""
    made = SimZooKeeper()
    for path in (paths.TOPICS, paths.TOPIC_CONFIGS, paths.DELETIONS):
        made.ensure(path)
    return made


def write(zookeeper: SimZooKeeper, path: str, data: bytes) -> None:
    """Write a znode, as others do."""
    found = zookeeper.get(path)
    if found is None:
        zookeeper.ensure(path, data)
    else:
        zookeeper.transact(NO_SESSION, [SetData(path, data, ZkVersion(found.version))])


def put(zookeeper: SimZooKeeper, partition: PartitionAssignment) -> None:
    """Write a topic with one partition, and an id."""
    made = TopicAssignment({0: partition}, ZkVersion(0), Zxid(0), "A" * 22)
    write(zookeeper, PATH, encode_topic(made))


def test_the_topic_is_created_with_its_settings_and_then_left_alone(
    zookeeper: SimZooKeeper,
) -> None:
    """Each broker leads one partition, and the next follows."""
    writes(zookeeper).provide(brokers(1, 3, 2))
    assert replicas(zookeeper) == [(1, 2), (2, 3), (3, 1)]
    assert settings_of(zookeeper, ENTITY) == SETTINGS
    before = zookeeper.get(PATH)
    writes(zookeeper).provide(brokers(1, 2))
    assert zookeeper.get(PATH) == before


def test_settings_of_a_former_topic_are_replaced(zookeeper: SimZooKeeper) -> None:
    """Kafka leaves them behind when it fails in the middle of a deletion."""
    write(zookeeper, paths.topic_config_path(PROBE_TOPIC), b'{"version":1,"config":{"a":"b"}}')
    writes(zookeeper).provide(brokers(1))
    assert settings_of(zookeeper, ENTITY) == SETTINGS
    assert replicas(zookeeper) == [(1,)]


def test_a_broker_without_a_replica_gets_a_partition(zookeeper: SimZooKeeper) -> None:
    """The id and the settings of the topic stay, also those that an operator changed."""
    put(zookeeper, PartitionAssignment((BrokerId(1), BrokerId(2))))
    writes(zookeeper).provide(brokers(1, 2, 3))
    found = topic(zookeeper)
    assert found is not None
    assert found.topic_id == "A" * 22
    assert replicas(zookeeper) == [(1, 2), (3, 1)]
    assert settings_of(zookeeper, ENTITY) == {}


def test_no_partition_is_added_during_a_reassignment(zookeeper: SimZooKeeper) -> None:
    """Kafka's controller would write the topic without it."""
    moving = PartitionAssignment((BrokerId(1), BrokerId(2)), (BrokerId(2),), (BrokerId(1),))
    put(zookeeper, moving)
    writes(zookeeper).provide(brokers(1, 2, 3))
    assert replicas(zookeeper) == [(1, 2)]


def test_a_change_of_others_in_between_is_read_again(zookeeper: SimZooKeeper) -> None:
    """Nothing of it is lost."""
    changes = [lambda: put(zookeeper, PartitionAssignment((BrokerId(4), BrokerId(1))))]

    def change() -> None:
        if changes:
            changes.pop()()

    writes(zookeeper, change).provide(brokers(1, 2, 4))
    assert replicas(zookeeper) == [(4, 1), (2, 4)]


def test_nothing_is_written_without_a_host(zookeeper: SimZooKeeper) -> None:
    """An empty topic would have no partition to measure."""
    writes(zookeeper).provide(frozenset())
    assert zookeeper.get(PATH) is None


@pytest.mark.parametrize(
    ("path", "data", "problem"),
    [
        (paths.deletion_path(PROBE_TOPIC), b"", "is being deleted"),
        (PATH, b"{", "is unreadable"),
    ],
)
def test_a_topic_that_cannot_be_extended_is_a_problem(
    zookeeper: SimZooKeeper, path: str, data: bytes, problem: str
) -> None:
    """It stays as it is."""
    write(zookeeper, path, data)
    with pytest.raises(ReassignmentConflictError, match=problem):
        writes(zookeeper).provide(brokers(1))
    found = zookeeper.get(path)
    assert found is not None
    assert found.data == data
