"""
Taking replication throttles away, as Kafka's own tool does when nothing is reassigned any more.

What a daemon set stands under a lease and is left alone: the daemon restores what stood there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kazoo.exceptions import BadVersionError, NoNodeError

from controller.core.applied_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Entity,
    broker_entity,
    topic_entity,
)
from controller.core.model import BrokerId, ZkVersion
from controller.errors import ReassignmentConflictError, SessionSuspendedError
from controller.zk.acls import cluster_acl
from controller.zk.archives import ArchiveReadings
from controller.znodes import paths
from controller.znodes.entity_configs import (
    decode_entity_config,
    encode_announcement,
    encode_entity_config,
)

KEYS: Final = frozenset(
    {
        LEADER_RATE,
        FOLLOWER_RATE,
        LEADER_REPLICAS,
        FOLLOWER_REPLICAS,
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
_RACES_MAX: Final = 20


class Unthrottling(ArchiveReadings):
    """Takes throttles away, for one command."""

    def clear_throttles(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[Entity]:
        """
        Take the throttles of brokers and topics away, but for those that a daemon set.

        Returns:
            What had one.

        Raises:
            ReassignmentConflictError: settings cannot be read, or change all the time.

        """
        entities = [*map(broker_entity, brokers), *map(topic_entity, topics)]
        return frozenset(entity for entity in entities if self._clear(entity))

    def _clear(self, entity: Entity) -> bool:
        path = paths.entity_config_path(entity)
        for _ in range(_RACES_MAX):
            # A lease is written in one multi with the setting: a later one shows in its version.
            found = self._get(path)
            if found is None or self._get(paths.applied_throttle_path(entity)) is not None:
                return False
            config = decode_entity_config(found.data, found.version)
            if isinstance(config, str):
                raise ReassignmentConflictError(f"{path} cannot be changed: {config}")
            left = {key: value for key, value in config.values.items() if key not in KEYS}
            if left == config.values:
                return False
            if self._reconfigure(entity, left, found.version):
                return True
        raise ReassignmentConflictError(f"{path} changes all the time; try again")

    def _reconfigure(self, entity: Entity, values: dict[str, str], version: ZkVersion) -> bool:
        """Replace settings and tell the brokers; False where they have changed or are gone."""
        with self._translated():
            transaction = self._client.transaction()
            transaction.set_data(
                paths.entity_config_path(entity), encode_entity_config(values.items()), version
            )
            transaction.create(
                paths.announcements_path(),
                encode_announcement(entity),
                acl=cluster_acl(self._acl_of),
                sequence=True,
            )
            results = self._ask(transaction.commit_async())
        if isinstance(results[0], BadVersionError | NoNodeError):
            return False
        for result in results:
            if isinstance(result, Exception):
                raise SessionSuspendedError(
                    f"the settings of {entity} could not be written: {type(result).__name__}"
                )
        return True
