"""
The operators' own values in Kafka's dynamic settings, which have to be there in the end.

They change a setting as Kafka's tools do: read all of an entity, change one key, write all. So they
keep the daemon's values; a value that they set is theirs, whatever the value before. The settings
of a topic end with it: the next topic of the same name begins with its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import Entity, EntityConfig
from controller.znodes import paths
from controller.znodes.entity_configs import (
    decode_entity_config,
    encode_announcement,
    encode_entity_config,
)
from tests.sim.rules import Rule
from tests.sim.zookeeper import NO_SESSION, Make, Put

if TYPE_CHECKING:
    from tests.sim.judges import Judge
    from tests.sim.zookeeper import SimZooKeeper, Transaction


class Settings:
    """The settings operators chose, by topic and broker."""

    def __init__(self, zookeeper: SimZooKeeper, judge: Judge) -> None:
        self._zookeeper = zookeeper
        self._judge = judge
        self._chosen: dict[Entity, dict[str, str]] = {}
        zookeeper.listeners.append(self._transacted)

    def is_touched(self, entity: Entity) -> bool:
        """Return whether operators ever changed a setting of a topic or a broker."""
        return entity in self._chosen

    def choose(self, entity: Entity, values: Mapping[str, str]) -> None:
        """Note all settings of an entity that somebody else wrote for an operator."""
        self._chosen[entity] = dict(values)

    def change(self, entity: Entity, key: str, value: str | None) -> None:
        """Set a setting, or delete it."""
        chosen = self._chosen.setdefault(entity, {})
        values = self.values(entity)
        if value is None:
            values.pop(key, None)
            chosen.pop(key, None)
        else:
            values[key] = chosen[key] = value
        path = paths.entity_config_path(entity)
        data = encode_entity_config(sorted(values.items()))
        is_there = self._zookeeper.get(path) is not None
        announce = Make(paths.NEW_ANNOUNCEMENT, encode_announcement(entity), sequential=True)
        write = Put(path, data) if is_there else Make(path, data)
        self._zookeeper.transact(NO_SESSION, [write, announce])

    def values(self, entity: Entity) -> dict[str, str]:
        """Return all settings of an entity."""
        znode = self._zookeeper.get(paths.entity_config_path(entity))
        if znode is None:
            return {}
        read = decode_entity_config(znode.data, ZkVersion(znode.version))
        if not isinstance(read, EntityConfig):
            raise TypeError(read)
        return dict(read.values)

    def _transacted(self, transaction: Transaction) -> None:
        """
        Forget what was chosen for a topic that is deleted together with its settings.

        Settings that disappear in any other way are not forgotten: only the deletion of the topic
        may delete them.
        """
        deleted = {written.path for written in transaction.written if written.after is None}
        for entity in list(self._chosen):
            kind, _, name = entity.partition("/")
            is_deleted = {paths.entity_config_path(entity), paths.topic_path(name)} <= deleted
            if kind == "topics" and is_deleted:
                del self._chosen[entity]

    def judge_end(self) -> None:
        """Judge that all settings are those that operators chose; an empty list is no list."""
        known = dict.fromkeys(self._chosen)
        for directory, kind in ((paths.TOPIC_CONFIGS, "topics"), (paths.BROKER_CONFIGS, "brokers")):
            names = self._zookeeper.children(directory) or ()
            known |= dict.fromkeys(Entity(f"{kind}/{name}") for name in names)
        for entity in known:
            have = {k: v for k, v in self.values(entity).items() if v}
            wanted = self._chosen.get(entity, {})
            self._judge.ensure(
                have == wanted,
                f"the settings of {entity} are {have}, operators want {wanted}",
                Rule.SETTINGS_RESTORED,
            )
