"""
Connections to brokers: the only module that uses kafka-python's connection classes.

They are not part of that library's public API, so its minor version is pinned, and everything that
depends on its internals is here: transports that send only through a gate, a conversation that
closes on undecodable bytes, and the translation of errors. Retries and order are decided in
``channels``.

Invariants: every error of kafka-python, of TLS and of the operating system is translated here; a
connection that failed is closed, including its socket.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.api_message import ApiMessage

from controller import errors
from controller.brokers.connection_settings import ConnectionSettings, Security
from controller.brokers.frames import Frame
from controller.brokers.io_threads import Address, IoThread
from controller.core.cluster.model import Endpoint, LiveBroker


def quiet_kafka() -> None:
    """Silence kafka-python's log: it reports every lost connection, and so do its callers here."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Gate:
    """
    Whether a channel may still act: the only state that its two threads share.

    The loop's thread closes it, once and for ever. The IO thread passes through it whenever it
    gives bytes to the kernel or an answer to the inbox.

    Invariant: when ``close`` has returned, no thread is inside and none will enter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether it was open a moment ago: enough to give up, not to act."""
        return self._open

    def close(self) -> None:
        """Close it, after a thread that is inside; that takes one non-blocking call at most."""
        with self._lock:
            self._open = False

    @contextmanager
    def passing(self) -> Iterator[bool]:
        """Keep the gate in its state: what is done inside happens before ``close`` returns."""
        with self._lock:
            yield self._open


_SOCKET_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
)
_CERTIFICATE_ALERTS: Final = (
    "ALERT_CERTIFICATE",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)
"""Beginnings of OpenSSL's names of the TLS alerts for a client's certificate."""
_LOGIN_AGAIN_S: Final = 0.02
"""The pause before a connection asks again whether it may log in."""
_UNDECODABLE: Final = (
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    struct.error,
)
"""The exceptions of kafka-python's decoder on undecodable bytes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Time and size limits of a connection."""

    client_id: str = "kafka-reassigner"
    connect_timeout_s: float = 10.0
    """From the first packet to the end of TLS, ApiVersions and SASL."""
    request_timeout_s: float = 30.0
    """The default of ``controller.socket.timeout.ms`` of Kafka's controller."""
    receive_bytes_max: int = 100_000_000
    """kafka-python's own limit of 1 MB is too low for responses of large clusters."""


class _GatedTransport:
    """
    A mixin for transports: gives bytes to the kernel only while the gate is open.

    It also delivers what came with the end of the connection, which its base class drops: brokers
    refuse a login with an answer and close the connection right after it (KIP-306).
    """

    gate: Gate
    deadline: float
    has_flushed = False
    """Whether all bytes written so far are with the kernel."""
    _write_buffer: Any
    _net: Any
    _sock: Any
    _read: bool
    _closed: bool
    _sock_recv: Callable[[], tuple[bytes, Exception | None]]
    _protocol: Any
    abort: Callable[..., None]

    def _sock_send(self) -> tuple[int, Exception | None]:
        with self.gate.passing() as is_open:
            if not is_open:
                return 0, kafka_errors.KafkaConnectionError("the channel is closed")
            sent, error = super()._sock_send()  # type: ignore[misc]
        self.has_flushed = error is None and not self._write_buffer
        return sent, error

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            received, error = self._sock_recv()
            try:
                if received:
                    self._protocol.data_received(received)
            except kafka_errors.KafkaProtocolError as undecodable:
                self.abort(undecodable)
            if error is not None and not self._closed:
                if received:
                    await self._net.sleep(0)  # what waits for an answer acts on it first
                self.abort(error)


class _PlainTransport(_GatedTransport, KafkaTCPTransport):  # type: ignore[misc]
    """A TCP connection."""


class _TlsTransport(_GatedTransport, KafkaSSLTransport):  # type: ignore[misc]
    """A TLS connection whose handshake has a deadline, unlike that of its base class."""

    async def handshake(self) -> None:
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, self.deadline)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, self.deadline)
            else:
                return

    def write(self, data: bytes) -> None:
        # With bytes, each TLS record of 16 kB would copy the rest of the request.
        super().write(memoryview(data))


class _Conversation(KafkaConnection):  # type: ignore[misc]
    """ApiVersions, SASL and the matching of responses with requests."""

    def __init__(self, io: IoThread, where: str, security: Security, **settings: Any) -> None:  # noqa: ANN401 - kafka-python's
        super().__init__(io.net, **settings, **security.sasl_settings())
        self._where = where
        self._security = security

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        """Log in with the present password, also to renew a login that expires (KIP-368)."""
        security, logins = self._security, self._security.logins
        login = security.sasl_settings()
        self.config.update(login)
        credential = security.credential(login["sasl_plain_password"])
        while not logins.begin(self._where, credential):
            if timeout_at is not None and time.monotonic() >= timeout_at:
                raise kafka_errors.KafkaTimeoutError("another connection tries the same login")
            await self.net.sleep(_LOGIN_AGAIN_S)
        with logins.verdict(self._where, credential):
            await super()._sasl_authenticate(timeout_at)

    def data_received(self, data: bytes) -> None:
        """Close the connection on undecodable bytes, after which it would deliver no answers."""
        try:
            super().data_received(data)
        except _UNDECODABLE as error:
            self.close(kafka_errors.KafkaProtocolError(f"undecodable answer: {error!r}"))

    def _maybe_throttle(self, response: object) -> None:
        """Do not pause: controller requests have no quota, and a pause fails the next one."""


@dataclass(eq=False, slots=True)
class BrokerConnection:
    """An open connection to a broker whose ApiVersions are known."""

    _conversation: _Conversation
    _transport: _GatedTransport
    _limits: ConnectionLimits

    @property
    def understood(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version of each API key, from the broker's ApiVersions answer."""
        versions: Mapping[int, tuple[int, int]] = (
            self._conversation.broker_version_data.api_versions
        )
        return versions

    def version(self, key: int, most: int, *, unknown: int = 0) -> int:
        """
        Return the highest version of a request, up to ``most``, that the broker serves.

        ``unknown`` is the version for a broker that does not list the request.
        """
        _, highest = self.understood.get(key, (0, unknown))
        return min(highest, most)

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""
        return bool(self._conversation.connected)

    @property
    def may_have_delivered(self) -> bool:
        """Whether the last request was sent completely: only then can the broker act on it."""
        return self._transport.has_flushed

    def on_close(self, react: Callable[[], None]) -> None:
        """Call ``react`` on the IO thread when the connection ends for any reason."""
        self._conversation.close_future.add_both(lambda _: react())

    def close(self) -> None:
        """Close it at once; bytes that the kernel does not have yet are never sent."""
        self._conversation.close(kafka_errors.KafkaConnectionError("closed by us"))

    async def send_and_receive(self, frame: Frame) -> ApiMessage:
        """
        Send a request and wait for its answer.

        Raises:
            BrokerUnreachableError: the connection ended before the answer.
            RequestTimeoutError: no answer in time; the connection is closed.
            RemoteProtocolError: the answer is undecodable; the connection is closed.
        """
        self._transport.has_flushed = False
        answer = await _settle(
            self._conversation.send_request(
                frame, request_timeout_ms=self._limits.request_timeout_s * 1000
            )
        )
        if answer.exception is not None:
            raise _verdict(str(frame), answer.exception) from answer.exception
        return answer.value


async def connect(
    io: IoThread,
    broker: LiveBroker,
    settings: ConnectionSettings,
    limits: ConnectionLimits,
    gate: Gate,
) -> BrokerConnection:
    """
    Connect to a broker with the TLS and SASL of its listener; on the IO thread only.

    Raises:
        BrokerUnreachableError: it has no such listener, cannot be reached, or refuses the
            connection.
        RequestTimeoutError: it does not answer in time.
        RemoteProtocolError: the peer is not a broker.
    """
    endpoint, security = settings.listeners.required_of(broker), settings.security
    where = f"{endpoint.host}:{endpoint.port}"
    deadline = time.monotonic() + limits.connect_timeout_s
    addresses = await io.resolve(endpoint.host, endpoint.port)
    with _translate_errors(where), ExitStack() as undo:
        if endpoint.security_protocol.startswith("SASL"):
            security.logins.check(where, security.credential(security.password()))
        sock = await _first_that_answers(io, addresses, deadline)
        undo.callback(sock.close)
        transport = _transport(io, sock, endpoint, security)
        undo.callback(transport.abort)
        transport.gate = gate
        transport.deadline = deadline
        await transport.handshake()
        conversation = _Conversation(
            io,
            where,
            security,
            client_id=limits.client_id,
            receive_message_max_bytes=limits.receive_bytes_max,
            request_timeout_ms=limits.request_timeout_s * 1000,
            security_protocol=endpoint.security_protocol,
        )
        conversation.connection_made(transport)
        await conversation.initialize(timeout_at=deadline)
        refusal = conversation.init_future.exception
        if refusal is not None:
            raise _verdict(where, refusal) from refusal
        undo.pop_all()
    return BrokerConnection(conversation, transport, limits)


async def _first_that_answers(
    io: IoThread, addresses: list[Address], deadline: float
) -> socket.socket:
    failure: Exception = errors.BrokerUnreachableError("it has no address")
    for family, kind, protocol, _, address in addresses:
        with ExitStack() as undo:
            sock = undo.enter_context(socket.socket(family, kind, protocol))
            sock.setblocking(False)  # noqa: FBT003 - no keyword in the standard library
            for option in _SOCKET_OPTIONS:
                sock.setsockopt(*option)
            try:
                await KafkaNetSocket().sock_connect(io.net, sock, address, timeout_at=deadline)
            except (kafka_errors.KafkaError, OSError, OverflowError) as error:
                failure = error
                continue
            undo.pop_all()
            return sock
    raise failure


def _transport(
    io: IoThread, sock: socket.socket, endpoint: Endpoint, security: Security
) -> _PlainTransport | _TlsTransport:
    if endpoint.security_protocol.endswith("SSL"):
        return _TlsTransport(io.net, sock, host=endpoint.host, ssl_context=security.tls.context())
    return _PlainTransport(io.net, sock, host=endpoint.host)


@contextmanager
def _translate_errors(where: str) -> Iterator[None]:
    try:
        yield
    except (kafka_errors.KafkaError, OSError, ValueError, OverflowError) as error:
        raise _verdict(where, error) from error
    except errors.InvalidInputError as error:  # of a file that may be replaced meanwhile
        raise errors.BrokerUnreachableError(f"{where}: {error}") from error


async def _settle(future: Future) -> Future:
    """Wait without raising: a future of kafka-python may hold any exception."""
    done = Future()
    future.add_both(lambda _: done.success(None))
    await done
    return future


def _verdict(
    where: str, error: BaseException
) -> errors.TransientError | errors.RemoteProtocolError:
    said = str(error) or type(error).__name__
    if any(alert in said for alert in _CERTIFICATE_ALERTS):
        said = (
            "the broker refuses the daemon's certificate, as it does when it has expired or when "
            f"the broker does not trust its authority ({said})"
        )
    if isinstance(error, kafka_errors.RequestTimedOutError | kafka_errors.KafkaTimeoutError):
        return errors.RequestTimeoutError(f"{where}: no answer in time ({said})")
    if isinstance(error, kafka_errors.KafkaProtocolError):
        return errors.RemoteProtocolError(f"{where}: {said}")
    return errors.BrokerUnreachableError(f"{where}: {said}")
