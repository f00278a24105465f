"""
Connections to brokers in the name of clients: one for each client, to a live broker.

The client authenticates itself to that broker, SASL included, and the broker authorises what it
asks. The daemon shows no credential and no certificate of its own there.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from controller.async_server import write_all
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.endpoint.peers import SMALL_FRAME, FrameMemory
from controller.errors import InvalidInputError, RemoteProtocolError, ensure

CONNECT_S: Final = 5.0
"""For a connection to a broker; the next one is tried then."""
TRIES: Final = 3
"""Brokers that are tried for one client."""
FIRST_S: Final = 5.0
"""For the first answer of a connection: a broker that hangs still accepts connections."""
ANSWER_S: Final = 65.0
"""For a broker's answer: longer than the default timeout of administrative requests."""
ANSWER_MAX: Final = 100 * 1024 * 1024
"""The longest answer of a broker, as ``socket.request.max.bytes``."""

_LENGTH: Final = struct.Struct(">i")


class NoBrokerError(OSError):
    """No broker can be reached for a client, whose connection is closed then."""


@dataclass(slots=True)
class Upstream:
    """
    The connection to a broker that belongs to one client.

    Methods raise OSError if it is lost, TimeoutError if the broker does not answer, after which it
    is closed, and RemoteProtocolError if an answer is too long or belongs to another request, or if
    other answers need the memory.
    """

    broker: BrokerId
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    memory: FrameMemory
    address: str
    """Of the client."""
    first_s: float
    """How long the first answer is awaited."""
    silent: Callable[[], None] = lambda: None
    """Called when the broker does not answer in time."""
    has_answered: bool = False
    """Whether it answered any request."""
    _left: int = 0
    """Bytes of the present answer that were not read."""
    _reserved: int = 0
    """Memory of the answer that is being read or sent to the client."""

    async def exchange(self, frame: bytes, within_s: float = ANSWER_S) -> bytes:
        """
        Send a request and return the whole answer, both without their length; see ``begin``.

        The memory of the answer stays reserved until ``release``, ``close`` or the next request.
        """
        arriving = await self.begin(frame, within_s)
        return await arriving.whole(within_s)

    async def begin(self, frame: bytes, within_s: float = ANSWER_S) -> ArrivingAnswer:
        """
        Send a request and return the answer as soon as its beginning is there.

        It has to be read to its end, whole or in parts, before the next request. The first answer
        has its own limit of time.
        """
        self.release()
        ensure(not self._left, "the answer before was not read")
        async with self._within(within_s if self.has_answered else self.first_s):
            self.writer.write(_LENGTH.pack(len(frame)))
            await write_all(self.writer, frame)
            (size,) = _LENGTH.unpack(await self._read(_LENGTH.size))
            if not _LENGTH.size <= size <= ANSWER_MAX:
                raise RemoteProtocolError(f"a broker's answer of {size} bytes")
            head = await self._read(min(size, SMALL_FRAME))
        if head[:4] != frame[4:8]:
            raise RemoteProtocolError("a broker's answer to another request")
        self.has_answered = True
        self._left = size - len(head)
        return ArrivingAnswer(head, size, self)

    @asynccontextmanager
    async def _within(self, limit_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError:
            # The answer may still come. It would be taken for the answer to the next request of
            # the daemon's own, all of which have the same correlation id.
            self.close()
            self.silent()
            raise

    async def _read(self, size: int) -> bytes:
        try:
            return await self.reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the broker closed the connection") from error

    async def rest(self, size: int, within_s: float) -> bytes:
        """Return the rest of an answer of this size, whose memory is reserved."""
        self.hold(size)
        async with self._within(within_s):
            read = await self._read(self._left)
        self._left = 0
        return read

    async def next_part(self) -> bytes:
        """Return the next part of an answer; empty at its end."""
        part = await self._read(min(self._left, SMALL_FRAME))
        self._left -= len(part)
        return part

    def hold(self, size: int) -> None:
        """Reserve the memory of the answer that the client gets, in place of the one before."""
        self.release()
        if size > SMALL_FRAME:
            self.memory.take(size, self.address)
            self._reserved = size

    def release(self) -> None:
        """Release the memory of the answer."""
        self.memory.give_back(self._reserved, self.address)
        self._reserved = 0

    def close(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()
        self.release()


@dataclass(frozen=True, slots=True)
class ArrivingAnswer:
    """
    An answer of a broker whose beginning is there.

    Iterated over, it gives the frame for the client in parts, each read when the one before is
    sent: a client that reads slowly takes no memory for the rest.
    """

    head: bytes
    """The answer without its length, or its first ``SMALL_FRAME`` bytes."""
    size: int
    """Of the whole answer."""
    _upstream: Upstream

    async def whole(self, within_s: float = ANSWER_S) -> bytes:
        """Return the whole answer without its length; see ``Upstream.rest``."""
        if len(self.head) == self.size:
            return self.head
        return self.head + await self._upstream.rest(self.size, within_s)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the frame, with its length in front, in parts."""
        yield _LENGTH.pack(self.size) + self.head
        while part := await self._upstream.next_part():
            yield part


@dataclass(slots=True)
class Relay:
    """Opens connections to the brokers that the loop's inbox reports; an adapter beside it."""

    listener: str
    """The listener of the clients; an endpoint of the same name is used at each broker."""
    memory: FrameMemory
    tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the context for a connection; None: that listener has no TLS."""
    brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    first_s: float = FIRST_S
    """How long the first answer over a connection is awaited."""
    _failures: int = 0
    """How often a broker could not be reached, or did not answer."""

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers; callable from any thread."""
        self.brokers = {b.id: b for b in brokers}

    async def connected(self, address: str, wanted: BrokerId | None = None) -> Upstream:
        """
        Connect to a broker: to the wanted one, else to that of the client's address.

        All connections from an address lead to one broker: what a client was answered over one, it
        finds over another, as at a broker. After a failure new connections lead to other brokers.
        The client has a share of the memory of answers by its address, too.

        Raises:
            NoBrokerError: none can be reached.
        """
        brokers = self.brokers
        ids = sorted(brokers) if wanted is None else [b for b in (wanted,) if b in brokers]
        own = zlib.crc32(address.encode())
        for _ in range(min(TRIES, len(ids))):
            with suppress(OSError, TimeoutError, InvalidInputError):
                return await self._connect(brokers[ids[(own + self._failures) % len(ids)]], address)
            self._note_failure()
        raise NoBrokerError("no broker can be reached for a client")

    def _note_failure(self) -> None:
        self._failures += 1

    async def _connect(self, broker: LiveBroker, address: str) -> Upstream:
        endpoint = next((e for e in broker.endpoints if e.listener == self.listener), None)
        if endpoint is None:
            raise NoBrokerError(f"broker {broker.id} has no listener {self.listener}")
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=None if self.tls is None else self.tls()
            )
        # Not 0: with it, a TLS transport would stop an empty buffer.
        writer.transport.set_write_buffer_limits(high=1)
        return Upstream(
            broker.id, reader, writer, self.memory, address, self.first_s, self._note_failure
        )


def with_length(frame: bytes) -> bytes:
    """Return a frame with its length in front."""
    return _LENGTH.pack(len(frame)) + frame
