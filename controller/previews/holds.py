"""What operators and windows hold back, in words."""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.pacing.controls import Controls, Drain, Evacuation, Pause, Quiesce
from controller.core.requests.submissions import Window
from controller.units import show_duration, show_time
from controller.znodes.cancellations import KillSwitch


def since_words(hold: Pause | Quiesce | KillSwitch | Drain | Evacuation) -> str:
    """Return since when, by which user and why a control is set."""
    by = f" by {hold.by}" if hold.by else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"{show_time(hold.since_ms)}{by}{why}"


def closed_windows(controls: Controls, own: Window | None, unix_s: float) -> Iterator[str]:
    """Describe the closed windows of a request and of all requests, with when they open."""
    for window in dict.fromkeys((own, controls.limits.window)):
        if window is not None and not window.is_open(unix_s):
            left = show_duration(window.opens_in_s(unix_s))
            yield f"{window.closed_text(unix_s)}, in {left}"
