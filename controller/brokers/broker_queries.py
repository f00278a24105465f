"""
Base of the adapters that query brokers outside the controller channels.

Each has its own thread and connections, so that no query waits behind a controller request.
``query_all`` queries all brokers once, for commands.
"""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits, Gate, connect
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.io_threads import IoThread
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.errors import ControllerError, ProtocolError, TransientError

if TYPE_CHECKING:
    from controller.reactor.ports import Inbox

Response = TypeVar("Response")


class BrokerQuery(ABC):
    """Sends queries on its own thread; subclasses define them and own the connections."""

    def __init__(self, name: str, inbox: Inbox, connections: ConnectionSettings) -> None:
        """Prepare a thread of this name; nothing is connected before the first query."""
        self._inbox = inbox
        self._connections = connections.for_queries()
        self._io = IoThread(name)
        # Touched on the IO thread only:
        self._brokers: dict[BrokerId, LiveBroker] = {}

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
        self._io.post(partial(self._learn, {b.id: b for b in brokers}))

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        self._brokers = brokers

    @abstractmethod
    def _close_all(self) -> None:
        """Close every connection."""


class PooledQuery(BrokerQuery):
    """A query with one connection for each broker, open between queries."""

    limits: ConnectionLimits

    def __init__(self, name: str, inbox: Inbox, connections: ConnectionSettings) -> None:
        super().__init__(name, inbox, connections)
        # Touched on the IO thread only:
        self._open: dict[BrokerId, tuple[LiveBroker, BrokerConnection]] = {}

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        super()._learn(brokers)
        for broker, _ in list(self._open.values()):
            if brokers.get(broker.id) != broker:
                self._close(broker.id)

    def _connection_to(self, broker: LiveBroker) -> BrokerConnection | None:
        known = self._open.get(broker.id)
        return known[1] if known is not None and known[0] == broker and known[1].is_open else None

    async def _open_connection(self, broker: LiveBroker) -> BrokerConnection:
        """Return the broker's connection, opened if there is none; see ``connect``."""
        connection = self._connection_to(broker)
        if connection is None:
            self._close(broker.id)
            opened = await connect(self._io, broker, self._connections, self.limits, Gate())
            connection = self._connection_to(broker)
            if connection is not None:
                opened.close()  # Another query connected meanwhile.
                return connection
            connection = opened
            self._open[broker.id] = (broker, opened)
        return connection

    def _close(self, broker: BrokerId) -> None:
        known = self._open.pop(broker, None)
        if known is not None:
            known[1].close()

    def _close_all(self) -> None:
        for broker in list(self._open):
            self._close(broker)


def query_all(
    connections: ConnectionSettings,
    limits: ConnectionLimits,
    brokers: Collection[LiveBroker],
    query: Callable[[LiveBroker, BrokerConnection], Coroutine[Any, Any, Response]],
    *,
    deadline: float,
) -> Generator[tuple[BrokerId, Response | ControllerError], None, None]:
    """
    Query brokers at once; yield each answer, or the error in its place, as it arrives.

    ``query`` runs on the IO thread. The deadline is on the monotonic clock; answers that arrive
    later are left out.
    """
    answers: queue.Queue[tuple[BrokerId, Response | ControllerError]] = queue.Queue()
    io = IoThread("survey")
    opened: set[BrokerConnection] = set()

    async def query_one(broker: LiveBroker) -> None:
        try:
            connection = await connect(io, broker, connections.for_queries(), limits, Gate())
            opened.add(connection)
            answer = await query(broker, connection)
            connection.close()
            opened.discard(connection)
        except (TransientError, ProtocolError) as error:
            answers.put((broker.id, error))
        else:
            answers.put((broker.id, answer))

    def close_all() -> None:
        for connection in opened:
            connection.close()

    io.start()
    try:
        for broker in brokers:
            io.post(partial(io.spawn, partial(query_one, broker)))
        for _ in brokers:
            try:
                yield answers.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                return
    finally:
        io.post(close_all)
        io.stop()
