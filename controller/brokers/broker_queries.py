"""
Base of the adapters that query brokers outside the controller channels.

Each has its own thread and connections, so that no query waits behind a controller request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.io_threads import IoThread
from controller.core.events import BrokersRead, ClaimGuardsRead, Event
from controller.core.model import BrokerId, LiveBroker
from controller.reactor.ports import Inbox


class BrokerQuery(ABC):
    """Sends queries on its own thread; subclasses define them and own the connections."""

    def __init__(
        self, name: str, inbox: Inbox, security: Security, listeners: ListenerChoice
    ) -> None:
        """
        Prepare; nothing is connected before the first query.

        Args:
            name: The name of the thread.
            inbox: Receives the answers.
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener; never the control plane's, which does not
                serve these queries.
        """
        self._inbox = inbox
        self._security = security
        self._listeners = replace(listeners, control_plane_listener=None)
        self._io = IoThread(name)
        # Touched on the IO thread only:
        self._brokers: dict[BrokerId, LiveBroker] = {}
        self._controller: BrokerId | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._io.is_alive

    def start(self) -> None:
        """Start the thread."""
        self._io.start()

    def stop(self) -> None:
        """End the thread; a query in flight gets no answer."""
        self._io.post(self._close_all)
        self._io.stop()

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers to query."""
        known = {b.id: b for b in brokers}
        self._io.post(lambda: self._learn(known))

    def update_controller(self, controller: BrokerId | None) -> None:
        """Replace which broker is the controller; None: none is."""
        self._io.post(lambda: self._learn_controller(controller))

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        """Replace the brokers to query."""
        self._brokers = brokers

    def _learn_controller(self, controller: BrokerId | None) -> None:
        self._controller = controller

    @abstractmethod
    def _close_all(self) -> None:
        """Close every connection."""


class BrokerFollower:
    """An inbox that passes brokers and the controller on to the adapters that query them."""

    def __init__(self, inner: Inbox) -> None:
        self._inner = inner
        self.queries: tuple[BrokerQuery, ...] = ()

    def put(self, event: Event) -> None:
        """Update the adapters from the event and pass it on."""
        if isinstance(event, BrokersRead):
            for query in self.queries:
                query.update_brokers(event.brokers.values())
        elif isinstance(event, ClaimGuardsRead):
            for query in self.queries:
                query.update_controller(event.controller_broker)
        self._inner.put(event)
