"""Build the endpoint from the settings, and its entry in the brokers' metadata."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from controller.core.model import BrokerEpoch, BrokerId, Endpoint, LiveBroker
from controller.endpoint.broker_service import AskObserver, BrokerService
from controller.endpoint.client_service import ClientService
from controller.endpoint.peers import FrameMemory, Limits
from controller.endpoint.relay import Relay
from controller.endpoint.server import EndpointServer, ServerObserver
from controller.endpoint.tickets import Tickets
from controller.reactor.ports import Inbox
from controller.setting_values import HttpAddress, advertised
from controller.settings import EndpointMode, Settings

NO_EPOCH: Final = BrokerEpoch(-1)
"""The daemon is not registered as a broker."""


class EndpointObserver(AskObserver, ServerObserver, Protocol):
    """Counts what happens at the endpoint."""


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """A server that listens, and what the others need of it."""

    server: EndpointServer
    tickets: Tickets
    """What the loop answers requests with."""
    entry: LiveBroker
    """The daemon as brokers know it."""
    relay: Relay | None = None
    """Needs to know the brokers; None: clients are not served."""

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
    settings: Settings, inbox: Inbox, observer: EndpointObserver
) -> ListedEndpoint | None:
    """
    Bind the endpoint that the settings ask for; None if it is off.

    Raises:
        InvalidInputError: its address is in use or does not belong to this machine.

    """
    listen = settings.endpoint_listen
    if settings.controller_endpoint is EndpointMode.OFF or listen is None:
        return None
    tickets = Tickets(inbox)
    brokers = BrokerService(tickets, observer)
    if settings.controller_endpoint is EndpointMode.PRIVATE:
        server = EndpointServer(listen, [brokers], observer)
        tickets.post = server.post
        return ListedEndpoint(server, tickets, entry_of(settings, server.address))
    limits = Limits()
    memory = FrameMemory(limits.frames_bytes)
    relay = Relay(listeners_of(settings)[-1], memory, tls=_tls_of(settings))
    clients = ClientService(
        BrokerId(settings.controller_id),
        relay,
        tickets,
        brokers,
        observer,
        is_sasl=settings.security_protocol.value.startswith("SASL"),
    )
    server = EndpointServer(listen, [], observer, limits, clients)
    tickets.post = server.post
    return ListedEndpoint(server, tickets, entry_of(settings, server.address), relay)


def _tls_of(settings: Settings) -> Callable[[], ssl.SSLContext] | None:
    """Return how to verify brokers; the daemon's own certificate is not shown for a client."""
    if not settings.security_protocol.value.endswith("SSL"):
        return None

    def made() -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        context.check_hostname = settings.ssl_check_hostname
        return context

    return made


def entry_of(settings: Settings, bound: HttpAddress) -> LiveBroker:
    """Return the daemon's entry among the live brokers."""
    host, port = advertised(settings.endpoint_advertise, bound, socket.gethostname())
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
