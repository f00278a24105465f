"""
Frames between clients and brokers, as far as the daemon looks into them, without their lengths.

What reads an answer raises ProtocolError if it cannot be decoded.

A client gets the answers of brokers byte for byte, or another answer. Exception: the versions in an
ApiVersions are narrowed to what is understood here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateResponse

from controller.brokers.config_queries import TOPIC
from controller.brokers.frames import frame_of
from controller.core.calls.client_requests import EffectiveConfig
from controller.endpoint.client_codec import FIRST_WITH_ERROR, SERVED
from controller.endpoint.codec import ADVERTISED, RequestHeader
from controller.endpoint.strict_decoding import Cursor, Folds, reader_of
from controller.endpoint.topic_codec import CREATE, TOPICS_SERVED
from controller.errors import ProtocolError
from controller.kafka_errors import TOPIC_AUTHORIZATION_FAILED

_KEYS: Final = struct.Struct(">hhh")


# --- answers of brokers --------------------------------------------------------------------------


def first_error(header: RequestHeader, answer: bytes) -> int | None:
    """
    Return the error in the beginning of a broker's answer to a request of ``SERVED``; 0: none.

    None: it permits an election and names no partition. A broker that is not the controller refuses
    each partition that it knows, and one that just started knows none.

    That of the whole request, else that of its first partition: a broker that refuses a request, or
    is not the controller, says the same of all. Nothing else is decoded, however long it is.
    """
    cursor = Cursor(answer)
    is_election = header.api_key == ApiKey.ElectLeaders
    is_flexible = not is_election or header.version >= _FIRST_FLEXIBLE_ELECTION
    cursor.take(4 + int(is_flexible) + _THROTTLE_TIME)
    has_error = not is_election or header.version >= FIRST_WITH_ERROR
    error = int.from_bytes(cursor.take(2), signed=True) if has_error else 0
    if error or not is_election:
        return error

    def size(width: int) -> int:
        return cursor.unsigned_varint() - 1 if is_flexible else int.from_bytes(cursor.take(width))

    if size(4) <= 0:
        return None if has_error else 0
    cursor.text(size(2))
    if size(4) <= 0:
        return 0
    cursor.take(4)
    return int.from_bytes(cursor.take(2), signed=True)


_THROTTLE_TIME: Final = 4
_FIRST_FLEXIBLE_ELECTION: Final = 2


def _decode(message: Any, version: int, answer: bytes) -> Any:  # noqa: ANN401 - kafka-python has no types
    at = 4 + int(message.flexible_version_q(version))
    try:
        return message.decode(answer[at:], version=version)
    except Exception as error:  # kafka-python raises whatever the bytes cause
        raise ProtocolError(f"a broker's {message.__name__} v{version}: {error!r}") from error


def error_for_broker(header: RequestHeader, answer: bytes) -> int:
    """Return the error of a broker's answer to what brokers ask of their controller."""
    at = 4
    if header.api_key != ApiKey.ControlledShutdown:
        at += 1 + 4  # tagged fields of the header, throttle time
    elif header.version >= _FIRST_FLEXIBLE:
        at += 1
    return int.from_bytes(answer[at : at + 2], signed=True)


def is_refused(header: RequestHeader, answer: bytes) -> bool:
    """Return whether a broker's answer to SaslAuthenticate is an error."""
    at = 4 + int(header.version >= _FIRST_FLEXIBLE_AUTHENTICATE)
    return answer[at : at + 2] != b"\x00\x00"


def ends_exchange(header: RequestHeader, answer: bytes) -> bool:
    """
    Return whether an answer to SaslAuthenticate, not an error, is the last of the SASL exchange.

    It is empty then, or the signature of the server in SCRAM.
    """
    token: bytes = _decode(SaslAuthenticateResponse, header.version, answer).auth_bytes
    return not token or token.startswith(b"v=")


def narrowed_api_versions(answer: bytes, version: int) -> bytes:
    """
    Return a broker's answer to ApiVersions, with what the daemon answers itself within its limits.

    Only numbers are replaced: everything else, tagged fields too, stays as the broker wrote it.
    """
    cursor, changed = Cursor(answer), bytearray(answer)
    cursor.take(4)
    if int.from_bytes(cursor.take(2)):
        return answer  # A refusal has a body of version 0, with the versions of this key.
    is_flexible = version >= _FIRST_FLEXIBLE
    count = cursor.unsigned_varint() - 1 if is_flexible else int.from_bytes(cursor.take(4))
    for _ in range(cursor.count(count)):
        at = cursor.position
        key, lowest, highest = _KEYS.unpack(cursor.take(_KEYS.size))
        most = _HIGHEST.get(key, highest)
        _KEYS.pack_into(changed, at, key, lowest, min(highest, most))
        if is_flexible:
            cursor.skip_tagged_fields()
    return bytes(changed)


_FIRST_FLEXIBLE: Final = 3
"""Of ApiVersions, whose header never is, and of ControlledShutdown."""
_FIRST_FLEXIBLE_AUTHENTICATE: Final = 2
_HIGHEST: Final = {
    key: highest
    for served in (ADVERTISED, SERVED, TOPICS_SERVED)
    for key, (_, highest) in served.items()
    if key != ApiKey.ApiVersions
}


# --- what a client may do ------------------------------------------------------------------------


METADATA_VERSION: Final = 8
"""Brokers of 2.3 to 3.9 have it; versions 8 to 10 list what a client may do on the cluster."""
OWN_CORRELATION: Final = 0x72656C61
"""Of a request in the name of a client, which has no other in flight then."""


class SeenController(NamedTuple):
    """What a broker says of the controller and of the rights of a client."""

    controller: int
    """-1: there is none."""
    cluster: frozenset[int] | None
    """Each ``AclOperation`` that is permitted on the cluster; None: the broker does not say."""
    topics: Mapping[str, frozenset[int] | None]
    """The same for the named topics; one that the client may not see has none."""
    hidden: frozenset[str] = frozenset()
    """The named topics of which the broker says that the client may not see them."""

    @property
    def operations(self) -> frozenset[int]:
        """What is permitted on the cluster or on a named topic."""
        known = (found or frozenset() for found in (self.cluster, *self.topics.values()))
        return frozenset[int]().union(*known)

    def permits(self, topic: str, operation: int) -> bool | None:
        """
        Return whether an operation on a topic is permitted; None: the broker does not say.

        Who may create topics in the cluster may create each.
        """
        found = self.topics.get(topic)
        if operation == CREATE:
            if operation in (self.cluster or ()):
                return True
            if self.cluster is None and (found is None or operation not in found):
                return None
        return None if found is None else operation in found


def metadata_request(topics: Iterable[str] = ()) -> bytes:
    """Return the frame of a request for the controller and for rights."""
    return _own_frame(
        MetadataRequest(
            version=METADATA_VERSION,
            topics=[(name,) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
    )


def _own_frame(message: ApiMessage) -> bytes:
    frame = frame_of(message)
    frame.with_header(correlation_id=OWN_CORRELATION, client_id="reassigner")
    return frame.encode(framed=False)


def metadata_of(answer: bytes) -> SeenController:
    """Return what the answer to that request says."""
    cursor = Cursor(answer)
    cursor.take(4)
    body = reader_of(MetadataResponse, METADATA_VERSION, _PARTITIONS_LEFT_OUT)(cursor)
    return SeenController(
        body["controller_id"],
        # None: the broker does not say, as the client may not even see the topic or the cluster.
        body["authorized_operations"],
        {topic["name"]: topic["authorized_operations"] for topic in body["topics"]},
        frozenset(
            t["name"] for t in body["topics"] if t["error_code"] == TOPIC_AUTHORIZATION_FAILED
        ),
    )


_PARTITIONS_LEFT_OUT: Final[Folds] = (("partitions", lambda _: None),)

_SETTINGS_VERSION: Final = 1
"""Of DescribeConfigs: brokers of 1.1 to 3.9 have it."""


def topic_settings_request(topics: Iterable[str]) -> bytes:
    """Return the frame of a request for all settings of topics."""
    return _own_frame(
        DescribeConfigsRequest(
            version=_SETTINGS_VERSION,
            resources=[(TOPIC, name, None) for name in topics],
            include_synonyms=False,
        )
    )


def topic_settings_of(answer: bytes) -> dict[str, tuple[EffectiveConfig, ...] | int]:
    """Return the settings of each topic in the answer to that request, or its error."""
    body = _decode(DescribeConfigsResponse, _SETTINGS_VERSION, answer)
    return {
        row.resource_name: row.error_code
        or tuple(
            EffectiveConfig(c.name, c.value, c.read_only, c.config_source, c.is_sensitive)
            for c in row.configs
        )
        for row in body.results
    }
