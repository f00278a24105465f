"""
The vocabulary of the core: identifiers and immutable values, in Kafka's own words.

The content of a znode is kept together with the version at which it was read, so that every
compare-and-set has a version.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
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
"""Seconds on a monotonic clock; only differences are meaningful."""

Replicas = tuple[BrokerId, ...]

GB: Final = 10**9
START: Final = Instant(0.0)
"""Before the first event."""
UNKNOWN_ZXID: Final = Zxid(0)
"""The last write of a znode, where the reader does not know it."""
NO_LEADER: Final = BrokerId(-1)
NO_BROKERS: Final[frozenset[BrokerId]] = frozenset()
"""A shared empty set: a separate one for each partition would cost two hundred bytes."""


class TopicPartition(NamedTuple):
    """A partition of a topic, printed as Kafka's tools print it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """
    The content of ``/brokers/topics/T/partitions/P/state`` and the version at which it was read.

    Kafka's protocol calls the version the partition epoch.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    controller_epoch: ControllerEpoch
    version: ZkVersion
    leader_recovery_state: int = 0
    mzxid: Zxid = UNKNOWN_ZXID
    """
    Its last write as it was read; a broker with a later registration registered after that.

    Of a leader epoch that this tenure wrote: the newest registration that was known at the write.
    """


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """
    The entry of one partition in its topic znode (KIP-455): RS, and its subsets AR and RR.

    A Kafka controller that takes over completes exactly this step.
    """

    replicas: Replicas
    adding_replicas: Replicas = ()
    removing_replicas: Replicas = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether a replica is still to be added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> Replicas:
        """The assignment before the step: RS without AR (``ReplicaAssignment`` of Kafka)."""
        if not self.adding_replicas:
            return self.replicas
        return tuple(r for r in self.replicas if r not in self.adding_replicas)

    @property
    def target_replicas(self) -> Replicas:
        """TR, the assignment after the step: RS without RR, in order."""
        if not self.removing_replicas:
            return self.replicas
        return tuple([r for r in self.replicas if r not in self.removing_replicas])


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The content of ``/brokers/topics/T``, its version and its identity."""

    partitions: Mapping[int, PartitionAssignment]
    version: ZkVersion
    czxid: Zxid
    topic_id: str | None = None
    mzxid: Zxid = UNKNOWN_ZXID
    """The transaction of the last write."""
    is_marked: bool = False
    """Whether the znode names adding and removing replicas; Kafka 2.3 writes the union only."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective topic settings that decide whether a step is safe."""

    min_insync_replicas: int
    unclean_leader_election: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker, as its broker reported it."""

    path: str
    total: int | None = None
    """Bytes of its volume; None where it is unknown."""
    usable: int | None = None
    """Free bytes of its volume; None where they are unknown."""
    logs: int | None = None
    """The number of its logs; None where they were not counted."""
    is_failed: bool = False
    is_estimate: bool = False
    """Whether ``usable`` is the configured capacity less the listed logs, without kept ones."""


@dataclass(frozen=True, slots=True)
class BrokerDisks:
    """The log directories of a broker in one answer."""

    epoch: BrokerEpoch
    at: Instant
    """The instant before the broker was queried: what happened earlier is included."""
    dirs: tuple[LogDir, ...]


LogDirs = tuple[tuple[BrokerId, str], ...]
"""The log directories that an entry names, each with its broker, in the order of the replicas."""


@dataclass(frozen=True, slots=True)
class PlacedReplica:
    """The log directory and the bytes of a replica, as its broker reported them."""

    directory: str | None
    """None: only the future log is reported."""
    size: int = 0
    future: str | None = None
    """The directory that it is being moved to: that of its future log."""
    future_size: int = 0


@dataclass(frozen=True, slots=True)
class MinFree:
    """The space that copies leave free in a log directory: bytes, or a share of its volume."""

    bytes: int = 0
    share: float = 0.0

    def of(self, total: int | None) -> int:
        """Return the bytes of a directory whose volume has this size."""
        return max(self.bytes, math.ceil(self.share * (total or 0)))

    def __str__(self) -> str:
        if self.share:
            return f"{100 * self.share:g}%"
        return f"{self.bytes / GB:.3g} GB" if self.bytes >= GB else f"{self.bytes} bytes"


FOREIGN: Final = RequestId("foreign")
"""Stands for a request in foreign reassignments, which have none."""


class Route(StrEnum):
    """The way in which a reassignment reached the daemon."""

    LEGACY = "legacy"
    """An entry of ``/admin/reassign_partitions``."""
    REQUEST = "request"
    FOREIGN = "foreign"
    """Adding or removing replicas that another client recorded in the topic znode."""


@dataclass(frozen=True, slots=True)
class ReassignmentSpec:
    """
    The specification of one reassignment: the content of ``/admin/reassignments/T/P``.

    Written at acceptance and when the target changes, never to record progress.
    """

    target: Replicas
    original: Replicas | None
    """The replicas before the reassignment, in order; None where they are unknown."""
    request: RequestId
    route: Route
    version: ZkVersion | None = None
    """The version of the record; None while no record exists."""
    cancelled_by: RequestId | None = None
    """The cancellation that reversed it; ``target`` is the original assignment then."""
    abandoned: frozenset[BrokerId] = NO_BROKERS
    """Replicas of earlier targets that this one does not contain: they may have a log."""
    topic_czxid: Zxid | None = None
    """The creation of the topic that it was accepted for; None in records of earlier versions."""
    expected: Replicas | None = None
    """Of an approved entry before its first step: the replicas from which that may begin."""
    asked: Replicas | None = None
    """Delegated, with ``expected``: the target of the alter entry for the first step."""
    log_dirs: LogDirs = ()
    """The directories that the target replicas are to have, where the entry names them."""
    unplaced: frozenset[BrokerId] = NO_BROKERS
    """Replicas, also dropped ones, whose move to an earlier named directory is to be stopped."""

    @property
    def rolls_back(self) -> bool:
        """Whether it leads back to the original replicas."""
        return self.cancelled_by is not None

    def rolled_back(self, original: Replicas, by: RequestId) -> ReassignmentSpec:
        """Return the spec that leads back to ``original``, abandoning the former target."""
        return replace(
            self,
            target=original,
            cancelled_by=by,
            expected=None,
            asked=None,
            log_dirs=(),
            unplaced=self.unplaced_by(()),
            abandoned=(self.abandoned | frozenset(self.target)) - frozenset(original) or NO_BROKERS,
        )

    @property
    def has_directories(self) -> bool:
        """Whether it ends only when replicas are in certain directories."""
        return bool(self.placed_brokers)

    @property
    def placed_brokers(self) -> Replicas:
        """The brokers whose replicas are to be in certain directories."""
        stopped = sorted(self.unplaced.intersection(self.target))
        return tuple(dict.fromkeys((*(b for b, _ in self.log_dirs), *stopped)))

    def directory_of(self, broker: BrokerId) -> str | None:
        """Return the directory that a replica is to have; None: any."""
        return next((path for b, path in self.log_dirs if b == broker), None)

    def unplaced_by(self, log_dirs: LogDirs) -> frozenset[BrokerId]:
        """Return the replicas whose moves a later target has to stop; a dropped one may be kept."""
        kept = set(self.log_dirs) & set(log_dirs)
        named = {b for b, path in self.log_dirs if (b, path) not in kept}
        return self.unplaced | named or NO_BROKERS

    @property
    def is_order_alone(self) -> bool:
        """Whether the target has the original replicas: nothing is copied or dropped."""
        return self.original is not None and set(self.original) == set(self.target)

    @property
    def top(self) -> int:
        """The number of replicas that KIP-236's drop set keeps."""
        return len(self.target if self.original is None else self.original)


class RefusalReason(StrEnum):
    """The reason for a refused entry of a plan; the label of the refusal counter."""

    MALFORMED = "malformed"
    UNKNOWN_PARTITION = "unknown_partition"
    TOPIC_BEING_DELETED = "topic_being_deleted"
    DUPLICATE_REPLICAS = "duplicate_replicas"
    EMPTY_REPLICAS = "empty_replicas"
    UNKNOWN_BROKER = "unknown_broker"
    DRAINED_BROKER = "drained_broker"
    """A broker that it adds is drained."""
    BELOW_MIN_ISR = "below_min_insync_replicas"
    OTHER_ROUTE = "in_flight_by_other_route"
    UNREADABLE = "unreadable"
    DROPPED_BY_OPERATOR = "dropped_by_operator"
    DISABLED = "disabled"
    """``/admin/reassign_cancel`` exists."""
    ATOMIC = "atomic"
    """Another entry of an atomic request was refused."""
    FOREIGN_MOVE = "foreign_move"
    """Foreign reassignments exist, and ``foreign_moves`` is ``refuse``."""
    DRIFTED = "drifted"
    """The replicas are not those for which the entry was approved."""
    NOT_APPROVED = "not_approved"
    """``require_approval`` is set, or the entries are not those that were approved."""
    LOG_DIR = "log_dir"
    """A named log directory does not exist or is offline, or its broker does not report it."""
    TOO_MANY_PARTS = "too_many_parts"
    """The part exceeds the number of parts that its request announced."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry that is refused, with a reason an operator can act on."""

    request: RequestId
    entry: str
    reason: RefusalReason
    detail: str
    partition: TopicPartition | None = None
    """None where the entry does not name a partition."""
    entries: int = 1
    """The number of entries that this refusal counts for."""
    was_accepted: bool = False
    """Whether the entry was accepted before: it already counts among the accepted entries."""


class OutcomeKind(StrEnum):
    """The outcome of an accepted entry that did not reach its target."""

    CANCELLED = "cancelled"
    """It had not begun and never will."""
    ROLLED_BACK = "rolled_back"
    SKIPPED = "skipped"
    """It was to be cancelled and could not be; the detail says why."""
    SUPERSEDED = "superseded"
    """A later request replaced it."""


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The outcome of one partition of a request, where it did not reach its target."""

    request: RequestId
    partition: TopicPartition
    fate: OutcomeKind
    why: str = ""
    by: RequestId | None = None
    """The request that cancelled, rolled back or replaced it, where one did."""

    @property
    def detail(self) -> str:
        """The explanation for operators."""
        return self.why if self.by is None else f"by {self.by}"


class AlterOutcome(StrEnum):
    """The state of an AlterPartitionReassignments entry that was sent, or was to be sent."""

    ANSWERED = "answered"
    """The controller answered it and every entry before it, as it processes them in order."""
    UNSENT = "unsent"
    """No controller received it, and none ever will."""
    UNKNOWN = "unknown"
    """It was sent and not answered: the controller may carry it out at any time, or never."""
    WITHDRAWN = "withdrawn"
    """It was not sent, as its preconditions changed."""


class BlockedBy(StrEnum):
    """The kind of condition that blocks a reassignment: a bounded set, used as a metric label."""

    CONFIG_UNKNOWN = "config_unknown"
    STATE_UNKNOWN = "state_unknown"
    NO_LEADER = "no_leader"
    REPLICA_NOT_IN_ISR = "replica_not_in_isr"
    BROKER_DEAD = "broker_dead"
    MIN_ISR = "min_insync_replicas"
    LIMIT = "limit"
    LEADER_MOVES = "leader_moves"
    """The leader moves of a broker within one second are exhausted; the next second allows more."""
    LEADER_ACK = "leader_acknowledgement"
    STOP_REPLICA_ACK = "stop_replica_acknowledgement"
    TOPIC_DELETION = "topic_deletion"
    DRAINING = "draining"
    KILL_SWITCH = "kill_switch"
    PAUSED = "paused"
    WINDOW = "window"
    THROTTLE = "throttle"
    """Its throttle is not applied yet."""
    DISK_FULL = "disk_full"
    """A log directory that may take the copy has no room for it above ``min_free``."""
    DISK_UNKNOWN = "disk_unknown"
    """The size of the partition, or the room on a broker's disks, is not measured yet."""
    LOG_DIR = "log_dir"
    """A replica is not in the log directory that its entry names."""
    CLUSTER_HEALTH = "cluster_health"
    """Partitions that are not being reassigned are below min.insync.replicas."""
    INCOMPLETE = "incomplete"
    """Parts of an atomic request are missing or not judged."""
    CONTROLLER_ROLE = "controller_role"
    CONTROLLER_ANSWER = "controller_answer"
    """Delegated: the cluster's controller has not carried out the reassignment, or refused it."""
    WRITE_REFUSED = "write_refused"
    """
    ZooKeeper rejects the next write, or that of a new target, for a reason other than a race.

    Permissions or sizes.
    """
    FOREIGN_MOVES = "foreign_moves"
    """The partition has a foreign reassignment; where ``foreign_moves`` is ``wait``, any has."""
    NO_TARGET = "no_target"
    """A partition on a drained broker is given no target; the detail says why."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The reason for which a partition makes no progress now, as a sentence for operators."""

    by: BlockedBy
    detail: str
    is_copying: bool = False
    """Whether it waits only for added replicas to enter the ISR, which is progress."""
    obstacle: tuple[Hashable, ...] = ()
    """The limit or the unhealthy partitions: if equal, the same reason blocks both partitions."""


# --- in words ------------------------------------------------------------------------------------

IDS_MAX: Final = 50
"""The most broker ids in a sentence."""


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: ``1 replica``, ``2 replicas``."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def request_text(*requests: RequestId) -> str:
    """Name requests in a sentence; an id such as ``request_0000000004`` says what it is."""
    named = ", ".join(requests)
    return named if named.startswith("request") else f"request {named}"


def ids(replicas: Iterable[BrokerId]) -> str:
    """Format broker ids for a sentence; of very many only the first."""
    listed = [str(r) for r in islice(replicas, IDS_MAX + 1)]
    return ",".join(listed if len(listed) <= IDS_MAX else [*listed[:IDS_MAX], "..."])


def entry_text(partition: TopicPartition, replicas: Replicas) -> str:
    """Format an entry of a plan for operators."""
    return f"{partition} -> [{ids(replicas)}]"
