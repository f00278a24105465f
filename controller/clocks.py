"""
The monotonic clock of the loop: the only clock that decisions use.

It includes the time for which the machine was suspended, as ZooKeeper sessions expire meanwhile.
Linux's ordinary monotonic clock stops during a suspension.
"""

from __future__ import annotations

import time

from controller.core.model import Instant

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a separate clock that includes suspension; other systems have only this one."""


class MonotonicClock:
    """Seconds since an arbitrary instant; never decreases."""

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.clock_gettime(_CLOCK))
