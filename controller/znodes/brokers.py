"""
Broker registrations, formats 1 to 5 (``kafka.zk.BrokerIdZNode``).

Only what a controller needs is decoded: endpoints, rack, and whether there are features, which only
inter-broker protocol 2.7 or later registers. Nothing is encoded.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.znodes import json_documents as documents

_FORMATS: Final = (1, 2, 3, 4, 5)
_FIRST_WITH_FEATURES: Final = 5
_PORT_MAX: Final = 65535
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9._-]+)://\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]{1,5})")
"""As ``kafka.cluster.EndPoint`` reads it, but an advertised host is never empty."""


def decode_broker(broker_id: BrokerId, data: bytes, czxid: BrokerEpoch | int) -> LiveBroker | str:
    """
    Decode ``/brokers/ids/N``.

    Args:
        broker_id: The N of the path.
        data: The content.
        czxid: Its creation: the broker epoch (KIP-380).

    """
    document = documents.read_versioned(data, _FORMATS)
    if isinstance(document, str):
        return document
    rack = document.get("rack")
    if rack is not None and not documents.is_text(rack):
        return f"rack is not a text but {documents.excerpt(rack)}"
    endpoints = _first_format(document) if document["version"] == 1 else _endpoints(document)
    if isinstance(endpoints, str):
        return endpoints
    has_features = document["version"] == _FIRST_WITH_FEATURES or "features" in document
    return LiveBroker(broker_id, BrokerEpoch(czxid), endpoints, rack, has_features)


def _first_format(document: documents.Document) -> tuple[Endpoint, ...] | str:
    """Read the only endpoint of format 1."""
    host, port = document.get("host"), document.get("port")
    if not documents.is_text(host) or not host:
        return f"host is not a name but {documents.excerpt(host)}"
    if not documents.is_int(port, 1, _PORT_MAX):
        return f"{documents.excerpt(port)} is not a port"
    return (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)


def _endpoints(document: documents.Document) -> tuple[Endpoint, ...] | str:
    listed = document.get("endpoints")
    if not documents.is_list(listed) or not listed:
        return f"endpoints is not a list of addresses but {documents.excerpt(listed)}"
    protocols = document.get("listener_security_protocol_map")
    if protocols is not None and not documents.is_object(protocols):
        return f"listener_security_protocol_map is not an object but {documents.excerpt(protocols)}"
    endpoints: list[Endpoint] = []
    for text in listed:
        found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
        if found is None or not 1 <= int(found[3]) <= _PORT_MAX:
            return f"{documents.excerpt(text)} is not an endpoint"
        listener = found[1]
        # Before the map existed (formats 2 and 3) a listener was named after its protocol.
        protocol = listener if protocols is None else protocols.get(listener)
        if not documents.is_text(protocol):
            return f"listener {listener} has no security protocol"
        endpoints.append(Endpoint(listener, found[2], int(found[3]), protocol))
    return tuple(endpoints)
