"""
When a window of the day is open, and when it opens next.

Pure: the wall clock's reading is an argument. Days of 23 or 25 hours follow the local clock: a time
that does not exist is the moment of the change.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from controller.core.submissions import Window

_DAYS: Final = 2
"""The next opening is at most tomorrow's."""


def is_open(window: Window, unix_s: float) -> bool:
    """Return whether steps may begin."""
    local = datetime.fromtimestamp(unix_s, ZoneInfo(window.zone))
    minute = local.hour * 60 + local.minute
    if window.opens < window.closes:
        return window.opens <= minute < window.closes
    return minute >= window.opens or minute < window.closes


def opens_in_s(window: Window, unix_s: float) -> float:
    """Return the seconds until it opens; 0 when it is open."""
    if is_open(window, unix_s):
        return 0.0
    zone = ZoneInfo(window.zone)
    now = datetime.fromtimestamp(unix_s, UTC)
    today = now.astimezone(zone).date()
    at = time(window.opens // 60, window.opens % 60)
    for days in range(_DAYS):
        opening = datetime.combine(today + timedelta(days=days), at, zone).astimezone(UTC)
        if opening > now:
            return (opening - now).total_seconds()
    return timedelta(days=1).total_seconds()
