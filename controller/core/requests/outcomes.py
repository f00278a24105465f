"""
Outcomes: what is kept of requests while they run and afterwards.

Stored under ``/reassigner/outcomes/<request>``. Nothing is written for a partition's progress. A
part holds the number of entries, a shard of accepted entries the original replicas of each
partition, a shard of outcomes those partitions that did not reach their target; when nothing is
open any more, the rest of the total is done. The summary is written last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.model import OutcomeKind, PartitionOutcome, Refusal, RequestId, ZkVersion, Zxid
from controller.core.requests.submissions import RequestOptions

UNKNOWN_MS: Final = 0
"""The creation time of a part that cannot be read."""
FORGOTTEN_MAX: Final = 2000
"""The most znodes of a request that are deleted at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """A submitted znode of a request, or a version of a cancellation or drains: ``part-<name>``."""

    name: str
    total: int
    """The number of its entries, including refused ones."""
    created_ms: int
    options: RequestOptions = field(default_factory=RequestOptions)
    approved_version: ZkVersion | None = None
    """The version of the znode that was verified against the approval of its request."""


@dataclass(frozen=True, slots=True)
class OpenHistory:
    """The records of a request that has no summary yet."""

    parts: Mapping[str, Part]
    accepted: int
    """The number of entries in its shards of accepted ones."""
    refused: tuple[Refusal, ...] = ()
    endings: tuple[PartitionOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedHistory:
    """A request with a summary: what has to be deleted to forget it."""

    children: tuple[str, ...]
    """In the order of their names."""
    czxid: Zxid
    """Of the request's znode: the oldest are forgotten first."""

    @property
    def first(self) -> tuple[str, ...]:
        """As many children as one multi can delete; the summary is the last in their order."""
        return self.children[:FORGOTTEN_MAX]

    @property
    def is_one_multi(self) -> bool:
        """Whether one multi deletes all of them."""
        return len(self.children) <= FORGOTTEN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcome of a request: ``/reassigner/outcomes/<request>/summary``."""

    request: RequestId
    kind: str
    """``legacy``, ``request``, ``queue``, ``cancel`` or ``drain``."""
    total: int
    done: int
    refused: tuple[Refusal, ...] = ()
    refused_left_out: int = 0
    """Refusals that were omitted for size, of a summary as read back."""
    fates: Mapping[OutcomeKind, int] = field(default_factory=dict)
    """The number of other outcomes by kind."""
    reason: str = ""
    requested_by: str = ""
    approved: str = ""
    """The hash of the approved plan; empty without an approval."""
    approved_by: str = ""
    submitted_ms: int = 0
    ended_ms: int = 0
    moved_bytes: int | None = None
    """A lower bound of the bytes copied; None where no size was known."""
    raw: bytes | None = field(default=None, repr=False)
    """The content of an unreadable znode."""
    raw_left_out: int = 0
    """Bytes of it that were omitted for size, of a summary as read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHistory:
    """Everything that is kept of one request, open or ended, for display."""

    request: RequestId
    czxid: Zxid
    """Of the request's znode: the larger, the younger."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    accepted: int = 0
    refused: tuple[Refusal, ...] = ()
    endings: tuple[PartitionOutcome, ...] = ()
    summary: Summary | None = None
    """None while it is open."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Child and reason of what cannot be decoded."""

    @property
    def options(self) -> RequestOptions:
        """The options of the request: the same in all parts."""
        return next((p.options for p in self.parts.values()), RequestOptions())

    @property
    def total(self) -> int:
        """The number of known entries, including refused ones."""
        if self.summary is not None:
            return self.summary.total
        known = sum(p.total for p in self.parts.values())
        return max(known, self.accepted + len(self.refused))
