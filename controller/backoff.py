"""
Pauses between attempts that are not made in a loop: tenacity decides how long.

A thread that may block hands its function to ``tenacity.Retrying``. What runs on an event loop, or
compares times, has a strategy of tenacity's as well, and asks here for the next pause.
"""

from __future__ import annotations

from typing import Final

from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_base

_UNUSED: Final = Retrying()
"""Strategies receive the loop that asks them, and use nothing of it but the number of attempts."""


def pause_s(wait: wait_base, failures: int) -> float:
    """Return the pause after so many consecutive failures, at least 1."""
    state = RetryCallState(_UNUSED, None, (), {})
    state.attempt_number = failures
    return wait(state)
