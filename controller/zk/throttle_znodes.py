"""
Reads of dynamic settings, and of the records of throttles that a daemon set in them.

Nothing here is watched: the records are written by the leading daemon alone, and settings are read
again before each write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.pacing.throttle_settings import AppliedThrottle, Entity, EntityConfig
from controller.zk.znode_reads import Hidden, Znode, ZnodeReads, decode_many
from controller.znodes import entity_configs as codecs
from controller.znodes import paths


class ThrottleZnodes:
    """Reads these znodes through either reader."""

    def __init__(self, znodes: ZnodeReads) -> None:
        """Read through this reader."""
        self._znodes = znodes

    def applied_throttles(self) -> dict[Entity, AppliedThrottle]:
        """Return every throttle that a daemon set and did not lift."""
        read = decode_many(
            self._znodes,
            self._znodes.children(paths.APPLIED_THROTTLES),
            lambda name: f"{paths.APPLIED_THROTTLES}/{name}",
            lambda name, znode: codecs.decode_applied_throttle(name, znode.data, znode.version),
        )
        return {
            applied.entity: applied for _, applied in read if isinstance(applied, AppliedThrottle)
        }

    def settings(self, directory: str) -> dict[str, Mapping[str, str]]:
        """
        Return the settings of all topics, or of all brokers, without those that are unreadable.

        Args:
            directory: ``paths.TOPIC_CONFIGS`` or ``paths.BROKER_CONFIGS``.

        """
        read = decode_many(
            self._znodes,
            self._znodes.children(directory),
            lambda name: f"{directory}/{name}",
            lambda _, znode: codecs.decode_entity_config(znode.data, znode.version),
        )
        return {n: c.values for n, c in read if isinstance(c, EntityConfig) and c.values}

    def throttles(self, directory: str) -> dict[str, dict[str, str]]:
        """
        Return the throttles in the settings of all topics, or of all brokers, by their znode.

        Args:
            directory: ``paths.TOPIC_CONFIGS`` or ``paths.BROKER_CONFIGS``.

        """
        read = decode_many(
            self._znodes,
            self._znodes.children(directory),
            lambda name: f"{directory}/{name}",
            lambda _, znode: codecs.decode_throttles(znode.data) if znode.data else {},
        )
        return {name: found for name, found in read if found and not isinstance(found, str)}

    def entity_configs(self, entities: Iterable[Entity]) -> dict[Entity, EntityConfig | str]:
        """
        Return dynamic settings; a text where they are unreadable.

        An entity without any has no znode. What is unreadable is not reported here.
        """
        return {
            entity: _entity_config(found)
            for entity, found in self._znodes.get_many(entities, paths.entity_config_path)
        }


def _entity_config(found: Znode | Hidden | None) -> EntityConfig | str:
    if found is None:
        return EntityConfig({}, None)
    if isinstance(found, Hidden):
        return found.reason
    return codecs.decode_entity_config(found.data, found.version)
