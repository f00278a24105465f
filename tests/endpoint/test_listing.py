"""Tests of ``controller.endpoint.listing``: under which listeners peers find the daemon."""

from __future__ import annotations

import pytest

from controller.brokers.broker_follower import BrokerFollower
from controller.endpoint.listing import build_endpoint
from controller.endpoint.relay import Relay
from controller.errors import InvalidInputError
from controller.setting_sources import load_settings
from controller.settings import Settings
from tests.endpoint.serving import Counts, Loop


def settings_of(**options: str) -> Settings:
    """Return settings with an endpoint."""
    given = {"zookeeper": "zk:2181", "endpoint_listen": "127.0.0.1:0", **options}
    return load_settings(given, {})


@pytest.mark.parametrize(
    ("options", "listeners"),
    [
        ({}, ["PLAINTEXT"]),
        ({"inter_broker_listener": "INTERNAL"}, ["INTERNAL"]),
        ({"inter_broker_listener": "INTERNAL", "endpoint_listener": "CTL"}, ["CTL"]),
        ({"endpoint_listener": "INTERNAL, CLIENTS"}, ["INTERNAL", "CLIENTS"]),
    ],
)
def test_public_endpoint_is_listed_under_its_listeners(
    options: dict[str, str], listeners: list[str]
) -> None:
    """At one address; clients are relayed to the last of them."""
    settings, inbox = settings_of(controller_endpoint="public", **options), Loop(lambda _: None)
    made = build_endpoint(settings, inbox, Counts(), BrokerFollower(inbox))
    assert made is not None
    assert [e.listener for e in made.entry.endpoints] == listeners
    assert {(e.host, e.port) for e in made.entry.endpoints} == {tuple(made.server.address)}
    relay = getattr(made.followers[0], "__self__", None)
    assert isinstance(relay, Relay)
    assert relay.listener == listeners[-1]
    made.server.stop()


def test_private_endpoint_relays_nothing() -> None:
    """Only brokers know it."""
    inbox = Loop(lambda _: None)
    made = build_endpoint(
        settings_of(controller_endpoint="private"), inbox, Counts(), BrokerFollower(inbox)
    )
    assert made is not None
    assert not made.followers
    made.server.stop()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"controller_endpoint": "private", "endpoint_listener": "A,B"}, "one listener"),
        ({"controller_endpoint": "public", "endpoint_listener": "A,B,C"}, "two listeners"),
        ({"controller_endpoint": "public", "endpoint_listener": "A,"}, "two listeners"),
        ({"controller_endpoint": "public", "security_protocol": "SSL"}, "endpoint_certfile"),
    ],
)
def test_what_cannot_be_served_is_refused(options: dict[str, str], named: str) -> None:
    """By the settings, before anything is bound."""
    with pytest.raises(InvalidInputError, match=named):
        settings_of(**options)
