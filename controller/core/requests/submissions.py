"""
Requests of operators, as values: submissions with their options, and cancellations.

The codecs of their znodes are ``znodes.submissions`` and ``znodes.cancellations``;
``requests.submitted``, ``requests.cancellation`` and ``requests.queue`` process them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from controller.core.model import LogDirs, Replicas, RequestId, TopicPartition, ZkVersion, Zxid

ANY_LOG_DIR: Final = "any"
"""In the place of a directory: the broker chooses."""


def listed_dirs(replicas: Replicas, log_dirs: LogDirs) -> list[str]:
    """Return the directories of replicas as plans list them."""
    named = dict(log_dirs)
    return [named.get(r, ANY_LOG_DIR) for r in replicas]


NamedDirs = Mapping[TopicPartition, LogDirs]
"""The log directories of the entries of a plan that name any."""

NO_DIRS: Final[NamedDirs] = MappingProxyType({})


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

PRIORITY_MAX: Final = 1000
"""Priorities lie between minus and plus this; 0 is ordinary, higher starts first."""

UNASKED: Final = Zxid(0)
"""The last change of a cancellation that was only displayed, or joined."""


@dataclass(frozen=True, slots=True)
class Window:
    """
    The hours of the day in which steps may begin, on the wall clock of a time zone.

    ``closes`` before or at ``opens`` means the next day. A step that has begun continues.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of one request; None leaves the choice to the daemon's settings."""

    reason: str = ""
    requested_by: str = ""
    approved: str = ""
    """The hash of the approved plan (``approvals.plan_hash``); empty without an approval."""
    approved_by: str = ""
    priority: int = 0
    step_size: StepSize | None = None
    throttle: int | None = None
    """Bytes per second and broker for its copies; None: no throttle of its own."""
    log_dirs_throttle: int | None = None
    """Bytes per second and broker for its moves between log directories; None: no throttle."""
    window: Window | None = None
    max_partitions_in_flight: int | None = None
    atomic: bool = False
    """Whether nothing of it may start when one entry is refused."""
    keep_leaders: bool = False
    """Whether no leader is elected where only the order of replicas changes, as with Kafka."""
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


@dataclass(frozen=True, slots=True)
class Cancellation:
    """
    ``/admin/cancel_reassignment_in_progress`` as read.

    If all selections are empty, it selects everything in progress. ``unreadable`` is the reason
    where it cannot be decoded; then nothing is cancelled.
    """

    version: ZkVersion
    czxid: Zxid
    created_ms: int
    requests: frozenset[RequestId] = frozenset()
    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    scope: CancelScope = CancelScope.IN_FLIGHT
    reason: str = ""
    requested_by: str = ""
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

    @property
    def request(self) -> RequestId:
        """The id under which its outcome is kept."""
        return RequestId(f"cancel-{self.czxid:016x}")


def new_cancellation(  # noqa: PLR0913 - what a cancellation has before it is written
    *,
    requests: Iterable[RequestId] = (),
    topics: Iterable[str] = (),
    partitions: Iterable[TopicPartition] = (),
    scope: CancelScope = CancelScope.IN_FLIGHT,
    reason: str = "",
    requested_by: str = "",
) -> Cancellation:
    """Return a cancellation to be written; its version, czxid and time have no meaning yet."""
    return Cancellation(
        ZkVersion(0),
        UNASKED,
        0,
        frozenset(requests),
        frozenset(topics),
        frozenset(partitions),
        scope,
        reason,
        requested_by,
    )
