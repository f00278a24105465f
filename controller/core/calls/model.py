"""The ledger of the requests of brokers and clients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from controller.core.bases import Ledger, Lifetime
from controller.core.model import BrokerId, Instant, TopicPartition, ZkVersion

if TYPE_CHECKING:
    from controller.core.calls.broker_requests import PendingBrokerRequest
    from controller.core.calls.client_requests import PendingClientRequest
    from controller.core.topics.model import TopicResult


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The producer ids that are not handed out yet."""

    following: int
    """The first of them."""
    version: ZkVersion | None
    """Of ``/latest_producer_id_block``; None where there is none."""


@dataclass(slots=True)
class CallLedger(Ledger):
    """The requests of brokers and clients that are not answered yet."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    pending_broker_requests: dict[int, PendingBrokerRequest] = field(default_factory=dict)
    """The requests of brokers that are not answered yet, by ticket."""
    heard: dict[BrokerId, Instant] = field(default_factory=dict)
    """When a broker last sent a request in this tenure."""
    producer_ids: ProducerIds | None = None
    """None until they are read in this tenure, and after a rejected write."""
    pending_client_requests: dict[int, PendingClientRequest] = field(default_factory=dict)
    """The requests of clients that are not answered yet, by ticket."""
    electing: set[TopicPartition] = field(default_factory=set)
    """Partitions for whose leaders clients wait."""
    creations_rejected: dict[str, int] = field(default_factory=dict)
    """How often ZooKeeper rejected the creation of a topic that a client waits for."""

    def note_topic(self, ticket: int, result: TopicResult) -> None:
        """Note that a topic is written for a client that waits, or that ZooKeeper rejects it."""
        pending = self.pending_client_requests.get(ticket)
        if pending is not None:
            noted = {**pending.topics, result.name: result}
            self.pending_client_requests[ticket] = replace(pending, topics=noted)
