"""
A broker that is only a socket: it answers ApiVersions, then whatever the test scripted.

It speaks real bytes on localhost, so that the connections under test are the real ones.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from controller.brokers.messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.records import Event

WAIT_S: Final = 10.0
"""How long a test waits for something that must happen."""

KAFKA_2_6: Final[Mapping[int, tuple[int, int]]] = {
    4: (0, 4),
    5: (0, 3),
    6: (0, 6),
    18: (0, 3),
    34: (0, 2),
    35: (0, 2),
}

REQUESTS: Final[Mapping[int, type[ApiMessage]]] = {
    4: LeaderAndIsrRequest,
    5: StopReplicaRequest,
    6: UpdateMetadataRequest,
    17: SaslHandshakeRequest,
    32: DescribeConfigsRequest,
    33: AlterConfigsRequest,
    34: AlterReplicaLogDirsRequest,
    35: DescribeLogDirsRequest,
    36: SaslAuthenticateRequest,
    43: ElectLeadersRequest,
    45: AlterPartitionReassignmentsRequest,
}


@dataclass(frozen=True)
class Received:
    """A request as the fake broker got it."""

    api_key: int
    version: int
    message: ApiMessage


@dataclass(frozen=True)
class Answer:
    """Answer with this message."""

    message: ApiMessage
    is_last: bool = False
    """Whether to close the connection right after it."""


@dataclass(frozen=True)
class Garbage:
    """Answer with a well-framed body that makes no sense."""

    body: bytes


@dataclass(frozen=True)
class Drop:
    """Close the connection instead of answering."""


@dataclass(frozen=True)
class Hold:
    """Answer only when the test says so."""

    released: threading.Event
    then: Answer


Reaction = Answer | Garbage | Drop | Hold
Script = Callable[[Received], Reaction]


def succeed(received: Received) -> Reaction:
    """Answer that everything went well."""
    return Answer(success(received))


def success(received: Received) -> ApiMessage:
    """Return the response of a broker that carried out the whole request."""
    message, version = received.message, received.version
    if received.api_key == UpdateMetadataRequest.API_KEY:
        return UpdateMetadataResponse(version=version, error_code=0)
    if received.api_key == StopReplicaRequest.API_KEY:
        rows = [
            (topic.topic_name, state.partition_index, 0)
            for topic in message.topic_states
            for state in topic.partition_states
        ]
        return StopReplicaResponse(version=version, error_code=0, partition_errors=rows)
    rows = [
        (topic.topic_name, state.partition_index, 0)
        for topic in message.topic_states
        for state in topic.partition_states
    ]
    return LeaderAndIsrResponse(version=version, error_code=0, partition_errors=rows)


class FakeBroker:
    """Listens on a free port of localhost; a context manager."""

    def __init__(
        self,
        broker: int = 1,
        script: Script = succeed,
        understood: Mapping[int, tuple[int, int]] = KAFKA_2_6,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.received: queue.Queue[Received] = queue.Queue()
        self.script = script
        self.connections = 0
        self._broker = broker
        self._understood = understood
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listening)
        self.disconnect()
        for thread in self._threads:
            thread.join(WAIT_S)

    def registration(self, epoch: int = 100) -> LiveBroker:
        """Return what this broker's registration znode would say."""
        host, port = self._listening.getsockname()[:2]
        endpoint = Endpoint("PLAINTEXT", host, port, "PLAINTEXT")
        return LiveBroker(BrokerId(self._broker), BrokerEpoch(epoch), (endpoint,))

    def disconnect(self) -> None:
        """Close every connection made so far."""
        for connection in self._open:
            _end(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
        with connection, connection.makefile("rb") as incoming:
            while True:
                try:
                    size = incoming.read(4)
                    frame = incoming.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""
                    reply, is_last = self._reply(frame) if frame else (None, True)
                    if reply is not None:
                        connection.sendall(struct.pack(">i", len(reply)) + reply)
                    if is_last:
                        return
                except OSError:
                    return

    def _reply(self, frame: bytes) -> tuple[bytes | None, bool]:
        """Return the answer, and whether to close the connection after it."""
        api_key, version, correlation_id, name_size = struct.unpack(">hhih", frame[:10])
        body = frame[10 + name_size :]
        head = struct.pack(">i", correlation_id)
        if api_key == ApiKey.ApiVersions:
            keys = [(key, low, high) for key, (low, high) in self._understood.items()]
            answer = ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
            return head + bytes(answer.encode()), False
        request = REQUESTS[api_key]
        if request.flexible_version_q(version):
            body, head = body[1:], head + b"\0"
        received = Received(api_key, version, request.decode(body, version=version))
        self.received.put(received)
        return _body_of(self.script(received), head)


def _body_of(reaction: Reaction, head: bytes) -> tuple[bytes | None, bool]:
    if isinstance(reaction, Hold):
        reaction.released.wait(WAIT_S)
        reaction = reaction.then
    if isinstance(reaction, Drop):
        return None, True
    if isinstance(reaction, Garbage):
        return head + reaction.body, False
    return head + bytes(reaction.message.encode()), reaction.is_last


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


@dataclass
class CollectingInbox:
    """An inbox a test can wait on."""

    events: queue.Queue[Event] = field(default_factory=queue.Queue)

    def put(self, event: Event) -> None:
        """Add an event."""
        self.events.put(event)

    def next(self) -> Event:
        """Return the next event, waiting for it."""
        return self.events.get(timeout=WAIT_S)
