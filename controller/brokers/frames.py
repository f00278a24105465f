"""Encoded requests to brokers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

from controller.errors import ProtocolError

_Row = TypeVar("_Row")


def by_topic(rows: Iterable[tuple[Any, _Row]]) -> list[tuple[Any, list[_Row]]]:
    """Return rows grouped by their topics, as most messages have them."""
    topics: dict[Any, list[_Row]] = {}
    for topic, row in rows:
        topics.setdefault(topic, []).append(row)
    return list(topics.items())


@dataclass(slots=True)
class Frame:
    """
    An encoded request, with the interface that kafka-python's connections expect.

    Encoding precedes sending, so that an encoding error is raised to the caller and not inside a
    connection, which would wait for the answer for ever.
    """

    name: str
    api_key: int
    version: int
    is_flexible: bool
    body: bytes = field(repr=False)
    header: RequestHeader | None = None
    """Header of the last attempt, by which kafka-python finds the class of the response."""

    @property
    def API_VERSION(self) -> int:  # noqa: N802 - kafka-python's name
        """The version of the encoding."""
        return self.version

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Set the header of the next attempt."""
        self.header = RequestHeader(
            request_api_key=self.api_key,
            request_api_version=self.version,
            correlation_id=correlation_id,
            client_id=client_id,
        )

    def expect_response(self) -> bool:
        """Return True: every request has a response."""
        return True

    def encode(self, *, framed: bool = True, header: bool = True) -> bytes:
        """Return length, header and body; kafka-python always requests all three."""
        head = b""
        if header and self.header is not None:
            head = self.header.encode(flexible=self.is_flexible)
        size = struct.pack(">i", len(head) + len(self.body)) if framed else b""
        return b"".join((size, head, self.body))

    def readdressed(self, offset: int, broker_epoch: int) -> Frame:
        """Return the same request for another broker, whose epoch stands here in the body."""
        epoch = struct.pack(">q", broker_epoch)
        parts = (self.body[:offset], epoch, self.body[offset + len(epoch) :])
        return replace(self, body=b"".join(parts))


def frame_of(message: ApiMessage) -> Frame:
    """
    Encode a message.

    Raises:
        ProtocolError: a value does not fit its field, as after reading a corrupt znode.
    """
    try:
        body = bytes(message.encode())
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"{message.name} cannot be encoded: {error}") from error
    version = message.API_VERSION
    flexible = message.flexible_version_q(version)
    return Frame(message.name, message.API_KEY, version, flexible, body)
