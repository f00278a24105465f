"""
Endpoints of brokers: the choice of a listener, and the security settings for it.

Pure; ``connections`` connects. The security protocol of a connection is always that of the chosen
listener in the broker's registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from controller.core.model import Endpoint, LiveBroker
from controller.errors import BrokerUnreachableError
from controller.settings import Settings

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}
"""Ids of org.apache.kafka.common.security.auth.SecurityProtocol."""


class TokenProvider(Protocol):
    """A source of OAuth bearer tokens."""

    def token(self) -> str:
        """Return a token that is valid now."""
        ...


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings, named as in kafka-python; a ``repr`` contains no secret."""

    security_protocol: str = "PLAINTEXT"
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_crlfile: str | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = field(default=None, repr=False)
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: TokenProvider | None = field(default=None, repr=False)

    def tls_settings(self) -> dict[str, Any]:
        """Return the settings of a TLS transport."""
        return {
            "ssl_cafile": self.ssl_cafile,
            "ssl_certfile": self.ssl_certfile,
            "ssl_keyfile": self.ssl_keyfile,
            "ssl_password": self.ssl_password,
            "ssl_crlfile": self.ssl_crlfile,
            "ssl_check_hostname": self.ssl_check_hostname,
        }

    def sasl_settings(self) -> dict[str, Any]:
        """Return the settings of a SASL exchange."""
        return {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_plain_username,
            "sasl_plain_password": self.sasl_plain_password,
            "sasl_kerberos_service_name": self.sasl_kerberos_service_name,
            "sasl_kerberos_domain_name": self.sasl_kerberos_domain_name,
            "sasl_oauth_token_provider": self.sasl_oauth_token_provider,
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
    """Return the security settings for connections to brokers."""
    return Security(
        security_protocol=settings.security_protocol.value,
        ssl_cafile=None if settings.ssl_cafile is None else str(settings.ssl_cafile),
        ssl_certfile=None if settings.ssl_certfile is None else str(settings.ssl_certfile),
        ssl_keyfile=None if settings.ssl_keyfile is None else str(settings.ssl_keyfile),
        ssl_password=_secret(settings.ssl_password),
        ssl_check_hostname=settings.ssl_check_hostname,
        sasl_mechanism=None if settings.sasl_mechanism is None else settings.sasl_mechanism.value,
        sasl_plain_username=settings.sasl_username,
        sasl_plain_password=_secret(settings.sasl_password),
    )


def _secret(value: object) -> str | None:
    reveal = getattr(value, "get_secret_value", None)
    return None if reveal is None else str(reveal())


def listeners_of(settings: Settings) -> ListenerChoice:
    """Return the choice of the listener of each broker."""
    return ListenerChoice(
        security_protocol=settings.security_protocol.value,
        control_plane_listener=settings.control_plane_listener,
        inter_broker_listener=settings.inter_broker_listener,
    )
