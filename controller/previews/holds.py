"""What operators hold back, in words."""

from __future__ import annotations

from controller.core.pacing.controls import Pause, Quiesce
from controller.units import show_time
from controller.znodes.cancellations import KillSwitch


def since_words(hold: Pause | Quiesce | KillSwitch) -> str:
    """Return since when, by which user and why a pause, a quiesce or the kill switch is set."""
    by = f" by {hold.by}" if hold.by else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"{show_time(hold.since_ms)}{by}{why}"
