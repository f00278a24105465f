"""
The part of the ledger about replicas in named log directories (KIP-113).

Only memory: a daemon that takes over looks again. A broker keeps in memory, too, in which directory
the log of a replica is to be created; so an acknowledgement counts for its registration only, and
until the replica is created.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
class ReplicaReport:
    """Where a broker has a replica."""

    epoch: BrokerEpoch
    at: Instant
    placed: PlacedReplica | None
    """None: it reports no such replica."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A requested directory without an answer."""

    epoch: BrokerEpoch
    directory: str
    at: Instant


@dataclass(frozen=True, slots=True)
class PlacementAnswer:
    """The last answer to a requested directory, until something depends on it no more."""

    epoch: BrokerEpoch
    directory: str
    at: Instant
    why: str | None = None
    """Why the broker does not carry it out; None: it acknowledged it."""
    is_lost: bool = False
    """Whether no answer arrived: the broker may carry it out, even later."""


@dataclass(slots=True)
class DirectoryMove:
    """The progress of a future log."""

    directory: str
    size: int
    since: Instant
    """Since when it has that size."""


@dataclass(slots=True)
class NamedReplica:
    """A replica that is to be in a named directory, or that is moved by its broker."""

    report: ReplicaReport | None = None
    """Where it is; in the phase ``Placing``, and while the broker may move it."""
    request: PlacementRequest | None = None
    answer: PlacementAnswer | None = None
    move: DirectoryMove | None = None
    restarts: int = 0
    """How often its move was begun again."""

    def in_registration(self, epoch: BrokerEpoch | None) -> NamedReplica:
        """Return what this registration of the broker reported and answered, or has to answer."""
        report, request, answer = self.report, self.request, self.answer
        return replace(
            self,
            report=report if report is not None and report.epoch == epoch else None,
            request=request if request is not None and request.epoch == epoch else None,
            answer=answer if answer is not None and answer.epoch == epoch else None,
        )

    @property
    def placed(self) -> PlacedReplica:
        """Where its broker reported it; nowhere where it did not."""
        return (self.report and self.report.placed) or PlacedReplica(None)

    @property
    def is_missing(self) -> bool:
        """Whether its broker reported no such replica."""
        return self.report is not None and self.placed.directory is None

    @property
    def is_up_to_date(self) -> bool:
        """Whether there is a report that shows what became of the last request."""
        return self.report is not None and (self.answer is None or self.report.at >= self.answer.at)

    def is_accepted(self, directory: str) -> bool:
        """Return whether its broker acknowledged a directory."""
        answer = self.answer
        return answer is not None and answer.directory == directory and answer.why is None

    @property
    def is_stopped(self) -> bool:
        """Whether its broker answered to the present directory: any move has ended."""
        known, here = self.answer, self.placed.directory
        return known is not None and known.directory == here and not known.is_lost

    @property
    def may_move(self) -> bool:
        """Whether its broker may move it, as of the last report if there is one."""
        is_unknown = self.report is None or self.request is not None
        return is_unknown or self.placed.future is not None

    def is_stalled(self, now: Instant) -> bool:
        """Return whether its future log stopped growing."""
        patience = min(STALLED_S * math.pow(2.0, self.restarts), STALLED_MOST_S)
        return self.move is not None and now - self.move.since >= patience


@dataclass(slots=True)
class Placements:
    """What is known in one tenure of replicas that are to be in named directories."""

    replicas: dict[Replica, NamedReplica] = field(default_factory=dict)
    placing: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Partitions in the phase ``Placing``, and since when their reports count."""
    left: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Partitions with moves that may continue, and since when no phase has them made."""
    gated: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose step may wait for a directory."""

    def of(self, broker: BrokerId, partition: TopicPartition) -> NamedReplica:
        """Return what is known of a replica, to be changed."""
        return self.replicas.setdefault((broker, partition), NamedReplica())

    def known(
        self, broker: BrokerId, partition: TopicPartition, epoch: BrokerEpoch | None
    ) -> NamedReplica:
        """Return what this registration of a broker said of a replica."""
        return self.replicas.get((broker, partition), NamedReplica()).in_registration(epoch)

    def since(self, partition: TopicPartition) -> Instant | None:
        """Return since when reports of a partition count; None: nothing waits for them."""
        return self.placing.get(partition, self.left.get(partition))

    def forget(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Forget what was answered and reported of replicas; a request may still be answered."""
        for broker in brokers:
            former = self.replicas.pop((broker, partition), None)
            if former is not None and former.request is not None:
                self.replicas[broker, partition] = NamedReplica(request=former.request)
