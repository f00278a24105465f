"""Build the endpoint from the settings, and its entry in the brokers' metadata."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from controller.brokers import endpoints as broker_endpoints
from controller.brokers.broker_queries import BrokerDependent, ConnectionSettings
from controller.brokers.topic_configs import LIMITS
from controller.brokers.topic_validation import TopicValidation
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.credentials import ClientTls, ServerTls
from controller.endpoint.authentication import Authentication, Sasl
from controller.endpoint.broker_service import BrokerService, RequestObserver
from controller.endpoint.client_service import ClientService
from controller.endpoint.peers import EndpointLimits, FrameMemory
from controller.endpoint.relay import Relay
from controller.endpoint.server import EndpointServer, ServerObserver
from controller.endpoint.tickets import Tickets
from controller.endpoint.topic_deletion import ListedTopics
from controller.endpoint.topic_service import TopicService
from controller.endpoint.user_file import UserFile
from controller.reactor.ports import Inbox
from controller.setting_values import HttpAddress, advertised_address
from controller.settings import EndpointMode, Settings

NO_EPOCH: Final = BrokerEpoch(-1)
"""The daemon is not registered as a broker."""


class EndpointObserver(RequestObserver, ServerObserver, Protocol):
    """Counts what happens at the endpoint."""


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """A server that listens, and what the others need of it."""

    server: EndpointServer
    tickets: Tickets
    """What the loop answers requests with."""
    entry: LiveBroker
    """The daemon as brokers know it."""
    followers: tuple[BrokerDependent, ...] = ()
    """Need to know the brokers; empty: clients are not served."""

    def start(self) -> None:
        """Accept connections from now on."""
        self.server.start()
        listed = self.entry.endpoints[0]
        structlog.stdlib.get_logger("controller.endpoint").info(
            "endpoint_listening",
            address=str(self.server.address),
            advertised=f"{listed.host}:{listed.port}",
            listener=listed.listener,
            security_protocol=listed.security_protocol,
        )


def build_endpoint(
    settings: Settings,
    inbox: Inbox,
    observer: EndpointObserver,
    listed: ListedTopics,
) -> ListedEndpoint | None:
    """
    Bind the endpoint that the settings ask for; None if it is off.

    Args:
        settings: What the operator configured.
        inbox: The loop's inbox.
        observer: Counts what peers do.
        listed: The topics that exist.

    Raises:
        InvalidInputError: its address is in use or does not belong to this machine, or its
            certificate or the file of its users is invalid.

    """
    listen = settings.endpoint_listen
    if settings.controller_endpoint is EndpointMode.OFF or listen is None:
        return None
    tickets = Tickets(inbox)
    brokers = BrokerService(tickets, observer)
    tls = _server_tls(settings)
    if settings.controller_endpoint is EndpointMode.PRIVATE:
        authentication = Authentication(tls, _sasl(settings), principals_of(settings))
        server = EndpointServer(listen, [brokers], observer, authentication=authentication)
        tickets.post = server.post
        return ListedEndpoint(server, tickets, entry_of(settings, server.address))
    limits = EndpointLimits()
    memory = FrameMemory(limits.frames_bytes, limits.address_bytes)
    relay = Relay(listeners_of(settings)[-1], memory, tls=_tls_of(settings))
    connections = ConnectionSettings(
        broker_endpoints.security_of(settings), broker_endpoints.listeners_of(settings), LIMITS
    )
    validation = TopicValidation(connections, lambda: listed.topics)
    is_sasl = settings.security_protocol.value.startswith("SASL")
    clients = ClientService(
        BrokerId(settings.controller_id),
        relay,
        tickets,
        brokers,
        TopicService(tickets, validation, listed),
        observer,
        is_sasl=is_sasl,
    )
    # SASL is relayed to a broker, which authenticates and authorises.
    authentication = Authentication(tls, is_relayed=is_sasl)
    server = EndpointServer(listen, [], observer, limits, clients, authentication)
    tickets.post = server.post
    entry = entry_of(settings, server.address)
    return ListedEndpoint(server, tickets, entry, (relay, validation))


def _server_tls(settings: Settings) -> ServerTls | None:
    certfile, keyfile = settings.endpoint_certfile, settings.endpoint_keyfile
    is_tls = settings.security_protocol.value.endswith("SSL")
    if not is_tls or certfile is None or keyfile is None:
        return None
    password = settings.endpoint_password
    return ServerTls(
        "endpoint",
        certfile,
        keyfile,
        lambda why: _warn("endpoint_certificate_invalid", why),
        password=None if password is None else password.get_secret_value(),
        cafile=settings.endpoint_cafile,
    )


def _sasl(settings: Settings) -> Sasl | None:
    is_sasl = settings.security_protocol.value.startswith("SASL")
    if not is_sasl or settings.endpoint_users is None:
        return None
    users = UserFile(settings.endpoint_users, lambda why: _warn("endpoint_users_invalid", why))
    return Sasl(tuple(settings.endpoint_sasl_mechanisms.split(",")), users)


def principals_of(settings: Settings) -> frozenset[str] | None:
    """Return the principals that may act as brokers; None: all who authenticate."""
    if settings.endpoint_principals is None:
        return None
    return frozenset(name.strip() for name in settings.endpoint_principals.split(";"))


def _warn(event: str, why: str) -> None:
    structlog.stdlib.get_logger("controller.endpoint").warning(event, error=why)


def _tls_of(settings: Settings) -> Callable[[], ssl.SSLContext] | None:
    """Return how to verify brokers; the daemon's own certificate is not shown for a client."""
    if not settings.security_protocol.value.endswith("SSL"):
        return None
    return ClientTls(cafile=settings.ssl_cafile, check_hostname=settings.ssl_check_hostname).context


def configured_entry(settings: Settings) -> LiveBroker | None:
    """Return the daemon's entry among the live brokers; None: the endpoint is off."""
    listen = settings.endpoint_listen
    if settings.controller_endpoint is EndpointMode.OFF or listen is None:
        return None
    return entry_of(settings, listen)


def entry_of(settings: Settings, bound: HttpAddress) -> LiveBroker:
    """Return the daemon's entry among the live brokers."""
    host, port = advertised_address(settings.endpoint_advertise, bound, socket.gethostname())
    return LiveBroker(
        BrokerId(settings.controller_id),
        NO_EPOCH,
        tuple(
            Endpoint(listener, host, port, settings.security_protocol.value)
            for listener in listeners_of(settings)
        ),
    )


def listeners_of(settings: Settings) -> tuple[str, ...]:
    """Return the listeners under which peers look for the controller, that of brokers first."""
    named = (
        settings.endpoint_listener
        or settings.control_plane_listener
        or settings.inter_broker_listener
        or settings.security_protocol.value
    )
    return tuple(name.strip() for name in named.split(","))
