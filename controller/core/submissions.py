"""
What operators ask for, as values: requests and their wishes, cancellations.

The znodes they come in are ``znodes.submissions`` and ``znodes.cancellations``; what becomes of
them is ``requests.submitted``, ``requests.cancellation`` and ``requests.queue``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from controller.core.model import Replicas, RequestId, TopicPartition, ZkVersion, Zxid

StepSize = int | Literal["all"]
"""Replicas added per step; ``all`` is the classic single jump."""

PRIORITY_MAX: Final = 1000
"""Priorities lie between minus and plus this; 0 is ordinary, higher goes first."""

UNASKED: Final = Zxid(0)
"""The last change of a cancellation that is only shown, or joined."""


@dataclass(frozen=True, slots=True)
class Window:
    """
    The hours of the day in which steps may begin, on the wall clocks of a time zone.

    ``closes`` before or at ``opens`` means that it closes the next day. A step that began goes on.
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
    """How one request wants to be carried out; None leaves it to the daemon's settings."""

    reason: str = ""
    requested_by: str = ""
    priority: int = 0
    step_size: StepSize | None = None
    throttle: int | None = None
    """Bytes per second and broker for its copies; None: no throttle of its own."""
    window: Window | None = None
    max_partitions_in_flight: int | None = None
    atomic: bool = False
    """Whether nothing of it may start when one entry is refused."""
    part_of: RequestId | None = None
    """The request this one is a part of; one id, one progress, one cancel for all parts."""
    parts: int = 1
    """How many parts that request has."""


@dataclass(frozen=True, slots=True)
class Submission:
    """
    A znode ``/admin/reassignment_requests/request_*`` as read.

    ``unreadable`` is the reason when the node as a whole cannot be understood; then there are no
    entries and ``raw`` is what stood there.
    """

    name: str
    entries: Mapping[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    created_ms: int
    """When it was created, in milliseconds since 1970, on ZooKeeper's clock."""
    options: RequestOptions = field(default_factory=RequestOptions)
    refused: tuple[tuple[str, str], ...] = ()
    """(entry as text, reason) of each entry that is not even well-formed."""
    warnings: tuple[str, ...] = ()
    """What was ignored, such as a client's own ``legacy`` flag."""
    unreadable: str | None = None
    raw: bytes = field(default=b"", repr=False)

    @property
    def request(self) -> RequestId:
        """The request it is, or is a part of."""
        return self.options.part_of or RequestId(self.name)


class CancelScope(StrEnum):
    """How far back a cancellation goes."""

    IN_FLIGHT = "in_flight"
    """What has not ended: it never starts, or goes back to its original replicas."""
    ALL = "all"
    """Also what the request already finished is moved back."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """
    ``/admin/cancel_reassignment_in_progress`` as read.

    Empty selections together mean everything in progress. ``unreadable`` is the reason when it
    cannot be understood; then nothing is cancelled.
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
    """Of the last change of its data."""

    @property
    def written(self) -> Zxid:
        """When it was last added to: what was asked for before that it may mean."""
        return max(self.czxid, self.mzxid)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is selected in particular."""
        return not (self.requests or self.topics or self.partitions)

    @property
    def request(self) -> RequestId:
        """The id under which its outcome is kept."""
        return RequestId(f"cancel-{self.czxid:016x}")
