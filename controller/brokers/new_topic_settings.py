"""
The settings that a new topic would have, from what a broker describes of topics that exist.

Pure. Brokers describe only topics that exist. What an existing topic does not set itself is what a
new one has; what each of them sets follows from the setting of the broker that stands behind it,
which may be of another unit. Values are written as brokers write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from controller.core.calls.client_requests import (
    DYNAMIC_TOPIC_CONFIG,
    EffectiveConfig,
    TopicSettings,
)

_BOOLEAN: Final = 1
_DOUBLE: Final = 6
_LIST: Final = 7
_NUMBERS: Final = frozenset({3, 4, 5})
"""Types of settings (``DescribeConfigsResponse.ConfigType``); 0: the broker does not say."""
_UNITS_MS: Final = {".hours": 3_600_000, ".minutes": 60_000}
"""Milliseconds in the units of brokers' settings, whose topics' settings are in milliseconds."""


class DefaultSetting(NamedTuple):
    """A setting of a topic that does not set it itself."""

    config: EffectiveConfig
    type: int


def defaults_of(rows: Iterable[Any]) -> Mapping[str, DefaultSetting]:
    """Return the settings of topics that set nothing, from descriptions with synonyms."""
    found: dict[str, DefaultSetting] = {}
    derived: dict[str, DefaultSetting] = {}
    for row in rows:
        for entry in row.configs:
            shown = EffectiveConfig(
                entry.name, entry.value, entry.read_only, entry.config_source, entry.is_sensitive
            )
            kind = getattr(entry, "config_type", 0)
            if shown.config_source != DYNAMIC_TOPIC_CONFIG:
                found.setdefault(entry.name, DefaultSetting(shown, kind))
                continue
            behind = next((s for s in entry.synonyms if s.source != DYNAMIC_TOPIC_CONFIG), None)
            if behind is not None:
                value = _in_topics_unit(behind.name, behind.value)
                shown = shown._replace(value=value, config_source=behind.source)
                derived.setdefault(entry.name, DefaultSetting(shown, kind))
    return {**derived, **found}


def _in_topics_unit(name: str, value: str | None) -> str | None:
    """Return the value of a broker's setting as a topic has it."""
    factor = next((f for unit, f in _UNITS_MS.items() if name.endswith(unit)), 1)
    if value is None or factor == 1 or int(value) < 0:
        return value
    return str(int(value) * factor)


def described(
    defaults: Mapping[str, DefaultSetting], settings: TopicSettings
) -> tuple[EffectiveConfig, ...]:
    """Return what a broker would describe of a new topic with settings that are valid."""
    shown = {name: default.config for name, default in defaults.items()}
    for name, value in settings:
        default = defaults.get(name)
        before, kind = default or DefaultSetting(EffectiveConfig(name, None), 0)
        text = None if before.is_sensitive else _as_written(value, kind)
        shown[name] = before._replace(value=text, config_source=DYNAMIC_TOPIC_CONFIG)
    return tuple(shown.values())


def _as_written(value: str, kind: int) -> str:
    """Return a value as a broker writes it after reading it."""
    text = value.strip()
    try:
        if kind in _NUMBERS:
            return str(int(text))
        if kind == _DOUBLE:
            return repr(float(text))
    except ValueError:
        return text
    if kind == _BOOLEAN:
        return text.lower()
    if kind == _LIST:
        return ",".join(part.strip() for part in text.split(","))
    return text
