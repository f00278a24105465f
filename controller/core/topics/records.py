"""Events and records of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core import model
from controller.core.bases import Durable, Fact, Shared, Volatile
from controller.core.model import Replicas, TopicPartition
from controller.core.topics.model import NEVER_REQUESTED, ConfigRequest, TopicResult, TopicSettings


@dataclass(frozen=True, slots=True)
class TopicsListed(Fact, wakes=("listed_topics", "tenure", "deletions")):
    """The children of ``/brokers/topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicsRead(Fact, wakes=()):
    """Topic znodes; None for one that does not exist, a text for one that cannot be decoded."""

    topics: Mapping[str, model.TopicAssignment | str | None]
    read_generation: int = 0
    """``ClusterView.read_generation`` when the read began."""


@dataclass(frozen=True, slots=True)
class TopicConfigsRead(Fact, wakes=()):
    """Effective settings of topics; a text says why they could not be read."""

    configs: Mapping[str, model.TopicConfig | str]
    request: ConfigRequest = NEVER_REQUESTED
    """The newest request at the time the broker was sent the request."""


@dataclass(frozen=True, slots=True)
class AssignmentRecord(Shared, wakes=()):
    """The partition's entry in its topic znode, merged with other partitions of the batch."""

    partition: TopicPartition
    assignment: model.PartitionAssignment


@dataclass(frozen=True, slots=True)
class TopicIdRecord(Shared, wakes=()):
    """The id of a topic whose znode has none, merged with assignments of the batch."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class TopicCreatedRecord(Durable, wakes=("tenure", "pending_requests")):
    """The topic znode with its settings in ``/config/topics``, for a client's CreateTopics."""

    ticket: int
    result: TopicResult
    """The client's, once each partition has a leader; it has the topic id, too."""
    replicas: tuple[Replicas, ...]
    """By the number of the partition."""
    configs: TopicSettings
    """As brokers validated them."""
    replaces_configs: bool
    """Whether a former topic of the name left its settings."""


@dataclass(frozen=True, slots=True)
class TopicGrownRecord(Volatile, wakes=("tenure", "pending_requests"), is_journaled=False):
    """A topic is extended for a client; the assignment records of the change become durable."""

    ticket: int
    result: TopicResult
    """The client's, once each partition has a leader."""


TopicEvent = TopicsListed | TopicsRead | TopicConfigsRead


TopicRecord = AssignmentRecord | TopicIdRecord | TopicCreatedRecord | TopicGrownRecord
