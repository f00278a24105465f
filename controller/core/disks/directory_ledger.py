"""
The ledger of log directories: what brokers reported and answered about named directories (KIP-113).

Only memory: a daemon that takes over asks again. A broker keeps in memory, too, in which directory
the log of a replica is to be created; so an acknowledgement counts for its registration only, and
until the replica is created.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.model import BrokerEpoch, BrokerId, Instant, PlacedReplica, TopicPartition
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    LOG_DIR_NOT_FOUND,
    NOT_LEADER_OR_FOLLOWER,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

NO_ANSWER: Final = -1
"""In the place of an error code."""
NOT_THERE: Final = frozenset(
    {UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE}
)
"""By release: the replica does not exist; its log will be created in the requested directory."""
ERRORS: Final[Mapping[int, str]] = {
    CLUSTER_AUTHORIZATION_FAILED: "it denies the request: the daemon needs Alter on the cluster",
    KAFKA_STORAGE_ERROR: "the directory, or that of the replica, is offline",
    LOG_DIR_NOT_FOUND: "it has no such directory",
}
"""As sentences about the broker."""
STALLED_S: Final = 60.0
"""
A move whose future log did not grow for so long is begun again, after twice the time from then on.

Before Kafka 2.5, a move makes no progress any more when the leader epoch changes (KAFKA-9654).
"""
STALLED_MOST_S: Final = 3600.0

Replica = tuple[BrokerId, TopicPartition]


@dataclass(frozen=True, slots=True)
class BrokerDirs:
    """The log directories of a broker in its last report."""

    epoch: BrokerEpoch
    dirs: Mapping[str, bool]
    """Whether each has failed."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A broker does not report its directories."""

    epoch: BrokerEpoch
    since: Instant
    why: str
    is_lasting: bool
    """Whether nothing waits for it any longer that could be refused."""


@dataclass(frozen=True, slots=True)
class Report:
    """Where a broker has a replica."""

    epoch: BrokerEpoch
    at: Instant
    placed: PlacedReplica | None
    """None: it reports no such replica."""


@dataclass(frozen=True, slots=True)
class DirectoryRequest:
    """A requested directory without an answer."""

    epoch: BrokerEpoch
    directory: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer to a requested directory, until something depends on it no more."""

    epoch: BrokerEpoch
    directory: str
    at: Instant
    why: str | None = None
    """Why the broker does not carry it out; None: it acknowledged it."""
    is_lost: bool = False
    """Whether no answer arrived: the broker may carry it out, even later."""


@dataclass(slots=True)
class Move:
    """The progress of a future log."""

    directory: str
    size: int
    since: Instant
    """Since when it has that size."""


@dataclass(slots=True)
class DirectoryLedger:
    """What is known of directories in one tenure."""

    brokers: dict[BrokerId, BrokerDirs] = field(default_factory=dict)
    silent: dict[BrokerId, Silence] = field(default_factory=dict)
    requested: dict[BrokerId, Instant] = field(default_factory=dict)
    """When each broker was last asked for a report, answered or not."""
    awaited: dict[BrokerId, BrokerEpoch] = field(default_factory=dict)
    """Registrations of brokers that did not answer that yet."""
    unknown: set[BrokerId] = field(default_factory=set)
    """Brokers that were asked because an entry to be accepted names their directories."""
    placing: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Partitions in the phase ``Placing``, and since when their reports count."""
    gated: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose step may wait for a directory."""
    reports: dict[Replica, Report] = field(default_factory=dict)
    """Of partitions in that phase."""
    requests: dict[Replica, DirectoryRequest] = field(default_factory=dict)
    answers: dict[Replica, Answer] = field(default_factory=dict)
    moves: dict[Replica, Move] = field(default_factory=dict)
    left: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Partitions with moves that may continue, and since when no phase has them made."""
    restarts: dict[Replica, int] = field(default_factory=dict)
    """How often a move was begun again."""

    def silence_of(self, broker: BrokerId, epoch: BrokerEpoch | None) -> Silence | None:
        """Return that this registration of a broker does not report its directories."""
        silence = self.silent.get(broker)
        return silence if silence is not None and silence.epoch == epoch else None

    def is_under_way(self, replica: Replica, epoch: BrokerEpoch | None) -> bool:
        """Return whether this registration of the broker has yet to answer a request."""
        request = self.requests.get(replica)
        return request is not None and request.epoch == epoch

    def answer_of(
        self, replica: Replica, epoch: BrokerEpoch | None, directory: str
    ) -> Answer | None:
        """Return the answer of this registration of the broker about a directory."""
        answer = self.answers.get(replica)
        if answer is None or (answer.epoch, answer.directory) != (epoch, directory):
            return None
        return answer

    def forget(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Forget what was answered and reported of these replicas."""
        for broker in brokers:
            self.answers.pop((broker, partition), None)
            self.reports.pop((broker, partition), None)
            self.moves.pop((broker, partition), None)
            self.restarts.pop((broker, partition), None)

    def report_of(self, replica: Replica, epoch: BrokerEpoch | None) -> Report | None:
        """Return the last report of this registration of the broker about a replica."""
        report = self.reports.get(replica)
        return report if report is not None and report.epoch == epoch else None

    def may_move(self, replica: Replica, epoch: BrokerEpoch | None) -> bool:
        """Return whether a broker may move a replica, as of its last report if there is one."""
        report = self.reports.get(replica)
        if report is None or self.is_under_way(replica, epoch):
            return True
        return report.placed is not None and report.placed.future is not None

    def is_stalled(self, replica: Replica, now: Instant) -> bool:
        """Return whether the future log of a replica stopped growing."""
        move = self.moves.get(replica)
        if move is None:
            return False
        patience = STALLED_S * math.pow(2.0, self.restarts.get(replica, 0))
        return now - move.since >= min(patience, STALLED_MOST_S)
