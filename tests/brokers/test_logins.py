"""Logins of many connections to brokers that are sockets."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.brokers.config_queries import TopicConfigQuery
from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice, Security
from controller.core.cluster.model import LiveBroker
from controller.core.topics.model import NEVER_REQUESTED
from controller.credentials import ClientTls, Password
from integration.rigs.certificates import CertificateAuthority
from tests.brokers.builders import CONTROLLER
from tests.brokers.fakes import (
    KAFKA_2_6,
    WAIT_S,
    Answer,
    CollectingInbox,
    FakeBroker,
    Reaction,
    Received,
    succeed,
)

UNDERSTOOD = {**KAFKA_2_6, SaslHandshakeRequest.API_KEY: (0, 1), 36: (0, 1)}
REFUSED = 58
"""SASL_AUTHENTICATION_FAILED."""


class Directory:
    """The passwords behind all brokers; counts what is tried."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.tried: list[bytes] = []

    def script(self, received: Received) -> Reaction:
        """React as a broker with PLAIN."""
        if received.api_key == SaslHandshakeRequest.API_KEY:
            return Answer(
                SaslHandshakeResponse(version=received.version, error_code=0, mechanisms=["PLAIN"])
            )
        if received.api_key != SaslAuthenticateRequest.API_KEY:
            return succeed(received)
        token = bytes(received.message.auth_bytes)
        self.tried.append(token)
        is_right = token.endswith(b"\0" + self.password.encode())
        return Answer(
            SaslAuthenticateResponse(
                version=received.version,
                error_code=0 if is_right else REFUSED,
                error_message=None if is_right else "Authentication failed: wrong password",
                auth_bytes=b"",
                session_lifetime_ms=0,
            ),
            is_last=not is_right,  # KIP-306
        )


def registration(broker: FakeBroker, protocol: str) -> LiveBroker:
    """Return a registration whose listener requires a login."""
    plain = broker.registration()
    endpoints = tuple(e._replace(security_protocol=protocol) for e in plain.endpoints)
    return replace(plain, endpoints=endpoints)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_wrong_password_is_tried_once_and_the_right_one_at_once(
    protocol: str, tmp_path: Path
) -> None:
    """Four connections to three brokers, which retry several times a second."""
    authority = CertificateAuthority(tmp_path / "tls")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("broker").bundle)
    file = tmp_path / "password"
    file.write_text("wrong\n")
    directory = Directory("right")
    security = Security(
        protocol,
        tls=ClientTls(cafile=authority.file),
        sasl_mechanism="PLAIN",
        sasl_username="reassigner",
        sasl_password=Password("sasl_password", file=file),
    )
    connections = ConnectionSettings(security, ListenerChoice(protocol))
    inbox = CollectingInbox()
    with ExitStack() as stack:
        tls = server if protocol == "SASL_SSL" else None
        brokers = [
            stack.enter_context(FakeBroker(n, directory.script, UNDERSTOOD, tls)) for n in (1, 2, 3)
        ]
        registrations = [registration(broker, protocol) for broker in brokers]
        channels = BrokerChannels(inbox, ChannelOptions(CONTROLLER, connections))
        configs = TopicConfigQuery(inbox, connections)
        for each in (channels, configs):
            each.start()
            stack.callback(each.stop)
        configs.update_brokers(registrations)
        configs.describe(["orders"], NEVER_REQUESTED)
        for registered in registrations:
            channels.open(registered)
        until(lambda: len(directory.tried) > 0)
        time.sleep(1.0)
        assert directory.tried == [b"reassigner\0reassigner\0wrong"]
        reasons = {str(state.last_error) for state in channels.describe().values()}
        assert all("Authentication failed: wrong password" in reason for reason in reasons)
        file.write_text("right\n")
        until(lambda: all(state.connected for state in channels.describe().values()))
    assert directory.tried.count(b"reassigner\0reassigner\0wrong") == 1


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
