"""
Dynamic settings of topics and brokers, the throttles among them, and the records of throttles.

``/config/topics/T`` and ``/config/brokers/N`` (``ConfigEntityZNode``): settings that we do not know
are kept. A sequential child of ``/config/changes``
(``ConfigEntityChangeNotificationSequenceZNode``) makes brokers read changed settings.

``/reassigner/throttles/<entity>`` records a throttle that we set, and the settings before it. The
entity is the path, with a colon for its slash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import (
    COPY_RATES,
    LISTS,
    AppliedThrottle,
    Entity,
    EntityConfig,
)
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt, total
from controller.znodes.paths import parse_number, parse_throttle_name

_ANNOUNCEMENT: Final = 2
"""Format 2 names the path, format 1 type and name; brokers since 0.9 read both."""


@total
def decode_entity_config(data: bytes, version: ZkVersion) -> EntityConfig:
    """Decode the settings of an entity as read at a version; an empty node has none."""
    if not data:
        return EntityConfig({}, version)
    values: dict[str, str] = {}
    for key, value in _config(data).items():
        if not documents.is_text(key) or not documents.is_text(value):
            raise _setting_error(key, value)
        values[key] = value
    return EntityConfig(values, version)


def encode_entity_config(values: Iterable[tuple[str, str]]) -> bytes:
    """Encode all settings of an entity."""
    return documents.write_document({"version": 1, "config": dict(values)})


def encode_announcement(entity: Entity) -> bytes:
    """Encode the notification of brokers that the entity's settings changed."""
    return documents.write_document({"version": _ANNOUNCEMENT, "entity_path": entity})


EVERYTHING: Final[frozenset[int]] = frozenset({-1})
"""Stands for ``*``, every replica of the topic; compared by identity."""


@total
def decode_throttles(data: bytes) -> dict[str, str]:
    """Decode the throttles of a topic or broker from its settings."""
    config = _config(data)
    return {
        key: value
        for key in (*LISTS, *COPY_RATES)
        if documents.is_text(value := config.get(key)) and value
    }


def throttled_partitions(value: str) -> frozenset[int]:
    """Read the partitions of a list like ``0:101,1:102``; invalid ones are left out."""
    if value.strip() == "*":
        return EVERYTHING
    numbers = (parse_number(entry.partition(":")[0].strip()) for entry in value.split(","))
    return frozenset(n for n in numbers if n is not None)


@total
def decode_applied_throttle(name: str, data: bytes, version: ZkVersion) -> AppliedThrottle:
    """Decode the record of a throttle from the last component of its path and its content."""
    entity = parse_throttle_name(name)
    if entity is None:
        raise UnreadableError(f"{excerpt(name)} is neither a topic nor a broker")
    document = documents.read_versioned(data)
    ours, before = _settings(document, "ours"), _settings(document, "before")
    if not ours.keys() <= before.keys():
        raise UnreadableError("before does not say what stood where something is ours")
    set_by_us = {key: value for key, value in ours.items() if value is not None}
    if len(set_by_us) < len(ours):
        raise UnreadableError("ours: a setting without a value")
    return AppliedThrottle(entity, set_by_us, before, version)


def encode_applied_throttle(applied: AppliedThrottle) -> bytes:
    """Encode the record of a throttle; its entity is the path."""
    return documents.write_document(
        {
            "version": 1,
            "ours": dict(sorted(applied.ours.items())),
            "before": dict(sorted(applied.before.items())),
        }
    )


def _config(data: bytes) -> documents.Document:
    return documents.read_object(documents.read_document(data), "config", {})


def _settings(document: documents.Document, where: str) -> Mapping[str, str | None]:
    """Read settings, with None for those that did not exist."""
    value = document.get(where)
    if not documents.is_object(value):
        raise UnreadableError(f"{where}: an object of settings was expected, not {excerpt(value)}")
    read: dict[str, str | None] = {}
    for key, setting in value.items():
        if not documents.is_text(key) or not (setting is None or documents.is_text(setting)):
            raise _setting_error(key, setting, f"{where}: ")
        read[key] = setting
    return read


def _setting_error(key: object, value: object, where: str = "") -> UnreadableError:
    return UnreadableError(f"{where}{excerpt(key)}: {excerpt(value)} is not a setting")
