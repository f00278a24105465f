"""A broker for the relay: it answers each request by a function, on a thread of its own."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.endpoint import codec

LISTENER = "PLAINTEXT"
Answer = Callable[[codec.RequestHeader, bytes], bytes | None]
"""From header and frame to the answer without its length; None closes the connection."""


@dataclass
class FakeBroker:
    """A broker that accepts connections."""

    id: int
    port: int
    frames: list[bytes] = field(default_factory=list)
    """The requests that it received, without their lengths."""
    connections: int = 0

    @property
    def registration(self) -> LiveBroker:
        """The broker as ZooKeeper knows it."""
        endpoint = Endpoint(LISTENER, "127.0.0.1", self.port, "PLAINTEXT")
        return LiveBroker(BrokerId(self.id), BrokerEpoch(100 + self.id), (endpoint,))


@contextmanager
def fake_broker(answer: Answer, broker_id: int = 1) -> Iterator[FakeBroker]:
    """Run a broker."""
    listening = socket.create_server(("127.0.0.1", 0))
    broker = FakeBroker(broker_id, listening.getsockname()[1])
    accepted: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            broker.connections += 1
            accepted.append(connection)
            threading.Thread(target=_serve, args=(connection, broker, answer), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield broker
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)  # else the thread that accepts keeps it open
        listening.close()
        for connection in accepted:
            connection.close()


def _serve(connection: socket.socket, broker: FakeBroker, answer: Answer) -> None:
    try:
        while (frame := _frame(connection)) is not None:
            broker.frames.append(frame)
            given = answer(codec.header_of(frame), frame)
            if given is None:
                break
            connection.sendall(struct.pack(">i", len(given)) + given)
    except OSError:
        pass
    finally:
        connection.close()


def _frame(connection: socket.socket) -> bytes | None:
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    (size,) = struct.unpack(">i", head)
    return connection.recv(size, socket.MSG_WAITALL) if size else b""
