"""
A server on a thread with an event loop: takes an address, accepts connections, and serves each.

The HTTP server and the endpoint are such servers, each with a thread of its own, so that peers of
one delay nothing of the other. What a connection says, and within which time, is for subclasses.

Invariants: the number of connections is limited, and one too many closes another one; what is
wrong with a connection closes that connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from controller.errors import InvalidInputError
from controller.setting_values import HttpAddress

BACKLOG: Final = 128
STOP_S: Final = 5.0
PART: Final = 64 * 1024
"""Bytes that are written at a time."""


async def write_all(writer: asyncio.StreamWriter, message: bytes) -> None:
    """
    Write a message, and wait until the kernel has all of it.

    Raises:
        OSError: the connection is lost.

    """
    rest = memoryview(message)
    while rest:
        # The transport copies what the kernel does not take at once: never a whole message.
        writer.write(rest[:PART])
        rest = rest[PART:]
        await writer.drain()


@dataclass(eq=False, slots=True)
class ServerConnection:
    """One connection of a server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    address: str
    """The host of the peer, without the port."""
    port: int
    used_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When it was last used in earnest; the clock of the event loop."""
    is_served: bool = False
    """Whether the peer waits for the answer to a request."""
    was_served: bool = False
    """Whether the peer received the answer to a request."""

    async def start_tls(self, context: ssl.SSLContext, within_s: float) -> None:
        """
        Shake hands as the server; nothing may have been read before.

        Raises:
            OSError: the handshake failed.
            TimeoutError: it took too long.

        """
        async with asyncio.timeout(within_s):
            await self.writer.start_tls(context)
        # Not 0: with it, the TLS transport would stop an empty buffer.
        self.writer.transport.set_write_buffer_limits(high=1)

    def close(self) -> None:
        """Close it at once; what is not sent yet never is."""
        self.writer.transport.abort()

    def note_use(self) -> None:
        """Note that it was used just now."""
        self.used_at = asyncio.get_running_loop().time()


C = TypeVar("C", bound=ServerConnection)


class AsyncServer(ABC, Generic[C]):
    """
    Accepts connections on a thread of its own, after ``start``.

    Port 0 takes a free port. ``setting`` is the one with the address. ``opened`` returns a new
    connection; its last arguments are host and port of the peer. ``connections_max`` limits all
    connections, ``address_max`` those of one address; None: as many.

    Raises:
        InvalidInputError: the address is in use or does not belong to this machine.

    """

    def __init__(  # noqa: PLR0913, PLR0917 - where, what, and how many
        self,
        name: str,
        setting: str,
        address: HttpAddress,
        opened: Callable[[asyncio.StreamReader, asyncio.StreamWriter, str, int], C],
        connections_max: int,
        address_max: int | None = None,
    ) -> None:
        self._setting, self._opened = setting, opened
        try:
            self._socket = _bind(address)
        except (OSError, OverflowError) as error:
            raise _unavailable(setting, address, error) from error
        host, port = self._socket.getsockname()[:2]
        self.address = HttpAddress(str(host), int(port))
        """The address in use, with the port that was taken for port 0."""
        self._connections_max = connections_max
        self._address_max = connections_max if address_max is None else address_max
        self._connections: set[C] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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
            raise _unavailable(self._setting, self.address, error) from error
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

    @abstractmethod
    async def _serve(self, peer: C, /) -> None:
        """Serve a connection until this returns or raises any error."""

    @abstractmethod
    def _report_failure(self, message: str, error: BaseException | None) -> None:
        """Report an unexpected error; the connection is closed by then."""

    def _count_open(self, count: int) -> None:
        """So many connections are open now."""

    def _report_crowding(self, peer: C, /) -> None:
        """A connection is closed, as there is one too many."""

    def _run(self) -> None:
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        def failed(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
            self._report_failure(context["message"], context.get("exception"))

        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(failed)
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._socket, backlog=BACKLOG)
        self._is_up.set()
        await self._stopping.wait()
        # Without ``wait_closed``, which waits for all connections as of Python 3.12.
        server.close()
        for connection in tuple(self._connections):
            connection.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (writer.get_extra_info("peername") or ("unknown", 0))[:2]
        connection = self._opened(reader, writer, str(host), int(port))
        writer.transport.set_write_buffer_limits(high=0)
        self._make_room(connection.address)
        self._connections.add(connection)
        self._count_open(len(self._connections))
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, connection))

    def _make_room(self, address: str) -> None:
        crowds = Counter(c.address for c in self._connections)
        if crowds[address] >= self._address_max:
            candidates = {c for c in self._connections if c.address == address}
        elif len(self._connections) >= self._connections_max:
            candidates = self._connections
        else:
            return
        # Peers that are served have several connections each, and those that only connect can have
        # an address for each of theirs: what a peer did comes before the number of connections.
        least = min(
            candidates, key=lambda c: (c.is_served, c.was_served, -crowds[c.address], c.used_at)
        )
        self._report_crowding(least)
        self._connections.discard(least)
        least.close()

    def _ended(self, connection: C, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        connection.close()
        self._connections.discard(connection)
        self._count_open(len(self._connections))
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._report_failure("a connection failed", error)


def _bind(address: HttpAddress) -> socket.socket:
    """Return a socket that does not listen yet: peers are refused until they are served."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address.host, address.port))
    except (OSError, OverflowError):
        bound.close()
        raise
    return bound


def _unavailable(setting: str, address: HttpAddress, error: Exception) -> InvalidInputError:
    why = getattr(error, "strerror", None) or str(error)
    return InvalidInputError(f"{setting}: cannot listen on {address}: {why}")
