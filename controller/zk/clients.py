"""
kazoo's client: its waiting for sockets, its login, and the client of a command.

The daemon's is in ``leased_client``.

kazoo waits twice for every request, once to write and once to read, and each time creates an epoll
object, registers the sockets, waits and closes it: five or six system calls, with a switch of
threads possible at each. ``poll`` needs one call. With it, a read of many small znodes takes
between half and three quarters of the processor time.

kazoo also needs system calls for each request to wake its thread, to send it and to receive the
answer. After each of them its thread gets the interpreter back late while the loop is busy. So all
requests that wait are sent together, and all answers that came are received together.
"""

from __future__ import annotations

import importlib.util
import select
import socket
import ssl
import struct
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
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Auth

from controller.credentials import ClientTls
from controller.errors import InvalidInputError
from controller.settings import Settings
from controller.zk.security import present_credentials, zookeeper_tls

_READABLE: Final = ~select.POLLOUT
"""An error, or the end of the connection, wakes readers and writers."""
_WRITABLE: Final = ~select.POLLIN
_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">iii")
"""The length, the number and the type of a request."""
_AUTH: Final = -4
"""The number of every request that authenticates."""
_RECEIVED_AT_ONCE: Final = 1 << 16
_SENT_AT_ONCE: Final = 1 << 16
"""Bytes of requests that are collected before they are sent."""
_REQUESTS_AT_ONCE: Final = 500
"""Requests between two looks for answers."""
_NOT_READY: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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


class _Waker:
    """The socket that wakes kazoo's thread: one byte, however many requests wait."""

    def __init__(self, wakes: socket.socket) -> None:
        self._wakes = wakes
        self._is_sent = False

    def send(self, data: bytes) -> int:
        """Wake the thread for a request that was queued before, unless it is to wake already."""
        if not self._is_sent:
            self._is_sent = True
            self._wakes.send(data)
        return len(data)

    def awaken(self, woken: socket.socket) -> None:
        """Take what was sent; what is queued until this returns is not announced again."""
        woken.recv(_RECEIVED_AT_ONCE)
        self._is_sent = False

    def close(self) -> None:
        """Close the socket."""
        self._wakes.close()


class Connection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """
    kazoo's own connection, with few system calls for many requests.

    Its thread survives every refusal of a login.
    """

    _xid: int
    _waker: _Waker | None = None
    _received = b""
    """What was received and not taken yet, from ``_taken`` on."""
    _taken = 0
    _ahead = 0
    """Bytes that are received also if they are not awaited yet."""

    @property
    def _write_sock(self) -> _Waker | None:
        return self._waker

    @_write_sock.setter
    def _write_sock(self, wakes: socket.socket | None) -> None:
        self._waker = None if wakes is None else _Waker(wakes)

    def _connect(self, host: str, hostip: str, port: int) -> Any:  # noqa: ANN401 - kazoo's
        # What follows the answer to the last request of a login would be noticed too late.
        self._received, self._taken, self._ahead = b"", 0, 0
        timeouts = super()._connect(host, hostip, port)
        self._ahead = _RECEIVED_AT_ONCE
        return timeouts

    def _note_sending(self, number: int) -> None:
        """Be notified before a request with this number is sent."""

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send all requests that wait."""
        waker, queue = self._waker, self.client._queue  # noqa: SLF001 - kazoo's
        if waker is None:
            raise ConnectionDropped("the connection is closed")
        waker.awaken(self._read_sock)
        try:
            self._send_queued(queue, self.client._pending, connect_timeout)  # noqa: SLF001 - kazoo's
        finally:
            if queue:
                waker.send(b"\0")
        if queue and not hasattr(queue[0][0], "type"):
            super()._send_request(read_timeout, connect_timeout)  # a test breaks the connection

    def _send_queued(self, queue: Any, pending: Any, timeout: float) -> None:  # noqa: ANN401 - kazoo has no types
        frames = bytearray()
        for _ in range(min(len(queue), _REQUESTS_AT_ONCE)):
            request, result = queue[0]
            if not hasattr(request, "type"):
                break
            number = _AUTH if request.type == Auth.type else self._xid % 0x7FFFFFFF + 1
            content = request.serialize()
            if number != _AUTH:
                self._xid = number
            # It counts as sent from here on: with the connection, its answer is lost.
            pending.append((request, result, number))
            queue.popleft()
            self._note_sending(number)
            frames += _HEAD.pack(len(content) + 8, number, request.type)
            frames += content
            if len(frames) >= _SENT_AT_ONCE:
                self._write(frames, timeout)
                frames = bytearray()
        if frames:
            self._write(frames, timeout)

    def _write(self, msg: bytes | bytearray, timeout: float) -> None:
        left = memoryview(msg)
        with self._socket_error_handling():
            while left:
                try:
                    sent = self._socket.send(left)
                except _NOT_READY:
                    if not self.handler.select([], [self._socket], [], timeout)[1]:
                        raise self.handler.timeout_exception("time-out during write") from None
                    continue
                if not sent:
                    raise ConnectionDropped("socket connection broken")
                left = left[sent:]

    def _read_socket(self, read_timeout: float) -> Any:  # noqa: ANN401 - kazoo's
        """Handle every answer that was received."""
        response = super()._read_socket(read_timeout)
        while response != CLOSE_RESPONSE and self._has_answer:
            response = super()._read_socket(read_timeout)
        return response

    @property
    def _has_answer(self) -> bool:
        left = len(self._received) - self._taken - _LENGTH.size
        return left >= 0 and left >= _LENGTH.unpack_from(self._received, self._taken)[0]

    def _read(self, length: int, timeout: float) -> bytes:
        while (lacking := length - (len(self._received) - self._taken)) > 0:
            left = self._received[self._taken :]
            received = [left] if left else []
            while lacking > 0:
                received.append(self._receive(max(lacking, self._ahead), timeout))
                lacking -= len(received[-1])
            self._received, self._taken = b"".join(received), 0
        begin, self._taken = self._taken, self._taken + length
        return self._received[begin : self._taken]

    def _receive(self, most: int, timeout: float) -> bytes:
        with self._socket_error_handling():
            while True:
                try:
                    received: bytes = self._socket.recv(most)
                except _NOT_READY:
                    if not self.handler.select([self._socket], [], [], timeout)[0]:
                        raise self.handler.timeout_exception("time-out during read") from None
                    continue
                if not received:
                    raise ConnectionDropped("socket connection broken")
                return received

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
