"""
Windows, the hours in which steps may begin, as operators write them: ``22:00-05:00 Europe/Berlin``.

Without a time zone they are in UTC. The current time is not known here.
"""

from __future__ import annotations

import re
import zoneinfo
from typing import Final

from controller.core.requests.submissions import Window
from controller.znodes.json_documents import excerpt, is_text

UTC: Final = "UTC"

_WINDOW: Final = re.compile(
    r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])(?: +(\S+))?"
)


def read_window(value: object) -> Window | str:
    """Read a window, or return why it is none."""
    match = _WINDOW.fullmatch(value.strip()) if is_text(value) else None
    if match is None:
        return f'hours look like "22:00-05:00" or "22:00-05:00 Europe/Berlin", not {excerpt(value)}'
    zone = match[5] or UTC
    if not _is_zone(zone):
        return f"{excerpt(zone)} is not a time zone that is known here"
    opens, closes = (60 * int(match[i]) + int(match[i + 1]) for i in (1, 3))
    return Window(opens, closes, zone)


def _is_zone(name: str) -> bool:
    """Whether the tz database has the zone; UTC needs no database."""
    if name == UTC:
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # OSError: a directory of the database, such as ``Europe``.
        return False
    return True
