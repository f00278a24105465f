"""
Delays of answers: one lane per thread of the real store.

A session receives everything in the server's order, but several threads put it into the inbox
(levels, bulk reads, claims), each in its own order and at its own pace. A lane keeps the order of
one thread and may lag behind the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.sim.schedule import Action, Schedule


class Lane:
    """Runs actions in order, at once or, while it lags, some time later."""

    def __init__(self, schedule: Schedule, lagged: Callable[[], None]) -> None:
        self._schedule = schedule
        self._lagged = lagged
        self._free_at = 0.0
        self._waiting = 0
        self.lag_s = 0.0
        """Delay every action by up to so many seconds; 0 ends the fault."""

    @property
    def on_time_since(self) -> float:
        """The time since which nothing is late; now, where something may be."""
        is_late = self.lag_s > 0.0 or self._waiting
        return self._schedule.now() if is_late else self._free_at

    def put(self, action: Action) -> None:
        """Run an action after all that were put before it."""
        if self.lag_s <= 0.0 and not self._waiting:
            action()
            return
        self._lagged()
        at = self._schedule.now() + self._schedule.random.uniform(0.0, self.lag_s)
        self._free_at = max(self._free_at, at)
        self._waiting += 1

        def run() -> None:
            self._waiting -= 1
            action()

        self._schedule.call_at(self._free_at, run)


LATE_SHARE: Final = 0.2
LATE_S: Final = 3.0
"""The share of the times at which topics are read late, and how late at the most."""


class Lanes:
    """The lanes of one store."""

    def __init__(self, schedule: Schedule, lagged: Callable[[], None]) -> None:
        """Begin without a lag; ``lagged`` is called for every late event."""
        self._schedule = schedule
        self._topics_read_at = 0.0
        """Topics whose watches fire before this time are read then."""
        self.levels = Lane(schedule, lagged)
        """Everything that is read whole, but for our own records."""
        self.bulk = Lane(schedule, lagged)
        """Topics, states and our own records."""
        self.claims = Lane(schedule, lagged)
        """Results of claims."""

    def read_topics_at(self, at: float) -> None:
        """Have topics whose watches fire from now on read at a time, or later."""
        self._topics_read_at = max(self._topics_read_at, at)

    def read_again(self, read: Action) -> None:
        """
        Run a read of topics that a watch caused, at times after reads that are requested later.

        Of thousands of topics that are read again after a broken connection, some come late.
        """
        now, chance = self._schedule.now(), self._schedule.random
        if now >= self._topics_read_at and chance.random() < LATE_SHARE:
            self._topics_read_at = now + chance.uniform(0.0, LATE_S)
        if now < self._topics_read_at:
            self._schedule.call_at(self._topics_read_at, read)
        else:
            read()

    @property
    def on_time_since(self) -> float:
        """The time since which nothing is late; now, where something may be."""
        return max(lane.on_time_since for lane in (self.levels, self.bulk, self.claims))

    def lag(self, seconds: float) -> None:
        """Let every lane lag by up to so much, each for itself; 0 ends it."""
        for lane in (self.levels, self.bulk, self.claims):
            lane.lag_s = seconds
