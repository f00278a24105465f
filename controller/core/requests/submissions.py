"""
Requests of operators, as values: submissions with their options, approvals, and cancellations.

An approval covers the target replicas of each entry and the replicas from which they are reached,
both in order. The first step of an approved entry begins only from these replicas. From then on it
is an ordinary reassignment: its record no longer names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Final, Literal
from zoneinfo import ZoneInfo

from controller.core.model import (
    LogDirs,
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
)

ANY_LOG_DIR: Final = "any"
"""In the place of a directory: the broker chooses."""


def listed_dirs(replicas: Replicas, log_dirs: LogDirs) -> list[str]:
    """Return the directories of replicas as plans list them."""
    named = dict(log_dirs)
    return [named.get(r, ANY_LOG_DIR) for r in replicas]


NamedDirs = Mapping[TopicPartition, LogDirs]
"""The log directories of the entries of a plan that name any."""

NO_DIRS: Final[NamedDirs] = MappingProxyType({})


def legacy_request_id(czxid: Zxid) -> RequestId:
    """Return the id of the request that a legacy znode stands for: its czxid is unique."""
    return RequestId(f"legacy-{czxid:016x}")


def queue_request_id(czxid: Zxid) -> RequestId:
    """Return the id of the request that a queue's znode stands for: its czxid is unique."""
    return RequestId(f"queue-{czxid:016x}")


def drain_request_id(czxid: Zxid) -> RequestId:
    """Return the id of the request of drains: the czxid of their znode is unique."""
    return RequestId(f"drain-{czxid:016x}")


@dataclass(frozen=True, slots=True)
class LegacyPlan:
    """
    ``/admin/reassign_partitions`` as read: the valid entries and the errors of the others.

    ``unreadable`` is the reason where the znode as a whole cannot be decoded; then there are no
    entries and ``raw`` holds its content.
    """

    entries: Mapping[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    refused: tuple[tuple[str, str], ...] = ()
    """(entry as text, reason) of each malformed entry."""
    unreadable: str | None = None
    raw: bytes = field(default=b"", repr=False)
    log_dirs: Mapping[TopicPartition, LogDirs] = field(default_factory=dict)
    """The log directories that entries name."""


@dataclass(frozen=True, slots=True)
class AcceptedEntry:
    """An accepted entry as outcomes record it: the original and the target replicas."""

    partition: TopicPartition
    original: Replicas | None
    target: Replicas
    recorded_in: Zxid | None = None
    """The transaction that recorded it, as ZooKeeper reports it; None where it was not read."""


StepSize = int | Literal["all"]
"""Replicas added per step; ``all`` is the classic single jump."""

AUTO: Final = "auto"
"""A throttle that follows what producers measure (``pacing.governor``)."""
Throttle = int | Literal["auto"]
"""Bytes per second and broker, or ``AUTO``."""

PRIORITY_MAX: Final = 1000
"""Priorities lie between minus and plus this; 0 is ordinary, higher starts first."""

FIRST_VERSION: Final = ZkVersion(0)
UNASKED: Final = Zxid(0)
"""The last change of a cancellation that was only displayed, or joined."""


@dataclass(frozen=True, slots=True)
class Window:
    """
    The hours of the day in which steps may begin, on the wall clock of a time zone.

    ``closes`` before or at ``opens`` means the next day. A step that has begun continues. Days of
    23 or 25 hours follow the local clock: a time that does not exist is the moment of the change.
    """

    opens: int
    """Minutes after midnight."""
    closes: int
    zone: str = "UTC"
    """A name of the tz database, such as ``Europe/Berlin``."""

    def __str__(self) -> str:
        def clock(minutes: int) -> str:
            return f"{minutes // 60:02d}:{minutes % 60:02d}"

        return f"{clock(self.opens)}-{clock(self.closes)} {self.zone}"

    def is_open(self, unix_s: float) -> bool:
        """Return whether steps may begin at this reading of the wall clock."""
        local = datetime.fromtimestamp(unix_s, ZoneInfo(self.zone))
        minute = local.hour * 60 + local.minute
        if self.opens < self.closes:
            return self.opens <= minute < self.closes
        return minute >= self.opens or minute < self.closes

    def opens_in_s(self, unix_s: float) -> float:
        """Return the seconds until it opens, today or tomorrow; 0 when it is open."""
        if self.is_open(unix_s):
            return 0.0
        zone = ZoneInfo(self.zone)
        now = datetime.fromtimestamp(unix_s, UTC)
        today = now.astimezone(zone).date()
        at = time(self.opens // 60, self.opens % 60)
        for day in (today, today + timedelta(days=1)):
            opening = datetime.combine(day, at, zone).astimezone(UTC)
            if opening > now:
                return (opening - now).total_seconds()
        return timedelta(days=1).total_seconds()

    def closed_text(self, unix_s: float) -> str:
        """Describe a closed window, with the instant at which it opens, to the minute."""
        opens = datetime.fromtimestamp(round((unix_s + self.opens_in_s(unix_s)) / 60) * 60, UTC)
        return f"outside of the window {self}, which opens at {opens:%Y-%m-%d %H:%M:%SZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of one request; None leaves the choice to the daemon's settings."""

    reason: str = ""
    requested_by: str = ""
    approved: str = ""
    """The hash of the approved plan (``plan_hash``); empty without an approval."""
    approved_by: str = ""
    priority: int = 0
    step_size: StepSize | None = None
    throttle: Throttle | None = None
    """Bytes per second and broker for its copies, or ``AUTO``; None: no throttle of its own."""
    log_dirs_throttle: int | None = None
    """Bytes per second and broker for its moves between log directories; None: no throttle."""
    window: Window | None = None
    max_partitions_in_flight: int | None = None
    atomic: bool = False
    """Whether nothing of it may start when one entry is refused."""
    keep_leaders: bool = False
    """Whether no leader is elected where only the order of replicas changes, as with Kafka."""
    elect_leaders: bool = False
    """
    Whether a partition ends only when its first replica leads, where only the order changes.

    The setting ``preferred_election`` does not matter then.
    """
    tolerate_lagging: Replicas = ()
    """Brokers whose replicas are not waited for where they stay and are not in sync."""
    part_of: RequestId | None = None
    """The request that this one is a part of: all parts share one id, progress and cancellation."""
    parts: int = 1
    """The number of parts of that request."""


@dataclass(frozen=True, slots=True)
class Submission:
    """
    A znode ``/admin/reassignment_requests/request_*`` as read.

    ``unreadable`` is the reason where the znode as a whole cannot be decoded; then there are no
    entries and ``raw`` holds its content.
    """

    name: str
    entries: Mapping[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    created_ms: int
    """The creation time in milliseconds since 1970, on ZooKeeper's clock."""
    options: RequestOptions = field(default_factory=RequestOptions)
    refused: tuple[tuple[str, str], ...] = ()
    """(entry as text, reason) of each malformed entry."""
    warnings: tuple[str, ...] = ()
    """Ignored content, such as a client's own ``legacy`` flag."""
    unreadable: str | None = None
    raw: bytes = field(default=b"", repr=False)
    expected: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    """Of an approved request: the replicas of each partition before its first step."""
    log_dirs: Mapping[TopicPartition, LogDirs] = field(default_factory=dict)
    """The log directories that entries name."""

    @property
    def request(self) -> RequestId:
        """The request that it is, or is a part of."""
        return self.options.part_of or RequestId(self.name)


class CancelScope(StrEnum):
    """The scope of a cancellation."""

    IN_FLIGHT = "in_flight"
    """Open entries: they never start, or return to their original replicas."""
    ALL = "all"
    """Also the finished entries of the request are moved back."""

    @property
    def verb(self) -> str:
        """What an operator asked for."""
        return "undo" if self is CancelScope.ALL else "cancel"

    @property
    def noun(self) -> str:
        """The name of the cancellation."""
        return "undo" if self is CancelScope.ALL else "cancellation"


@dataclass(frozen=True, slots=True)
class Cancellation:
    """
    ``/admin/cancel_reassignment_in_progress`` as read.

    If all selections are empty, it selects everything in progress. ``unreadable`` is the reason
    where it cannot be decoded; then nothing is cancelled. Before it is written, its version, czxid
    and time have no meaning.
    """

    version: ZkVersion = FIRST_VERSION
    czxid: Zxid = UNASKED
    created_ms: int = 0
    requests: frozenset[RequestId] = frozenset()
    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    scope: CancelScope = CancelScope.IN_FLIGHT
    reason: str = ""
    requested_by: str = ""
    throttle: Throttle | None = None
    """Bytes per second and broker for finished partitions that are moved back; None: the strictest
    throttle of the requests that are undone."""
    window: Window | None = None
    """The hours in which finished partitions are moved back; None: at once."""
    unreadable: str | None = None
    raw: bytes = field(default=b"", repr=False)
    mzxid: Zxid = UNASKED
    """The transaction of the last change of its data."""

    @property
    def written(self) -> Zxid:
        """When it was last extended: it may select what was submitted before that."""
        return max(self.czxid, self.mzxid)

    @property
    def is_everything(self) -> bool:
        """Whether it selects everything."""
        return not (self.requests or self.topics or self.partitions)

    def names(self, partition: TopicPartition) -> bool:
        """Return whether it names a partition or its topic."""
        return partition in self.partitions or partition.topic in self.topics

    @property
    def request(self) -> RequestId:
        """The id under which its outcome is kept."""
        return RequestId(f"cancel-{self.czxid:016x}")


# --- approvals -----------------------------------------------------------------------------------


APPROVAL_REQUIRED: Final = (
    "require_approval is set: only approved plans are accepted; see `reassigner execute --approved`"
)
"""The reason for which an entry without an approval is refused."""


def plan_hash(
    entries: Mapping[TopicPartition, Replicas],
    expected: Mapping[TopicPartition, Replicas],
    log_dirs: NamedDirs = NO_DIRS,
) -> str:
    """
    Return the hash of a plan: SHA-256 of its sorted entries as canonical JSON.

    It covers everything that an entry can choose, so that equal hashes mean equal changes:
    ``entries`` are the target replicas, ``expected`` those before the first step.
    """
    rows = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "replicas": entries[p],
            "original_replicas": expected.get(p),
            **({"log_dirs": listed_dirs(entries[p], log_dirs[p])} if p in log_dirs else {}),
        }
        for p in sorted(entries)
    ]
    canonical = json.dumps(rows, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Standing(Enum):
    """The relation of a partition to the approval of its reassignment."""

    UNCHANGED = auto()
    """It has the replicas that were approved, or the target replicas already."""
    BEGUN = auto()
    """Its first step began, or no approval is recorded."""
    DRIFTED = auto()
    """Another client changed its replicas before the first step."""


def standing_of(spec: ReassignmentSpec, assignment: PartitionAssignment) -> Standing:
    """Return whether a partition is as its reassignment was approved for."""
    if spec.expected is None:
        return Standing.BEGUN
    if not assignment.is_reassigning and assignment.replicas in (spec.expected, spec.target):
        return Standing.UNCHANGED
    is_from_there = set(assignment.origin_replicas) == set(spec.expected)
    # A controller that has carried out the step keeps no trace of its origin.
    is_step = is_from_there or not assignment.is_reassigning
    if is_step and assignment.target_replicas == spec.asked:
        return Standing.BEGUN
    return Standing.DRIFTED


def has_drifted(spec: ReassignmentSpec, assignment: PartitionAssignment | None) -> bool:
    """Return whether another client changed the replicas of an approved entry before it began."""
    return assignment is not None and standing_of(spec, assignment) is Standing.DRIFTED


def drift_text(expected: Replicas, assignment: PartitionAssignment) -> str:
    """Describe how the replicas differ from those that were approved."""
    text = f"it was approved for the replicas {list(expected)}, it has {list(assignment.replicas)}"
    if assignment.adding_replicas:
        text += f", adding {list(assignment.adding_replicas)}"
    if assignment.removing_replicas:
        text += f", removing {list(assignment.removing_replicas)}"
    return text
