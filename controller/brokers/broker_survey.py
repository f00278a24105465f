"""
A survey of brokers for commands: their log directories and the effective topic settings.

Synchronous, with a connection per broker, all at once. Reads only. The result of a broker that does
not answer is the reason; it does not delay the others.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from controller.brokers.broker_queries import ConnectionSettings, query_all
from controller.brokers.connections import BrokerConnection
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import describe_all, description_of
from controller.brokers.topic_configs import LIMITS, TopicConfigQuery
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.core.records import Event
from controller.core.topics.model import NEVER_REQUESTED
from controller.core.topics.records import TopicConfigsRead
from controller.doctor.snapshot import BrokerAnswers, Disks
from controller.errors import ControllerError

WITHIN_S: Final = 30.0
SILENT: Final = "no answer in time"


class BrokerSurvey:
    """Queries all brokers at once."""

    def __init__(self, security: Security, listeners: ListenerChoice) -> None:
        """
        Prepare; nothing is connected.

        Args:
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener; never the control plane's, which does not
                serve these queries.

        """
        self._settings = ConnectionSettings(security, listeners, LIMITS)

    def query(
        self,
        brokers: Collection[LiveBroker],
        topics: Collection[str],
        *,
        within_s: float = WITHIN_S,
    ) -> BrokerAnswers:
        """
        Query every broker for its log directories, and one for the topics' settings.

        Args:
            brokers: The brokers.
            topics: The topics whose settings are queried.
            within_s: The limit for everything, in seconds.

        """
        deadline = time.monotonic() + within_s
        with self._queries(brokers, topics) as inbox:
            disks = self._disks(brokers, deadline)
            return BrokerAnswers(
                disks=disks, min_insync_replicas=_settings(inbox, topics, deadline)
            )

    def min_insync(
        self,
        brokers: Collection[LiveBroker],
        topics: Collection[str],
        *,
        within_s: float = WITHIN_S,
    ) -> Mapping[str, int | str]:
        """Return the effective min.insync.replicas of topics, or the reason why it is unknown."""
        deadline = time.monotonic() + within_s
        with self._queries(brokers, topics) as inbox:
            return _settings(inbox, topics, deadline)

    @contextmanager
    def _queries(
        self, brokers: Collection[LiveBroker], topics: Collection[str]
    ) -> Iterator[_Queue]:
        """Query the settings of topics; the answers arrive in the queue."""
        inbox = _Queue()
        configs = TopicConfigQuery(inbox, self._settings.security, self._settings.listeners)
        configs.start()
        try:
            configs.update_brokers(brokers)
            configs.describe(sorted(topics), NEVER_REQUESTED)
            yield inbox
        finally:
            configs.stop()

    def _disks(
        self, brokers: Collection[LiveBroker], deadline: float
    ) -> Mapping[BrokerId, Disks | str]:
        found: dict[BrokerId, Disks | str] = {b.id: SILENT for b in brokers}
        for broker, answer in query_all(self._settings, brokers, _disks_on, deadline=deadline):
            found[broker] = str(answer) if isinstance(answer, ControllerError) else answer
        return found


async def _disks_on(_broker: LiveBroker, connection: BrokerConnection) -> Disks | str:
    return disks_of(await connection.send_and_receive(describe_all(connection)))


class _Queue:
    """An inbox on which one thread waits."""

    def __init__(self) -> None:
        self.events: queue.Queue[Event] = queue.Queue()

    def put(self, event: Event) -> None:
        """Add an event."""
        self.events.put(event)


def _settings(inbox: _Queue, topics: Collection[str], deadline: float) -> Mapping[str, int | str]:
    found: dict[str, int | str] = dict.fromkeys(topics, SILENT)
    waiting = set(topics)
    while waiting:
        try:
            read = inbox.events.get(timeout=_seconds_left(deadline))
        except queue.Empty:
            break
        if isinstance(read, TopicConfigsRead):
            for topic, config in read.configs.items():
                found[topic] = config if isinstance(config, str) else config.min_insync_replicas
            waiting -= read.configs.keys()
    return found


def _seconds_left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def disks_of(answer: Any) -> Disks | str:  # noqa: ANN401 - kafka-python has no types
    """Decode a DescribeLogDirs response; future logs are not counted as replicas."""
    if not answer.results:
        return "it reports no log directory: Describe on the cluster is not allowed"
    failed = tuple(d.log_dir for d in answer.results if d.error_code)
    found = description_of(answer)
    dirs = tuple(d.log_dir({}, is_whole=True) for d in found.dirs)
    replicas = {p: r for p, r in found.replicas.items() if r.directory is not None}
    sizes = {p: r.size for p, r in replicas.items()}
    placed = {p: r.directory for p, r in replicas.items() if r.directory is not None}
    futures = {p: r.future for p, r in found.replicas.items() if r.future is not None}
    return Disks(frozenset(replicas), failed, sizes, dirs, placed, futures)
