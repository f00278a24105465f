"""Monotonic time for the loop; the only place that reads the clock for a decision."""

from __future__ import annotations

import time

from controller.core.model import Instant


class MonotonicClock:
    """Seconds since an arbitrary moment, never going back."""

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.monotonic())
