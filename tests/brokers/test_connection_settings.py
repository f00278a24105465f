"""The choice of a listener, and what settings show of themselves."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from controller.brokers.connection_settings import ListenerChoice, Security
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.credentials import ClientTls, Password
from controller.errors import BrokerUnreachableError

BROKER = LiveBroker(
    BrokerId(3),
    BrokerEpoch(1),
    (
        Endpoint("CLIENTS", "h", 9094, "SASL_SSL"),
        Endpoint("REPLICATION", "h", 9092, "PLAINTEXT"),
        Endpoint("CONTROL", "h", 9091, "PLAINTEXT"),
        Endpoint("ODD", "h", 9090, "SEMAPHORE"),
    ),
)


@pytest.mark.parametrize(
    ("choice", "listener"),
    [
        (ListenerChoice(), "REPLICATION"),
        (ListenerChoice("SASL_SSL"), "CLIENTS"),
        (ListenerChoice(inter_broker_listener="CLIENTS"), "CLIENTS"),
        (ListenerChoice("SASL_SSL", "CONTROL", "REPLICATION"), "CONTROL"),
    ],
)
def test_listener_is_chosen_as_kafkas_controller_does(
    choice: ListenerChoice, listener: str
) -> None:
    """Control plane, else inter-broker, else the first of the security protocol."""
    assert choice.required_of(BROKER).listener == listener


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (ListenerChoice("SSL"), "broker 3 has no SSL listener"),
        (ListenerChoice(control_plane_listener="X"), "broker 3 has no listener named X"),
        (ListenerChoice(inter_broker_listener="ODD"), "unknown security protocol 'SEMAPHORE'"),
    ],
)
def test_broker_without_a_usable_listener_is_unreachable(
    choice: ListenerChoice, reason: str
) -> None:
    """The reason says what was looked for."""
    with pytest.raises(BrokerUnreachableError, match=reason):
        choice.required_of(BROKER)


def test_secrets_do_not_show() -> None:
    """Settings can be logged."""
    password, key = (Password("ssl_password", SecretStr(f"hunter{n}")) for n in (2, 3))
    shown = repr(Security(sasl_password=password, tls=ClientTls(password=key)))
    assert "ssl_password" in shown
    assert "hunter" not in shown
