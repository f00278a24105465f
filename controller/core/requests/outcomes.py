"""
Outcomes: what is kept of requests while they run and afterwards.

Stored under ``/reassigner/outcomes/<request>``. Nothing is written for a partition's progress. A
part holds the number of entries, a shard of accepted entries the original replicas of each
partition, a shard of outcomes those partitions that did not reach their target; when nothing is
open any more, the rest of the total is done. The summary is written last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
    cancels: Mapping[RequestId, int] = field(default_factory=dict)
    """Of a cancellation that selected everything: entries in progress that it ended, by request."""
    undoes: Mapping[RequestId, int] = field(default_factory=dict)
    """The same of finished entries that it moves back."""


def entry_counts(
    *, total: int, done: int, refused: int, fates: Mapping[OutcomeKind, int], undone: int = 0
) -> dict[str, int]:
    """
    Count the entries of a request by what became of them, as every screen shows them.

    An entry that was cancelled before its first step and one that was rolled back are both
    cancelled. One that was done and then ``undone`` is done no longer.
    """
    gone = min(undone, done)
    return {
        "total": total,
        "done": done - gone,
        "undone": gone,
        "refused": refused,
        "cancelled": fates.get(OutcomeKind.CANCELLED, 0) + fates.get(OutcomeKind.ROLLED_BACK, 0),
        "superseded": fates.get(OutcomeKind.SUPERSEDED, 0),
        "skipped": fates.get(OutcomeKind.SKIPPED, 0),
    }


def outcome_state(counts: Mapping[str, int], undone: Undone | None = None) -> str:
    """Return the state of an ended request: the worst outcome of an entry, as its exit code."""
    if undone is not None and counts["undone"]:
        return "undoing" if undone.is_open else "undone"
    kinds = ("cancelled", "refused", "superseded")
    return next((kind for kind in kinds if counts[kind]), "done")


def merged_counts(counts: Iterable[Mapping[RequestId, int]]) -> dict[RequestId, int]:
    """Merge the counts of the parts of a cancellation: a later one may repeat an earlier one's."""
    found: dict[RequestId, int] = {}
    for part in counts:
        for name, number in part.items():
            found[name] = max(number, found.get(name, 0))
    return found


class Undone(NamedTuple):
    """Finished entries of a request that a cancellation moved back."""

    by: RequestId
    """The last such cancellation."""
    entries: int
    is_open: bool
    """Whether they are on their way back."""


def undone_requests(
    cancellations: Mapping[RequestId, tuple[Mapping[RequestId, int], bool]],
) -> dict[RequestId, Undone]:
    """
    Return what was undone of requests, from what each cancellation undoes and whether it is open.

    A cancellation that was undone itself has no effect any more.
    """
    found: dict[RequestId, Undone] = {}
    for name in sorted(cancellations, reverse=True):  # the newest first
        undoes, is_open = cancellations[name]
        own = found.get(name)
        if own is not None and own.entries >= sum(undoes.values()):
            continue
        for request, entries in undoes.items():
            later = found.get(request, Undone(name, 0, is_open))
            found[request] = later._replace(
                entries=later.entries + entries, is_open=later.is_open or is_open
            )
    return found


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
    undoes: Mapping[RequestId, int] = field(default_factory=dict)
    """What a cancellation moved back (``Part.undoes``)."""

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

    @property
    def refused_count(self) -> int:
        """The number of refused entries, including those of which no details are kept."""
        return len(self.refused) + self.refused_left_out

    def counts(self, undone: int = 0) -> dict[str, int]:
        """Count its entries; those of others that a cancellation ended count with their request."""
        counts = entry_counts(
            total=self.total,
            done=self.done,
            refused=self.refused_count,
            fates=self.fates,
            undone=undone,
        )
        if self.kind == "cancel":
            others = counts["cancelled"]
            own = {key: counts[key] - others for key in ("total", "done")}
            counts |= {**own, "cancelled": 0}
        return counts


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
    def cancels(self) -> Mapping[RequestId, int]:
        """The entries in progress that a cancellation ended, by request."""
        return merged_counts(part.cancels for part in self.parts.values())

    @property
    def undoes(self) -> Mapping[RequestId, int]:
        """The finished entries that a cancellation moves back, by request."""
        return merged_counts(part.undoes for part in self.parts.values())

    @property
    def total(self) -> int:
        """The number of known entries, including refused ones."""
        if self.summary is not None:
            return self.summary.total
        known = sum(p.total for p in self.parts.values())
        return max(known, self.accepted + len(self.refused))
