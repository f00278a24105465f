"""
Sizes of replicas on disk (DescribeLogDirs), implementing ``reactor.ports.Sizes``.

A broker reports its own replicas only, so all live brokers are queried, several at a time. For very
many partitions a broker is queried for all it has: listing them would be longer than the answer.

Invariants: every query results in one ``SizesRead``, with the sizes that were reported; a broker
that does not answer is named in it, and delays it by no more than its timeouts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.api_message import ApiMessage

from controller.brokers.broker_queries import PooledQuery
from controller.brokers.connections import ConnectionLimits
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.messages import Frame, frame_of
from controller.core.events import SizesRead
from controller.core.model import BrokerId, LiveBroker, TopicPartition
from controller.errors import ProtocolError, TransientError
from controller.reactor.ports import Inbox

VERSION: Final = 1
"""Later versions add nothing that is needed; brokers up to 4.0 serve this one."""
NAMED_MAX: Final = 1_000
"""Largest number of partitions that a request lists."""
DETAILED_MAX: Final = 20_000
"""Largest number of partitions for which the size of each replica is reported."""
AT_ONCE: Final = 8
"""Brokers queried at the same time."""
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=20.0)


@dataclass(slots=True)
class _Round:
    """One query to all brokers."""

    wanted: Mapping[TopicPartition, None]
    left: deque[LiveBroker]
    asking: int = 0
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[BrokerId, str] = field(default_factory=dict)
    replicas: dict[TopicPartition, dict[BrokerId, int]] = field(default_factory=dict)
    encoded: Frame | None = None

    def question(self) -> Frame:
        """
        Return the request for one more broker.

        It is encoded once for all brokers, as this takes long with many partitions.

        Raises:
            ProtocolError: a value cannot be encoded.

        """
        if self.encoded is None:
            self.encoded = frame_of(_request(self.wanted))
        return replace(self.encoded)  # each connection sets its own header


class LogDirQuery(PooledQuery):
    """Implements ``reactor.ports.Sizes``."""

    limits = LIMITS

    def __init__(self, inbox: Inbox, security: Security, listeners: ListenerChoice) -> None:
        """Prepare; see ``BrokerQuery``."""
        super().__init__("log-dirs", inbox, security, listeners)
        # Touched on the IO thread only:
        self._asked: dict[TopicPartition, None] = {}
        self._round: _Round | None = None

    def measure(self, partitions: Sequence[TopicPartition]) -> None:
        """Query in the background; see ``reactor.ports.Sizes``."""
        wanted = dict.fromkeys(partitions)
        self._io.post(lambda: self._enqueue(wanted))

    # --- on the IO thread ----------------------------------------------------------------------

    def _enqueue(self, wanted: Mapping[TopicPartition, None]) -> None:
        self._asked.update(wanted)
        if self._round is None:
            self._begin()

    def _begin(self) -> None:
        """Query all brokers for the partitions requested since the last query."""
        brokers = deque(broker for _, broker in sorted(self._brokers.items()))
        begun = self._round = _Round(self._asked, brokers)
        self._asked = {}
        if not brokers:
            self._end(begun)
        for _ in range(min(AT_ONCE, len(brokers))):
            begun.asking += 1
            self._io.spawn(lambda: self._work(begun))

    async def _work(self, current: _Round) -> None:
        """Query one broker after the other; the last worker delivers the result."""
        while current.left:
            broker = current.left.popleft()
            try:
                sizes = sizes_of(await self._ask(broker, current), current.wanted)
            except (TransientError, ProtocolError) as error:
                current.errors[broker.id] = str(error)
                self._close(broker.id)
                continue
            is_detailed = len(current.wanted) <= DETAILED_MAX
            for partition, size in sizes.items():
                current.sizes[partition] = max(size, current.sizes.get(partition, 0))
                if is_detailed:
                    current.replicas.setdefault(partition, {})[broker.id] = size
        current.asking -= 1
        if not current.asking:
            self._end(current)

    def _end(self, current: _Round) -> None:
        self._round = None
        self._inbox.put(SizesRead(current.sizes, current.errors, current.replicas))
        if self._asked:
            self._begin()

    async def _ask(self, broker: LiveBroker, current: _Round) -> ApiMessage:
        connection = await self._connected(broker)
        return await connection.ask(current.question())


def _request(wanted: Mapping[TopicPartition, None]) -> Any:  # noqa: ANN401 - kafka-python has no types
    if len(wanted) > NAMED_MAX:
        return DescribeLogDirsRequest(topics=None, version=VERSION)
    topics: dict[str, list[int]] = {}
    for topic, partition in wanted:
        topics.setdefault(topic, []).append(partition)
    return DescribeLogDirsRequest(topics=list(topics.items()), version=VERSION)


def sizes_of(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    wanted: Mapping[TopicPartition, None],
) -> dict[TopicPartition, int]:
    """Decode the sizes in a response, without failed directories and future replicas."""
    sizes: dict[TopicPartition, int] = {}
    for directory in answer.results:
        if directory.error_code:
            continue
        for topic in directory.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if partition in wanted and not row.is_future_key and row.partition_size >= 0:
                    sizes[partition] = max(row.partition_size, sizes.get(partition, 0))
    return sizes
