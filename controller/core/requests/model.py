"""The ledgers of requests: plans as znodes, a request's counts, and what a session read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.model import (
    FOREIGN,
    Instant,
    LogDirs,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.requests import outcomes, submissions
from controller.core.requests.submissions import AcceptedEntry, LegacyPlan, Submission

if TYPE_CHECKING:
    from controller.core.requests.records import AcceptedRead, AtomicCheck


@dataclass(slots=True)
class PlanNode:
    """
    The znode of a plan as last read or written; ``entries`` is mutable.

    ``/admin/reassign_partitions`` or ``/admin/reassign_partitions_queue``.
    """

    entries: dict[TopicPartition, Replicas]
    version: model.ZkVersion
    czxid: model.Zxid
    refused: tuple[tuple[str, str], ...] = ()
    unreadable: str | None = None
    raw: bytes = b""
    stale: bool = False
    log_dirs: dict[TopicPartition, LogDirs] = field(default_factory=dict)
    """The log directories that entries name."""

    @classmethod
    def of(cls, plan: LegacyPlan) -> PlanNode:
        """Return the znode of a plan that was just read."""
        return cls(
            entries=dict(plan.entries),
            version=plan.version,
            czxid=plan.czxid,
            refused=plan.refused,
            unreadable=plan.unreadable,
            raw=plan.raw,
            log_dirs=dict(plan.log_dirs),
        )


@dataclass(slots=True)
class Request:
    """One request, from its first accepted or refused entry to some time after its summary."""

    route: Route
    since: Instant
    kind: str = ""
    """``legacy``, ``request``, ``queue``, ``cancel``, ``drain`` or ``foreign``."""
    options: submissions.RequestOptions = field(default_factory=submissions.RequestOptions)
    parts: dict[str, outcomes.Part] = field(default_factory=dict)
    total: int = 0
    """The number of known entries, including refused ones."""
    open: int = 0
    """Reassignments that have not ended."""
    in_flight: int = 0
    accepted: int = 0
    """The number of entries in its shards of accepted ones."""
    is_inherited: bool = False
    """Whether it was read when this process began to lead: another one accepted it."""
    done_here: int = 0
    """Entries of which this process wrote that they reached their target."""
    settled: set[TopicPartition] = field(default_factory=set)
    """Accepted or refused entries, while submitted znodes of the request exist."""
    refused: list[model.Refusal] = field(default_factory=list)
    endings: dict[TopicPartition, model.PartitionOutcome] = field(default_factory=dict)
    """Partitions that did not reach their target, until the summary is written."""
    fates: Counter[model.OutcomeKind] = field(default_factory=Counter)
    moved_bytes: int | None = None
    """Bytes copied for partitions that ended, as far as their sizes were known."""
    uncounted: int = 0
    """Partitions that were copied and ended before a broker reported their size."""
    has_ended: bool = False
    """Whether its summary is written."""

    @property
    def done(self) -> int:
        """Entries that reached their target; an upper bound while submitted znodes of it exist."""
        return max(self.total - self.open - self.refused_count - self.fates.total(), 0)

    @property
    def done_elsewhere(self) -> int:
        """Those of the done ones whose end, and bytes, this process did not see."""
        return max(self.done - self.done_here, 0)

    @property
    def refused_count(self) -> int:
        """The number of refused entries."""
        return sum(r.entries for r in self.refused)

    @property
    def unsettled(self) -> int:
        """Entries that were neither accepted nor refused, by the most complete count."""
        counted = self.accepted + sum(r.entries for r in self.refused if not r.was_accepted)
        named = len(self.settled) + sum(r.entries for r in self.refused if r.partition is None)
        return max(self.total - max(counted, named), 0)

    def counts(self, undone: int = 0, unjudged: int = 0) -> dict[str, int]:
        """Count its entries; ``unjudged`` ones were neither accepted nor refused yet."""
        return outcomes.entry_counts(
            total=self.total,
            done=max(0, self.done - unjudged),
            refused=self.refused_count,
            fates=self.fates,
            undone=undone,
        )

    @property
    def is_undoing(self) -> bool:
        """Whether it is a cancellation that has not ended."""
        return self.kind == "cancel" and not self.has_ended

    @property
    def cancels(self) -> dict[RequestId, int]:
        """The entries in progress that a cancellation ended, by request."""
        return outcomes.merged_counts(part.cancels for part in self.parts.values())

    @property
    def undoes(self) -> dict[RequestId, int]:
        """The finished entries that a cancellation moves back, by request."""
        return outcomes.merged_counts(part.undoes for part in self.parts.values())

    def count_outcome(self, ending: model.PartitionOutcome) -> None:
        """
        Count an outcome, once per partition.

        Only drains may have several entries of a partition. The one that a cancellation ended is
        kept: the partition is not drained again.
        """
        known = self.endings.get(ending.partition)
        if known is not None and (is_cancelled(known) or not is_cancelled(ending)):
            return
        if known is not None:
            self.fates[known.fate] -= 1
        self.endings[ending.partition] = ending
        self.fates[ending.fate] += 1

    def add_part(self, part: outcomes.Part) -> None:
        """
        Note a part and count its entries, once.

        The last part by number defines the request's options, in whatever order parts are read: of
        a cancellation it defines how finished partitions are moved back.
        """
        if part.name not in self.parts and self.kind == "request":
            self.total += part.total
        self.parts[part.name] = part
        last = max(self.parts, key=lambda name: (len(name), name))
        self.options = self.parts[last].options


def is_cancelled(ending: model.PartitionOutcome) -> bool:
    """Return whether a cancellation ended an entry, or rolled it back."""
    return ending.by is not None and kind_of(ending.by) == "cancel"


def kind_of(request: RequestId) -> str:
    """Return the kind of a request by its id: that of its prefix, or ``request``."""
    prefix = request.partition("-")[0]
    return prefix if prefix in {"legacy", "queue", "cancel", "drain"} else "request"


@dataclass(slots=True)
class RequestLedger(Ledger):
    """
    The requests, and the znodes of plan, queue and cancellation as last read.

    A znode that was carried out is recognised when another session reads it again
    (``legacy_ended``, ``queue_ended``, ``cancellation_ended``).
    """

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    by_id: dict[RequestId, Request] = field(default_factory=dict)
    ended: dict[RequestId, outcomes.EndedHistory] = field(default_factory=dict)
    """Requests whose outcome is kept, the oldest first."""
    unlearned: set[RequestId] = field(default_factory=set)
    """Requests of which an earlier daemon accepted entries that were not read yet."""
    legacy: PlanNode | None = None
    legacy_ended: model.Zxid | None = None
    legacy_last: model.Zxid | None = None
    """The plan at the last look, also in an earlier session; 0: there was none."""
    legacy_came: Instant | None = None
    """When that plan appeared; None: it existed at the first look."""
    queue: PlanNode | None = None
    queue_ended: model.Zxid | None = None
    cancellation: submissions.Cancellation | None = None
    cancellation_stale: bool = False
    """Whether its end was rejected as the znode was changed or deleted; it is read again."""
    cancellation_ended: model.Zxid | None = None

    def request_of(
        self, request: RequestId, now: Instant, *, is_inherited: bool = False
    ) -> Request:
        """Return the request, known or new."""
        known = self.by_id.get(request)
        if known is None:
            kind = kind_of(request)
            route = Route.LEGACY if kind == "legacy" else Route.REQUEST
            known = Request(route, now, kind=kind, is_inherited=is_inherited)
            self.by_id[request] = known
        return known

    def is_chosen(self, cancellation: submissions.Cancellation) -> bool:
        """Return whether the selection of a cancellation is complete."""
        known = self.by_id.get(cancellation.request)
        return known is not None and str(cancellation.version) in known.parts

    @property
    def undone(self) -> dict[RequestId, outcomes.Undone]:
        """What was undone of requests whose outcome is kept, or is being undone."""
        found = {n: (ended.undoes, False) for n, ended in self.ended.items() if ended.undoes}
        running = {n: (r.undoes, True) for n, r in self.by_id.items() if r.is_undoing}
        return outcomes.undone_requests({**running, **found})

    @property
    def is_choosing(self) -> bool:
        """Whether a cancellation exists whose selection is not complete."""
        return self.cancellation is not None and not self.is_chosen(self.cancellation)

    @property
    def foreign_count(self) -> int:
        """The number of partitions with a foreign reassignment."""
        known = self.by_id.get(FOREIGN)
        return 0 if known is None else known.open


@dataclass(slots=True)
class RequestSession(Ledger):
    """The submissions, and which znodes of operators this session read."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    legacy_read: bool = False
    queue_read: bool = False
    cancellation_read: bool = False
    kill_switch: bool | None = None
    """Whether ``/admin/reassign_cancel`` exists; None until that is known."""
    submissions_listed: frozenset[str] | None = None
    submissions: dict[str, Submission] = field(default_factory=dict)
    """Requests that are not completely accepted yet, in the order of their names."""
    requested_submissions: set[str] = field(default_factory=set)
    left_submissions: set[str] = field(default_factory=set)
    """Request znodes that could not be deleted; left alone for a while."""
    judged: dict[str, int] = field(default_factory=dict)
    """The number of entries of a submission that were accepted or refused, from the first on."""
    atomic_checks: dict[RequestId, AtomicCheck] = field(default_factory=dict)
    """The facts by which atomic requests were last judged acceptable as a whole."""
    short_cycles: int = 0
    """The number of cycles that are kept short, as a request was submitted."""

    @property
    def unread(self) -> frozenset[str]:
        """The listed requests that were not read."""
        return (self.submissions_listed or frozenset()) - self.submissions.keys()

    def parts_of(self, request: RequestId) -> list[Submission]:
        """Return the parts of a request that are not completely accepted."""
        return [s for s in self.submissions.values() if s.request == request]


@dataclass(slots=True)
class AcceptedEntries:
    """The accepted entries of a request: those that a read shows, and those accepted since."""

    read: AcceptedRead | None = None
    """None: the read is under way."""
    since: list[AcceptedEntry] = field(default_factory=list)
    """Entries accepted after the read was requested, in order; the read may show them too."""

    def in_order(self) -> list[AcceptedEntry]:
        """Return the entries in the order in which they were accepted."""
        found: dict[tuple[TopicPartition, Replicas | None, Replicas], AcceptedEntry] = {}
        for entry in (*(() if self.read is None else self.read.entries), *self.since):
            found.setdefault((entry.partition, entry.original, entry.target), entry)
        return list(found.values())


@dataclass(slots=True)
class RequestLeadership(Ledger):
    """What was read of the kept outcomes."""

    lifetime: ClassVar[Lifetime] = Lifetime.LEADERSHIP

    history_read: bool = False
    accepted: dict[RequestId, AcceptedEntries] = field(default_factory=dict)
    """The accepted entries of requests that a cancellation undoes, or that were begun before."""


@dataclass(slots=True)
class RequestTenure(Ledger):
    """What this tenure saw of the legacy plan, and wrote of outcomes."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    legacy_confirmed: bool = False
    """Whether the legacy znode was read in this tenure: only then is a difference an edit."""
    removed_entries: set[TopicPartition] = field(default_factory=set)
    """
    Entries that an operator removed from the legacy znode, and that may have begun.

    Another controller may have begun them before the claim: their topics are being read.
    """
    shards: int = 0
    """Shards of outcomes written in this tenure: their names must differ."""
