"""
kazoo's client: its waiting for sockets, its login, and the client of a command.

The daemon's is in ``leased_client``.

kazoo waits twice for every request, once to write and once to read, and each time creates an epoll
object, registers the sockets, waits and closes it: five or six system calls, with a switch of
threads possible at each. ``poll`` needs one call. With it, a read of many small znodes takes
between half and three quarters of the processor time.
"""

from __future__ import annotations

import importlib.util
import select
import socket
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

from controller.credentials import ClientTls
from controller.errors import InvalidInputError
from controller.settings import Settings
from controller.zk.security import present_credentials, zookeeper_tls

_READABLE: Final = ~select.POLLOUT
"""An error, or the end of the connection, wakes readers and writers."""
_WRITABLE: Final = ~select.POLLIN


class PollHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's own handler, except that it waits by ``poll`` and has its own TLS."""

    def __init__(self, tls: ClientTls | None = None) -> None:
        """
        Connect with TLS, unless None.

        kazoo itself would also trust every authority of the system, and ignore a key that is in the
        certificate's file.
        """
        super().__init__()
        self._tls = tls
        self.problem: str | None = None
        """Why the last connection was not made."""

    def create_connection(self, *arguments: Any, **options: Any) -> socket.socket:  # noqa: ANN401 - kazoo's
        """Connect to a server, with TLS by the present files if there is any."""
        try:
            connection = self._connection(*arguments, **options)
        except OSError as error:
            self.problem = str(error)
            raise
        self.problem = None
        return connection

    def _connection(self, *arguments: Any, **options: Any) -> socket.socket:  # noqa: ANN401 - kazoo's
        if self._tls is None:
            made: socket.socket = super().create_connection(*arguments, **options)
            return made
        try:
            context = self._tls.context()
        except InvalidInputError as error:  # of a file that may be replaced meanwhile
            raise ConnectionError(str(error)) from error
        connection = socket.create_connection(options["address"], options["timeout"])
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(connection, server_hostname=options["hostname"])
        except BaseException:
            connection.close()
            raise

    def select(
        self,
        reading: Sequence[socket.socket],
        writing: Sequence[socket.socket],
        _exceptional: Sequence[socket.socket],
        timeout: float | None = None,
    ) -> tuple[list[socket.socket], list[socket.socket], list[Any]]:
        """
        Wait until a socket is ready, ``timeout`` seconds or for ever; any number may be open.

        Raises:
            ValueError: a socket is closed.
        """
        poll = select.poll()
        for each in writing:
            poll.register(_descriptor(each), select.POLLOUT)
        for each in reading:
            also = select.POLLOUT if each in writing else 0
            poll.register(_descriptor(each), select.POLLIN | also)
        ready = dict(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))
        if any(events & select.POLLNVAL for events in ready.values()):
            raise ValueError("a socket was closed while it was waited for")
        return (
            [s for s in reading if ready.get(s.fileno(), 0) & _READABLE],
            [s for s in writing if ready.get(s.fileno(), 0) & _WRITABLE],
            [],
        )


def _descriptor(open_socket: socket.socket) -> int:
    descriptor = open_socket.fileno()
    if descriptor < 0:
        raise ValueError("the socket is closed")
    return descriptor


class Connection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's own connection, whose thread survives every refusal of a login."""

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except (AuthFailedError, ConnectionDropped, ConnectionLoss):
            raise
        except (KazooException, RuntimeError) as error:
            # Such as SessionClosedRequireSaslError of a server that enforces logins.
            raise AuthFailedError(repr(error)) from error


def in_place_of(made: Any, kind: type[Connection]) -> Any:  # noqa: ANN401 - kazoo has no types
    """Return a connection of this kind for the client that made its own."""
    return kind(made.client, made.retry_sleeper, logger=made.logger, sasl_options=made.sasl_options)


class CommandClient(KazooClient):  # type: ignore[misc] # as above
    """A client for one command, which gives up when its login is refused."""

    _connection: Any

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - kazoo's
        super().__init__(**options)
        self._connection = in_place_of(self._connection, Connection)


def client_options(settings: Settings) -> dict[str, Any]:
    """
    Return the arguments of kazoo's client for the settings of the connection.

    Raises:
        InvalidInputError: they ask for SASL and the library for it is not installed, or a file of
            theirs cannot be used.
    """
    if settings.zookeeper_sasl_mechanism and importlib.util.find_spec("puresasl") is None:
        raise InvalidInputError("zookeeper_sasl_mechanism needs the Python package pure-sasl")
    is_kerberos = settings.zookeeper_sasl_mechanism == "GSSAPI"
    if is_kerberos and importlib.util.find_spec("kerberos") is None:
        raise InvalidInputError("zookeeper_sasl_mechanism GSSAPI needs the Python package kerberos")
    credentials = present_credentials(settings)
    tls = zookeeper_tls(settings)
    if tls is not None:
        tls.context()
    return {
        "handler": PollHandler(tls),
        "hosts": settings.zookeeper,
        "timeout": settings.zookeeper_session_timeout_s,
        "auth_data": list(credentials.auth_data) or None,
        "sasl_options": credentials.sasl,
        "use_ssl": tls is not None,
    }
