"""
When events arrived: an inbox around the loop's inbox that remembers the time of each.

It changes neither the events nor their order. Memory is bounded by what waits in the loop's inbox,
for every event that is put is taken exactly once.
"""

from __future__ import annotations

from controller.core.events import Event
from controller.core.model import Instant
from controller.reactor.ports import Clock, Inbox


class TimedInbox:
    """Hand this one to the adapters; the loop keeps the inner one."""

    def __init__(self, inner: Inbox, clock: Clock) -> None:
        """Wrap an inbox."""
        self._inner = inner
        self._clock = clock
        self._arrived: dict[int, Instant] = {}
        """By the identity of the event, which lives in the inner inbox meanwhile."""

    def put(self, event: Event) -> None:
        """Note the time and pass the event on."""
        self._arrived[id(event)] = self._clock.now()
        self._inner.put(event)

    def __len__(self) -> int:
        """Return how many events wait; from any thread."""
        return len(self._arrived)

    def taken(self, event: Event) -> Instant | None:
        """Return when the event arrived; None for one the loop made itself."""
        return self._arrived.pop(id(event), None)
