"""
The vocabulary of requests: plans as znodes, a request's counts, and the facts of a judgement.

Held by the view and changed by ``observe`` and ``apply`` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core import model
from controller.core.model import (
    BrokerId,
    Instant,
    LogDirs,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.options import EngineName
from controller.core.requests import outcomes, submissions


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
    def of(cls, plan: model.LegacyPlan) -> PlanNode:
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
    """``legacy``, ``request``, ``queue``, ``cancel`` or ``foreign``."""
    options: submissions.RequestOptions = field(default_factory=submissions.RequestOptions)
    parts: dict[str, outcomes.Part] = field(default_factory=dict)
    total: int = 0
    """The number of known entries, including refused ones."""
    open: int = 0
    """Reassignments that have not ended."""
    in_flight: int = 0
    accepted: int = 0
    """The number of entries in its shards of accepted ones."""
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
    def refused_count(self) -> int:
        """The number of refused entries."""
        return sum(r.entries for r in self.refused)

    @property
    def unsettled(self) -> int:
        """Entries that were neither accepted nor refused, by the most complete count."""
        counted = self.accepted + sum(r.entries for r in self.refused if not r.was_accepted)
        named = len(self.settled) + sum(r.entries for r in self.refused if r.partition is None)
        return max(self.total - max(counted, named), 0)

    def ended(self, ending: model.PartitionOutcome) -> None:
        """Count an outcome, once per partition."""
        if ending.partition not in self.endings:
            self.endings[ending.partition] = ending
            self.fates[ending.fate] += 1


def kind_of(request: RequestId) -> str:
    """Return the kind of a request by its id: ``legacy``, ``queue``, ``cancel`` or ``request``."""
    prefix = request.partition("-")[0]
    return prefix if prefix in {"legacy", "queue", "cancel"} else "request"


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """A topic as it was when entries of its partitions were judged acceptable."""

    czxid: model.Zxid
    version: model.ZkVersion
    """With ``czxid`` it identifies the content of the znode."""
    config: model.TopicConfig | None


@dataclass(frozen=True, slots=True)
class AtomicCheck:
    """The facts by which an atomic request was judged acceptable; while they hold, it still is."""

    parts: frozenset[tuple[str, model.Zxid, model.ZkVersion]]
    refused: int
    """The number of its refusals."""
    brokers: frozenset[BrokerId]
    deletions: frozenset[str] | None
    unreadable_specs: frozenset[str]
    engine: EngineName | None
    other_routes: int
    """As in ``ClusterView``."""
    log_dirs: tuple[tuple[BrokerId, Mapping[str, bool] | None], ...]
    """The reports of the brokers whose log directories its entries name."""
    topics: Mapping[str, TopicCheck | None]
    """Every topic with an entry; None where it cannot be judged."""
