"""
What every adapter shares that asks brokers something besides: a thread, who is where, a listener.

They speak over connections of their own, so that no question waits behind a controller's request.
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
    """Asks on a thread of its own; subclasses say what, and end their connections."""

    def __init__(
        self, name: str, inbox: Inbox, security: Security, listeners: ListenerChoice
    ) -> None:
        """
        Prepare; nothing is connected before something is asked.

        Args:
            name: of the thread.
            inbox: where the answers go.
            security: TLS and SASL settings.
            listeners: which listener of a broker to use; the control plane's serves no such
                question.
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
        """Whether the asking thread runs."""
        return self._io.is_alive

    def start(self) -> None:
        """Start the asking thread."""
        self._io.start()

    def stop(self) -> None:
        """End the asking thread; a question that is still out is left behind."""
        self._io.post(self._close_all)
        self._io.stop()

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Learn where brokers are."""
        known = {b.id: b for b in brokers}
        self._io.post(lambda: self._learn(known))

    def update_controller(self, controller: BrokerId | None) -> None:
        """Replace which broker is the controller; None: none is."""
        self._io.post(lambda: self._learn_controller(controller))

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        """Know where brokers are from now on."""
        self._brokers = brokers

    def _learn_controller(self, controller: BrokerId | None) -> None:
        self._controller = controller

    @abstractmethod
    def _close_all(self) -> None:
        """End every connection."""


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
