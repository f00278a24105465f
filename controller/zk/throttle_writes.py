"""
Writes of operators' commands to throttles in dynamic settings.

``clear`` removes throttles as Kafka's own tool does when nothing is reassigned any more. ``lift``
ends a throttle that a daemon set and no longer can lift; the settings before it are restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controller.core.model import BrokerId, ZkVersion
from controller.core.pacing import throttle_settings
from controller.core.pacing.records import AppliedThrottleEndedRecord
from controller.core.pacing.throttle_settings import settings_without_ours
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import Check, CreateSequential, SetData
from controller.reactor.znode_operations import lifting
from controller.zk.connections import RACES_MAX, ZooKeeperConnection, contention_error
from controller.znodes import entity_configs, paths

KEYS: Final = frozenset(
    {
        throttle_settings.LEADER_RATE,
        throttle_settings.FOLLOWER_RATE,
        throttle_settings.LEADER_REPLICAS,
        throttle_settings.FOLLOWER_REPLICAS,
        throttle_settings.MOVE_RATE,
    }
)


class ThrottleWrites:
    """Writes these znodes for one command."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        """Write through this connection."""
        self._connection = connection

    def clear(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[throttle_settings.Entity]:
        """
        Remove the throttles of brokers and topics, except those that a daemon set.

        Returns:
            The brokers and topics that had one.

        Raises:
            ReassignmentConflictError: settings are unreadable, or others change them all the time.

        """
        entities = [
            *map(throttle_settings.broker_entity, brokers),
            *map(throttle_settings.topic_entity, topics),
        ]
        return frozenset(entity for entity in entities if self._clear(entity))

    def lift(
        self, applied: throttle_settings.AppliedThrottle, lock: Check | None = None
    ) -> Mapping[str, str | None] | None:
        """
        Restore the settings before a daemon's throttle, and delete the record of it.

        Settings that others have changed since stay as they are.

        Args:
            applied: The throttle.
            lock: The check that no daemon can lead; None: none leads now.

        Returns:
            The values now of the settings that were changed, None for one that was removed. None
            where a daemon leads, which lifts it itself, or where others changed it meanwhile.

        Raises:
            ReassignmentConflictError: the settings are unreadable.

        """
        connection = self._connection
        epoch = connection.get(paths.EPOCH)
        if applied.version is None or (lock is None and connection.children(paths.LEADER)):
            return None
        config = self._config(applied.entity) or throttle_settings.EntityConfig({}, None)
        values = settings_without_ours(applied, config)
        record = AppliedThrottleEndedRecord(applied.entity, applied.version, values, config.version)
        # A daemon that has become the leader meanwhile has raised it.
        fence = [] if epoch is None else [Check(paths.EPOCH, epoch.version)]
        if lock is not None:
            fence.append(lock)
        if not connection.commit([*fence, *lifting(record)]):
            return None
        after = dict(config.values if values is None else values)
        return {k: after.get(k) for k in applied.ours if after.get(k) != config.values.get(k)}

    # --- inside ----------------------------------------------------------------------------------

    def _clear(self, entity: throttle_settings.Entity) -> bool:
        record = paths.applied_throttle_path(entity)
        for _ in range(RACES_MAX):
            # A daemon writes its record in one multi with the settings, so that the version of the
            # settings shows one that is written after this.
            found = self._connection.get(paths.entity_config_path(entity))
            if found is None or self._connection.get(record) is not None:
                return False
            config = _decode(entity, found.data, found.version)
            left = {key: value for key, value in config.values.items() if key not in KEYS}
            if left == config.values:
                return False
            if self._reconfigure(entity, left, found.version):
                return True
        raise contention_error(paths.entity_config_path(entity))

    def _reconfigure(
        self, entity: throttle_settings.Entity, values: dict[str, str], version: ZkVersion
    ) -> bool:
        """Replace settings and announce it to the brokers; False where they have changed."""
        return self._connection.commit(
            [
                SetData(
                    paths.entity_config_path(entity),
                    entity_configs.encode_entity_config(values.items()),
                    version,
                ),
                CreateSequential(
                    paths.announcements_path(), entity_configs.encode_announcement(entity)
                ),
            ]
        )

    def _config(self, entity: throttle_settings.Entity) -> throttle_settings.EntityConfig | None:
        found = self._connection.get(paths.entity_config_path(entity))
        return found and _decode(entity, found.data, found.version)


def _decode(
    entity: throttle_settings.Entity, data: bytes, version: ZkVersion
) -> throttle_settings.EntityConfig:
    read = entity_configs.decode_entity_config(data, version)
    if isinstance(read, str):
        path = paths.entity_config_path(entity)
        raise ReassignmentConflictError(f"{path} cannot be changed: {read}")
    return read
