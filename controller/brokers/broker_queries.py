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
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from controller.brokers.connections import BrokerConnection, ConnectionLimits, Gate, connect
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.io_threads import IoThread
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, TopicAssignment, Zxid
from controller.core.records import Event
from controller.core.role.records import BrokersRead, ClaimGuardsRead
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.errors import ControllerError, ProtocolError, TransientError
from controller.reactor.ports import Inbox

Response = TypeVar("Response")


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


class PooledQuery(BrokerQuery):
    """A query with one connection for each broker, open between queries."""

    limits: ConnectionLimits

    def __init__(
        self, name: str, inbox: Inbox, security: Security, listeners: ListenerChoice
    ) -> None:
        """Prepare; see ``BrokerQuery``."""
        super().__init__(name, inbox, security, listeners)
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
        """
        Return the broker's connection, opened if there is none.

        Raises:
            TransientError: the broker cannot be reached.
            ProtocolError: its responses cannot be decoded.

        """
        connection = self._connection_to(broker)
        if connection is None:
            self._close(broker.id)
            endpoint = self._listeners.required_of(broker)
            opened = await connect(self._io, endpoint, self._security, self.limits, Gate())
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


class BrokerDependent(Protocol):
    """What has to know the brokers and the controller."""

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers."""
        ...

    def update_controller(self, controller: BrokerId | None) -> None:
        """Replace which broker is the controller; None: none is."""
        ...


class BrokerFollower:
    """
    An inbox that passes brokers and the controller on to the adapters that query them.

    It also keeps which topics exist.
    """

    def __init__(self, inner: Inbox) -> None:
        self._inner = inner
        self.queries: tuple[BrokerDependent, ...] = ()
        self.topics: frozenset[str] = frozenset()
        """The topics that were listed last."""
        self.names_by_id: dict[str, str] = {}
        """Their names by their ids, as last read."""
        self._created: dict[str, Zxid] = {}
        """The creation of each, as last read."""

    def exists(self, name: str, czxid: Zxid) -> bool:
        """Return whether the topic of this creation exists, and not a later one of its name."""
        return name in self.topics and self._created.get(name, czxid) <= czxid

    def put(self, event: Event) -> None:
        """Update the adapters from the event and pass it on."""
        if isinstance(event, BrokersRead):
            for query in self.queries:
                query.update_brokers(event.brokers.values())
        elif isinstance(event, ClaimGuardsRead):
            for query in self.queries:
                query.update_controller(event.controller_broker)
        elif isinstance(event, TopicsListed):
            self._topics_listed(event.topics)
        elif isinstance(event, TopicsRead):
            self._topics_read(event)
        self._inner.put(event)

    def _topics_listed(self, topics: frozenset[str]) -> None:
        self.topics = topics
        known = list(self.names_by_id.items())
        for topic_id in [i for i, name in known if name not in topics]:
            self.names_by_id.pop(topic_id, None)
        for name in self._created.keys() - topics:
            self._created.pop(name, None)

    def _topics_read(self, event: TopicsRead) -> None:
        for name, read in event.topics.items():
            if not isinstance(read, TopicAssignment):
                continue
            # A listing and reads come from several threads: an older read may follow.
            self._created[name] = max(self._created.get(name, read.czxid), read.czxid)
            if read.topic_id is not None:
                self.names_by_id[read.topic_id] = name


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Security, listener and limits of connections to brokers."""

    security: Security
    listeners: ListenerChoice
    """The choice of a broker's listener; the control plane's does not serve queries."""
    limits: ConnectionLimits


def query_all(
    settings: ConnectionSettings,
    brokers: Collection[LiveBroker],
    query: Callable[[LiveBroker, BrokerConnection], Coroutine[Any, Any, Response]],
    *,
    deadline: float,
) -> Generator[tuple[BrokerId, Response | ControllerError], None, None]:
    """
    Query brokers at once; yield each answer, or the error in its place, as it arrives.

    Args:
        settings: Settings of the connections.
        brokers: The brokers.
        query: Queries one broker over its connection, on the IO thread.
        deadline: On the monotonic clock; answers that arrive later are left out.

    """
    listeners = replace(settings.listeners, control_plane_listener=None)
    answers: queue.Queue[tuple[BrokerId, Response | ControllerError]] = queue.Queue()
    io = IoThread("survey")
    opened: set[BrokerConnection] = set()

    async def query_one(broker: LiveBroker) -> None:
        try:
            endpoint = listeners.required_of(broker)
            connection = await connect(io, endpoint, settings.security, settings.limits, Gate())
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
            io.post(lambda b=broker: io.spawn(lambda: query_one(b)))  # type: ignore[misc] # bound
        for _ in brokers:
            try:
                yield answers.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                return
    finally:
        io.post(close_all)
        io.stop()
