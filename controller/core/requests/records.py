"""Events and records of the requests of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core import model
from controller.core.bases import Durable, Fact, Shared, Volatile
from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.requests import outcomes
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    LegacyPlan,
    RequestOptions,
    Submission,
)


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
    drained: frozenset[BrokerId]
    deletions: frozenset[str] | None
    unreadable_specs: frozenset[str]
    engine: EngineName | None
    other_routes: int
    """As in ``ClusterView``."""
    log_dirs: tuple[tuple[BrokerId, Mapping[str, bool] | None], ...]
    """The reports of the brokers whose log directories its entries name."""
    topics: Mapping[str, TopicCheck | None]
    """Every topic with an entry; None where it cannot be judged."""


@dataclass(frozen=True, slots=True)
class LegacyPlanRead(Fact, wakes=("tenure",)):
    """``/admin/reassign_partitions``; None when it does not exist."""

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class SubmissionsListed(Fact, wakes=("submissions", "tenure", "endings", "capacity", "cancel")):
    """The children of ``/admin/reassignment_requests``."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubmissionsRead(Fact, wakes=("submissions", "tenure", "cancel", "endings")):
    """Requests as submitted; None for one that is gone."""

    submissions: Mapping[str, Submission | None]


@dataclass(frozen=True, slots=True)
class CancellationRead(Fact, wakes=("cancel", "tenure", "submissions")):
    """``/admin/cancel_reassignment_in_progress``; None when it does not exist."""

    cancellation: Cancellation | None


@dataclass(frozen=True, slots=True)
class KillSwitchRead(Fact, wakes=("submissions", "plan", "queue", "drains", "capacity", "tenure")):
    """Whether ``/admin/reassign_cancel`` exists."""

    is_on: bool


@dataclass(frozen=True, slots=True)
class QueueRead(Fact, wakes=("queue", "tenure", "cancel")):
    """``/admin/reassign_partitions_queue``, a plan like the legacy one; None: does not exist."""

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class HistoryRead(Fact, wakes=("endings", "submissions", "drains", "cancel", "tenure")):
    """Everything below ``/reassigner/outcomes``, as far as it matters from now on."""

    open: Mapping[RequestId, outcomes.OpenHistory]
    ended: Mapping[RequestId, outcomes.EndedHistory]


@dataclass(frozen=True, slots=True)
class AcceptedRead(Fact, wakes=("cancel", "submissions")):
    """The accepted entries of a request, in the order in which they were accepted."""

    request: RequestId
    entries: tuple[AcceptedEntry, ...]
    options: RequestOptions = field(default_factory=RequestOptions)
    """The options of the request."""
    elsewhere: frozenset[TopicPartition] = frozenset()
    """Partitions that did not reach their target, or whose outcome cannot be read."""


@dataclass(frozen=True, slots=True)
class LegacyEntryRecord(Shared, wakes=("plan", "tenure")):
    """The entry in ``/admin/reassign_partitions``; ``replicas`` None removes it."""

    partition: TopicPartition
    replicas: Replicas | None
    log_dirs: model.LogDirs = ()


@dataclass(frozen=True, slots=True)
class LegacyPlanEndedRecord(Durable, wakes=("tenure",)):
    """``/admin/reassign_partitions`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RefusalRecord(Shared, wakes=()):
    """Refused entries, in a shard with the other outcomes of their request."""

    refusals: tuple[model.Refusal, ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcomeRecord(Shared, wakes=("endings", "cancel")):
    """The outcome of a partition that did not reach its target, in a shard of its request."""

    ending: model.PartitionOutcome


@dataclass(frozen=True, slots=True)
class PartRecord(Durable, wakes=("cancel", "submissions", "order", "queue", "drains")):
    """A submitted znode is being accepted: ``/reassigner/outcomes/<request>/part-<name>``."""

    request: RequestId
    part: outcomes.Part


@dataclass(frozen=True, slots=True)
class AcceptedRecord(Shared, wakes=()):
    """An accepted entry, in a shard with others of its request in the same multi."""

    request: RequestId
    entry: AcceptedEntry


@dataclass(frozen=True, slots=True)
class SubmissionReliedRecord(Volatile, wakes=(), is_journaled=False):
    """The change is valid only for this version of a submitted znode."""

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class SubmissionEndedRecord(
    Durable, wakes=("submissions", "endings", "capacity", "tenure", "cancel")
):
    """``/admin/reassignment_requests/<name>`` is deleted: all of it was accepted or refused."""

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class CancellationEndedRecord(
    Durable, wakes=("endings", "submissions", "queue", "drains", "tenure", "plan")
):
    """``/admin/cancel_reassignment_in_progress`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class QueueEntryEndedRecord(Shared, wakes=("queue", "tenure")):
    """The entry leaves ``/admin/reassign_partitions_queue``: it starts, or never will."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class QueueEndedRecord(Durable, wakes=("endings", "tenure")):
    """``/admin/reassign_partitions_queue`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RequestOutcomeRecord(Durable, wakes=("endings", "throttles")):
    """The outcome of a request: ``/reassigner/outcomes/<request>/summary``."""

    summary: outcomes.Summary


@dataclass(frozen=True, slots=True)
class RequestOutcomeForgottenRecord(Durable, wakes=()):
    """An old outcome is deleted with its children; where they are very many, some of them first."""

    request: RequestId
    children: tuple[str, ...]
    is_last: bool = True
    """Whether the outcome itself is deleted with these children."""


@dataclass(frozen=True, slots=True)
class JudgedRecord(Volatile, wakes=("submissions",), is_journaled=False):
    """This many entries of a submitted znode, from the first on, are settled."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AtomicCheckedRecord(Volatile, wakes=(), is_journaled=False):
    """Every entry of an atomic request was judged acceptable."""

    request: RequestId
    grounds: AtomicCheck


RequestEvent = (
    LegacyPlanRead
    | SubmissionsListed
    | SubmissionsRead
    | CancellationRead
    | KillSwitchRead
    | QueueRead
    | HistoryRead
    | AcceptedRead
)

RequestLedgerRecord = (
    RefusalRecord
    | PartitionOutcomeRecord
    | PartRecord
    | AcceptedRecord
    | SubmissionReliedRecord
    | SubmissionEndedRecord
    | CancellationEndedRecord
    | QueueEntryEndedRecord
    | QueueEndedRecord
    | RequestOutcomeRecord
    | RequestOutcomeForgottenRecord
    | JudgedRecord
    | AtomicCheckedRecord
)
"""What becomes of requests, except entries of the legacy plan."""

RequestRecord = LegacyEntryRecord | LegacyPlanEndedRecord | RequestLedgerRecord
