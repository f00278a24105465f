"""
Effective settings of topics, as the brokers themselves report them (DescribeConfigs).

Asks any live broker over a connection of its own. An admin client will not do: librdkafka sends the
question to the controller and waits for one, and while the daemon holds that role there is none
that clients can reach. Reads only; what a setting means for a step is decided in ``core``.

Invariants: every topic asked for is answered, with its settings or with why they are not known; a
broker that does not answer costs one attempt, then the next one is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from controller.brokers.askers import Asker
from controller.brokers.connections import Connection, ConnectionLimits, connect
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.gates import Gate
from controller.brokers.messages import frame_of
from controller.core.events import TopicConfigsRead
from controller.core.model import BrokerId, LiveBroker, TopicConfig
from controller.errors import BrokerUnreachableError, ControllerError, ProtocolError, TransientError
from controller.reactor.ports import Inbox

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
WANTED: Final = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)

DESCRIBE_CONFIGS: Final = 32
"""The API key."""
TOPIC: Final = 2
"""``ConfigResource.Type.TOPIC``."""
VERSION_MAX: Final = 3
"""Version 4 only changes the encoding; 1 is the first with effective values of every source."""
TOPICS_AT_ONCE: Final = 1_000
ATTEMPTS: Final = 3
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=10.0)


def topic_config_of(entries: Mapping[str, str | None]) -> TopicConfig | str:
    """Return what matters of a topic's settings, or why it cannot be told."""
    least = (entries.get(MIN_INSYNC_REPLICAS) or "").strip()
    unclean = (entries.get(UNCLEAN_LEADER_ELECTION) or "").strip()
    if not least.isascii() or not least.isdigit() or int(least) < 1:
        return f"{MIN_INSYNC_REPLICAS} is {least!r}"
    if unclean not in ("true", "false"):
        return f"{UNCLEAN_LEADER_ELECTION} is {unclean!r}"
    return TopicConfig(int(least), unclean_leader_election=unclean == "true")


class DescribedTopicConfigs(Asker):
    """Implements ``reactor.ports.TopicConfigs``."""

    def __init__(self, inbox: Inbox, security: Security, listeners: ListenerChoice) -> None:
        """Prepare; see ``Asker``."""
        super().__init__("topic-configs", inbox, security, listeners)
        # Touched on the IO thread only:
        self._open: tuple[LiveBroker, Connection] | None = None
        self._asked: dict[str, None] = {}
        self._busy = False

    def describe(self, topics: Sequence[str]) -> None:
        """Ask in the background: ``TopicConfigsRead`` follows, with a text where it failed."""
        wanted = dict.fromkeys(topics)
        self._io.post(lambda: self._enqueue(wanted))

    # --- on the IO thread ----------------------------------------------------------------------

    def _learn(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        super()._learn(brokers)
        if self._open is not None and brokers.get(self._open[0].id) != self._open[0]:
            self._close_all()

    def _enqueue(self, topics: Mapping[str, None]) -> None:
        self._asked.update(topics)
        if not self._busy:
            self._busy = True
            self._io.spawn(self._work)

    async def _work(self) -> None:
        while self._asked:
            topics = list(self._asked)[:TOPICS_AT_ONCE]
            for topic in topics:
                del self._asked[topic]
            self._inbox.put(TopicConfigsRead(await self._read(topics)))
        self._busy = False

    async def _read(self, topics: Sequence[str]) -> Mapping[str, TopicConfig | str]:
        failure: ControllerError = BrokerUnreachableError("no broker is known yet")
        tried: set[BrokerId] = set()
        for _ in range(ATTEMPTS):
            broker = self._next(tried)
            if broker is None:
                break
            tried.add(broker.id)
            try:
                return await self._ask(broker, topics)
            except (TransientError, ProtocolError) as error:
                failure = error
                self._close_all()
        return dict.fromkeys(topics, str(failure))

    def _next(self, tried: set[BrokerId]) -> LiveBroker | None:
        if self._open is not None and self._open[1].is_open and self._open[0].id not in tried:
            return self._open[0]
        return next((b for i, b in sorted(self._brokers.items()) if i not in tried), None)

    def _close_all(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    async def _ask(
        self, broker: LiveBroker, topics: Sequence[str]
    ) -> Mapping[str, TopicConfig | str]:
        if self._open is None or self._open[0] != broker or not self._open[1].is_open:
            self._close_all()
            endpoint = self._listeners.required_of(broker)
            connection = await connect(self._io, endpoint, self._security, LIMITS, Gate())
            self._open = (broker, connection)
        connection = self._open[1]
        _, highest = connection.understood.get(DESCRIBE_CONFIGS, (0, 1))
        answer = await connection.ask(frame_of(_request(topics, min(highest, VERSION_MAX))))
        found = {r.resource_name: _settings_of(r) for r in answer.results}
        return {t: found.get(t, "the broker did not answer for it") for t in topics}


def _request(topics: Sequence[str], version: int) -> Any:  # noqa: ANN401 - kafka-python has no types
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC, resource_name=t, configuration_keys=list(WANTED))
            for t in topics
        ],
        include_synonyms=False,
        include_documentation=False,
        version=version,
    )


def _settings_of(result: Any) -> TopicConfig | str:  # noqa: ANN401 - kafka-python has no types
    if result.error_code:
        return f"error {result.error_code}: {result.error_message or 'no message'}"
    return topic_config_of({c.name: c.value for c in result.configs})
