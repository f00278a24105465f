"""
Create the topic of the produce probe, and add partitions to it, as Kafka's tools do by ZooKeeper.

Whoever is the controller, a broker or this daemon, is notified by its watches and completes the
topic: it elects leaders and creates logs. By ZooKeeper it works with either engine, also while no
broker is the controller, and needs no permission in Kafka. The write is no write of the controller,
so that it has no fence: a topic is created if there is none, and changed at the version read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.probe_topic import (
    PROBE_TOPIC,
    SETTINGS,
    first_replicas,
    missing_replicas,
)
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import Create, Operation, SetData
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.races import RACES_MAX, contention_error
from controller.zk.readers import Znode
from controller.znodes import paths
from controller.znodes.entity_configs import encode_entity_config
from controller.znodes.topics import decode_topic, encode_topic

Connect = Callable[[], AbstractContextManager[ZooKeeperConnection]]

_PATH: Final = paths.topic_path(PROBE_TOPIC)
_SETTINGS_PATH: Final = paths.topic_config_path(PROBE_TOPIC)


class ProbeTopicWrites:
    """Writes the topic, each time over a connection of its own: it is needed once in a while."""

    def __init__(self, connect: Connect) -> None:
        """Prepare; nothing is connected yet."""
        self._connect = connect

    def provide(self, hosts: Collection[BrokerId]) -> None:
        """
        Create the topic on these brokers, or add the partitions that they miss.

        Raises:
            ControllerError: ZooKeeper refuses it or cannot be reached, the topic is being deleted,
                or its znode is unreadable.
        """
        with self._connect() as connection:
            for _ in range(RACES_MAX):
                multi = _writes(connection, hosts)
                if not multi or connection.commit(multi):
                    return
        raise contention_error(_PATH)


def _writes(connection: ZooKeeperConnection, hosts: Collection[BrokerId]) -> list[Operation]:
    """Return the writes that the topic needs; none where nothing is missing."""
    if connection.exists(paths.deletion_path(PROBE_TOPIC)):
        raise ReassignmentConflictError(f"{PROBE_TOPIC} is being deleted")
    found = connection.get(_PATH)
    if found is None:
        return _creation(connection.get(_SETTINGS_PATH), hosts)
    topic = decode_topic(found.data, found.version, found.czxid)
    if isinstance(topic, str):
        raise ReassignmentConflictError(f"{_PATH} is unreadable: {topic}")
    present = topic.partitions
    # Kafka's controller writes the topic from memory while it reassigns a partition of it.
    if any(assignment.is_reassigning for assignment in present.values()):
        return []
    added = {
        number: PartitionAssignment(replicas)
        for number, replicas in enumerate(
            missing_replicas(present, hosts), 1 + max(present, default=-1)
        )
    }
    if not added:
        return []
    grown = replace(topic, partitions={**present, **added})
    return [SetData(_PATH, encode_topic(grown), found.version)]


def _creation(settings: Znode | None, hosts: Collection[BrokerId]) -> list[Operation]:
    """Return the settings and the topic, in the order in which Kafka writes them."""
    replicas = first_replicas(hosts)
    if not replicas:
        return []
    data = encode_entity_config(SETTINGS.items())
    topic = TopicAssignment(
        {number: PartitionAssignment(r) for number, r in enumerate(replicas)}, ZkVersion(0), Zxid(0)
    )
    return [
        Create(_SETTINGS_PATH, data)
        if settings is None
        else SetData(_SETTINGS_PATH, data, settings.version),
        Create(_PATH, encode_topic(topic)),
    ]
