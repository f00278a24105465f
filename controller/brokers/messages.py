"""
Messages between brokers and their controller, loaded from the schema files of this room.

kafka-python encodes and decodes them; importing this module registers the responses with it. What
brokers send is read by ``endpoint.strict_decoding``, by the same definitions.

Kafka's controller does not negotiate the versions of its requests: its inter-broker protocol
determines them. Here, the lower of that version and the broker's highest is used. Below protocol
2.6 the versions of 2.6 are sent to brokers that understand them, whatever they are configured with:
they fence a StopReplica by its leader epoch. Invariant: ``controller_requests`` can build the
chosen version, and the broker serves it.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
from functools import lru_cache
from types import new_class
from typing import Any, Final, NamedTuple

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller.core.cluster.model import BEFORE_FEATURES, parse_protocol
from controller.errors import NativeRefusedError

_NO_ID: Final = bytes(16)


def _pair(name: str) -> tuple[Any, Any]:
    """Return the classes of a request and its response."""
    schemas = {"load_json": "controller.brokers.schemas"}
    request, response = (
        new_class(f"{name}{kind}", (ApiMessage,), schemas) for kind in ("Request", "Response")
    )
    return request, response


LeaderAndIsrRequest, LeaderAndIsrResponse = _pair("LeaderAndIsr")
StopReplicaRequest, StopReplicaResponse = _pair("StopReplica")
UpdateMetadataRequest, UpdateMetadataResponse = _pair("UpdateMetadata")
ControlledShutdownRequest, ControlledShutdownResponse = _pair("ControlledShutdown")
AlterPartitionRequest, AlterPartitionResponse = _pair("AlterPartition")
"""Called AlterIsr before Kafka 3.2."""
AllocateProducerIdsRequest, AllocateProducerIdsResponse = _pair("AllocateProducerIds")


def topic_uuid(topic_id: str | None) -> uuid.UUID | None:
    """
    Return the id of a topic as a request carries it, from its form in the topic znode.

    That is base64url without padding (org.apache.kafka.common.Uuid). None is sent as zero
    ("unknown"), also if the text is not an id.
    """
    if topic_id is None:
        return None
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    except (ValueError, binascii.Error):
        return None


def topic_id_of(found: uuid.UUID) -> str | None:
    """Return the id of a topic as in its znode; None for zero, which means that there is none."""
    if found.bytes == _NO_ID:
        return None
    return base64.urlsafe_b64encode(found.bytes).decode().rstrip("=")


# --- versions of the controller's requests --------------------------------------------------------


class Versions(NamedTuple):
    """One version for each of the controller's requests."""

    leader_and_isr: int
    stop_replica: int
    update_metadata: int


_KEYS: Final = (ApiKey.LeaderAndIsr, ApiKey.StopReplica, ApiKey.UpdateMetadata)

BY_PROTOCOL: Final[tuple[tuple[str, Versions], ...]] = (
    ("1.0-IV0", Versions(1, 0, 4)),
    ("2.2-IV0", Versions(2, 1, 5)),
    ("2.4-IV0", Versions(3, 1, 5)),
    ("2.4-IV1", Versions(4, 2, 6)),
    ("2.6-IV0", Versions(4, 3, 6)),
    ("2.8-IV1", Versions(5, 3, 7)),
    ("3.2-IV0", Versions(6, 3, 7)),
    ("3.4-IV0", Versions(7, 4, 8)),
)
"""The versions that Kafka's controller sends as of a protocol version
(AbstractControllerBrokerRequestBatch); the first are the oldest that ``controller_requests``
builds."""


def versions_of(protocol: str) -> Versions:
    """
    Return the versions that Kafka's controller sends with this inter-broker protocol.

    Raises:
        InvalidInputError: the text is not a protocol version.
        NativeRefusedError: the protocol is older than the oldest supported.
    """
    wanted = parse_protocol(protocol)
    fitting = [versions for since, versions in BY_PROTOCOL if parse_protocol(since) <= wanted]
    if not fitting:
        raise NativeRefusedError(
            f"inter-broker protocol {protocol} is older than {BY_PROTOCOL[0][0]},"
            " the oldest supported"
        )
    return fitting[-1]


WITHOUT_IDS: Final = versions_of(BEFORE_FEATURES)
"""The highest versions for topics without an id: none of later ones is needed for them."""


@lru_cache(maxsize=64)
def sent_versions(protocol: str) -> Versions:
    """Return the highest versions that are sent where the inter-broker protocol is this one."""
    return versions_of(max(protocol, BEFORE_FEATURES, key=parse_protocol))


def common_versions(understood: Mapping[int, tuple[int, int]], cap: Versions) -> Versions:
    """
    Choose the versions for a broker that understands these, up to the cap (``sent_versions``).

    Raises:
        NativeRefusedError: one of the requests has no version that both sides serve.
    """
    chosen = []
    for key, lowest, highest in zip(_KEYS, BY_PROTOCOL[0][1], cap, strict=True):
        if key not in understood:
            raise NativeRefusedError(
                f"the broker does not serve {key.name}: it is not part of a ZooKeeper-mode cluster"
            )
        its_lowest, its_highest = understood[key]
        version = min(highest, its_highest)
        if version < max(lowest, its_lowest):
            raise NativeRefusedError(
                f"no common version of {key.name}: the broker understands {its_lowest} to"
                f" {its_highest}, this program {lowest} to {highest}"
            )
        chosen.append(version)
    return Versions(*chosen)
