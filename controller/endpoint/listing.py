"""Build the endpoint from the settings."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from controller.brokers.broker_follower import BrokerFollower
from controller.brokers.connection_settings import connection_settings_of
from controller.brokers.topic_validation import TopicValidation
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.credentials import ClientTls, ServerTls
from controller.endpoint.authentication import Authentication, Sasl
from controller.endpoint.broker_entry import entry_of, listeners_of
from controller.endpoint.broker_service import BrokerService, Tickets
from controller.endpoint.client_service import ClientService
from controller.endpoint.endpoint_server import EndpointServer
from controller.endpoint.peers import EndpointLimits, EndpointObserver, FrameMemory
from controller.endpoint.relay import Relay
from controller.endpoint.sasl import user_file
from controller.endpoint.topic_service import TopicService
from controller.reactor.ports import Inbox
from controller.settings import EndpointMode, Settings


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """A server that listens, and what the others need of it."""

    server: EndpointServer
    tickets: Tickets
    """What the loop answers requests with."""
    entry: LiveBroker
    """The daemon as brokers know it."""
    followers: tuple[Callable[[Iterable[LiveBroker]], None], ...] = ()
    """To be called with the brokers; empty: clients are not served."""

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
    settings: Settings, inbox: Inbox, observer: EndpointObserver, listed: BrokerFollower
) -> ListedEndpoint | None:
    """
    Bind the endpoint that the settings ask for; None if it is off.

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
        named = settings.endpoint_principals
        principals = None if named is None else frozenset(n.strip() for n in named.split(";"))
        authentication = Authentication(tls, _sasl(settings), principals)
        server = EndpointServer(listen, brokers, observer, authentication=authentication)
        tickets.post = server.post
        return ListedEndpoint(server, tickets, entry_of(settings, server.address))
    limits = EndpointLimits()
    memory = FrameMemory(limits.frames_bytes, limits.address_bytes)
    relay = Relay(listeners_of(settings)[-1], memory, tls=_tls_of(settings))
    validation = TopicValidation(connection_settings_of(settings), lambda: listed.topics)
    topics, own_id = TopicService(tickets, validation, listed), BrokerId(settings.controller_id)
    is_sasl = _is_sasl(settings)
    clients = ClientService(own_id, relay, tickets, brokers, topics, observer, is_sasl=is_sasl)
    # SASL is relayed to a broker, which authenticates and authorises.
    authentication = Authentication(tls, is_relayed=is_sasl)
    server = EndpointServer(listen, clients, observer, limits=limits, authentication=authentication)
    tickets.post = server.post
    entry = entry_of(settings, server.address)
    return ListedEndpoint(server, tickets, entry, (relay.update_brokers, validation.update_brokers))


def _is_tls(settings: Settings) -> bool:
    return settings.security_protocol.endswith("SSL")


def _is_sasl(settings: Settings) -> bool:
    return settings.security_protocol.startswith("SASL")


def _server_tls(settings: Settings) -> ServerTls | None:
    certfile, keyfile = settings.endpoint_certfile, settings.endpoint_keyfile
    if not _is_tls(settings) or certfile is None or keyfile is None:
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
    if not _is_sasl(settings) or settings.endpoint_users is None:
        return None
    users = user_file(settings.endpoint_users, lambda why: _warn("endpoint_users_invalid", why))
    return Sasl(tuple(settings.endpoint_sasl_mechanisms.split(",")), users)


def _warn(event: str, why: str) -> None:
    structlog.stdlib.get_logger("controller.endpoint").warning(event, error=why)


def _tls_of(settings: Settings) -> Callable[[], ssl.SSLContext] | None:
    """Return how to verify brokers; the daemon's own certificate is not shown for a client."""
    if not _is_tls(settings):
        return None
    return ClientTls(cafile=settings.ssl_cafile, check_hostname=settings.ssl_check_hostname).context
