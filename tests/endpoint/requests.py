"""Frames of requests, as kafka-python encodes them by the same schemas as the codec decodes."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from controller.brokers import messages
from controller.brokers.messages import topic_uuid
from controller.endpoint import client_codec, codec, topic_codec

_CLIENT_MESSAGES: dict[int, tuple[Any, dict[str, Any]]] = {
    ApiKey.ElectLeaders: (
        ElectLeadersRequest,
        {"election_type": 0, "topic_partitions": [("orders", [0, 7])], "timeout_ms": 9},
    ),
    ApiKey.AlterPartitionReassignments: (
        AlterPartitionReassignmentsRequest,
        {"timeout_ms": 9, "topics": [("orders", [(0, [1, 2]), (7, None)])]},
    ),
    ApiKey.ListPartitionReassignments: (
        ListPartitionReassignmentsRequest,
        {"timeout_ms": 9, "topics": [("orders", [0, 7])]},
    ),
    ApiKey.DescribeConfigs: (
        DescribeConfigsRequest,
        {"resources": [(4, "1000000", None), (4, "1000000", ["log.dirs"])]},
    ),
    ApiKey.IncrementalAlterConfigs: (
        IncrementalAlterConfigsRequest,
        {"resources": [(4, "1000000", [("a", 1, None)])], "validate_only": False},
    ),
    ApiKey.CreateTopics: (
        CreateTopicsRequest,
        {"topics": [("new", 1, 1, [(0, [1])], [("a", None)])], "timeout_ms": 9},
    ),
    ApiKey.DeleteTopics: (
        DeleteTopicsRequest,
        {
            "topics": [("old", None), (None, topic_uuid("Tm9wZSBub3RoaW5nIGhlcg"))],
            "topic_names": ["old", "older"],
            "timeout_ms": 9,
        },
    ),
    ApiKey.CreatePartitions: (
        CreatePartitionsRequest,
        {"topics": [("new", 3, None)], "timeout_ms": 9, "validate_only": False},
    ),
}

ORDERS_ID = "Tm9wZSBub3RoaW5nIGhlcg"
PAYMENTS_ID = "c29tZXRoaW5nIGVsc2UgIQ"
TOPICS = (("orders", ORDERS_ID, (0, 7)), ("payments", PAYMENTS_ID, (2,)))
"""Name, id and partitions of the topics in every AlterPartition."""

EVERY_VERSION = [
    (key, version)
    for key, (lowest, highest) in codec.ADVERTISED.items()
    for version in range(lowest, highest + 1)
]


def frame_of(message: ApiMessage, correlation_id: int = 77, client_id: str | None = "1") -> bytes:
    """Return header and body, without the length."""
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True))


def request_frame(key: int, version: int) -> bytes:
    """Return a frame of each request and version that is served."""
    match key:
        case ApiKey.ControlledShutdown:
            message = messages.ControlledShutdownRequest(
                version=version, broker_id=4, broker_epoch=25769803801
            )
        case ApiKey.SaslHandshake:
            message = SaslHandshakeRequest(version=version, mechanism="SCRAM-SHA-512")
        case ApiKey.ApiVersions:
            message = ApiVersionsRequest(
                version=version,
                client_software_name="apache-kafka-java",
                client_software_version="3.9.1",
            )
        case ApiKey.SaslAuthenticate:
            message = SaslAuthenticateRequest(version=version, auth_bytes=b"\x00user\x00secret")
        case ApiKey.AlterPartition:
            message = messages.AlterPartitionRequest(
                version=version, broker_id=4, broker_epoch=25769803801, topics=_topics(version)
            )
        case ApiKey.AllocateProducerIds:
            message = messages.AllocateProducerIdsRequest(
                version=version, broker_id=4, broker_epoch=25769803801
            )
        case _:
            raise AssertionError(f"tests.endpoint.requests has no frame of API key {key}")
    return frame_of(message)


CLIENT_VERSIONS = [
    (key, version)
    for offered in (client_codec.REQUESTS, client_codec.ENTRY_REQUESTS, topic_codec.TOPIC_REQUESTS)
    for key, request in offered.items()
    for version in range(request.versions[0], request.versions[1] + 1)
    # Of some, the daemon looks at nothing but the header.
    if request.message is not None
]


def client_frame(key: int, version: int) -> bytes:
    """Return a frame of each request of a client that is decoded, and version."""
    message, fields = _CLIENT_MESSAGES[key]
    return frame_of(message(version=version, **fields))


def unclean_frame() -> bytes:
    """Return a frame of an election that may lose records."""
    fields = {**_CLIENT_MESSAGES[ApiKey.ElectLeaders][1], "election_type": 1}
    return frame_of(ElectLeadersRequest(version=2, **fields))


def _topics(version: int) -> list[tuple[Any, ...]]:
    return [
        (topic_uuid(topic_id) if version >= 2 else name, [_row(version, p) for p in partitions])
        for name, topic_id, partitions in TOPICS
    ]


def _row(version: int, partition: int) -> tuple[Any, ...]:
    isr = [(1, -1), (2, -1)] if version >= 3 else [1, 2]
    recovery = (1,) if version >= 1 else ()
    return (partition, 5 + partition, isr, *recovery, 41)
