"""A running endpoint server for tests, with the loop replaced by a function."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.core.calls.broker_requests import AlterPartitionAnswer, BrokerAnswer
from controller.core.calls.records import BrokerRequestReceived
from controller.core.records import Event
from controller.endpoint.authentication import Authentication
from controller.endpoint.broker_service import ANSWER_S, BrokerService, Tickets
from controller.endpoint.endpoint_server import EndpointServer
from controller.endpoint.peers import EndpointLimits
from controller.setting_values import HttpAddress

WITHIN_S = 10.0


@dataclass
class Counts:
    """Counts what the server reports."""

    open: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)

    def endpoint_connections(self, count: int) -> None:
        """Note the number of connections."""
        self.open = count

    def endpoint_refused(self, reason: str) -> None:
        """Count a closed connection."""
        self.refused[reason] += 1

    def endpoint_answered(self, request: str, result: str) -> None:
        """Count an answer."""
        self.answered[request, result] += 1


class Loop:
    """The inbox of a loop that answers at once, or keeps what it is asked."""

    def __init__(self, answer: Callable[[BrokerRequestReceived], BrokerAnswer | None]) -> None:
        self.requested: list[BrokerRequestReceived] = []
        self.tickets: Tickets | None = None
        self._answer = answer

    def has_received(self, count: int) -> bool:
        """Return whether so many requests arrived."""
        return len(self.requested) == count

    def put(self, event: Event) -> None:
        """Take a request."""
        assert isinstance(event, BrokerRequestReceived)
        self.requested.append(event)
        answer = self._answer(event)
        if answer is not None and self.tickets is not None:
            self.tickets.respond(event.ticket, answer)


@dataclass
class Served:
    """A server that accepts connections."""

    server: EndpointServer
    tickets: Tickets
    loop: Loop
    counts: Counts

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.server.address, timeout=WITHIN_S)


@contextmanager
def serving(
    answer: Callable[[BrokerRequestReceived], BrokerAnswer | None] = lambda _: AlterPartitionAnswer(
        0
    ),
    limits: EndpointLimits | None = None,
    answer_s: float = ANSWER_S,
    authentication: Authentication | None = None,
) -> Iterator[Served]:
    """Run a server; afterwards its thread has ended."""
    counts, loop = Counts(), Loop(answer)
    tickets = loop.tickets = Tickets(loop, answer_s=answer_s)
    brokers = BrokerService(tickets, counts)
    server = EndpointServer(
        HttpAddress("127.0.0.1", 0), brokers, counts, limits=limits, authentication=authentication
    )
    tickets.post = server.post
    server.start()
    tickets.serve()
    try:
        yield Served(server, tickets, loop, counts)
    finally:
        server.stop()
        assert not server.is_alive


def eventually(is_so: Callable[[], object]) -> None:
    """Wait until a function returns true."""
    until = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def resident_bytes() -> int:
    """Return the memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def framed(frame: bytes) -> bytes:
    """Return a frame with its length in front."""
    return struct.pack(">i", len(frame)) + frame


def answer_of(connection: socket.socket) -> bytes:
    """Return the next answer without its length; empty if the connection is closed instead."""
    try:
        length = _exactly(connection, 4)
        return _exactly(connection, struct.unpack(">i", length)[0]) if length else b""
    except ConnectionError:
        return b""


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(size - len(found), 2**20))
        if not part:
            return b""
        found += part
    return bytes(found)
