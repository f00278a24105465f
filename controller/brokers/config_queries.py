"""
Effective topic settings (DescribeConfigs), implementing ``reactor.ports.TopicConfigs``.

Also the settings of each broker that matter to a controller (``BrokerSettings``).

Any live broker can answer. An admin client is no alternative: librdkafka sends the request to the
controller, and in a tenure clients can reach none.

One request at a time goes to one broker. If it is not answered within ``PATIENCE_S``, another
broker is queried as well, and the first answer counts. A broker that failed or was slow is the last
choice from then on, so that a hanging broker delays one query and not all.

Invariants: every topic has a result, its settings or the reason why they are unknown; at most
``ATTEMPTS`` brokers are queried for it, and none that has not answered its last request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka.future import Future
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits
from controller.brokers.broker_queries import PooledQuery
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.frames import frame_of
from controller.core import model
from controller.core.cluster.model import LiveBroker, parse_protocol
from controller.core.topics.model import NEVER_REQUESTED, ConfigRequest
from controller.core.topics.records import TopicConfigsRead
from controller.errors import (
    BrokerUnreachableError,
    ControllerError,
    InvalidInputError,
    ProtocolError,
    TransientError,
)

if TYPE_CHECKING:
    from controller.reactor.ports import Inbox

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
WANTED: Final = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)

TOPIC: Final = 2
"""``ConfigResource.Type.TOPIC``."""
BROKER: Final = 4
"""``ConfigResource.Type.BROKER``."""
DELETION: Final = "delete.topic.enable"
PROTOCOL: Final = "inter.broker.protocol.version"
_VERSION_MAX: Final = 3
"""Version 4 only changes the encoding; since version 1 values of all sources are reported."""
TOPICS_AT_ONCE: Final = 1_000
ATTEMPTS: Final = 3
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=10.0)
PATIENCE_S: Final = 1.0
"""Seconds without an answer after which another broker is queried as well."""


def topic_config_of(entries: Mapping[str, str | None]) -> model.TopicConfig | str:
    """Return the settings that matter, or the reason why they are unknown."""
    least = (entries.get(MIN_INSYNC_REPLICAS) or "").strip()
    unclean = (entries.get(UNCLEAN_LEADER_ELECTION) or "").strip()
    if not least.isascii() or not least.isdigit() or int(least) < 1:
        return f"{MIN_INSYNC_REPLICAS} is {least!r}"
    if unclean not in ("true", "false"):
        return f"{UNCLEAN_LEADER_ELECTION} is {unclean!r}"
    return model.TopicConfig(int(least), unclean_leader_election=unclean == "true")


@dataclass(slots=True)
class _Question:
    """One query: topics, and the brokers that were tried."""

    topics: Sequence[str]
    failure: ControllerError
    """The reason to report if no broker answers."""
    tried: set[model.BrokerId] = field(default_factory=set)
    unanswered: int = 0
    answer: Future = field(default_factory=Future)

    def settle(self, configs: Mapping[str, model.TopicConfig | str]) -> None:
        """Set the result, unless it is set already."""
        if not self.answer.is_done:
            self.answer.success(configs)


class TopicConfigQuery(PooledQuery):
    """Implements ``reactor.ports.TopicConfigs``."""

    limits = LIMITS

    def __init__(
        self, inbox: Inbox, connections: ConnectionSettings, *, patience_s: float = PATIENCE_S
    ) -> None:
        """Prepare; see ``BrokerQuery`` and ``PATIENCE_S``."""
        super().__init__("topic-configs", inbox, connections)
        self._patience_s = patience_s
        # Touched on the IO thread only:
        self._owing: set[model.BrokerId] = set()
        """Brokers that have not answered their last request."""
        self._doubts: dict[model.BrokerId, int] = {}
        """Brokers whose last request failed or was slow, numbered: the latest is tried last."""
        self._doubted = 0
        self._requested: dict[str, None] = {}
        self._newest = NEVER_REQUESTED
        self._busy = False

    def describe(self, topics: Sequence[str], request: ConfigRequest) -> None:
        """Query in the background; see ``reactor.ports.TopicConfigs``."""
        wanted = dict.fromkeys(topics)
        self._io.post(lambda: self._enqueue(wanted, request))

    def describe_brokers(self, brokers: Sequence[LiveBroker]) -> None:
        """Query each broker in the background; see ``reactor.ports.BrokerSettings``."""
        for broker in brokers:
            self._io.post(partial(self._io.spawn, partial(self._describe_broker, broker)))

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[model.BrokerId, LiveBroker]) -> None:
        for known in self._brokers.values():
            if brokers.get(known.id) != known:
                self._doubts.pop(known.id, None)
        super()._learn(brokers)

    def _enqueue(self, topics: Mapping[str, None], request: ConfigRequest) -> None:
        self._requested.update(topics)
        self._newest = request
        if not self._busy:
            self._busy = True
            self._io.spawn(self._work)

    async def _work(self) -> None:
        while self._requested:
            topics = list(self._requested)[:TOPICS_AT_ONCE]
            for topic in topics:
                del self._requested[topic]
            # Every query so far precedes the request; a later one does not.
            request = self._newest
            self._inbox.put(TopicConfigsRead(await self._read(topics), request))
        self._busy = False

    async def _read(self, topics: Sequence[str]) -> Mapping[str, model.TopicConfig | str]:
        why = "no broker answers" if self._brokers else "no broker is known yet"
        question = _Question(topics, BrokerUnreachableError(why))
        self._query_another(question)
        found: Mapping[str, model.TopicConfig | str] = await question.answer
        return found

    def _query_another(self, question: _Question) -> None:
        """Query one more broker; with none left, end when the last request in flight fails."""
        if question.answer.is_done:
            return
        broker = self._next(question) if len(question.tried) < ATTEMPTS else None
        if broker is not None:
            question.tried.add(broker.id)
            question.unanswered += 1
            self._owing.add(broker.id)
            self._io.spawn(lambda: self._attempt(question, broker))
            self._io.spawn(lambda: self._hurry(question, broker))
        elif not question.unanswered:
            question.settle(dict.fromkeys(question.topics, str(question.failure)))

    def _next(self, question: _Question) -> LiveBroker | None:
        """Return the broker to try next: without failure, or with the oldest; connected first."""
        left = (
            broker
            for broker in self._brokers.values()
            if broker.id not in question.tried and broker.id not in self._owing
        )
        return min(
            left,
            key=lambda b: (self._doubts.get(b.id, 0), self._connection_to(b) is None, b.id),
            default=None,
        )

    async def _attempt(self, question: _Question, broker: LiveBroker) -> None:
        """Query one broker; after a failure, the next."""
        doubt = self._doubts.get(broker.id)
        try:
            question.settle(await self._query(broker, question.topics))
        except (TransientError, ProtocolError) as error:
            question.failure = error
            self._doubt(broker)
            self._close(broker.id)
        else:
            if self._doubts.get(broker.id) == doubt:
                self._doubts.pop(broker.id, None)
        self._owing.discard(broker.id)
        question.unanswered -= 1
        self._query_another(question)

    async def _hurry(self, question: _Question, broker: LiveBroker) -> None:
        """Query another broker if this one is slow."""
        await self._io.net.sleep(self._patience_s)
        if not question.answer.is_done and broker.id in self._owing:
            self._doubt(broker)
            self._query_another(question)

    def _doubt(self, broker: LiveBroker) -> None:
        self._doubted += 1
        self._doubts[broker.id] = self._doubted

    async def _describe_broker(self, broker: LiveBroker) -> None:
        """Report what a broker says of its settings: only it knows its own."""
        from controller.core.role.records import BrokerSettingsRead  # noqa: PLC0415 - commands ask for topics

        enabled: bool | None = None
        protocol: str | None = None
        problem = ""
        try:
            connection = await self._open_connection(broker)
            itself = ((BROKER, str(broker.id)),)
            results = await describe_configs(connection, itself, (DELETION, PROTOCOL))
            values = {c.name: c.value for result in results for c in result.configs}
            enabled = {"true": True, "false": False}.get((values.get(DELETION) or "").lower())
            protocol = protocol_of(values.get(PROTOCOL))
            codes = [r.error_code for r in results if r.error_code]
            problem = "" if enabled is not None else f"error {codes}" if codes else "no value"
        except (TransientError, ProtocolError) as error:
            problem = str(error)
            self._close(broker.id)
        self._inbox.put(BrokerSettingsRead(broker.id, broker.epoch, enabled, problem, protocol))

    async def _query(
        self, broker: LiveBroker, topics: Sequence[str]
    ) -> Mapping[str, model.TopicConfig | str]:
        connection = await self._open_connection(broker)
        resources = [(TOPIC, topic) for topic in topics]
        results = await describe_configs(connection, resources, WANTED)
        found = {r.resource_name: _settings_of(r) for r in results}
        return {t: found.get(t, "the broker did not answer for it") for t in topics}


def protocol_of(text: str | None) -> str | None:
    """Return an inter-broker protocol as a broker says it; None if it is none."""
    try:
        return text if text is not None and parse_protocol(text) else None
    except InvalidInputError:
        return None


async def describe_configs(
    connection: BrokerConnection,
    resources: Iterable[tuple[int, str]],
    keys: Collection[str] | None,
    *,
    with_synonyms: bool = False,
) -> Sequence[Any]:
    """
    Return a broker's descriptions of resources, which are given by type and name.

    Without keys, they have all settings; with synonyms, also the settings that stand behind each.
    """
    request = DescribeConfigsRequest(
        version=connection.version(ApiKey.DescribeConfigs, _VERSION_MAX, unknown=1),
        resources=[(kind, name, None if keys is None else list(keys)) for kind, name in resources],
        include_synonyms=with_synonyms,
        include_documentation=False,
    )
    answer: Any = await connection.send_and_receive(frame_of(request))
    results: Sequence[Any] = answer.results
    return results


def _settings_of(result: Any) -> model.TopicConfig | str:  # noqa: ANN401 - kafka-python has no types
    if result.error_code:
        return f"error {result.error_code}: {result.error_message or 'no message'}"
    return topic_config_of({c.name: c.value for c in result.configs})
