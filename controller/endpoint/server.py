"""
The server of the endpoint: a thread with an event loop, which accepts connections and dispatches.

A connection has one request at a time, as in Kafka's own server: the next one is read after the
answer is written, so that answers keep the order of the requests, and a peer cannot pile up work.
``Service`` is the extension point: each API key belongs to one service, and a fallback may take
the others.

Invariants: whatever is wrong with a connection closes that connection, without an answer; no
connection delays the loop of the daemon, which the services reach by events only.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog

from controller.endpoint import codec
from controller.endpoint.authentication import Authentication, UnauthenticatedError
from controller.endpoint.peers import SMALL_FRAME, Answer, FrameMemory, Limits, Peer
from controller.endpoint.strict_decoding import UNPACED_MAX
from controller.errors import InvalidInputError, ProtocolError
from controller.setting_values import HttpAddress

BACKLOG: Final = 128
STOP_S: Final = 5.0
"""Time for the thread to end."""
FAILED_S: Final = 1.0
"""How long a failed authentication keeps its connection, so that passwords cannot be tried fast."""
LOG_EVERY_S: Final = 10.0
"""The same reason to close a connection is logged once in this time for each address."""
CLOSED: Final = ("protocol", "tls", "unauthenticated", "slow", "crowded", "error")
"""The reasons to close a connection by which the metrics count."""
LOGGED_MAX: Final = 1000
"""Reasons and addresses that are remembered for that."""


class Service(Protocol):
    """Answers requests of peers; runs on the server's thread."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version by API key, as ApiVersions lists them."""
        ...

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> Answer | None:
        """
        Return the answer to a request, with its length in front; None: close the connection.

        Args:
            peer: The connection, with the principal at its other end.
            header: The beginning of the frame: API key, version, correlation id, client id.
            frame: The whole request, without its length.

        Raises:
            ProtocolError: the request or its answer is invalid; the connection is closed.
            OSError: what serves it failed; the connection is closed.

        """
        ...


class ServerObserver(Protocol):
    """Counts what happens at the endpoint; called on the server's thread."""

    def endpoint_connections(self, count: int) -> None:
        """So many connections are open now."""
        ...

    def endpoint_refused(self, reason: str) -> None:
        """A connection was closed; the reason is one of few."""
        ...


class EndpointServer:
    """Listens, and passes requests to services."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        address: HttpAddress,
        services: Sequence[Service],
        observer: ServerObserver,
        limits: Limits | None = None,
        fallback: Service | None = None,
        authentication: Authentication | None = None,
    ) -> None:
        """
        Take the address; peers can connect after ``start``.

        Args:
            address: Where to listen; port 0 takes a free port.
            services: What answers requests; the first that has a key in its versions.
            observer: Counts.
            limits: Of time, size and number.
            fallback: What answers requests that no service has, ApiVersions among them.
            authentication: How peers authenticate before their requests are answered.

        Raises:
            InvalidInputError: the address is in use or does not belong to this machine.

        """
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._socket = _bound(address, family)
        except (OSError, OverflowError) as error:
            raise _unavailable(address, error) from error
        host, port = self._socket.getsockname()[:2]
        self.address = HttpAddress(str(host), int(port))
        """The address in use, with the port that was taken for port 0."""
        self._services = {key: s for s in reversed(services) for key in s.versions}
        self._versions = {key: s.versions[key] for key, s in self._services.items()} | {
            codec.API_VERSIONS: codec.ADVERTISED[codec.API_VERSIONS]
        }
        self._authentication = authentication or Authentication()
        self._versions |= self._authentication.versions
        self._fallback = fallback
        self._observer = observer
        self._limits = limits or Limits()
        self._memory = FrameMemory(self._limits.frames_bytes, self._limits.address_bytes)
        self._decoded = FrameMemory(self._limits.decoded_bytes, self._limits.address_decoded_bytes)
        self._peers: set[Peer] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: dict[tuple[str, str], float] = {}
        self._log = structlog.stdlib.get_logger("controller.endpoint")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="endpoint", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs; the process ends without it."""
        return self._thread.is_alive()

    def start(self) -> None:
        """
        Accept connections from now on.

        Raises:
            InvalidInputError: another process listens at the address by now.

        """
        try:
            self._socket.listen(BACKLOG)
        except OSError as error:
            raise _unavailable(self.address, error) from error
        self._thread.start()
        self._is_up.wait(STOP_S)

    def stop(self) -> None:
        """Close all connections and the listening socket, and end the thread."""
        stopping = self._stopping
        if stopping is not None:
            self.post(stopping.set)
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._socket.close()

    def post(self, work: Callable[[], object]) -> None:
        """Run work on the server's thread; callable from any thread, ignored after the end."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(work)

    # --- the server's thread -------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._failed)
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accepted, sock=self._socket, backlog=BACKLOG)
        self._is_up.set()
        await self._stopping.wait()
        # Without ``wait_closed``, which waits for all connections as of Python 3.12.
        server.close()
        for peer in tuple(self._peers):
            peer.close()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Log an unexpected error of a connection, which is closed by then."""
        del loop
        self._observer.endpoint_refused("error")
        self._log.error(
            "endpoint_failed", error=context["message"], exc_info=context.get("exception")
        )

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (writer.get_extra_info("peername") or ("unknown", 0))[:2]
        peer = Peer(reader, writer, self._limits, self._memory, self._decoded, str(host), int(port))
        writer.transport.set_write_buffer_limits(high=0)
        self._make_room()
        self._peers.add(peer)
        self._observer.endpoint_connections(len(self._peers))
        task = asyncio.get_running_loop().create_task(self._attend(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _make_room(self) -> None:
        if len(self._peers) < self._limits.connections_max:
            return
        crowds = Counter(p.address for p in self._peers)
        # Brokers have several connections each, and peers that only connect can have an address
        # for each of theirs: what a peer did comes before the number of its connections.
        least = min(
            self._peers,
            key=lambda p: (p.is_served, p.was_served, -crowds[p.address], p.used_at),
        )
        self._refused(least, "crowded", "too many connections")
        self._peers.discard(least)
        least.close()

    async def _attend(self, peer: Peer) -> None:
        """Serve a connection to its end."""
        try:
            await self._converse(peer)
        except UnauthenticatedError as error:
            self._refused(peer, "unauthenticated", str(error))
            await asyncio.sleep(FAILED_S)
        except ssl.SSLError as error:
            self._refused(peer, "tls", error.reason or str(error))
        except ProtocolError as error:
            self._refused(peer, "protocol", str(error))
        except TimeoutError:
            self._refused(peer, "slow", "too slow, or idle")
        except (asyncio.IncompleteReadError, OSError):
            pass  # the peer closed the connection
        finally:
            peer.close()
            self._peers.discard(peer)
            self._observer.endpoint_connections(len(self._peers))

    async def _converse(self, peer: Peer) -> None:
        await self._authentication.secure(peer)
        await self._authentication.identify(peer, self._api_versions)
        within_s = self._limits.unauthenticated_s
        while True:
            size_max = codec.FRAME_MAX if peer.is_authenticated else SMALL_FRAME
            frame = await peer.next_frame(size_max, within_s)
            peer.is_served = peer.is_authenticated
            answer = await self._answer(peer, frame)
            peer.is_served = False
            if answer is None:
                return
            await peer.send(answer)
            if peer.is_left:
                return
            if peer.is_authenticated:
                peer.was_served = True
                within_s = self._limits.idle_s

    async def _answer(self, peer: Peer, frame: bytes) -> Answer | None:
        header = codec.header_of(frame)
        if header.api_key != codec.API_VERSIONS or self._fallback is not None:
            return await self._service_of(header).answer(peer, header, frame)
        if len(frame) > UNPACED_MAX:
            raise ProtocolError(f"an ApiVersions of {len(frame)} bytes")
        codec.decode(frame)
        return self._api_versions(header)

    def _api_versions(self, header: codec.RequestHeader) -> bytes:
        return codec.api_versions_response(header, self._versions)

    def _service_of(self, header: codec.RequestHeader) -> Service:
        service = self._services.get(header.api_key, self._fallback)
        if service is None:
            raise ProtocolError(f"API key {header.api_key} is not served")
        return service

    def _refused(self, peer: Peer, reason: str, why: str) -> None:
        """Count a closed connection, and log it unless the same was logged just now."""
        self._observer.endpoint_refused(reason)
        now, key = asyncio.get_running_loop().time(), (peer.address, reason)
        if now < self._logged.get(key, 0.0):
            return
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged[key] = now + LOG_EVERY_S
        self._log.warning(
            "endpoint_closed", peer=f"{peer.address}:{peer.port}", reason=reason, why=why
        )


def _bound(address: HttpAddress, family: socket.AddressFamily) -> socket.socket:
    """Return a socket that does not listen yet: peers are refused until they are served."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address.host, address.port))
    except (OSError, OverflowError):
        bound.close()
        raise
    return bound


def _unavailable(address: HttpAddress, error: Exception) -> InvalidInputError:
    why = getattr(error, "strerror", None) or str(error)
    return InvalidInputError(f"endpoint_listen: cannot listen on {address}: {why}")
