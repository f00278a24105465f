"""
Endpoints of brokers: the choice of a listener, and the security settings for it.

Pure; ``connections`` connects. The security protocol of a connection is always that of the chosen
listener in the broker's registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from controller.brokers.login_attempts import LoginAttempts
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.credentials import ClientTls, Password, key_table_state
from controller.errors import BrokerUnreachableError, InvalidInputError
from controller.settings import SaslMechanism, Settings

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}
"""Ids of org.apache.kafka.common.security.auth.SecurityProtocol."""


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings; a ``repr`` contains no secret."""

    security_protocol: str = "PLAINTEXT"
    tls: ClientTls = field(default_factory=ClientTls)
    sasl_mechanism: str | None = None
    sasl_service: str = "kafka"
    """Service part of the brokers' Kerberos principal."""
    sasl_username: str | None = None
    sasl_password: Password | None = None
    logins: LoginAttempts = field(default_factory=LoginAttempts, compare=False, repr=False)
    """Shared by all connections."""

    def password(self) -> str | None:
        """
        Return the present password, None for mechanisms without one.

        Raises:
            InvalidInputError: its file cannot be used.

        """
        return None if self.sasl_password is None else self.sasl_password.reveal()

    def credential(self, password: str | None) -> str | None:
        """Return what a refusal of a login is about: the password, or the present key table."""
        return key_table_state() if self.sasl_mechanism == SaslMechanism.GSSAPI else password

    def sasl_settings(self) -> dict[str, Any]:
        """
        Return the settings of a SASL exchange under kafka-python's names.

        Raises:
            InvalidInputError: the file of the password cannot be used.

        """
        return {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_kerberos_service_name": self.sasl_service,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.password(),
        }


@dataclass(frozen=True, slots=True)
class ListenerChoice:
    """
    The choice of a broker's listener, as in Kafka's controller.

    The control plane listener (KIP-291) if it is named, else the inter-broker listener if it is
    named, else the first endpoint with the wanted security protocol.
    """

    security_protocol: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    inter_broker_listener: str | None = None

    def endpoint_of(self, broker: LiveBroker) -> Endpoint | None:
        """Return the broker's matching endpoint, None if it has none."""
        wanted = self.control_plane_listener or self.inter_broker_listener
        for endpoint in broker.endpoints:
            if wanted is None and endpoint.security_protocol == self.security_protocol:
                return endpoint
            if wanted is not None and endpoint.listener == wanted:
                return endpoint
        return None

    def required_of(self, broker: LiveBroker) -> Endpoint:
        """
        Return the broker's matching endpoint.

        Raises:
            BrokerUnreachableError: it has none, or one with an unknown security protocol.
        """
        endpoint = self.endpoint_of(broker)
        if endpoint is None:
            wanted = self.control_plane_listener or self.inter_broker_listener
            what = f"listener named {wanted}" if wanted else f"{self.security_protocol} listener"
            raise BrokerUnreachableError(f"broker {broker.id} has no {what}")
        if endpoint.security_protocol not in SECURITY_PROTOCOL_IDS:
            raise BrokerUnreachableError(
                f"broker {broker.id}, listener {endpoint.listener}:"
                f" unknown security protocol {endpoint.security_protocol!r}"
            )
        return endpoint


def security_of(settings: Settings) -> Security:
    """
    Return the security settings for connections to brokers.

    Raises:
        InvalidInputError: a file cannot be used, or a library is not installed.

    """
    if settings.sasl_mechanism is SaslMechanism.GSSAPI and find_spec("gssapi") is None:
        raise InvalidInputError("sasl_mechanism GSSAPI needs the Python package gssapi")
    tls = ClientTls(
        prefix="ssl",
        cafile=settings.ssl_cafile,
        certfile=settings.ssl_certfile,
        keyfile=settings.ssl_keyfile,
        password=settings.password("ssl_password"),
        check_hostname=settings.ssl_check_hostname,
    )
    security = Security(
        security_protocol=settings.security_protocol.value,
        tls=tls,
        sasl_mechanism=None if settings.sasl_mechanism is None else settings.sasl_mechanism.value,
        sasl_service=settings.sasl_service,
        sasl_username=settings.sasl_username,
        sasl_password=settings.password("sasl_password"),
    )
    security.password()
    if security.security_protocol.endswith("SSL"):
        tls.context()
    return security


def listeners_of(settings: Settings) -> ListenerChoice:
    """Return the choice of the listener of each broker."""
    return ListenerChoice(
        security_protocol=settings.security_protocol.value,
        control_plane_listener=settings.control_plane_listener,
        inter_broker_listener=settings.inter_broker_listener,
    )
