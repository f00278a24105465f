"""
Brokers, the controller and the guards of a claim, and the leader of the daemons.

``/controller`` and ``/controller_epoch`` (``kafka.zk.ControllerZNode``): the epoch is plain ASCII
digits, not JSON. Format 1 is written, which every Kafka version reads. ``/feature`` is enabled from
inter-broker protocol 2.7 on (``FeatureZNode``); ``/migration`` names a KRaft controller while one
takes over (``MigrationZNode``). What is unreadable forbids a claim too.

Each candidacy below ``/reassigner/leader`` holds the address of a daemon; the election orders them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId, ControllerEpoch
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt, total

# --- brokers -------------------------------------------------------------------------------------

_FORMATS: Final = (1, 2, 3, 4, 5)
_FIRST_WITH_FEATURES: Final = 5
_PORT_MAX: Final = 65535
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9._-]+)://\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]{1,5})")
"""As ``kafka.cluster.EndPoint`` reads it, but an advertised host is never empty."""


@total
def decode_broker(broker_id: BrokerId, data: bytes, czxid: BrokerEpoch | int) -> LiveBroker:
    """
    Decode ``/brokers/ids/N``, formats 1 to 5 (``kafka.zk.BrokerIdZNode``).

    Only what a controller needs is decoded: endpoints, rack, and whether there are features, which
    only inter-broker protocol 2.7 or later registers. The czxid is the broker epoch (KIP-380).
    """
    document = documents.read_versioned(data, _FORMATS)
    rack = document.get("rack")
    if rack is not None and not documents.is_text(rack):
        raise UnreadableError(f"rack is not a text but {excerpt(rack)}")
    endpoints = _first_format(document) if document["version"] == 1 else _endpoints(document)
    has_features = document["version"] == _FIRST_WITH_FEATURES or "features" in document
    return LiveBroker(broker_id, BrokerEpoch(czxid), endpoints, rack, has_features)


def _first_format(document: documents.Document) -> tuple[Endpoint, ...]:
    """Read the only endpoint of format 1."""
    host, port = document.get("host"), document.get("port")
    if not documents.is_text(host) or not host:
        raise UnreadableError(f"host is not a name but {excerpt(host)}")
    if not documents.is_int(port, 1, _PORT_MAX):
        raise UnreadableError(f"{excerpt(port)} is not a port")
    return (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)


def _endpoints(document: documents.Document) -> tuple[Endpoint, ...]:
    listed = document.get("endpoints")
    if not documents.is_list(listed) or not listed:
        raise UnreadableError(f"endpoints is not a list of addresses but {excerpt(listed)}")
    protocols = document.get("listener_security_protocol_map")
    if protocols is not None:
        protocols = documents.read_object(document, "listener_security_protocol_map")
    endpoints: list[Endpoint] = []
    for text in listed:
        found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
        if found is None or not 1 <= int(found[3]) <= _PORT_MAX:
            raise UnreadableError(f"{excerpt(text)} is not an endpoint")
        listener = found[1]
        # Before the map existed (formats 2 and 3) a listener was named after its protocol.
        protocol = listener if protocols is None else protocols.get(listener)
        if not documents.is_text(protocol):
            raise UnreadableError(f"listener {listener} has no security protocol")
        endpoints.append(Endpoint(listener, found[2], int(found[3]), protocol))
    return tuple(endpoints)


# --- the controller ------------------------------------------------------------------------------

NOT_KRAFT: Final = -1
"""``kraftControllerEpoch`` of a controller that is a ZooKeeper-mode broker."""

_EPOCH: Final = re.compile(rb"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """The content of ``/controller``."""

    broker_id: BrokerId
    kraft_controller_epoch: int = NOT_KRAFT


@total
def decode_controller(data: bytes) -> ControllerNode:
    """Decode ``/controller``, format 1 or 2."""
    document = documents.read_document(data)
    broker_id = documents.read_int(document, "brokerid", "a broker id")
    kraft_epoch = documents.read_int(
        document, "kraftControllerEpoch", "an epoch", low=NOT_KRAFT, absent=NOT_KRAFT
    )
    return ControllerNode(BrokerId(broker_id), kraft_epoch)


def encode_controller(controller_id: BrokerId | int, timestamp_ms: int) -> bytes:
    """Encode the daemon's ``/controller``; ``timestamp_ms`` is milliseconds since 1970."""
    return documents.write_document(
        {"version": 1, "brokerid": controller_id, "timestamp": str(timestamp_ms)}
    )


def decode_controller_epoch(data: bytes) -> ControllerEpoch | str:
    """Decode ``/controller_epoch``; an epoch that could not be incremented is refused."""
    if _EPOCH.fullmatch(data) is None or int(data) >= documents.INT_MAX:
        return f"{excerpt(data[:40].decode('ascii', 'replace'))} is not a controller epoch"
    return ControllerEpoch(int(data))


@total
def decode_feature(data: bytes) -> bool:
    """Decode whether the feature versioning system is enabled."""
    status = documents.read_document(data).get("status")
    if not documents.is_int(status, 0, 1):
        raise UnreadableError(f"status {excerpt(status)} is not known")
    return status == 1


_NO_CONTROLLER: Final = -1


def decode_migration(data: bytes) -> str | None:
    """Return why ``/migration`` forbids a claim, None when it does not."""
    try:
        document = documents.read_document(data)
    except UnreadableError as error:
        return f"cannot be decoded: {error}"
    controller = document.get("kraft_controller_id", _NO_CONTROLLER)
    if not documents.is_int(controller, low=_NO_CONTROLLER):
        return f"cannot be decoded: kraft_controller_id is {excerpt(controller)}"
    if controller == _NO_CONTROLLER:
        return None
    return f"KRaft controller {controller} is in charge of a migration"


def decode_cluster_id(data: bytes) -> str | None:
    """Decode ``/cluster/id``; None where it is unreadable."""
    try:
        return str(documents.read_document(data).get("id"))
    except UnreadableError:
        return None


# --- daemons -------------------------------------------------------------------------------------


def decode_leader(data: bytes) -> str | None:
    """Decode the ``host:port`` of a candidate's HTTP server."""
    try:
        http = documents.read_versioned(data).get("http")
    except UnreadableError:
        return None
    return http if documents.is_text(http) and http else None


def encode_leader(http: str) -> bytes:
    """Encode the ``host:port`` of the daemon's HTTP server."""
    return documents.write_document({"version": 1, "http": http})
