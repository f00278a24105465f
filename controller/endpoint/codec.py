"""
Frames of brokers to requests, and answers to frames.

Pure. A wrong byte in an answer stops the broker: its send thread treats every error of decoding as
fatal (``InterBrokerSendThread``). So whatever is in doubt raises, and the socket is closed.

Here and in ``client_codec`` and ``topic_codec``, frames of requests are without their length, those
of answers with it. Reading raises RemoteProtocolError if a frame is malformed or not of a request
and version that is served. Writing raises ProtocolError if the answer is not one to the request, or
a value does not fit its field.

Invariant: what ``decode`` returns can be answered in the version of its header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from kafka.protocol import sasl
from kafka.protocol.api_header import ResponseHeader
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from controller.brokers import messages
from controller.brokers.frames import by_topic, frame_of
from controller.brokers.messages import topic_id_of, topic_uuid
from controller.core.calls import broker_requests
from controller.core.model import BrokerEpoch, BrokerId, LeaderEpoch, ZkVersion
from controller.endpoint.strict_decoding import Cursor, Fields, Folds, reader_of
from controller.errors import ProtocolError, RemoteProtocolError
from controller.kafka_errors import NONE, UNSUPPORTED_VERSION

FRAME_MAX: Final = 16 * 1024 * 1024
"""The longest request in bytes: an AlterPartition v3 of 200,000 partitions is shorter."""

_FIRST_BY_TOPIC_ID: Final = 2
"""The first version of AlterPartition that names topics by id (KIP-841)."""
_HEADER_NUMBERS: Final = (struct.Struct(">h"), struct.Struct(">h"), struct.Struct(">i"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableRequest:
    """A kind of request, as far as it is read."""

    versions: tuple[int, int]
    """The lowest and the highest."""
    message: Any
    """The class of the message."""
    folds: Folds = ()
    """What becomes of elements of arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest(ReadableRequest):
    """A kind of request with everything that reads it and writes its answer."""

    value_of: Callable[..., Any]
    """Returns the value of a request."""
    answer: type[Any]
    """The class of its answer."""
    message_of: Callable[[int, Any], ApiMessage]
    """Returns the message of an answer in a version."""
    is_of_brokers: bool = False
    """Whether brokers send it to their controller; an answer to it can be an error alone."""


class RequestHeader(NamedTuple):
    """What an answer needs to know of its request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """Ask which requests are served; ``api_versions_response`` is the answer."""


@dataclass(frozen=True, slots=True)
class SaslHandshake:
    """Choose a SASL mechanism."""

    mechanism: str


@dataclass(frozen=True, slots=True)
class SaslHandshakeAnswer:
    """
    The mechanisms that are enabled.

    There is no answer that refuses: a broker may stop on it, where it repeats after a disconnect.
    """

    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SaslAuthenticate:
    """
    One message in a SASL exchange, of the client or of the server.

    That of the server is never a refusal, as with the handshake.
    """

    auth_bytes: bytes = field(repr=False)


Kind = TypeVar("Kind", bound=ReadableRequest)
Request = ApiVersions | SaslHandshake | SaslAuthenticate | broker_requests.RequestFromBroker
Answer = SaslHandshakeAnswer | SaslAuthenticate | broker_requests.BrokerAnswer


# --- requests ------------------------------------------------------------------------------------


def header_of(frame: bytes) -> RequestHeader:
    """Read the fields that every header of a request begins with, whatever the API key."""
    return _header(Cursor(frame))


def _header(cursor: Cursor) -> RequestHeader:
    api_key, version, correlation_id = (cursor.number(n) for n in _HEADER_NUMBERS)
    return RequestHeader(api_key, version, correlation_id, cursor.nullable_text())


def decode(frame: bytes) -> tuple[RequestHeader, Request]:
    """Read a request of ``ADVERTISED``, or an ApiVersions of a version that is refused."""
    header, _ = _open_frame(frame)
    if header.api_key == ApiKey.ApiVersions:
        if header.version <= API_VERSIONS_REQUEST.versions[1]:
            read_request(frame, {ApiKey.ApiVersions: API_VERSIONS_REQUEST})
        return header, ApiVersions()
    header, body = read_request(frame, REQUESTS)
    found: Request = REQUESTS[header.api_key].value_of(header.version, body)
    return header, found


def read_request(
    frame: bytes, requests: Mapping[int, ReadableRequest]
) -> tuple[RequestHeader, Fields]:
    """Read a request of one of these kinds by the schema of its message."""
    header, cursor = _open_frame(frame)
    known = _served_request(header, requests)
    if known.message.flexible_version_q(header.version):
        cursor.skip_tagged_fields()
    body = reader_of(known.message, header.version, known.folds)(cursor)
    cursor.expect_end()
    return header, body


def _open_frame(frame: bytes) -> tuple[RequestHeader, Cursor]:
    """Return the header of a frame, and the cursor behind it."""
    if len(frame) > FRAME_MAX:
        raise RemoteProtocolError(f"a request of {len(frame)} bytes")
    cursor = Cursor(frame)
    return _header(cursor), cursor


def is_served(header: RequestHeader, requests: Mapping[int, ReadableRequest]) -> bool:
    """Return whether a request is of one of these kinds, and of one of their versions."""
    lowest, highest = requests[header.api_key].versions if header.api_key in requests else (0, -1)
    return lowest <= header.version <= highest


def _served_request(header: RequestHeader, requests: Mapping[int, Kind]) -> Kind:
    if not is_served(header, requests):
        raise RemoteProtocolError(f"API key {header.api_key} v{header.version} is not served")
    return requests[header.api_key]


def _controlled_shutdown(_version: int, body: Fields) -> broker_requests.ControlledShutdown:
    # A version with an epoch has that of the broker's registration: -1 is an outdated one.
    epoch = body.get("broker_epoch")
    return broker_requests.ControlledShutdown(
        BrokerId(body["broker_id"]), None if epoch is None else BrokerEpoch(epoch)
    )


def _alter_partition(version: int, body: Fields) -> broker_requests.AlterPartition:
    return broker_requests.AlterPartition(
        BrokerId(body["broker_id"]),
        BrokerEpoch(body["broker_epoch"]),
        version,
        tuple(
            broker_requests.IsrChange(topic.get("topic_name"), topic_id, *row)
            for topic in body["topics"]
            for topic_id in (_topic_id(topic),)
            for row in topic["partitions"]
        ),
    )


def _change(row: Fields) -> tuple[int, LeaderEpoch, tuple[BrokerId, ...], int, ZkVersion]:
    """Return the fields of an ``IsrChange`` behind those of its topic."""
    isr = row["new_isr"] if "new_isr" in row else row["new_isr_with_epochs"]
    return (
        row["partition_index"],
        LeaderEpoch(row["leader_epoch"]),
        tuple(map(BrokerId, isr)),
        row.get("leader_recovery_state", 0),
        ZkVersion(row["partition_epoch"]),
    )


def _topic_id(topic: Fields) -> str | None:
    if "topic_id" not in topic:
        return None
    found = topic_id_of(topic["topic_id"])
    if found is None:
        raise RemoteProtocolError("a topic without an id, in a version without names")
    return found


# --- answers -------------------------------------------------------------------------------------


def api_versions_response(header: RequestHeader, served: Mapping[int, tuple[int, int]]) -> bytes:
    """
    Return the frame of the answer to an ApiVersions: what is served, ApiVersions among it.

    A version that is not served gets UNSUPPORTED_VERSION in a body of version 0, which lists the
    versions of ApiVersions (KIP-511): the peer asks again with one of them.
    """
    version = header.version
    error, keys = NONE, sorted(served)
    if version > API_VERSIONS_REQUEST.versions[1]:
        version, error, keys = 0, UNSUPPORTED_VERSION, [ApiKey.ApiVersions]
    body = ApiVersionsResponse(
        version=version, error_code=error, api_keys=[(key, *served[key]) for key in keys]
    )
    # The header has version 0 always: the peer does not know the version of the body yet.
    return _frame(header, body, flexible_header=False)


def encode(header: RequestHeader, answer: Answer) -> bytes:
    """Return the frame of an answer."""
    return encode_by(REQUESTS, header, answer)


def encode_by(
    requests: Mapping[int, ServedRequest], header: RequestHeader, answer: object
) -> bytes:
    """Return the frame of an answer to one of these requests."""
    known = requests.get(header.api_key)
    if known is None or type(answer) is not known.answer:
        raise ProtocolError(f"{type(answer).__name__} does not answer API key {header.api_key}")
    return respond(header, known.message_of(header.version, answer))


def respond(header: RequestHeader, body: ApiMessage) -> bytes:
    """Return the frame of a response."""
    return _frame(header, body, flexible_header=body.flexible_version_q(header.version))


def _frame(header: RequestHeader, body: ApiMessage, *, flexible_header: bool) -> bytes:
    head = ResponseHeader(correlation_id=header.correlation_id).encode(flexible=flexible_header)
    encoded = frame_of(body).body
    return b"".join((struct.pack(">i", len(head) + len(encoded)), head, encoded))


def refusal(header: RequestHeader, error: int) -> bytes:
    """Return the frame of an answer to a broker that consists of an error, whatever it asks."""
    known = _served_request(header, REQUESTS)
    if not known.is_of_brokers:
        raise RemoteProtocolError(f"API key {header.api_key} is no request of a broker")
    return encode(header, known.answer(error))


def _alter_partition_response(
    version: int, answer: broker_requests.AlterPartitionAnswer
) -> ApiMessage:
    by_id = version >= _FIRST_BY_TOPIC_ID
    rows: list[tuple[object, tuple[Any, ...]]] = []
    for result in answer.results:
        topic = topic_uuid(result.topic_id) if by_id else result.topic
        if topic is None:
            raise ProtocolError(f"a result of {result.topic} without the topic of v{version}")
        rows.append((topic, _isr_row(version, result)))
    return messages.AlterPartitionResponse(
        version=version, error_code=answer.error, topics=by_topic(rows)
    )


def _isr_row(version: int, result: broker_requests.IsrResult) -> tuple[Any, ...]:
    row = (result.partition, result.error, result.leader, result.leader_epoch, result.isr)
    recovery = (result.leader_recovery_state,) if version >= 1 else ()
    return (*row, *recovery, result.partition_epoch)


# --- the requests --------------------------------------------------------------------------------


REQUESTS: Final[Mapping[int, ServedRequest]] = {
    ApiKey.ControlledShutdown: ServedRequest(
        # Version 0 has a header of its own.
        versions=(1, 3),
        message=messages.ControlledShutdownRequest,
        value_of=_controlled_shutdown,
        answer=broker_requests.ControlledShutdownAnswer,
        message_of=lambda version, answer: messages.ControlledShutdownResponse(
            version=version,
            error_code=answer.error,
            remaining_partitions=[(p.topic, p.partition) for p in answer.remaining],
        ),
        is_of_brokers=True,
    ),
    ApiKey.SaslHandshake: ServedRequest(
        versions=(0, 1),
        message=sasl.SaslHandshakeRequest,
        value_of=lambda _, body: SaslHandshake(body["mechanism"]),
        answer=SaslHandshakeAnswer,
        message_of=lambda version, answer: sasl.SaslHandshakeResponse(
            version=version, mechanisms=list(answer.mechanisms)
        ),
    ),
    ApiKey.SaslAuthenticate: ServedRequest(
        versions=(0, 2),
        message=sasl.SaslAuthenticateRequest,
        value_of=lambda _, body: SaslAuthenticate(body["auth_bytes"]),
        answer=SaslAuthenticate,
        # A lifetime of 0 means that the session lasts as long as the connection (KIP-368).
        message_of=lambda version, answer: sasl.SaslAuthenticateResponse(
            version=version, error_message=None, auth_bytes=answer.auth_bytes
        ),
    ),
    ApiKey.AlterPartition: ServedRequest(
        versions=(0, 3),
        message=messages.AlterPartitionRequest,
        # The epoch of a member of the ISR is -1: leaders know it in KRaft mode only.
        folds=(("partitions", _change), ("new_isr_with_epochs", itemgetter("broker_id"))),
        value_of=_alter_partition,
        answer=broker_requests.AlterPartitionAnswer,
        message_of=_alter_partition_response,
        is_of_brokers=True,
    ),
    # It stays in the list: a broker of 3.6+ that misses it allocates no more ids until it restarts.
    ApiKey.AllocateProducerIds: ServedRequest(
        versions=(0, 0),
        message=messages.AllocateProducerIdsRequest,
        value_of=lambda _, body: broker_requests.AllocateProducerIds(
            BrokerId(body["broker_id"]), BrokerEpoch(body["broker_epoch"])
        ),
        answer=broker_requests.ProducerIdsAnswer,
        message_of=lambda version, answer: messages.AllocateProducerIdsResponse(
            version=version,
            error_code=answer.error,
            producer_id_start=answer.first,
            producer_id_len=answer.length,
        ),
        is_of_brokers=True,
    ),
}
"""By API key; the versions are those that brokers of 2.3 to 3.9 send."""
API_VERSIONS_REQUEST: Final = ReadableRequest(versions=(0, 3), message=ApiVersionsRequest)
ADVERTISED: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.ApiVersions: API_VERSIONS_REQUEST.versions,
    **{key: request.versions for key, request in REQUESTS.items()},
}
"""Lowest and highest version by API key."""
OF_BROKERS: Final[Mapping[int, tuple[int, int]]] = {
    key: request.versions for key, request in REQUESTS.items() if request.is_of_brokers
}
"""The same for the requests of brokers to their controller."""
