"""Broker registrations of every format."""

from __future__ import annotations

import pytest
from hypothesis import given

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerId
from controller.znodes.brokers_and_controller import decode_broker
from tests.znodes.strategies import ANY_BYTES, document

ID = BrokerId(4)


def test_format_1_has_one_plaintext_address() -> None:
    """Brokers of Kafka 0.8."""
    read = decode_broker(ID, document(version=1, host="h", port=9092, jmx_port=-1), 77)
    assert read == LiveBroker(ID, read.epoch, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),))  # type: ignore[union-attr]
    assert isinstance(read, LiveBroker)
    assert read.epoch == 77


def test_without_a_map_a_listener_is_named_after_its_protocol() -> None:
    """Formats 2 and 3."""
    data = document(version=3, endpoints=["SSL://h:9093"], host=None, port=-1, rack="r1")
    read = decode_broker(ID, data, 1)
    assert isinstance(read, LiveBroker)
    assert read.endpoints == (Endpoint("SSL", "h", 9093, "SSL"),)
    assert read.rack == "r1"


def test_format_4_maps_listeners_to_protocols() -> None:
    """What brokers from 0.10.0 to protocol 2.6 register; IPv6 addresses stand in brackets."""
    data = document(
        version=4,
        endpoints=["IN://[::1]:9092", "OUT://example.org:9093"],
        listener_security_protocol_map={"IN": "PLAINTEXT", "OUT": "SASL_SSL"},
        timestamp="1",
    )
    read = decode_broker(ID, data, 1)
    assert isinstance(read, LiveBroker)
    assert read.endpoints == (
        Endpoint("IN", "::1", 9092, "PLAINTEXT"),
        Endpoint("OUT", "example.org", 9093, "SASL_SSL"),
    )
    assert not read.has_features


def test_format_5_shows_protocol_2_7() -> None:
    """Even with an empty map of features."""
    data = document(
        version=5,
        endpoints=["A://h:1"],
        listener_security_protocol_map={"A": "PLAINTEXT"},
        features={},
    )
    read = decode_broker(ID, data, 1)
    assert isinstance(read, LiveBroker)
    assert read.has_features


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (document(version=6), "version 6"),
        (document(), "version null"),
        (document(version=True), "version true"),
        (document(version=1, host="", port=1), "host"),
        (document(version=1, host="h", port=0), "0 is not a port"),
        (document(version=4, endpoints=[]), "endpoints"),
        (document(version=4, endpoints=["h:1"]), "h:1"),
        (document(version=4, endpoints=["A://h:99999"]), "99999"),
        (
            document(version=4, endpoints=["A://h:1"], listener_security_protocol_map={}),
            "no security protocol",
        ),
        (document(version=3, endpoints=["A://h:1"], rack=5), "rack"),
    ],
)
def test_a_refusal_names_what_is_wrong(data: bytes, why: str) -> None:
    """An operator can act on the reason."""
    read = decode_broker(ID, data, 1)
    assert isinstance(read, str)
    assert why in read


@given(ANY_BYTES)
def test_any_bytes_give_a_broker_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_broker(ID, data, 1), str | LiveBroker)
