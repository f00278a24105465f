"""
The answers of the probes: whether the process is alive and whether it is ready, with a reason.

Alive: the loop's thread completed a cycle recently. Ready: alive and connected to the ZooKeeper of
a cluster, as leader or as standby. Called by the HTTP server's threads; each call looks at loop and
session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.core.model import Instant
from controller.reactor.ports import Clock
from controller.telemetry.metrics import SessionStatus

QUIET_S: Final = 60.0
"""An idle loop cycles every second; a commit may take as long as a ZooKeeper session lasts."""


class Health:
    """State of the loop and of the ZooKeeper session."""

    def __init__(self, *, clock: Clock, quiet_s: float = QUIET_S) -> None:
        """
        Start neither alive nor ready.

        Args:
            clock: The loop's clock.
            quiet_s: Seconds without a cycle after which the loop counts as stuck.

        """
        self._clock = clock
        self._quiet_s = quiet_s
        self._last_cycle: Callable[[], Instant | None] = lambda: None
        self._session: Callable[[], SessionStatus] = lambda: SessionStatus.LOST
        self._awaited: Callable[[], str | None] = lambda: None

    def watch_loop(self, last_cycle: Callable[[], Instant | None]) -> None:
        """Read the time of the loop's last cycle there; None means that its thread ended."""
        self._last_cycle = last_cycle

    def watch_session(self, state: Callable[[], SessionStatus]) -> None:
        """Read the state of the ZooKeeper session there."""
        self._session = state

    def watch_cluster(self, awaited: Callable[[], str | None]) -> None:
        """Read there what is missing of a cluster; None means that it exists."""
        self._awaited = awaited

    @property
    def session(self) -> SessionStatus:
        """The state of the ZooKeeper session."""
        return self._session()

    def why_dead(self) -> str | None:
        """Return why the process should be restarted; None if it is alive."""
        last = self._last_cycle()
        if last is None:
            return "the loop does not run"
        quiet = self._clock.now() - last
        if quiet > self._quiet_s:
            return f"the loop has not completed a cycle for {quiet:.0f} s"
        return None

    def why_unready(self) -> str | None:
        """Return why the process cannot do its work now; None if it can."""
        session = self._session()
        if session is not SessionStatus.CONNECTED:
            return f"the ZooKeeper session is {session.value}"
        return self._awaited() or self.why_dead()
