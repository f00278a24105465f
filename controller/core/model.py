"""
The vocabulary: identifiers and the immutable values everything else is made of.

Words are Kafka's own. What a znode holds travels together with the version it was read at, so a
compare-and-set can never be spelled without one. Nothing here decides or touches the outside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The czxid of a broker's registration znode (KIP-380)."""
ControllerEpoch = NewType("ControllerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ZkVersion = NewType("ZkVersion", int)
Zxid = NewType("Zxid", int)
RequestId = NewType("RequestId", str)
Instant = NewType("Instant", float)
"""Seconds on a monotonic clock; only differences mean anything."""

Replicas = tuple[BrokerId, ...]

NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)
"""In UpdateMetadata: the partition is being deleted, and leaves what brokers tell their clients."""

NO_BROKERS: Final[frozenset[BrokerId]] = frozenset()
"""One object for all: an empty set of its own costs two hundred bytes a partition."""


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as Kafka's tools print it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """
    Content of ``/brokers/topics/T/partitions/P/state`` and the version it was read at.

    The version is what Kafka's protocol calls the partition epoch.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    controller_epoch: ControllerEpoch
    version: ZkVersion
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """
    What the topic znode says of one partition (KIP-455).

    ``replicas`` is the whole replica set RS; ``adding_replicas`` (AR) and ``removing_replicas``
    (RR) are subsets of it. A Kafka controller that takes over finishes exactly what they say.
    """

    replicas: Replicas
    adding_replicas: Replicas = ()
    removing_replicas: Replicas = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether the znode says that something is still to be added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> Replicas:
        """Where the step came from: RS without AR, in order (``ReplicaAssignment`` of Kafka)."""
        if not self.adding_replicas:
            return self.replicas
        return tuple(r for r in self.replicas if r not in self.adding_replicas)

    @property
    def target_replicas(self) -> Replicas:
        """TR: what remains when the removing replicas are gone, in the order of RS."""
        if not self.removing_replicas:
            return self.replicas
        return tuple(r for r in self.replicas if r not in self.removing_replicas)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Content of ``/brokers/topics/T`` with the version it was read at and its identity."""

    partitions: Mapping[int, PartitionAssignment]
    version: ZkVersion
    czxid: Zxid
    topic_id: str | None = None
    mzxid: Zxid = Zxid(0)
    """When it was written last; 0 where that is not known."""
    is_marked: bool = False
    """Whether it says what is being added and removed: Kafka 2.3 writes the union alone."""


class Endpoint(NamedTuple):
    """One listener a broker advertises."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker registration; ``epoch`` tells a bounced broker from the one before it."""

    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    has_features: bool = False
    """Registrations carry ``features`` from inter-broker protocol 2.7 on."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective topic settings that decide whether a step is safe."""

    min_insync_replicas: int
    unclean_leader_election: bool


class ConfigQuestion(NamedTuple):
    """A request for topic settings: its number in the order of requests, and when it was made."""

    number: int
    at: Instant


NEVER_ASKED: Final = ConfigQuestion(0, Instant(-math.inf))
"""Precedes every request: an answer to it is too old for any decision."""


class Route(StrEnum):
    """How a reassignment came to us."""

    LEGACY = "legacy"
    """An entry of ``/admin/reassign_partitions``."""
    REQUEST = "request"
    FOREIGN = "foreign"
    """Adding or removing replicas that somebody else recorded in the topic znode."""


@dataclass(frozen=True, slots=True)
class ReassignmentSpec:
    """
    What is to become of one partition: the content of ``/admin/reassignments/T/P``.

    Written at acceptance and when the target changes, never for progress.
    """

    target: Replicas
    original: Replicas | None
    """The replicas before the reassignment, in order; None when nobody knows any more."""
    request: RequestId
    route: Route
    version: ZkVersion | None = None
    """Version of our record; None while (or because) no record of ours exists."""
    cancelled_by: RequestId | None = None
    """The cancellation that turned it round; the target is the original then."""
    abandoned: frozenset[BrokerId] = NO_BROKERS
    """Replicas that earlier targets named and this one does not: they may have a log."""

    @property
    def rolls_back(self) -> bool:
        """Whether it leads back to where the partition was."""
        return self.cancelled_by is not None

    def led_back(self, original: Replicas, by: RequestId) -> ReassignmentSpec:
        """Return the goal turned round to where the partition was; what it named may have a log."""
        return replace(
            self,
            target=original,
            cancelled_by=by,
            abandoned=(self.abandoned | frozenset(self.target)) - frozenset(original) or NO_BROKERS,
        )

    @property
    def top(self) -> int:
        """How many replicas KIP-236's drop set keeps: the size of the original assignment."""
        return len(self.target if self.original is None else self.original)


@dataclass(frozen=True, slots=True)
class LegacyPlan:
    """
    ``/admin/reassign_partitions`` as read: the good entries and what was wrong with the others.

    ``unreadable`` is the reason when the node as a whole cannot be understood; then there are no
    entries and ``raw`` is what stood there.
    """

    entries: Mapping[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    refused: tuple[tuple[str, str], ...] = ()
    """(entry as text, reason) of each entry that is not even well-formed."""
    unreadable: str | None = None
    raw: bytes = field(default=b"", repr=False)


class RefusalReason(StrEnum):
    """Why an entry of a plan is not carried out; the label of the refusal counter."""

    MALFORMED = "malformed"
    UNKNOWN_PARTITION = "unknown_partition"
    TOPIC_BEING_DELETED = "topic_being_deleted"
    DUPLICATE_REPLICAS = "duplicate_replicas"
    EMPTY_REPLICAS = "empty_replicas"
    UNKNOWN_BROKER = "unknown_broker"
    BELOW_MIN_ISR = "below_min_insync_replicas"
    OTHER_ROUTE = "in_flight_by_other_route"
    UNREADABLE = "unreadable"
    DROPPED_BY_OPERATOR = "dropped_by_operator"
    DISABLED = "disabled"
    """``/admin/reassign_cancel`` exists."""
    ATOMIC = "atomic"
    """Another entry of an atomic request was refused."""
    FOREIGN_MOVE = "foreign_move"
    """Others move partitions, and ``foreign_moves`` says to refuse then."""
    TOO_MANY_PARTS = "too_many_parts"
    """A part more than its request said it has."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry that is not carried out, and why, in words an operator can act on."""

    request: RequestId
    entry: str
    reason: RefusalReason
    detail: str
    partition: TopicPartition | None = None
    """None where the entry does not even name one."""
    entries: int = 1
    """How many entries it stands for."""
    was_accepted: bool = False
    """Whether it was a reassignment before: it is counted among the accepted ones already."""


class OutcomeKind(StrEnum):
    """What became of an accepted entry that did not simply reach its target."""

    CANCELLED = "cancelled"
    """It had not begun, and never will."""
    ROLLED_BACK = "rolled_back"
    SKIPPED = "skipped"
    """It was to be cancelled and could not be; the detail says why."""
    SUPERSEDED = "superseded"
    """A later request took the partition over."""


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """How one partition of a request ended, where it is not simply done."""

    request: RequestId
    partition: TopicPartition
    fate: OutcomeKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedEntry:
    """An accepted entry as the outcomes keep it: where the partition was, where it is to go."""

    partition: TopicPartition
    original: Replicas | None
    target: Replicas


class AlterOutcome(StrEnum):
    """What is known of an order that the cluster's controller was given, or was to be given."""

    ANSWERED = "answered"
    """So is every order before it: that controller works through them one after another."""
    UNSENT = "unsent"
    """It reached nobody who could make it, and never will."""
    UNKNOWN = "unknown"
    """It left us and was not answered: it may be made at any time, or never."""
    WITHDRAWN = "withdrawn"
    """It was not sent: what it stood on changed."""


class BlockedBy(StrEnum):
    """What a reassignment waits for; a bounded set, used as a metric label."""

    CONFIG_UNKNOWN = "config_unknown"
    STATE_UNKNOWN = "state_unknown"
    NO_LEADER = "no_leader"
    REPLICA_NOT_IN_ISR = "replica_not_in_isr"
    BROKER_DEAD = "broker_dead"
    MIN_ISR = "min_insync_replicas"
    LIMIT = "limit"
    LEADER_MOVES = "leader_moves"
    """So many leaderships moved within a second; it is tried again in the next."""
    LEADER_ACK = "leader_acknowledgement"
    STOP_REPLICA_ACK = "stop_replica_acknowledgement"
    TOPIC_DELETION = "topic_deletion"
    DRAINING = "draining"
    KILL_SWITCH = "kill_switch"
    PAUSED = "paused"
    WINDOW = "window"
    THROTTLE = "throttle"
    """Its throttle is being set."""
    CLUSTER_HEALTH = "cluster_health"
    """Partitions we do not move are below min.insync.replicas."""
    INCOMPLETE = "incomplete"
    """Parts of an atomic request are still missing, or not judged."""
    CONTROLLER_ROLE = "controller_role"
    CONTROLLER_ANSWER = "controller_answer"
    """Delegated: the cluster's controller has not done yet what it was told, or refused it."""
    WRITE_REFUSED = "write_refused"
    """ZooKeeper refuses what comes next for another reason than a race: permissions, sizes."""
    FOREIGN_MOVES = "foreign_moves"
    """Others move it, or partitions at all where ``foreign_moves`` says to wait for them."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a partition does not go on just now, in words."""

    by: BlockedBy
    detail: str
    is_copying: bool = False
    """Whether only replicas that are being added are not in sync yet: progress, nothing amiss."""
