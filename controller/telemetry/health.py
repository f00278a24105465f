"""
Whether the process is alive and whether it is ready, each with a reason.

Alive: the loop's thread turned lately. Ready: alive and connected to ZooKeeper, be it leader or
standby. Asked by the HTTP server's threads; it looks at the loop and the session then and there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.core.model import Instant
from controller.reactor.ports import Clock
from controller.telemetry.metrics import SessionState

QUIET_S: Final = 60.0
"""The loop turns every second when idle; a commit may take as long as a ZooKeeper session lasts."""


class Health:
    """Answers the probes."""

    def __init__(self, *, clock: Clock, quiet_s: float = QUIET_S) -> None:
        """
        Begin neither alive nor ready.

        Args:
            clock: The loop's clock.
            quiet_s: The loop counts as stuck after so long without a turn.

        """
        self._clock = clock
        self._quiet_s = quiet_s
        self._last_cycle: Callable[[], Instant | None] = lambda: None
        self._session: Callable[[], SessionState] = lambda: SessionState.LOST

    def watch_loop(self, last_cycle: Callable[[], Instant | None]) -> None:
        """Look here for when the loop last turned; None means that its thread ended."""
        self._last_cycle = last_cycle

    def watch_session(self, state: Callable[[], SessionState]) -> None:
        """Look here for the state of the ZooKeeper session."""
        self._session = state

    @property
    def session(self) -> SessionState:
        """The state of the ZooKeeper session."""
        return self._session()

    def why_dead(self) -> str | None:
        """Return why the process should be restarted; None when it is alive."""
        last = self._last_cycle()
        if last is None:
            return "the loop does not run"
        quiet = self._clock.now() - last
        if quiet > self._quiet_s:
            return f"the loop has not turned for {quiet:.0f} s"
        return None

    def why_unready(self) -> str | None:
        """Return why the process cannot do its work now; None when it can."""
        session = self._session()
        if session is not SessionState.CONNECTED:
            return f"the ZooKeeper session is {session.value}"
        return self.why_dead()
