"""
The monotonic clock of the loop, the only clock that decisions use; pauses between attempts.

The clock includes the time for which the machine was suspended, as ZooKeeper sessions expire
meanwhile. Linux's ordinary monotonic clock stops during a suspension.

How long to wait between two attempts is tenacity's decision. A thread that may block hands its
function to ``tenacity.Retrying``; what runs on an event loop, or compares times, has a strategy of
tenacity's as well, and asks here for the next pause.
"""

from __future__ import annotations

import time
from typing import Final

from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_base

from controller.core.model import Instant

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a separate clock that includes suspension; other systems have only this one."""
_UNUSED: Final = Retrying()
"""Strategies receive the loop that asks them, and use nothing of it but the number of attempts."""


class MonotonicClock:
    """Seconds since an arbitrary instant; never decreases."""

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.clock_gettime(_CLOCK))


def pause_s(wait: wait_base, failures: int) -> float:
    """Return the pause after so many consecutive failures, at least 1."""
    state = RetryCallState(_UNUSED, None, (), {})
    state.attempt_number = failures
    return wait(state)
