"""
The message classes of the three controller requests, loaded from the schema files of this room.

kafka-python encodes and decodes them; importing this module registers the responses with it.
Nothing here knows what the fields mean to a controller: that is ``wire``.
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
    """Answer to API key 4."""


class StopReplicaRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 5."""


class StopReplicaResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Answer to API key 5."""


class UpdateMetadataRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 6."""


class UpdateMetadataResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Answer to API key 6."""


def topic_uuid(topic_id: str | None) -> uuid.UUID | None:
    """
    Return the id of a topic as it travels.

    Args:
        topic_id: as in the topic znode, base64url without padding (org.apache.kafka.common.Uuid).

    Returns:
        None (sent as zero, which brokers take for "not known") also for a text that is no id.
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
    An encoded request, in the shape in which kafka-python's connections take one.

    Encoding happens before anything is sent: what cannot be encoded is found out where it can be
    reported, not inside a connection that would wait for its answer for ever.
    """

    name: str
    api_key: int
    version: int
    is_flexible: bool
    body: bytes = field(repr=False)
    header: RequestHeader | None = None
    """That of the last sending; by it kafka-python finds the class of the answer."""

    @property
    def API_VERSION(self) -> int:  # noqa: N802 - kafka-python's name
        """The version it is encoded in."""
        return self.version

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Give the frame the header of its next sending."""
        self.header = RequestHeader(
            request_api_key=self.api_key,
            request_api_version=self.version,
            correlation_id=correlation_id,
            client_id=client_id,
        )

    def expect_response(self) -> bool:
        """Every controller request is answered."""
        return True

    def encode(self, *, framed: bool = True, header: bool = True) -> bytes:
        """Return length, header and body; kafka-python always asks for all three."""
        head = b""
        if header and self.header is not None:
            head = self.header.encode(flexible=self.is_flexible)
        size = struct.pack(">i", len(head) + len(self.body)) if framed else b""
        return b"".join((size, head, self.body))

    def readdressed(self, offset: int, broker_epoch: int) -> Frame:
        """
        Return the same request for another broker.

        Args:
            offset: where the broker epoch stands in the body.
            broker_epoch: that of the other broker.
        """
        epoch = struct.pack(">q", broker_epoch)
        body = b"".join((self.body[:offset], epoch, self.body[offset + len(epoch) :]))
        return Frame(self.name, self.api_key, self.version, self.is_flexible, body)


def frame_of(message: ApiMessage) -> Frame:
    """
    Encode a message.

    Raises:
        ProtocolError: a value does not fit its field (garbage read from a znode).
    """
    try:
        body = bytes(message.encode())
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"{message.name} cannot be encoded: {error}") from error
    version = message.API_VERSION
    flexible = message.flexible_version_q(version)
    return Frame(message.name, message.API_KEY, version, flexible, body)
