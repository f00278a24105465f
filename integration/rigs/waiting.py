"""
Waiting for a condition, with a limit and a reason.

The only place of the harness that sleeps. A wait that runs out says what it waited for and what it
saw last, since the failing run may be far away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class GaveUpError(AssertionError):
    """A condition did not come true in time."""


def eventually(
    predicate: Callable[[], T],
    *,
    within_s: float,
    every_s: float = 0.1,
    what: str | Callable[[], str] = "",
    tolerating: tuple[type[Exception], ...] = (),
) -> T:
    """
    Return the first truthy result of ``predicate``.

    Args:
        predicate: Asked at least once, and once more when the time is up.
        within_s: How long to wait, in seconds.
        every_s: Pause between two questions, in seconds.
        what: What is waited for, for the error message; a function is called only then.
        tolerating: Exceptions that mean "not yet".

    Raises:
        GaveUpError: It was still falsy, or still raised, when the time was up.
    """
    deadline = time.monotonic() + within_s
    seen: object = None
    while True:
        last = time.monotonic() >= deadline
        try:
            result = predicate()
        except tolerating as error:
            seen = error
        else:
            if result:
                return result
            seen = result
        if last:
            description = what() if callable(what) else what
            raise GaveUpError(
                f"not within {within_s:g} s: {description or predicate}; last: {seen!r}"
            )
        time.sleep(every_s)
