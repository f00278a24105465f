"""
The daemon's client of ZooKeeper, with the certain life of its session.

kazoo does not expose the session timeout that the server granted, and reports a silent server only
after two thirds of it. The session's life is counted from the sending of the last request that was
answered: the server received a request at that instant or later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from controller.clocks import pause_s
from controller.core.model import Instant
from controller.errors import InvalidInputError
from controller.reactor.ports import Clock
from controller.zk.clients import Connection, in_place_of
from controller.zk.security import REFUSED, Credentials

_log = structlog.stdlib.get_logger(__name__)

_LOOK_S: Final = 0.5
"""Between two looks for other credentials while a pause passes."""

_PING: Final = -2
"""The number of every ping; those of ordinary requests are above 0."""


class ClientLease:
    """Implements ``reactor.ports.SessionLease``; kazoo's connection thread writes it."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        """Begin without a session; the clock counts also while the machine is suspended."""
        self._clock = clock
        self.timeout_s = timeout_s
        """The session time-out that the server granted; before that, the requested one."""
        self.ends = Instant(0.0)
        """When the session may have ended, on that clock."""

    @property
    def left_s(self) -> float:
        """The seconds until then; 0 or less afterwards."""
        return self.ends - self._clock.now()

    def now(self) -> Instant:
        """Return the present instant."""
        return self._clock.now()

    def note_grant(self, timeout_s: float, sent_at: Instant) -> None:
        """Note the answer to a request, sent at that instant, to open or join the session."""
        self.timeout_s = timeout_s
        self.ends = Instant(sent_at + timeout_s)

    def note_answer(self, sent_at: Instant) -> None:
        """Note an answer to a request that was sent at that instant."""
        self.ends = max(self.ends, Instant(sent_at + self.timeout_s))


class LeasedClient(KazooClient):  # type: ignore[misc] # kazoo has no types
    """
    A client with the certain life of its session, which is connected once it is logged in.

    A login that is refused is retried with pauses; kazoo itself would give up for ever.
    """

    _connection: Any

    def __init__(
        self,
        clock: Clock,
        credentials: Callable[[], Credentials] | None = None,
        **options: Any,  # noqa: ANN401 - kazoo's
    ) -> None:
        super().__init__(**options)
        self.credentials = credentials
        self.lease = ClientLease(clock, options["timeout"])
        self._connection = in_place_of(self._connection, _LeasedConnection)

    def _session_callback(self, state: str) -> None:
        if state != KeeperState.CONNECTED or self._connection.is_logged_in:
            super()._session_callback(state)


class _LeasedConnection(Connection):
    """kazoo's own connection; it also notes when each answered request was sent."""

    def __init__(self, client: LeasedClient, *args: Any, **options: Any) -> None:  # noqa: ANN401 - kazoo's
        super().__init__(client, *args, **options)
        self._lease = client.lease
        self._sent: deque[Instant] = deque()
        self._pinged: deque[Instant] = deque()
        self._logged_in = False
        self._refusals = 0
        """The number of refusals in a row."""
        self._pause_s = 0.0
        """The pause after the last of them."""
        self._tried: Credentials | None = None
        self._refused: Credentials | None = None
        """The credentials that were refused last."""

    @property
    def is_logged_in(self) -> bool:
        """Whether the present connection has passed SASL, if that is configured."""
        return self.sasl_options is None or self._logged_in

    def _connect(self, host: str, hostip: str, port: int) -> Any:  # noqa: ANN401 - kazoo's
        """Connect with the present credentials, after a pause if the former were refused."""
        self._logged_in = False
        if self.client.credentials is not None:
            try:
                self._log_in(self.client.credentials)
            except InvalidInputError as error:
                raise ConnectionDropped(str(error)) from error
        return super()._connect(host, hostip, port)

    def _log_in(self, credentials: Callable[[], Credentials]) -> None:
        ends = self._lease.now() + self._pause_s
        while (present := credentials()) == self._refused and self._lease.now() < ends:
            if self.client._stopped.wait(_LOOK_S):  # noqa: SLF001 - kazoo's
                raise ConnectionDropped("the client stops")
        if present != self._refused:
            self._refusals, self._pause_s = 0, 0.0
        self._tried = present
        # kazoo adds to the options.
        self.sasl_options = None if present.sasl is None else dict(present.sasl)
        self.client.auth_data = set(present.auth_data)

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except AuthFailedError as error:
            self._refused, self._refusals = self._tried, self._refusals + 1
            self._pause_s = pause_s(REFUSED, self._refusals)
            tried = self.sasl_options or {}
            _log.error(
                "zookeeper login refused",
                mechanism=tried.get("mechanism"),
                user=tried.get("username") or tried.get("principal"),
                error=repr(error.__cause__ or error),
                refusals=self._refusals,
                retry_in_s=round(self._pause_s, 1),
            )
            raise ConnectionDropped("ZooKeeper refuses the login") from error
        self._refusals, self._pause_s = 0, 0.0
        self._logged_in = True
        self.client._session_callback(KeeperState.CONNECTED)  # noqa: SLF001 - held back until now

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:  # noqa: ANN401 - kazoo's
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        self._sent.clear()
        self._pinged.clear()
        sent_at = self._lease.now()
        answer = super()._invoke(timeout, request, xid)
        granted_ms = answer[0].time_out
        if granted_ms > 0:  # else the session has expired
            self._lease.note_grant(granted_ms / 1000, sent_at)
        return answer

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:  # noqa: ANN401 - kazoo's
        if xid is not None:
            self._note_sending(xid)
        super()._submit(request, timeout, xid)

    def _note_sending(self, number: int) -> None:
        if number == _PING:
            self._pinged.append(self._lease.now())
        elif number > 0:
            self._sent.append(self._lease.now())

    def _read_header(self, timeout: float) -> Any:  # noqa: ANN401 - kazoo's
        answer = super()._read_header(timeout)
        header = answer[0]
        # Requests other than pings are answered in the order in which they were sent.
        sent = self._pinged if header.xid == _PING else self._sent
        if sent and (header.xid == _PING or header.xid > 0):
            sent_at = sent.popleft()
            if header.err != SessionExpiredError.code:
                self._lease.note_answer(sent_at)
        return answer
