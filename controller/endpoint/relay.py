"""
Connections to brokers in the name of clients: one for each client, to a live broker.

The client authenticates itself to that broker, SASL included, and the broker authorises what it
asks. The daemon shows no credential and no certificate of its own there.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from controller.core.model import BrokerId, LiveBroker
from controller.endpoint.peers import SMALL_FRAME, FrameMemory
from controller.errors import RemoteProtocolError

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
    """The connection to a broker that belongs to one client."""

    broker: BrokerId
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    memory: FrameMemory
    first_s: float
    """How long the first answer is awaited."""
    has_answered: bool = False
    """Whether it answered any request."""
    _reserved: int = 0
    """Memory of the answer that is being read or sent to the client."""

    async def exchange(self, frame: bytes, within_s: float = ANSWER_S) -> bytes:
        """
        Send a request and return the answer, both without their length.

        The memory of the answer stays reserved until ``release``, ``close`` or the next exchange.

        Args:
            frame: The request.
            within_s: How long the answer is awaited, if it is not the first.

        Raises:
            TimeoutError: the broker does not answer; the connection is closed.
            RemoteProtocolError: the answer is too long, or belongs to another request.
            OSError: the connection is lost.

        """
        self.release()
        try:
            async with asyncio.timeout(within_s if self.has_answered else self.first_s):
                self.writer.write(framed(frame))
                await self.writer.drain()
                (size,) = _LENGTH.unpack(await self._read(_LENGTH.size))
                if not _LENGTH.size <= size <= ANSWER_MAX:
                    raise RemoteProtocolError(f"a broker's answer of {size} bytes")
                self.hold(size)
                answer = await self._read(size)
        except TimeoutError:
            # The answer may still come. It would be taken for the answer to the next request of
            # the daemon's own, all of which have the same correlation id.
            self.close()
            raise
        if answer[:4] != frame[4:8]:
            raise RemoteProtocolError("a broker's answer to another request")
        self.has_answered = True
        return answer

    async def _read(self, size: int) -> bytes:
        try:
            return await self.reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the broker closed the connection") from error

    def hold(self, size: int) -> None:
        """
        Reserve the memory of the answer that the client gets, in place of the one before.

        Raises:
            RemoteProtocolError: other answers need it.

        """
        self.release()
        if size > SMALL_FRAME:
            self.memory.take(size)
            self._reserved = size

    def release(self) -> None:
        """Release the memory of the answer."""
        self.memory.give_back(self._reserved)
        self._reserved = 0

    def close(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()
        self.release()


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
    _turns: itertools.count[int] = field(default_factory=itertools.count)

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers; callable from any thread."""
        self.brokers = {b.id: b for b in brokers}

    def update_controller(self, controller: BrokerId | None) -> None:
        """Ignore which broker is the controller."""

    async def connected(self, wanted: BrokerId | None = None) -> Upstream:
        """
        Connect to a broker: to the wanted one, else to one after the other in turn.

        Raises:
            NoBrokerError: none can be reached.

        """
        brokers = self.brokers
        ids = sorted(brokers) if wanted is None else [b for b in (wanted,) if b in brokers]
        first = next(self._turns)
        for n in range(min(TRIES, len(ids))):
            with suppress(OSError, TimeoutError):
                return await self._connect(brokers[ids[(first + n) % len(ids)]])
        raise NoBrokerError("no broker can be reached for a client")

    async def _connect(self, broker: LiveBroker) -> Upstream:
        endpoint = next((e for e in broker.endpoints if e.listener == self.listener), None)
        if endpoint is None:
            raise NoBrokerError(f"broker {broker.id} has no listener {self.listener}")
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=None if self.tls is None else self.tls()
            )
        return Upstream(broker.id, reader, writer, self.memory, self.first_s)


def framed(frame: bytes) -> bytes:
    """Return a frame with its length in front."""
    return _LENGTH.pack(len(frame)) + frame
