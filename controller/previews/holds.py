"""What operators hold back, in words."""

from __future__ import annotations

from controller.core.pacing.controls import Drain, Evacuation, Pause, Quiesce
from controller.units import show_time
from controller.znodes.cancellations import KillSwitch


def since_words(hold: Pause | Quiesce | KillSwitch | Drain | Evacuation) -> str:
    """Return since when, by which user and why a control is set."""
    by = f" by {hold.by}" if hold.by else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"{show_time(hold.since_ms)}{by}{why}"
