"""Events and records of partition states, elections and notifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.core import model
from controller.core.bases import Durable, Fact, Volatile
from controller.core.calls.client_requests import PartitionResult
from controller.core.model import BrokerId, Instant, Replicas, TopicPartition


@dataclass(frozen=True, slots=True)
class StatesRead(Fact, wakes=("deletions",)):
    """Partition states; None where there is no znode, a text where it cannot be decoded."""

    states: Mapping[TopicPartition, model.PartitionState | str | None]
    read_generation: int = 0
    """As in ``TopicsRead``."""
    armed: frozenset[TopicPartition] | None = None
    """The states whose next change is reported as ``StateChanged``; None: no watch was set."""


@dataclass(frozen=True, slots=True)
class StateChanged(Fact, wakes=()):
    """The watch on a partition's state fired; its present content is not known yet."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class IsrNotificationsRead(Fact, wakes=()):
    """ISR change notifications of leaders: znode names and the partitions they list."""

    names: tuple[str, ...]
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PreferredElectionRead(Fact, wakes=()):
    """``/admin/preferred_replica_election``; None when it does not exist."""

    partitions: frozenset[TopicPartition] | None
    version: model.ZkVersion | None = None


class LeaderAndIsrResult(NamedTuple):
    """One partition of a LeaderAndIsr answer, with the epoch that was sent."""

    partition: TopicPartition
    leader_epoch: model.LeaderEpoch
    error: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered(Fact, wakes=()):
    """A broker's answer; ``resent`` when an earlier copy of the request may have reached it."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    results: tuple[LeaderAndIsrResult, ...]
    resent: bool
    took_s: float = 0.0
    """Seconds from the first sending to the answer."""


@dataclass(frozen=True, slots=True)
class StateRecord(Durable, wakes=()):
    """
    A compare-and-set of a partition's state.

    ``leader_epoch`` is always one more than before: brokers ignore a LeaderAndIsr with an epoch
    they have, so a write without the bump could never be delivered.
    """

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: model.LeaderEpoch
    isr: Replicas
    controller_epoch: model.ControllerEpoch
    expected_version: model.ZkVersion
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class StateCreatedRecord(Durable, wakes=()):
    """The first state of a new partition."""

    partition: TopicPartition
    leader: BrokerId
    isr: Replicas
    controller_epoch: model.ControllerEpoch


@dataclass(frozen=True, slots=True)
class IsrRecord(Durable, wakes=(), is_journaled=False):
    """
    A compare-and-set of the ISR alone, as the partition's leader requested it (KIP-497).

    Leader and epochs stay: it is the leader's decision, which below inter-broker protocol 2.7 it
    writes itself. The controller epoch stays, too: it says who decided the leader epoch.
    """

    partition: TopicPartition
    before: model.PartitionState
    isr: Replicas
    leader_recovery_state: int


@dataclass(frozen=True, slots=True)
class StateReliedRecord(Volatile, wakes=(), is_journaled=False):
    """The change is valid only for this version of a partition's state, which it does not write."""

    partition: TopicPartition
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class ShutdownBegunRecord(Volatile, wakes=("pending_requests",)):
    """A broker requested a controlled shutdown, in this registration."""

    broker: BrokerId
    epoch: model.BrokerEpoch


@dataclass(frozen=True, slots=True)
class ElectionsRequestedRecord(Volatile, wakes=("elections",), is_journaled=False):
    """A client waits for leaders of these partitions."""

    ticket: int
    partitions: tuple[TopicPartition, ...]
    results: tuple[PartitionResult, ...]
    """The results of the others."""
    is_unclean: bool = False
    """Whether any live replica may lead, or the preferred one shall."""


@dataclass(frozen=True, slots=True)
class PreferredElectionEndedRecord(Durable, wakes=("tenure",)):
    """``/admin/preferred_replica_election`` is deleted."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class PreferredTriedRecord(Volatile, wakes=("elections", "tenure"), is_journaled=False):
    """Elections that this change writes, or that cannot be held; due again if it is rejected."""

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class LeadersBalancedRecord(Volatile, wakes=("elections", "tenure"), is_journaled=False):
    """The balance of leaderships was checked; these need a preferred election."""

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class NotificationsDeletedRecord(Durable, wakes=()):
    """Processed children of a notification directory; ``kind`` is its name in ``znodes.paths``."""

    kind: str
    names: tuple[str, ...]


LeadershipEvent = (
    StatesRead | StateChanged | IsrNotificationsRead | PreferredElectionRead | LeaderAndIsrAnswered
)


LeadershipRecord = (
    StateRecord
    | StateCreatedRecord
    | IsrRecord
    | StateReliedRecord
    | ShutdownBegunRecord
    | ElectionsRequestedRecord
    | PreferredElectionEndedRecord
    | PreferredTriedRecord
    | LeadersBalancedRecord
    | NotificationsDeletedRecord
)
