"""
Monotonic time for the loop; the only place that reads the clock for a decision.

Time in which the machine was suspended counts: ZooKeeper ends a session meanwhile. Linux' ordinary
monotonic clock stands still then.
"""

from __future__ import annotations

import time

from controller.core.model import Instant

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has one that counts suspension; elsewhere the monotonic one does, or there is none."""


class MonotonicClock:
    """Seconds since an arbitrary moment, never going back."""

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.clock_gettime(_CLOCK))
