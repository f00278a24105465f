"""
The facts that are only valid in one tenure.

A claim replaces it, and so does the end of a tenure (``tenure_reset``). Outside a tenure it holds
little: the claim under way, what came meanwhile, and the pending reassignments.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar, NamedTuple

from controller.core import model
from controller.core.calls.broker_requests import PendingBrokerRequest
from controller.core.calls.client_requests import PendingClientRequest
from controller.core.cluster.protocol_versions import BEFORE_FEATURES
from controller.core.disks.directory_ledger import DirectoryLedger
from controller.core.disks.disk_ledger import DiskLedger
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import START, BrokerId, Instant, LeaderEpoch, TopicPartition
from controller.core.pacing.pending_queue import PendingQueue
from controller.core.reassignments.model import Orphan


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time in which the daemon is the cluster's controller."""

    epoch: model.ControllerEpoch
    since: Instant


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The producer ids that are not handed out yet."""

    following: int
    """The first of them."""
    version: model.ZkVersion | None
    """Of ``/latest_producer_id_block``; None where there is none."""


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
class TenureState(Ledger):
    """The reads, writes and findings of this tenure; outside a tenure, the basis of the next."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    # the role
    held: Tenure | None = None
    """The tenure that is held; None outside a tenure."""
    claim_generation: int = 0
    """The generation of the claim: a read that began before it is not valid in the tenure."""
    claiming: bool = False
    """Whether a claim is under way; only its own answer ends it, also where the session is lost."""
    is_void: bool = False
    """Whether the leadership was lost since that claim was requested."""
    resigning: bool = False
    probing: bool = False
    fenced: str | None = None
    """Why the role is not used, as a sentence: a newer controller exists, or its claim is void."""
    accepted_by_broker: bool = False
    """
    Whether a broker accepted an UpdateMetadata of this tenure; nothing is changed before that.
    """
    protocol: str = BEFORE_FEATURES
    """The inter-broker protocol that the requests of this tenure follow."""
    refusers: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that refuse the requests of this tenure, by error code, until they accept again."""
    idle_since: Instant | None = None
    progress_at: Instant = START
    """When one of our steps in flight last made progress; with StopReplica sent, its deadline."""
    shards: int = 0
    """Shards of outcomes written in this tenure: their names must differ."""

    # topics and partition states, and what was missed
    reading_topics: set[str] = field(default_factory=set)
    """Topics that are being read."""
    states: dict[TopicPartition, model.PartitionState] = field(default_factory=dict)
    watched: dict[TopicPartition, bool] = field(default_factory=dict)
    """
    States that are watched: whether they were read since the watch was set.

    A state whose watch fired is removed until it is read again.
    """
    distrusted: dict[TopicPartition, int] = field(default_factory=dict)
    """The generation in which a rejected write invalidated a state: an earlier read is ignored."""
    stateless: set[TopicPartition] = field(default_factory=set)
    """Partitions known to have no state znode yet."""
    unreadable_states: dict[TopicPartition, str] = field(default_factory=dict)
    """The reasons for which states could not be decoded when last read; the former is kept."""
    unseeded: dict[TopicPartition, None] = field(default_factory=dict)
    seeding: set[TopicPartition] = field(default_factory=set)
    refreshing: set[TopicPartition] = field(default_factory=set)
    offline: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas whose log directory failed."""
    id_conflicts: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """
    Replicas that their brokers refuse, as they have a log of another topic of that name there.

    They do not apply what they are sent until that log is removed and the broker restarts.
    """
    bounced: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """
    Brokers that came or went while a partition's topic or state was unknown or invalid.

    They are treated as failed when the partition can be judged; one that is not live by then is
    dead anyway.
    """
    may_have_foreign: bool = False
    """Whether topic znodes may contain foreign reassignments that are not adopted yet."""
    legacy_confirmed: bool = False
    """Whether the legacy znode was read in this tenure: only then is a difference an edit."""
    removed_entries: set[TopicPartition] = field(default_factory=set)
    """
    Entries that an operator removed from the legacy znode, and that may have begun.

    Another controller may have begun them before the claim: their topics are being read.
    """

    # leaders and orphans
    acked: dict[TopicPartition, tuple[BrokerId, model.LeaderEpoch]] = field(default_factory=dict)
    """
    The newest LeaderAndIsr that each reassigning partition's leader acknowledged in this tenure.
    """
    confirmed: dict[TopicPartition, tuple[BrokerId, model.LeaderEpoch]] = field(
        default_factory=dict
    )
    """For partitions with orphans: the epoch that their leader is known to have in this tenure."""
    orphans_tried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was requested in this tenure."""
    orphans_requested_at: Instant = START
    """Delegated: when brokers were last queried for the logs of orphans."""
    orphan_logs: dict[tuple[BrokerId, TopicPartition], str] = field(default_factory=dict)
    """The log directories in which the logs of orphans stand, as brokers reported them."""
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

    # what brokers ask of their controller
    pending_broker_requests: dict[int, PendingBrokerRequest] = field(default_factory=dict)
    """The requests of brokers that are not answered yet, by ticket."""
    heard: dict[BrokerId, Instant] = field(default_factory=dict)
    """When a broker last sent a request in this tenure."""
    whole_since: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Since when the added replicas of a step in flight have the whole log, as far as reported."""
    awaited_reads: dict[TopicPartition, AwaitedRead] = field(default_factory=dict)
    """The last reads of states that these wait for."""
    isr_changes_confirmed: dict[TopicPartition, Instant] = field(default_factory=dict)
    """When leaders that forget requests were last told that theirs is durable."""
    told_ineligible: dict[TopicPartition, LeaderEpoch] = field(default_factory=dict)
    """
    The leader epochs in which a leader was told that its request is not carried out.

    It counts on that: a copy of the request may still arrive, over a connection that broke.
    """
    lost_requests: dict[TopicPartition, LostRequest] = field(default_factory=dict)
    """Partitions whose leader may wait for an answer that it will not get."""
    epochs_due: set[TopicPartition] = field(default_factory=set)
    """Those whose leader had time to ask by itself: the next leader epoch is to be written."""
    producer_ids: ProducerIds | None = None
    """None until they are read in this tenure, and after a rejected write."""
    shutting_down: dict[BrokerId, model.BrokerEpoch] = field(default_factory=dict)
    """
    Brokers that asked for a controlled shutdown, with their registration.

    They stay until that registration ends: the broker stops, however its request was answered.
    """
    pending_client_requests: dict[int, PendingClientRequest] = field(default_factory=dict)
    """The requests of clients that are not answered yet, by ticket."""
    electing: set[TopicPartition] = field(default_factory=set)
    """Partitions for whose leaders clients wait."""
    creations_rejected: dict[str, int] = field(default_factory=dict)
    """How often ZooKeeper rejected the creation of a topic that a client waits for."""

    # scheduling
    waiting: PendingQueue = field(default_factory=PendingQueue)
    """Pending reassignments in the order in which they will be considered."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones that completed a step: they start first when capacity is free."""
    in_flight: int = 0
    incoming: dict[BrokerId, int] = field(default_factory=dict)
    outgoing: dict[BrokerId, int] = field(default_factory=dict)
    bytes_in_flight: int = 0
    pace: int | None = None
    """The adaptive limit of partitions in flight; None: the configured limit holds."""
    pace_since: Instant = START
    """When the interval under judgement began."""

    # disks
    disks: DiskLedger = field(default_factory=DiskLedger)
    directories: DirectoryLedger = field(default_factory=DirectoryLedger)

    # health
    shrunk: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions without a reassignment whose ISR is smaller than their replica set."""
    under_min_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them known to be below ``min.insync.replicas``, or without a leader."""
    recovering: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them that live replicas can restore: copies would slow that down."""
    exposed: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    """The others by the brokers that serve them: copies there could take those replicas, too."""
    unjudged_topics: set[str] = field(default_factory=set)
    """Topics of shrunk partitions whose settings are not known yet."""
    isr_losses: deque[model.IsrLoss] = field(
        default_factory=lambda: deque(maxlen=model.EVIDENCE_KEPT)
    )
    slow_answers: deque[model.SlowAnswer] = field(
        default_factory=lambda: deque(maxlen=model.EVIDENCE_KEPT)
    )

    def is_acknowledged(self, partition: TopicPartition) -> bool:
        """Return whether the current leader acknowledged its epoch in this tenure."""
        state = self.states.get(partition)
        return state is not None and self.acked.get(partition) == (
            state.leader,
            state.leader_epoch,
        )

    def successor(self) -> TenureState:
        """Keep of the disks what outlives a tenure."""
        return TenureState(disks=self.disks.after_tenure())
