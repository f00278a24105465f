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

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        """Know where brokers are from now on."""
        self._brokers = brokers

    @abstractmethod
    def _close_all(self) -> None:
        """End every connection."""
