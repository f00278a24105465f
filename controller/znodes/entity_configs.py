"""
Kafka's dynamic settings: ``/config/topics/T``, ``/config/brokers/N`` (``ConfigEntityZNode``).

And what tells brokers to read them: a sequential child of ``/config/changes``
(``ConfigEntityChangeNotificationSequenceZNode``). Settings we do not know are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.applied_throttles import Entity, EntityConfig
from controller.core.model import ZkVersion
from controller.znodes.json_documents import (
    excerpt,
    is_object,
    is_text,
    read_document,
    write_document,
)

_ANNOUNCEMENT: Final = 2
"""Format 2 names the path, format 1 type and name; brokers since 0.9 read both."""


def decode_entity_config(data: bytes, version: ZkVersion) -> EntityConfig | str:
    """Decode the settings of an entity as read at a version; an empty node has none."""
    if not data:
        return EntityConfig({}, version)
    document = read_document(data)
    if isinstance(document, str):
        return document
    config = document.get("config", {})
    if not is_object(config):
        return f"config is not an object but {excerpt(config)}"
    values: dict[str, str] = {}
    for key, value in config.items():
        if not is_text(key) or not is_text(value):
            return f"{excerpt(key)}: {excerpt(value)} is not a setting"
        values[key] = value
    return EntityConfig(values, version)


def encode_entity_config(values: Iterable[tuple[str, str]]) -> bytes:
    """Encode all settings of an entity."""
    return write_document({"version": 1, "config": dict(values)})


def encode_announcement(entity: Entity) -> bytes:
    """Encode the word to the brokers that the entity's settings changed."""
    return write_document({"version": _ANNOUNCEMENT, "entity_path": entity})
