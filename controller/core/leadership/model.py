"""The vocabulary of partition states and elections, and the ledgers of what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar, Final, NamedTuple

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.model import START, BrokerId, Instant, LeaderEpoch, TopicPartition

RECOVERED: Final = 0
RECOVERING: Final = 1
"""
The leader recovery state after an unclean election, until its leader says otherwise (KIP-704).

The leader is the only member of the ISR meanwhile.
"""


class LostCause(Enum):
    """The reason for which a leader may have forgotten a request (KAFKA-12686)."""

    FENCED = auto()
    """Its request of a former leader epoch was answered."""
    OVERTAKEN = auto()
    """A leader epoch was written just after an answer, and may have arrived before it."""
    CLAIM = auto()
    """A former controller may have answered a request."""


class LostRequest(NamedTuple):
    """A request that a leader may have forgotten, and for whose answer it waits."""

    since: Instant
    cause: LostCause


class AwaitedRead(NamedTuple):
    """A read of a state that a request of a broker waits for."""

    at: Instant
    read_generation: int
    """The answer has this generation or a later one."""
    is_answered: bool = False


@dataclass(slots=True)
class LeadershipLedger(Ledger):
    """The states of partitions in this tenure, and the reads and writes that are pending."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    states: dict[TopicPartition, model.PartitionState] = field(default_factory=dict)
    watched: dict[TopicPartition, bool] = field(default_factory=dict)
    """Whether watched states were read since the watch was set; removed when the watch fires."""
    overtaken: dict[TopicPartition, model.PartitionState] = field(default_factory=dict)
    """
    States before the first rejected write, until they are read again: they have the transaction in
    which the leader epoch began, if it is still the same.
    """
    distrusted: dict[TopicPartition, int] = field(default_factory=dict)
    """The generation in which a rejected write invalidated a state: an earlier read is ignored."""
    stateless: set[TopicPartition] = field(default_factory=set)
    """Partitions known to have no state znode yet."""
    unreadable: dict[TopicPartition, str] = field(default_factory=dict)
    """The reasons for which states could not be decoded when last read; the former is kept."""
    unseeded: dict[TopicPartition, None] = field(default_factory=dict)
    seeding: set[TopicPartition] = field(default_factory=set)
    refreshing: set[TopicPartition] = field(default_factory=set)
    offline: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas whose log directory failed."""
    id_conflicts: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas refused for a log of another topic, until it is removed and the broker restarts."""
    bounced: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """Brokers that came or went while a partition could not be judged; treated as failed later."""
    acked: dict[TopicPartition, tuple[BrokerId, model.LeaderEpoch]] = field(default_factory=dict)
    """The newest LeaderAndIsr that leaders of reassigning partitions acknowledged in the tenure."""
    leaderless: dict[TopicPartition, int] = field(default_factory=dict)
    """
    Partitions durably without a leader, each with the newest settings request before that.

    Settings permit an unclean election only in an answer to a later request. Raised again when a
    broker of the partition registers, a disk returns or the replicas change.
    """
    preferred: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose preferred leader is to be elected."""
    preferred_version: model.ZkVersion | None = None
    leader_moves: dict[BrokerId, tuple[Instant, int]] = field(default_factory=dict)
    """Since when, and how many, leaderships a broker lost or gained within a second."""
    awaited_reads: dict[TopicPartition, AwaitedRead] = field(default_factory=dict)
    """The last reads of states that these wait for."""
    isr_changes_confirmed: dict[TopicPartition, Instant] = field(default_factory=dict)
    """When leaders that forget requests were last answered that theirs is durable."""
    told_ineligible: dict[TopicPartition, LeaderEpoch] = field(default_factory=dict)
    """
    The leader epochs in which a leader was answered that its request is not carried out: it counts
    on that, and a copy of the request may still arrive, over a connection that broke.
    """
    lost_requests: dict[TopicPartition, LostRequest] = field(default_factory=dict)
    """Partitions whose leader may wait for an answer that it will not get."""
    epochs_due: set[TopicPartition] = field(default_factory=set)
    """Those whose leader had time to send a request by itself: the next leader epoch is due."""
    shutting_down: dict[BrokerId, model.BrokerEpoch] = field(default_factory=dict)
    """Brokers that requested a controlled shutdown, until the registration with it ends."""

    def forget(self, partition: TopicPartition) -> None:
        """Forget what is read again of a partition whose topic is gone."""
        by_partition: tuple[dict[TopicPartition, Any], ...] = (
            self.states,
            self.distrusted,
            self.overtaken,
            self.watched,
            self.unreadable,
            self.unseeded,
            self.acked,
            self.bounced,
            self.lost_requests,
            self.isr_changes_confirmed,
            self.told_ineligible,
            self.preferred,
            self.leaderless,
        )
        for facts in by_partition:
            facts.pop(partition, None)
        self.stateless.discard(partition)
        self.epochs_due.discard(partition)

    def is_acknowledged(self, partition: TopicPartition) -> bool:
        """Return whether the current leader acknowledged its epoch in this tenure."""
        state = self.states.get(partition)
        return state is not None and self.acked.get(partition) == (state.leader, state.leader_epoch)


@dataclass(slots=True)
class LeadershipHistory(Ledger):
    """The notifications of brokers, and the times of preferred elections."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)
    preferred_at: Instant = START
    balanced_at: Instant = START
    """When the balance of leaderships was last checked."""
