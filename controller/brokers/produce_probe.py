"""
The produce probe: records to a small topic, to measure what producers with ``acks=all`` see.

Each broker that leads a partition of the topic gets some ten records a second, also while others
wait for their acknowledgement: a broker takes the requests of a connection one at a time, so
records of a producer wait for the ones before, and that is what its clients see. A record alone
would show 0.3 s where producers wait for 3 s. A partition counts for the broker that leads it now,
and for its follower, which has to fetch a record before it is acknowledged.

Not decided here: when to measure (``latencies``), and where the topic has its partitions
(``core.pacing.probe_topic``). Everything but the topic's writes runs on one thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from controller.brokers.cluster_ids import LOGIN_PAUSE_MS, client_settings
from controller.brokers.connection_settings import REFUSED, ConnectionSettings
from controller.brokers.probe_samples import ProbeRecord, ProbeSamples, Target, targets_of
from controller.clocks import pause_s
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal
from controller.core.pacing.probe_topic import PROBE_TOPIC
from controller.errors import ControllerError, RefusedError

INTERVAL_S: Final = 0.1
"""Between two records to a broker."""
RECORDS_MAX_PER_S: Final = 500
"""To all brokers: with more than 50, each gets fewer than ten a second."""
PAYLOAD: Final = b"p" * 100
PIPELINED: Final = 5
"""The requests of a producer that may be in flight to a broker, as is usual."""
METADATA_EVERY_S: Final = 2.0
METADATA_FIRST_S: Final = 0.5
"""The same before the first partition is known."""
METADATA_S: Final = 5.0
MESSAGE_S: Final = 30.0
"""The time after which a record is given up: its leader is another by then."""
RETRY_S: Final = 30.0
"""The time after which the topic, or a client that was refused, is tried again."""
NEW_TOPIC_S: Final = 30.0
"""The time that the controller may take for a new topic before it counts as a problem."""

_REFUSALS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - public, in spite of its name
        KafkaError._SSL,  # noqa: SLF001
    }
)
"""Errors that an operator has to correct."""


_TOO_LATE: Final = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - public, in spite of its name
        KafkaError.REQUEST_TIMED_OUT,
    }
)


@dataclass(slots=True)
class _Task:
    """A call that may take long, on a thread of its own; at most one is under way."""

    name: str
    pending: Future[Any] | None = None
    due: float = -math.inf

    def is_due(self, now: float) -> bool:
        return self.pending is None and now >= self.due

    def begin(self, work: Callable[[], Any]) -> None:
        pending: Future[Any] = Future()

        def run() -> None:
            try:
                pending.set_result(work())
            except (KafkaException, ControllerError) as error:
                pending.set_exception(error)

        self.pending = pending
        # Left behind at the end: neither librdkafka nor kazoo can be interrupted.
        threading.Thread(target=run, name=self.name, daemon=True).start()

    def take(self) -> Future[Any] | None:
        """Return the call once it has ended."""
        ended = self.pending
        if ended is None or not ended.done():
            return None
        self.pending = None
        return ended


ProvideTopic = Callable[[frozenset[BrokerId]], None]
"""Creates the topic on these brokers, or adds the partitions that they miss."""


@dataclass(slots=True)
class _Problem:
    text: str = ""
    is_refusal: bool = False
    """Whether it lasts until an operator corrects it."""


class ProduceProbe:
    """Sends records while it is open; used by one thread, but for ``update_brokers``."""

    def __init__(
        self,
        connections: ConnectionSettings,
        provide: ProvideTopic,
        *,
        objective_s: float,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; ``count`` is called with the result of each record."""
        self._connections = connections.for_queries()
        self._provide = provide
        self._objective_s = objective_s
        self._count = count
        self._brokers: Mapping[BrokerId, LiveBroker] = {}
        self._hosts: frozenset[BrokerId] = frozenset()
        self._requested: frozenset[BrokerId] = frozenset()
        self._provided: frozenset[BrokerId] | None = None
        """The hosts for which the topic was created or extended; None: it may not exist."""
        self._refusals = 0
        self._providing = _Task("probe topic")
        self._asking = _Task("probe metadata")
        self._producer: Producer | None = None
        self._close()

    def _close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
        self._producer = None
        self._open_at = -math.inf
        self._targets: dict[BrokerId, Target] = {}
        self._due: dict[BrokerId, float] = {}
        self._samples = ProbeSamples(self._objective_s)
        self._unknown_since: float | None = None
        self._problem = _Problem()
        self._said: list[KafkaError] = []

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers; safe from any thread."""
        self._brokers = {b.id: b for b in brokers}

    @property
    def problem(self) -> str:
        """Why there are no readings; empty where there are, or will be."""
        return self._problem.text

    @property
    def is_refused(self) -> bool:
        """Whether there will be no readings until an operator corrects the problem."""
        return self._problem.is_refusal

    @property
    def is_open(self) -> bool:
        """Whether there is a client, whose acknowledgements ``work`` waits for."""
        return self._producer is not None

    def close(self) -> None:
        """End the client: nothing is measured any more."""
        self._close()
        self._provided = None

    def work(self, hosts: frozenset[BrokerId], now: Instant, *, longest_s: float) -> None:
        """Send what is due, and wait for acknowledgements no longer than until the next record."""
        self._hosts = hosts
        self._keep_topic(now)
        if self._provided is None:
            return
        producer = self._opened(now)
        if producer is None:
            return
        self._keep_targets(producer, now)
        for target in self._targets.values():
            if now >= self._due.get(target.leader, now) and self._samples.is_free(target):
                self._send(producer, target, now)
        producer.poll(longest_s)
        if self._said:
            self._hear(now)

    def take_readings(self, now: Instant) -> tuple[Signal, ...]:
        """Return the readings of the records since the last call."""
        return self._samples.take(now)

    # --- the topic -------------------------------------------------------------------------------

    def _keep_topic(self, now: Instant) -> None:
        """Have the topic created, or extended, in the background."""
        task, hosts = self._providing, self._hosts
        ended = task.take()
        if ended is not None:
            error = ended.exception()
            if error is None:
                self._provided = self._requested
            else:
                task.due = now + RETRY_S
                self._note(f"{PROBE_TOPIC}: {error}", is_refusal=isinstance(error, RefusedError))
        if hosts and hosts != self._provided and task.is_due(now):
            self._requested = hosts
            task.begin(partial(self._provide, hosts))

    # --- the client ------------------------------------------------------------------------------

    def _opened(self, now: Instant) -> Producer | None:
        """Return the client; None while there is none."""
        if self._producer is None and now >= self._open_at and self._brokers:
            self._open_at = now + RETRY_S
            try:
                self._producer = Producer(self._client_settings())
            except (KafkaException, ControllerError) as error:
                self._note(f"the probe has no client: {error}", is_refusal=True)
        return self._producer

    def _client_settings(self) -> dict[str, Any]:
        """
        Return librdkafka's settings.

        Raises:
            ControllerError: a file with a secret cannot be read.
        """
        security = self._connections.security
        endpoints = (self._connections.listeners.endpoint_of(b) for b in self._brokers.values())
        listed = [e for e in endpoints if e is not None]
        settings: dict[str, Any] = {
            **client_settings(security),
            "bootstrap.servers": ",".join(f"{e.host}:{e.port}" for e in listed),
            "client.id": "reassigner-probe",
            "acks": "all",
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": PIPELINED,
            "message.timeout.ms": int(MESSAGE_S * 1000),
            # A topic that is deleted is not to come back with the brokers' default settings.
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": int(METADATA_EVERY_S * 1000),
            "log_level": 0,
            "error_cb": self._said.append,
        }
        if listed:
            settings["security.protocol"] = listed[0].security_protocol
        if security.sasl_mechanism is not None:  # each connection may be a refused login
            settings["reconnect.backoff.ms"] = LOGIN_PAUSE_MS
        return settings

    def _hear(self, now: Instant) -> None:
        """Close a client that brokers refuse; others connect again by themselves."""
        refusal = next((e for e in self._said if e.code() in _REFUSALS), None)
        self._said.clear()
        if refusal is not None:
            self._refuse(refusal, now)

    def _refuse(self, error: KafkaError, now: Instant) -> None:
        self._refusals += 1
        self._close()
        self._open_at = now + pause_s(REFUSED, self._refusals)
        self._note(f"brokers refuse the probe: {error.str()}", is_refusal=True)

    def _note(self, text: str, *, is_refusal: bool = False) -> None:
        self._problem = _Problem(text, is_refusal)

    # --- the partitions --------------------------------------------------------------------------

    def _keep_targets(self, producer: Producer, now: Instant) -> None:
        """Read who leads and follows, in the background."""
        ended = self._asking.take()
        if ended is not None:
            self._take_metadata(ended, now)
        if self._asking.is_due(now):
            self._asking.due = now + (METADATA_EVERY_S if self._targets else METADATA_FIRST_S)
            self._asking.begin(partial(producer.list_topics, PROBE_TOPIC, METADATA_S))

    def _take_metadata(self, ended: Future[Any], now: Instant) -> None:
        error = ended.exception()
        if error is not None:
            if not self._targets:  # else the records tell whether brokers answer
                self._note(f"brokers do not answer the probe: {error}")
            return
        topic = ended.result().topics.get(PROBE_TOPIC)
        refusal = None if topic is None else topic.error
        if refusal is not None and refusal.code() in _REFUSALS:
            self._refuse(refusal, now)
            return
        is_known = topic is not None and refusal is None
        partitions = list(topic.partitions.values()) if is_known else []
        self._targets = targets_of(partitions)
        self._samples.follow(self._targets.values())
        if self._targets:
            self._unknown_since = None
            return
        since = self._unknown_since = self._unknown_since or now
        if now - since > NEW_TOPIC_S:
            # It may have been deleted.
            self._provided = self._unknown_since = None
            self._note(f"{PROBE_TOPIC} has no partition with a leader")

    # --- records ---------------------------------------------------------------------------------

    def _send(self, producer: Producer, target: Target, now: Instant) -> None:
        interval_s = max(INTERVAL_S, len(self._targets) / RECORDS_MAX_PER_S)
        due = self._due.get(target.leader, now)
        self._due[target.leader] = max(due + interval_s, now)
        record = self._samples.send(target, now)
        try:
            producer.produce(
                PROBE_TOPIC,
                PAYLOAD,
                partition=target.partition,
                on_delivery=partial(self._delivered, record),
            )
        except (KafkaException, BufferError) as error:
            self._samples.drop(record)
            self._note(f"the probe cannot send a record: {error}")

    def _delivered(self, record: ProbeRecord, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._samples.acknowledge(record, message.latency() or 0.0)
            self._problem, self._refusals = _Problem(), 0
            self._count("acknowledged")
            return
        self._count("failed")
        if error.code() in _REFUSALS:
            self._samples.drop(record)
            self._said.append(error)
            return
        self._note(f"a record of the probe was not acknowledged: {error.str()}")
        if error.code() in _TOO_LATE:
            self._samples.acknowledge(record, MESSAGE_S)
        else:
            self._samples.drop(record)
