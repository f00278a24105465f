"""
Message classes of the three controller requests, loaded from the schema files of this room.

kafka-python encodes and decodes them; importing this module registers the responses with it.
``controller_requests`` and ``responses`` give the fields their meaning.
"""

from __future__ import annotations

import base64
import binascii
import struct
import uuid
from dataclasses import dataclass, field
from typing import Final

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

from controller.errors import ProtocolError

_SCHEMAS: Final = "controller.brokers.schemas"


class LeaderAndIsrRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 4."""


class LeaderAndIsrResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 4."""


class StopReplicaRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 5."""


class StopReplicaResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 5."""


class UpdateMetadataRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 6."""


class UpdateMetadataResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 6."""


def topic_uuid(topic_id: str | None) -> uuid.UUID | None:
    """
    Return the id of a topic as a request carries it.

    Args:
        topic_id: As in the topic znode, base64url without padding (org.apache.kafka.common.Uuid).

    Returns:
        None, which is sent as zero ("unknown"), also if the text is not an id.
    """
    if topic_id is None:
        return None
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    except (ValueError, binascii.Error):
        return None


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
        """
        Return the same request for another broker.

        Args:
            offset: The position of the broker epoch in the body.
            broker_epoch: The epoch of the other broker.
        """
        epoch = struct.pack(">q", broker_epoch)
        body = b"".join((self.body[:offset], epoch, self.body[offset + len(epoch) :]))
        return Frame(self.name, self.api_key, self.version, self.is_flexible, body)


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
