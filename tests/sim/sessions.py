"""
A client's connection to the simulated ZooKeeper: delays in order, suspension, expiry.

The server acts immediately; requests, responses and watches take time here, in the server's order
for each session. A suspended session receives nothing; when it is connected again, requests are
repeated and every watch fires, as kazoo does after a lost connection. Writes wait for their
response and so are not here: the caller checks ``is_connected`` first.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.model import Instant
from tests.sim.schedule import Action, Schedule
from tests.sim.zookeeper import SessionId, SimZooKeeper, Watch

ONE_WAY_S = (0.0002, 0.003)
"""The delay of a message to or from ZooKeeper."""
NOTICE_EXPIRY_S = (0.01, 1.0)
"""The delay after which a client learns that its session expired."""


_Request = Callable[[], Action]
"""Something asked of the server; running it there returns what the client is to do then."""


class SimSession:
    """One session, from its opening to its end."""

    def __init__(
        self,
        zookeeper: SimZooKeeper,
        schedule: Schedule,
        *,
        timeout_s: float = 10.0,
        expired: Action | None = None,
    ) -> None:
        """
        Open the session.

        Args:
            zookeeper: The server.
            schedule: Where everything is scheduled.
            timeout_s: After so long without its client, the server ends the session.
            expired: Called when the client learns that its session expired.

        """
        self._zookeeper = zookeeper
        self._schedule = schedule
        self._timeout_s = timeout_s
        self._expired = expired
        self.id: SessionId = zookeeper.open_session()
        self.is_connected = True
        self._connected_at = schedule.now()
        self._suspended_at = 0.0
        self._connection = 0
        self._to_server_at = 0.0
        self._to_client_at = 0.0
        self._requests: dict[int, _Request] = {}
        self._heard: dict[int, Action] = {}
        self._sequence = 0
        self._abandoned = False

    @property
    def is_open(self) -> bool:
        """True while the server knows the session."""
        return self._zookeeper.is_open(self.id)

    @property
    def hears_since(self) -> float:
        """The time since which it is connected; now, where it is not."""
        return self._connected_at if self.is_connected else self._schedule.now()

    @property
    def ends(self) -> Instant:
        """The time at which the server may expire it, as far as its client knows."""
        heard = self._schedule.now() if self.is_connected else self._suspended_at
        return Instant(heard + self._timeout_s)

    # --- talking -------------------------------------------------------------------------------

    def send(self, request: _Request) -> None:
        """Run ``request`` at the server, later, and what it returns at the client after that."""
        self._sequence += 1
        self._requests[self._sequence] = request
        if self.is_connected:
            self._transmit(self._sequence)

    def send_in(self, seconds: float, request: _Request) -> None:
        """Ask later, unless the client is gone by then."""

        def send() -> None:
            if not self._abandoned:
                self.send(request)

        self._schedule.call_in(seconds, send)

    def notify(self, callback: Action) -> None:
        """Deliver a watch that fired."""
        self._sequence += 1
        self._heard[self._sequence] = callback
        if self.is_connected:
            self._deliver(self._sequence)

    def watch(self, key: str, callback: Action) -> Watch:
        """Return a one-shot watch of this session."""
        return Watch(self, key, callback)

    def _transmit(self, number: int) -> None:
        at = self._schedule.now() + self._schedule.random.uniform(*ONE_WAY_S)
        self._to_server_at = max(self._to_server_at, at)
        connection = self._connection

        def arrive() -> None:
            if connection != self._connection or not self.is_open:
                return
            # Kept until the answer arrives: if that is lost, the request is repeated.
            self._heard[number] = self._requests[number]()
            self._deliver(number)

        self._schedule.call_at(self._to_server_at, arrive)

    def _deliver(self, number: int) -> None:
        at = self._schedule.now() + self._schedule.random.uniform(*ONE_WAY_S)
        self._to_client_at = max(self._to_client_at, at)
        connection = self._connection

        def arrive() -> None:
            if connection != self._connection or self._abandoned:
                return
            self._requests.pop(number, None)
            self._heard.pop(number)()

        self._schedule.call_at(self._to_client_at, arrive)

    # --- faults --------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Break the connection; after the session's timeout the server gives it up."""
        if not self.is_connected:
            return
        self.is_connected = False
        self._suspended_at = self._schedule.now()
        self._connection += 1
        connection = self._connection
        for number in self._requests:
            self._heard.pop(number, None)
        for watch in self._zookeeper.take_watches(self.id):
            self.notify(watch.callback)

        def give_up() -> None:
            if connection == self._connection:
                self._zookeeper.close_session(self.id)

        self._schedule.call_in(self._timeout_s, give_up)

    def resume(self) -> None:
        """Connect again: hear what was missed, or that the session is gone."""
        if self.is_connected or self._abandoned:
            return
        self.is_connected = True
        self._connected_at = self._schedule.now()
        self._connection += 1
        if not self.is_open:
            self._report_expiry()
            return
        for number in list(self._heard):
            self._deliver(number)
        for number in list(self._requests):
            self._transmit(number)

    def expire(self) -> None:
        """Let the server end the session now; the client learns it later."""
        if self.is_open:
            self._zookeeper.close_session(self.id)
            if self.is_connected:
                self._report_expiry()

    def close(self) -> None:
        """End the session as a client does on a clean exit."""
        self._abandoned = True
        self._zookeeper.close_session(self.id)

    def abandon(self) -> None:
        """Let the client die without a word: the server ends the session after its timeout."""
        self._abandoned = True
        self._connection += 1
        self._schedule.call_in(self._timeout_s, lambda: self._zookeeper.close_session(self.id))

    def _report_expiry(self) -> None:
        def report() -> None:
            if not self._abandoned:
                self._abandoned = True
                if self._expired is not None:
                    self._expired()

        self._schedule.call_between(*NOTICE_EXPIRY_S, report)
