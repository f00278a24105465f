"""
The connections of the endpoint: who the peer is, and frames within limits of size and time.

Used on the server's thread only. Every method that waits has a deadline and raises TimeoutError
after it, or OSError if the connection is lost. RemoteProtocolError: a frame is too long, or other
requests need the memory. In each case the caller closes the connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from controller.async_server import PART, ServerConnection, write_all
from controller.errors import RemoteProtocolError

ANONYMOUS: Final = "User:ANONYMOUS"
"""Kafka's principal of a peer that did not authenticate."""
SMALL_FRAME: Final = PART
"""Frames up to this size, and so much of longer requests, do not count in the memory of frames."""

PARTITION_BYTES: Final = 400
"""Memory that one partition of a request takes after it was decoded, and its answer."""

_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimits:
    """Limits of time, size and number."""

    connections_max: int = 1000
    """
    One more closes another one, if possible of a peer that waits for no answer and never had one.

    Among equals it is the connection that is idle longest, of the address that has the most.
    """
    unauthenticated_s: float = 10.0
    """For the TLS handshake, for SASL, and for each request before the first answer."""
    idle_s: float = 600.0
    """Between two requests; the default of ``connections.max.idle.ms``."""
    frame_s: float = 30.0
    """From the first byte of a frame to its last, and to write an answer."""
    frames_bytes: int = 128 * 1024 * 1024
    """
    Memory for what all requests have beyond ``SMALL_FRAME``; as much for answers that are kept.

    An answer of a broker that is passed on as it is takes none.
    """
    address_bytes: int = 32 * 1024 * 1024
    """The part of each for one address: two of the longest requests."""

    decoded_bytes: int = 128 * 1024 * 1024
    """Memory for requests that were decoded and wait for their answers."""
    address_decoded_bytes: int = 96 * 1024 * 1024
    """The part of it for one address: a request about 200,000 partitions."""


@dataclass(slots=True)
class FrameMemory:
    """The memory that long frames take at present."""

    most: int
    most_each: int | None = None
    """For one address; None: as much as for all."""
    used: int = 0
    _by_address: Counter[str] = field(default_factory=Counter)

    def take(self, size: int, address: str = "") -> None:
        """Reserve memory, unless other frames need it."""
        own = self._by_address[address] + size
        if self.used + size > self.most or (self.most_each is not None and own > self.most_each):
            raise RemoteProtocolError(f"no memory for {size} bytes of a long frame")
        self.used += size
        self._by_address[address] = own

    def give_back(self, size: int, address: str = "") -> None:
        """Release what ``take`` reserved."""
        self.used -= size
        self._by_address[address] -= size
        if not self._by_address[address]:
            del self._by_address[address]


Answer = bytes | AsyncIterable[bytes]
"""The frame of an answer with its length in front, at once or in parts."""


class EndpointObserver(Protocol):
    """Counts what happens at the endpoint; called on the server's thread."""

    def endpoint_connections(self, count: int) -> None:
        """So many connections are open now."""

    def endpoint_refused(self, reason: str) -> None:
        """A connection was closed; the reason is one of few."""

    def endpoint_answered(self, request: str, result: str) -> None:
        """A request of this class was answered so; both have few values."""


class Companion(Protocol):
    """What is closed with a connection."""

    def release(self) -> None:
        """Release the memory of the answer, which was sent."""

    def close(self) -> None:
        """Close it at once."""


@dataclass(eq=False, slots=True, kw_only=True)
class Peer(ServerConnection):
    """One connection, and who is at its other end; it is served once it authenticated."""

    limits: EndpointLimits
    memory: FrameMemory
    """For the frames of all peers."""
    decoded: FrameMemory
    """For their requests after they were decoded."""
    principal: str = ANONYMOUS
    is_authenticated: bool = False
    """Whether it is known who the peer is, as far as the listener requires it."""
    is_left: bool = False
    """Whether the connection is closed after the next answer."""
    companion: Companion | None = None
    """What belongs to the connection and is closed with it."""
    _reserved: int = 0
    """Memory of the request that is being read or answered."""
    _reserved_decoded: int = 0
    """Memory of that request after it was decoded."""

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The peer's certificate, verified; None: it showed none."""
        found: Mapping[str, Any] | None = self.writer.get_extra_info("peercert")
        return found

    @property
    def is_gone(self) -> bool:
        """Whether it closed the connection, or this side did."""
        return self.reader.at_eof() or self.writer.is_closing()

    async def next_frame(self, size_max: int, within_s: float) -> bytes:
        """
        Wait for the first byte of a request, and return all without its length.

        The request before is answered. IncompleteReadError: the peer closed the connection.
        """
        self._release()
        async with asyncio.timeout(within_s):
            first = await self.reader.readexactly(1)
        async with asyncio.timeout(self.limits.frame_s):
            (size,) = _LENGTH.unpack(first + await self.reader.readexactly(_LENGTH.size - 1))
            if not 0 < size <= size_max:
                raise RemoteProtocolError(f"a request of {size} bytes")
            frame = await self._body(size)
        self.note_use()
        return frame

    def hold_decoded(self, size: int) -> None:
        """Reserve memory for the request after it was decoded; released with the frame."""
        self.decoded.take(size, self.address)
        self._reserved_decoded += size

    async def _body(self, size: int) -> bytes:
        """Read a frame; only what has arrived takes memory, whatever size is announced."""
        parts = [await self.reader.readexactly(min(size, SMALL_FRAME))]
        for start in range(SMALL_FRAME, size, SMALL_FRAME):
            part = await self.reader.readexactly(min(size - start, SMALL_FRAME))
            self.memory.take(len(part), self.address)
            self._reserved += len(part)
            parts.append(part)
        return b"".join(parts)

    async def send(self, answer: Answer) -> None:
        """Write an answer, and wait until the kernel has all of it."""
        async with asyncio.timeout(self.limits.frame_s):
            if isinstance(answer, bytes):
                await write_all(self.writer, answer)
            else:
                async for part in answer:
                    await write_all(self.writer, part)
        if self.companion is not None:
            self.companion.release()
        self.note_use()

    def close(self) -> None:
        """Close it at once; what is not sent yet never is."""
        ServerConnection.close(self)  # ``super`` does not find a class with slots
        if self.companion is not None:
            self.companion.close()
        self._release()

    def _release(self) -> None:
        self.memory.give_back(self._reserved, self.address)
        self.decoded.give_back(self._reserved_decoded, self.address)
        self._reserved = self._reserved_decoded = 0
