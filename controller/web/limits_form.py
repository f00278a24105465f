"""
The form for throttle, window and limits: the values as people write them, and what a form changes.

A form has each value twice, as it is wanted and as it was shown: only what its author changed is
written, so that a page that is old does not take back what another operator set meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from controller.actions.work_control import LimitChanges
from controller.core.pacing.controls import UNTHROTTLED, Controls, QueueOrder, UnderMinIsr
from controller.core.requests.submissions import Throttle
from controller.errors import InvalidInputError
from controller.setting_values import parse_step_size
from controller.units import NONE, parse_bytes, parse_throttle
from controller.znodes.json_documents import read_window

THROTTLE: Final = "throttle"
SHOWN: Final = "shown-"
"""Begins the name of the value that a form showed."""


class LimitField(NamedTuple):
    """One value of the form."""

    name: str
    """That of the option of ``reassigner limits``."""
    label: str
    key: str
    """The field of ``Limits``, and of ``limits`` in the status."""
    parse: Callable[[str, str], object]
    hint: str = ""
    choices: tuple[str, ...] = ()


class ChangedLimits(NamedTuple):
    """What a form changes."""

    limits: LimitChanges
    throttle: Throttle | None
    """None: that of the settings."""
    is_throttle_changed: bool


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise InvalidInputError(f"{name}: a whole number, 1 or more, not {text!r}")
    return int(text)


def _step_size(name: str, text: str) -> object:
    try:
        return parse_step_size(text)
    except ValueError as error:
        raise InvalidInputError(f"{name}: {error}") from error


def _window(name: str, text: str) -> object:
    found = read_window(text)
    if isinstance(found, str):
        raise InvalidInputError(f"{name}: {found}")
    return found


def _throttle(text: str) -> Throttle:
    if text.lower() == NONE:
        return UNTHROTTLED
    return parse_throttle(THROTTLE, text, or_none=True)


def _one_of(kind: type[QueueOrder | UnderMinIsr]) -> Callable[[str, str], object]:
    def parse(name: str, text: str) -> object:
        try:
            return kind(text)
        except ValueError:
            raise InvalidInputError(f"{name}: one of {', '.join(kind)}, not {text!r}") from None

    return parse


FIELDS: Final = (
    LimitField("window", "Window", "window", _window, "22:00-05:00 Europe/Berlin"),
    LimitField(
        "max-partitions-in-flight", "Partitions in flight", "max_partitions_in_flight", _count
    ),
    LimitField("max-incoming", "Copies to a broker", "max_incoming_per_broker", _count),
    LimitField("max-outgoing", "Partitions a broker serves", "max_outgoing_per_broker", _count),
    LimitField("max-bytes", "Bytes in flight", "max_bytes_in_flight", parse_bytes, "10GB"),
    LimitField(
        "leader-moves",
        "Leader moves per broker and second",
        "max_leader_moves_per_broker_per_second",
        _count,
    ),
    LimitField("step-size", "Replicas to add per step", "step_size", _step_size, "1, or all"),
    LimitField(
        "order", "Order of pending partitions", "order", _one_of(QueueOrder), "", tuple(QueueOrder)
    ),
    LimitField(
        "under-min-isr",
        "Below min.insync.replicas",
        "under_min_isr",
        _one_of(UnderMinIsr),
        "",
        tuple(UnderMinIsr),
    ),
)


def values_of(found: Controls) -> dict[str, str]:
    """Return the values that are set, by name; what is not set is empty."""
    values = {f.name: getattr(found.limits, f.key) for f in FIELDS}
    values[THROTTLE] = NONE if found.throttle == UNTHROTTLED else found.throttle
    return {name: "" if value is None else str(value) for name, value in values.items()}


def changes_of(form: Mapping[str, str]) -> ChangedLimits:
    """Return what a form changes; a wrong value raises ``InvalidInputError``."""
    changed = {
        name: form.get(name, "").strip()
        for name in (THROTTLE, *(f.name for f in FIELDS))
        if form.get(name, "").strip() != form.get(f"{SHOWN}{name}", "").strip()
    }
    throttle = changed.get(THROTTLE, "")
    own = [f for f in FIELDS if f.name in changed]
    return ChangedLimits(
        LimitChanges(
            values={f.name: f.parse(f.name, changed[f.name]) for f in own if changed[f.name]},
            unset=[f.name for f in own if not changed[f.name]],
        ),
        _throttle(throttle) if throttle else None,
        is_throttle_changed=THROTTLE in changed,
    )
