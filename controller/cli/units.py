"""
Rates, sizes, hours and times as people write and read them.

Bytes are decimal as in ``50MB`` unless written ``50MiB``. What cannot be read is refused in one
sentence that says what can.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from controller.core.submissions import PRIORITY_MAX, StepSize, Window
from controller.errors import InvalidInputError
from controller.znodes.json_documents import LONG_MAX
from controller.znodes.windows import read_window

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)(?:/s)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_KILO: Final = 1000
_KIBI: Final = 1024
MS_PER_S: Final = 1000


def parse_bytes(option: str, text: str) -> int:
    """
    Read an amount of bytes, or of bytes per second: ``50000000``, ``50MB``, ``1.5GiB``.

    Raises:
        PlanInvalidError: it is something else, or less than one byte.

    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is not None and (match[2] or not match[3]):
        base = _KIBI if match[3] else _KILO
        amount = Decimal(match[1]) * base ** _POWERS[match[2].lower()]
        if 1 <= amount <= LONG_MAX:
            return int(amount)
    raise InvalidInputError(f"{option}: bytes such as 50000000, 50MB or 1.5GiB, not {text!r}")


def show_bytes(amount: int) -> str:
    """Word an amount of bytes: ``50 MB``."""
    size, unit = float(amount), 0
    while size >= _KILO and unit < len(_UNITS) - 1:
        size, unit = size / _KILO, unit + 1
    return f"{size:.3g} {_UNITS[unit]}" if size < _KILO else f"{size:.0f} {_UNITS[unit]}"


def parse_step_size(option: str, text: str) -> StepSize:
    """
    Read a number of replicas, or ``all``.

    Raises:
        PlanInvalidError: it is something else.

    """
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return int(text)
    raise InvalidInputError(f'{option}: a number of replicas, 1 or more, or "all", not {text!r}')


def parse_window(option: str, text: str) -> Window:
    """
    Read hours such as ``22:00-05:00 Europe/Berlin``.

    Raises:
        PlanInvalidError: they are something else, or the zone does not exist.

    """
    window = read_window(text)
    if isinstance(window, str):
        raise InvalidInputError(f"{option}: {window}")
    return window


def check_priority(option: str, priority: int) -> int:
    """
    Check a priority.

    Raises:
        PlanInvalidError: it is out of bounds.

    """
    if abs(priority) > PRIORITY_MAX:
        raise InvalidInputError(
            f"{option}: between -{PRIORITY_MAX} and {PRIORITY_MAX}, not {priority}"
        )
    return priority


def show_time(milliseconds: int) -> str:
    """Word a moment in UTC, to the second."""
    moment = datetime.fromtimestamp(milliseconds / MS_PER_S, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
