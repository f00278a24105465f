"""
kazoo's client from the settings, its waiting for sockets, and the certain life of its session.

kazoo does not expose the session timeout that the server granted, and reports a silent server only
after two thirds of it. The session's life is counted from the sending of the last request that was
answered: the server received a request at that instant or later.

kazoo waits twice for every request, once to write and once to read, and each time creates an epoll
object, registers the sockets, waits and closes it: five or six system calls, with a switch of
threads possible at each. ``poll`` needs one call. With it, a read of many small znodes takes
between half and three quarters of the processor time.
"""

from __future__ import annotations

import importlib.util
import select
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

from controller.core.model import Instant
from controller.errors import InvalidInputError
from controller.reactor.ports import Clock
from controller.settings import Settings

_READABLE: Final = ~select.POLLOUT
"""An error, or the end of the connection, wakes readers and writers."""
_WRITABLE: Final = ~select.POLLIN


class _Socket(Protocol):
    def fileno(self) -> int:
        """Return the descriptor, below 0 for a socket that is closed."""
        ...


class PollHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's own handler, except that it waits by ``poll``."""

    def select(
        self,
        reading: Sequence[_Socket],
        writing: Sequence[_Socket],
        _exceptional: Sequence[_Socket],
        timeout: float | None = None,
    ) -> tuple[list[_Socket], list[_Socket], list[Any]]:
        """
        Wait until a socket is ready; any number of descriptors may be open.

        Args:
            reading: Sockets to be read.
            writing: Sockets to be written.
            _exceptional: kazoo never asks for it.
            timeout: In seconds; None waits for ever.

        Raises:
            ValueError: a socket is closed.

        """
        poll = select.poll()
        for socket in writing:
            poll.register(_descriptor(socket), select.POLLOUT)
        for socket in reading:
            also = select.POLLOUT if socket in writing else 0
            poll.register(_descriptor(socket), select.POLLIN | also)
        ready = dict(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))
        if any(events & select.POLLNVAL for events in ready.values()):
            raise ValueError("a socket was closed while it was waited for")
        return (
            [s for s in reading if ready.get(s.fileno(), 0) & _READABLE],
            [s for s in writing if ready.get(s.fileno(), 0) & _WRITABLE],
            [],
        )


def _descriptor(socket: _Socket) -> int:
    descriptor = socket.fileno()
    if descriptor < 0:
        raise ValueError("the socket is closed")
    return descriptor


_PING: Final = -2
"""The number of every ping; those of ordinary requests are above 0."""


class ClientLease:
    """Implements ``reactor.ports.SessionLease``; kazoo's connection thread writes it."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        """
        Begin without a session.

        Args:
            clock: Counts also while the machine is suspended.
            timeout_s: The requested session time-out; the server may grant another.

        """
        self._clock = clock
        self._timeout_s = timeout_s
        self._ends = Instant(0.0)

    @property
    def timeout_s(self) -> float:
        """The session time-out that the server granted; before that, the requested one."""
        return self._timeout_s

    @property
    def ends(self) -> Instant:
        """When the session may have ended, on the clock it was built with."""
        return self._ends

    @property
    def left_s(self) -> float:
        """The seconds until then; 0 or less afterwards."""
        return self._ends - self._clock.now()

    def now(self) -> Instant:
        """Return the present instant."""
        return self._clock.now()

    def granted(self, timeout_s: float, asked_at: Instant) -> None:
        """Note the answer to a request, sent at that instant, to open or join the session."""
        self._timeout_s = timeout_s
        self._ends = Instant(asked_at + timeout_s)

    def answered(self, asked_at: Instant) -> None:
        """Note an answer to a request that was sent at that instant."""
        self._ends = max(self._ends, Instant(asked_at + self._timeout_s))


class LeasedClient(KazooClient):  # type: ignore[misc] # kazoo has no types
    """A client with the certain life of its session."""

    _connection: Any

    def __init__(self, clock: Clock, **options: Any) -> None:  # noqa: ANN401 - kazoo's options
        """Build kazoo's client; ``timeout`` is required among its options."""
        super().__init__(**options)
        self.lease = ClientLease(clock, options["timeout"])
        made = self._connection
        self._connection = _LeasedConnection(
            self, made.retry_sleeper, logger=made.logger, sasl_options=made.sasl_options
        )


class _LeasedConnection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's own connection; it also notes when each answered request was sent."""

    def __init__(self, client: LeasedClient, *args: Any, **options: Any) -> None:  # noqa: ANN401 - kazoo's
        super().__init__(client, *args, **options)
        self._lease = client.lease
        self._asked: deque[Instant] = deque()
        self._pinged: deque[Instant] = deque()

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:  # noqa: ANN401 - kazoo's
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        self._asked.clear()
        self._pinged.clear()
        asked_at = self._lease.now()
        answer = super()._invoke(timeout, request, xid)
        granted_ms = answer[0].time_out
        if granted_ms > 0:  # else the session has expired
            self._lease.granted(granted_ms / 1000, asked_at)
        return answer

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:  # noqa: ANN401 - kazoo's
        if xid == _PING:
            self._pinged.append(self._lease.now())
        elif xid is not None and xid > 0:
            self._asked.append(self._lease.now())
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:  # noqa: ANN401 - kazoo's
        answer = super()._read_header(timeout)
        header = answer[0]
        # Requests other than pings are answered in the order in which they were sent.
        asked = self._pinged if header.xid == _PING else self._asked
        if asked and (header.xid == _PING or header.xid > 0):
            asked_at = asked.popleft()
            if header.err != SessionExpiredError.code:
                self._lease.answered(asked_at)
        return answer


def client_options(settings: Settings) -> dict[str, Any]:
    """
    Return the arguments of kazoo's client for the settings of the connection.

    Raises:
        InvalidInputError: they ask for SASL and the library for it is not installed.

    """
    if settings.zookeeper_sasl_mechanism and importlib.util.find_spec("puresasl") is None:
        raise InvalidInputError("zookeeper_sasl_mechanism needs the Python package pure-sasl")
    credential = settings.zookeeper_auth_credential
    return {
        "hosts": settings.zookeeper,
        "handler": PollHandler(),
        "timeout": settings.zookeeper_session_timeout_s,
        "auth_data": (
            [(settings.zookeeper_auth_scheme, credential.get_secret_value())]
            if credential
            else None
        ),
        "sasl_options": _sasl_options(settings),
        "use_ssl": settings.zookeeper_tls,
        "ca": _text(settings.zookeeper_tls_cafile),
        "certfile": _text(settings.zookeeper_tls_certfile),
        "keyfile": _text(settings.zookeeper_tls_keyfile),
        "keyfile_password": (
            settings.zookeeper_tls_password.get_secret_value()
            if settings.zookeeper_tls_password
            else None
        ),
        "check_hostname": settings.zookeeper_tls_check_hostname,
    }


def _sasl_options(settings: Settings) -> dict[str, str] | None:
    password = settings.zookeeper_sasl_password
    match settings.zookeeper_sasl_mechanism:
        case "DIGEST-MD5" if settings.zookeeper_sasl_username and password:
            return {
                "mechanism": "DIGEST-MD5",
                "username": settings.zookeeper_sasl_username,
                "password": password.get_secret_value(),
            }
        case "GSSAPI":
            principal = settings.zookeeper_sasl_principal
            named = {"principal": principal} if principal else {}
            return {"mechanism": "GSSAPI", "service": settings.zookeeper_sasl_service, **named}
        case _:
            return None


def _text(path: object) -> str | None:
    return None if path is None else str(path)
