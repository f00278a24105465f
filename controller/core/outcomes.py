"""
What is kept of requests while they run and after they ended: ``/reassigner/outcomes/<request>``.

Nothing is written for a partition's progress. A part says how much was asked for, a shard of
accepted entries where each partition was, a shard of endings what did not simply reach its target;
whatever is left of the total when nothing is open any more is done. The summary comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.model import OutcomeKind, PartitionOutcome, Refusal, RequestId, Zxid
from controller.core.submissions import RequestOptions

UNKNOWN_MS: Final = 0
"""When a part was created that cannot be read any more."""
FORGOTTEN_MAX: Final = 2000
"""Znodes of a request that are deleted at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """One submitted znode of a request, or a version of a cancellation: ``part-<name>``."""

    name: str
    total: int
    """Entries in it, the refused ones included."""
    created_ms: int
    options: RequestOptions = field(default_factory=RequestOptions)


@dataclass(frozen=True, slots=True)
class OpenHistory:
    """What is kept of a request that has no summary yet."""

    parts: Mapping[str, Part]
    accepted: int
    """Entries in its shards of accepted ones."""
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
        """Whether none is left then."""
        return len(self.children) <= FORGOTTEN_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a request ended: ``/reassigner/outcomes/<request>/summary``."""

    request: RequestId
    kind: str
    """``legacy``, ``request``, ``queue`` or ``cancel``."""
    total: int
    done: int
    refused: tuple[Refusal, ...] = ()
    refused_left_out: int = 0
    """Refusals that did not fit, of a summary as read back."""
    fates: Mapping[OutcomeKind, int] = field(default_factory=dict)
    """How many ended otherwise, by what became of them."""
    reason: str = ""
    requested_by: str = ""
    submitted_ms: int = 0
    ended_ms: int = 0
    moved_bytes: int | None = None
    """At least so many bytes were copied; None where no size was known."""
    raw: bytes | None = field(default=None, repr=False)
    """What stood in an unreadable node."""
    raw_left_out: int = 0
    """Bytes of it that did not fit, of a summary as read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHistory:
    """Everything that is kept of one request, open or ended, as people ask for it."""

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
    """Child and reason of what cannot be understood."""

    @property
    def options(self) -> RequestOptions:
        """How it wants to be carried out: the same in all parts."""
        return next((p.options for p in self.parts.values()), RequestOptions())

    @property
    def total(self) -> int:
        """Entries known of, the refused ones included."""
        if self.summary is not None:
            return self.summary.total
        known = sum(p.total for p in self.parts.values())
        return max(known, self.accepted + len(self.refused))
