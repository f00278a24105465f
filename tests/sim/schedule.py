"""
The event queue and the virtual clock: the only source of time and chance in a simulation.

It knows nothing of what it runs. Events of the same instant run in the order they were scheduled,
so a history depends on the seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from controller.core.model import Instant

Action = Callable[[], None]

BEGAN_AT_UNIX_S: Final = 1_750_000_000.0
"""The wall-clock time at the begin of a simulation, in seconds since 1970."""


class Scheduled:
    """An event to come; ``cancel`` makes it void."""

    __slots__ = ("_action", "at")

    def __init__(self, at: float, action: Action) -> None:
        self.at = at
        self._action: Action | None = action

    def cancel(self) -> None:
        """Make the event void; harmless when it has already run."""
        self._action = None

    def take(self) -> Action | None:
        """Return what is to be run, once."""
        action, self._action = self._action, None
        return action


class Schedule:
    """Virtual time: constant while an event runs, then that of the next event."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events = 0
        """Events run so far."""
        self._now = 0.0
        self._sequence = 0
        self._queue: list[tuple[float, int, Scheduled]] = []

    def now(self) -> Instant:
        """Return the present instant, in seconds since the simulation began."""
        return Instant(self._now)

    def unix_s(self) -> float:
        """Return what the clock on the wall says, in seconds since 1970."""
        return BEGAN_AT_UNIX_S + self._now

    def call_at(self, at: float, action: Action) -> Scheduled:
        """Run ``action`` at ``at``, or as soon as possible if that has passed."""
        event = Scheduled(max(at, self._now), action)
        self._sequence += 1
        heappush(self._queue, (event.at, self._sequence, event))
        return event

    def call_in(self, delay_s: float, action: Action) -> Scheduled:
        """Run ``action`` after ``delay_s`` seconds."""
        return self.call_at(self._now + delay_s, action)

    def call_between(self, low_s: float, high_s: float, action: Action) -> Scheduled:
        """Run ``action`` after a delay that chance picks between the two."""
        return self.call_at(self._now + self.random.uniform(low_s, high_s), action)

    def next_at(self) -> float | None:
        """Return when the next event is due, None when nothing is to come."""
        return self._queue[0][0] if self._queue else None

    def step(self) -> bool:
        """Run the next event; False when there was none."""
        while self._queue:
            at, _, event = heappop(self._queue)
            action = event.take()
            if action is None:
                continue
            self._now = at
            self.events += 1
            action()
            return True
        return False

    def skip_to(self, at: float) -> None:
        """Set the clock to ``at``; nothing may be due before."""
        self._now = max(self._now, at)
