"""The daemon's entry in the brokers' metadata."""

from __future__ import annotations

import socket
from typing import Final

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.setting_values import HttpAddress, advertised_address
from controller.settings import EndpointMode, Settings

NO_EPOCH: Final = BrokerEpoch(-1)
"""The daemon is not registered as a broker."""


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
            Endpoint(listener, host, port, settings.security_protocol)
            for listener in listeners_of(settings)
        ),
    )


def listeners_of(settings: Settings) -> tuple[str, ...]:
    """Return the listeners under which peers look for the controller, that of brokers first."""
    named = (
        settings.endpoint_listener
        or settings.control_plane_listener
        or settings.inter_broker_listener
        or settings.security_protocol
    )
    return tuple(name.strip() for name in named.split(","))
