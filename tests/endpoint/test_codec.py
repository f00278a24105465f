"""
The codec of the controller endpoint.

``integration/test_decoder_gate.py`` compares it with Kafka's own classes, byte for byte.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsResponse

from controller.brokers import messages
from controller.brokers.messages import topic_uuid
from controller.core.calls.broker_calls import error_answer
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrChange,
    IsrResult,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.model import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, ZkVersion
from controller.endpoint import codec
from controller.endpoint.codec import RequestHeader
from controller.endpoint.strict_decoding import ELEMENTS_MAX
from controller.errors import ProtocolError, RemoteProtocolError
from tests.brokers.builders import ids
from tests.endpoint.requests import EVERY_VERSION, ORDERS_ID, TOPICS, frame_of, request_frame

EPOCH = BrokerEpoch(25769803801)


def header(key: int, version: int, correlation_id: int = 77) -> codec.RequestHeader:
    """Return the header of a request."""
    return codec.RequestHeader(key, version, correlation_id, "1")


def result(
    partition: int, topic: str | None = "orders", topic_id: str | None = ORDERS_ID
) -> IsrResult:
    """Return a successful change of the ISR."""
    return IsrResult(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        error=0,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(5),
        isr=ids(1, 2, 3),
        leader_recovery_state=0,
        partition_epoch=ZkVersion(42),
    )


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_header_of_every_request_is_read(key: int, version: int) -> None:
    """The answer needs key, version and correlation id."""
    read, _ = codec.decode(request_frame(key, version))
    assert read == header(key, version)


def test_client_id_may_be_null() -> None:
    """The header of every version allows it."""
    frame = frame_of(messages.AllocateProducerIdsRequest(version=0), client_id=None)
    assert codec.decode(frame)[0].client_id is None


@pytest.mark.parametrize("version", range(4))
def test_alter_partition_names_topics_as_its_version_does(version: int) -> None:
    """Names below version 2, ids from there on; the recovery state from version 1 on."""
    _, request = codec.decode(request_frame(ApiKey.AlterPartition, version))
    by_id = version >= 2
    changes = tuple(
        IsrChange(
            topic=None if by_id else name,
            topic_id=topic_id if by_id else None,
            partition=partition,
            leader_epoch=LeaderEpoch(5 + partition),
            isr=ids(1, 2),
            leader_recovery_state=1 if version >= 1 else 0,
            partition_epoch=ZkVersion(41),
        )
        for name, topic_id, partitions in TOPICS
        for partition in partitions
    )
    assert request == AlterPartition(BrokerId(4), EPOCH, version, changes)


def test_topic_id_that_is_zero_is_refused() -> None:
    """A partition without name and id could not be answered."""
    message = messages.AlterPartitionRequest(
        version=2, broker_id=4, broker_epoch=1, topics=[(None, [(0, 5, [1], 0, 41)])]
    )
    with pytest.raises(RemoteProtocolError, match="without an id"):
        codec.decode(frame_of(message))


@pytest.mark.parametrize(("version", "epoch"), [(1, None), (2, EPOCH), (3, EPOCH)])
def test_controlled_shutdown_has_an_epoch_from_version_2_on(
    version: int, epoch: BrokerEpoch | None
) -> None:
    """Version 1 has none (KIP-380)."""
    _, request = codec.decode(request_frame(ApiKey.ControlledShutdown, version))
    assert request == ControlledShutdown(BrokerId(4), epoch)


def test_controlled_shutdown_with_an_epoch_of_minus_one_is_not_one_without() -> None:
    """Every registration has an epoch: it is outdated, and moves no leadership."""
    plain = messages.ControlledShutdownRequest(version=3, broker_id=4, broker_epoch=-1)
    _, request = codec.decode(frame_of(plain))
    assert request == ControlledShutdown(BrokerId(4), BrokerEpoch(-1))


@pytest.mark.parametrize(
    "key", [ApiKey.ControlledShutdown, ApiKey.AlterPartition, ApiKey.AllocateProducerIds]
)
def test_refusal_is_the_answer_that_consists_of_an_error(key: int) -> None:
    """In every version, of the header alone."""
    lowest, highest = codec.ADVERTISED[key]
    for version in range(lowest, highest + 1):
        header, request = codec.decode(request_frame(key, version))
        assert isinstance(request, RequestFromBroker)
        assert codec.refusal(header, 41) == codec.encode(header, error_answer(request, 41))
    for other in (RequestHeader(key, highest + 1, 1, None), RequestHeader(17, 1, 1, None)):
        with pytest.raises(RemoteProtocolError):
            codec.refusal(other, 41)


def test_allocate_producer_ids_names_the_broker() -> None:
    """With its epoch."""
    _, request = codec.decode(request_frame(ApiKey.AllocateProducerIds, 0))
    assert request == AllocateProducerIds(BrokerId(4), EPOCH)


@pytest.mark.parametrize("version", range(2))
def test_handshake_names_the_mechanism(version: int) -> None:
    """In both versions."""
    _, request = codec.decode(request_frame(ApiKey.SaslHandshake, version))
    assert request == codec.SaslHandshake("SCRAM-SHA-512")


@pytest.mark.parametrize("version", range(3))
def test_authentication_carries_bytes(version: int) -> None:
    """In all versions."""
    _, request = codec.decode(request_frame(ApiKey.SaslAuthenticate, version))
    assert request == codec.SaslAuthenticate(b"\x00user\x00secret")


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_every_truncated_request_is_refused(key: int, version: int) -> None:
    """Wherever the frame ends."""
    whole = request_frame(key, version)
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(whole[:length])


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_trailing_bytes_are_refused(key: int, version: int) -> None:
    """They mean that peer and codec read different messages."""
    with pytest.raises(RemoteProtocolError, match="behind the last field"):
        codec.decode(request_frame(key, version) + b"\x00")


@pytest.mark.parametrize(
    ("key", "version"),
    [(7, 0), (7, 4), (17, 2), (36, 3), (56, 4), (67, 1), (67, -1), (18, -1), (3, 0), (-1, 0)],
)
def test_what_is_not_advertised_is_refused(key: int, version: int) -> None:
    """Also a version whose body we could read."""
    frame = struct.pack(">hhih", key, version, 77, -1) + bytes(20)
    with pytest.raises(RemoteProtocolError, match="is not served"):
        codec.decode(frame)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\x81\x80\x80\x80\x08", b"\x00"])
def test_array_that_cannot_be_in_the_frame_is_refused(count: bytes) -> None:
    """Counts near 2^32 and 2^31 allocate nothing; null is no list of topics."""
    begin = struct.pack(">hhihb", 56, 0, 77, -1, 0) + struct.pack(">iq", 4, 1)
    with pytest.raises(RemoteProtocolError, match="elements"):
        codec.decode(begin + count + b"\x00")


def test_varint_of_six_bytes_is_refused() -> None:
    """Its value would grow with the frame."""
    begin = struct.pack(">hhihb", 56, 0, 77, -1, 0) + struct.pack(">iq", 4, 1)
    with pytest.raises(RemoteProtocolError, match="varint"):
        codec.decode(begin + b"\x80\x80\x80\x80\x80\x01")


def test_more_elements_than_any_request_has_are_refused() -> None:
    """Topics without partitions take three bytes each, and much more as values."""
    begin = struct.pack(">hhihb", 56, 0, 77, -1, 0) + struct.pack(">iq", 4, 1)
    count = bytearray()
    left = ELEMENTS_MAX + 2
    while left >= 0x80:
        count.append(left & 0x7F | 0x80)
        left >>= 7
    count.append(left)
    with pytest.raises(RemoteProtocolError, match="elements"):
        codec.decode(begin + bytes(count) + b"\x01\x01\x00" * (ELEMENTS_MAX + 1) + b"\x00")


def test_longer_frame_than_allowed_is_refused() -> None:
    """Without a look at it."""
    with pytest.raises(RemoteProtocolError, match="a request of"):
        codec.decode(bytes(codec.FRAME_MAX + 1))


@pytest.mark.parametrize("length", [-1, -2, 32767])
def test_string_of_no_length_or_too_many_bytes_is_refused(length: int) -> None:
    """A null mechanism, too."""
    with pytest.raises(RemoteProtocolError):
        codec.decode(struct.pack(">hhihh", 17, 1, 77, -1, length) + b"PLAIN")


def test_string_longer_than_kafkas_longest_is_refused() -> None:
    """Flexible versions could encode it, and Kafka's own parser refuses it."""
    name = "x" * 0x8000
    message = messages.AlterPartitionRequest(
        version=0, broker_id=4, broker_epoch=1, topics=[(name, [(0, 5, [1], 41)])]
    )
    with pytest.raises(RemoteProtocolError, match="a string of"):
        codec.decode(frame_of(message))


def test_string_that_is_not_utf_8_is_refused() -> None:
    """Nothing is replaced in a name."""
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        codec.decode(struct.pack(">hhihh", 17, 1, 77, -1, 2) + b"\xc3\x28")


def test_unknown_tagged_fields_are_passed_over() -> None:
    """As KIP-482 requires: in the header, in the body and in the elements of an array."""
    tagged = b"\x02\x05\x03abc\x07\x00"
    frame = struct.pack(">hhih", 67, 0, 77, -1) + tagged + struct.pack(">iq", 4, EPOCH) + tagged
    assert codec.decode(frame)[1] == AllocateProducerIds(BrokerId(4), EPOCH)


def test_large_request_of_a_leader_is_read() -> None:
    """Two hundred thousand partitions with three replicas are within the limits."""
    rows = [(p, 5, [(1, -1), (2, -1), (3, -1)], 0, 41) for p in range(10_000)]
    message = messages.AlterPartitionRequest(
        version=3, broker_id=4, broker_epoch=1, topics=[(topic_uuid(ORDERS_ID), rows)] * 20
    )
    _, request = codec.decode(frame_of(message))
    assert isinstance(request, AlterPartition)
    assert len(request.changes) == 200_000


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_answer_has_length_and_correlation_id_of_its_request(key: int, version: int) -> None:
    """A wrong one of either stops the broker."""
    frame = answer_frame(header(key, version, correlation_id=-123456))
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, -123456)


@pytest.mark.parametrize(
    ("key", "version", "flexible"),
    [
        (7, 2, False),
        (7, 3, True),
        (17, 1, False),
        (18, 2, False),
        (18, 3, False),
        (36, 1, False),
        (36, 2, True),
        (56, 0, True),
        (67, 0, True),
    ],
)
def test_header_of_an_answer_is_flexible_with_its_body(
    key: int, version: int, *, flexible: bool
) -> None:
    """Except ApiVersions: its header never is (KIP-511)."""
    body_at = 9 if flexible else 8
    frame = answer_frame(header(key, version))
    responses = ResponseClassRegistry.get_response_class(
        SimpleNamespace(request_api_key=key, request_api_version=version)
    )
    assert bytes(responses.decode(frame[body_at:]).encode()) == frame[body_at:]
    assert not flexible or frame[8] == 0


@pytest.mark.parametrize("version", range(4))
def test_api_versions_lists_what_is_served(version: int) -> None:
    """And nothing else."""
    frame = codec.api_versions_response(header(ApiKey.ApiVersions, version), codec.ADVERTISED)
    body = ApiVersionsResponse.decode(frame[8:], version=version)
    listed = {row.api_key: (row.min_version, row.max_version) for row in body.api_keys}
    assert (body.error_code, listed) == (0, codec.ADVERTISED)


@pytest.mark.parametrize("version", [4, 5, 32767])
def test_unknown_api_versions_is_answered_in_version_0(version: int) -> None:
    """With UNSUPPORTED_VERSION and the versions of key 18, whatever its body has (KIP-511)."""
    frame = struct.pack(">hhihb", ApiKey.ApiVersions, version, 77, -1, 0) + b"anything"
    read, request = codec.decode(frame)
    assert (read.version, request) == (version, codec.ApiVersions())
    assert codec.api_versions_response(read, codec.ADVERTISED)[4:] == struct.pack(
        ">ihihhh", 77, 35, 1, 18, 0, 3
    )


def test_results_of_a_topic_are_one_element() -> None:
    """Also if the core returns them in another order."""
    results = (result(0), result(2, "payments"), result(7))
    frame = codec.encode(header(56, 1), AlterPartitionAnswer(0, results))
    body = messages.AlterPartitionResponse.decode(frame[9:], version=1)
    found = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in body.topics]
    assert found == [("orders", [0, 7]), ("payments", [2])]


def test_answer_carries_the_state_of_the_partition() -> None:
    """All that a leader takes over from it."""
    frame = codec.encode(header(56, 3), AlterPartitionAnswer(0, (result(7),)))
    row = messages.AlterPartitionResponse.decode(frame[9:], version=3).topics[0].partitions[0]
    assert (row.partition_index, row.error_code, row.leader_id, row.leader_epoch) == (7, 0, 1, 5)
    assert (row.isr, row.leader_recovery_state, row.partition_epoch) == ([1, 2, 3], 0, 42)


@pytest.mark.parametrize(
    ("version", "unnamed"), [(1, result(0, topic=None)), (2, result(0, topic_id=None))]
)
def test_result_without_the_topic_of_the_version_is_not_sent(
    version: int, unnamed: IsrResult
) -> None:
    """The leader would not find its partition in the answer."""
    with pytest.raises(ProtocolError, match="without the topic"):
        codec.encode(header(56, version), AlterPartitionAnswer(0, (unnamed,)))


def test_answer_to_another_request_is_not_sent() -> None:
    """A broker stops on a body that it cannot decode."""
    with pytest.raises(ProtocolError, match="does not answer"):
        codec.encode(header(56, 0), ProducerIdsAnswer(0, 1000, 1000))


def test_value_that_does_not_fit_is_not_sent() -> None:
    """A block beyond 64 bits is nobody's."""
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        codec.encode(header(67, 0), ProducerIdsAnswer(0, 2**63, 1000))


def answer_frame(read: codec.RequestHeader) -> bytes:
    """Return the frame of an answer to each request."""
    match read.api_key:
        case ApiKey.ControlledShutdown:
            remaining = (TopicPartition("orders", 0), TopicPartition("payments", 2))
            return codec.encode(read, ControlledShutdownAnswer(0, remaining))
        case ApiKey.SaslHandshake:
            return codec.encode(read, codec.SaslHandshakeAnswer(("PLAIN", "SCRAM-SHA-512")))
        case ApiKey.ApiVersions:
            return codec.api_versions_response(read, codec.ADVERTISED)
        case ApiKey.SaslAuthenticate:
            return codec.encode(read, codec.SaslAuthenticate(b"v=proof"))
        case ApiKey.AlterPartition:
            return codec.encode(read, AlterPartitionAnswer(0, (result(0), result(7))))
        case _:
            return codec.encode(read, ProducerIdsAnswer(0, 1000, 1000))
