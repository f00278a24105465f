"""
Conversion of core values and times into JSON values, for journal, log events and status.

It goes by the type of each value, so that a new record class needs no code here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, get_args

from controller.core.model import Instant, TopicPartition
from controller.core.reassignments.phases import Phase, label_of
from controller.core.reassignments.steps import Step

_PHASES = get_args(Phase)
_AS_IT_IS: Final = frozenset({type(None), bool, int, float, str})
"""The types of most values, tested first: every record is converted here."""


def json_value(value: object) -> Any:  # noqa: ANN401, PLR0911 - JSON has no type of its own; one return per type
    """Return the JSON value; a partition becomes ``topic`` and ``partition``."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, TopicPartition):
        return {"topic": value.topic, "partition": value.partition}
    if isinstance(value, tuple | list):
        return [v if type(v) in _AS_IT_IS else json_value(v) for v in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, _PHASES):
        return label_of(value)
    if is_dataclass(value) and not isinstance(value, type):
        return json_fields(value)
    if isinstance(value, Mapping):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, frozenset | set):
        return [json_value(v) for v in sorted(value)]
    return value if isinstance(value, int | float | str) else str(value)


def json_fields(record: object) -> dict[str, Any]:
    """Return a dataclass's fields; a partition field becomes ``topic`` and ``partition``."""
    found: dict[str, Any] = {}
    for name in _field_names(type(record)):  # type: ignore[arg-type] # a class is hashable
        value = getattr(record, name)
        if type(value) in _AS_IT_IS:
            found[name] = value
        elif isinstance(value, TopicPartition):
            found["topic"], found["partition"] = value
        else:
            found[name] = json_value(value)
    return found


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def iso_time(moment: datetime) -> str:
    """Return an ISO 8601 time with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on the loop's clock and on the wall's."""

    now: Instant
    wall: datetime

    def at(self, instant: Instant) -> str:
        """Return a loop time as ISO 8601."""
        return iso_time(self.wall - timedelta(seconds=self.now - instant))


def step_document(step: Step) -> dict[str, Any]:
    """Return a step as JSON."""
    return {name: list(getattr(step, name)) for name in ("target", "adding", "dropping")}
