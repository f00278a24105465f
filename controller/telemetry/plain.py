"""
Values of the core as plain JSON values: for the journal, log fields and the status document.

Works by the shape of the value, so that a new kind of record is written without a line here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, get_args

from controller.core.model import TopicPartition
from controller.core.phases import Phase, label_of

_PHASES = get_args(Phase)


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - JSON has no type of its own; one return per shape
    """Return the value as JSON can hold it; a partition becomes ``topic`` and ``partition``."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, TopicPartition):
        return {"topic": value.topic, "partition": value.partition}
    if isinstance(value, _PHASES):
        return label_of(value)
    if is_dataclass(value) and not isinstance(value, type):
        return flat(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, frozenset | set):
        return [plain(v) for v in sorted(value)]
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return str(value)


def flat(record: object) -> dict[str, Any]:
    """Return a dataclass's fields; a partition gives two, ``topic`` and ``partition``."""
    found: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type] # callers pass dataclass instances
        value = getattr(record, field.name)
        if isinstance(value, TopicPartition):
            found["topic"], found["partition"] = value
        else:
            found[field.name] = plain(value)
    return found


def iso(moment: datetime) -> str:
    """Return an ISO 8601 time with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
