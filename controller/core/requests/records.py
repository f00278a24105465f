"""Events and records of the requests of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from controller.core import model
from controller.core.bases import Durable, Fact, Flags, Shared, Volatile
from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.options import EngineName
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
class LegacyPlanRead(Fact):
    """``/admin/reassign_partitions``; None when it does not exist."""

    wakes: ClassVar[Flags] = ("tenure",)

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class SubmissionsListed(Fact):
    """The children of ``/admin/reassignment_requests``."""

    wakes: ClassVar[Flags] = ("submissions", "tenure", "endings", "capacity", "cancel")

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubmissionsRead(Fact):
    """Requests as submitted; None for one that is gone."""

    wakes: ClassVar[Flags] = ("submissions", "tenure", "cancel", "endings")

    submissions: Mapping[str, Submission | None]


@dataclass(frozen=True, slots=True)
class CancellationRead(Fact):
    """``/admin/cancel_reassignment_in_progress``; None when it does not exist."""

    wakes: ClassVar[Flags] = ("cancel", "tenure", "submissions")

    cancellation: Cancellation | None


@dataclass(frozen=True, slots=True)
class KillSwitchRead(Fact):
    """Whether ``/admin/reassign_cancel`` exists."""

    wakes: ClassVar[Flags] = ("submissions", "plan", "queue", "capacity", "tenure")

    is_on: bool


@dataclass(frozen=True, slots=True)
class QueueRead(Fact):
    """``/admin/reassign_partitions_queue``, a plan like the legacy one; None: does not exist."""

    wakes: ClassVar[Flags] = ("queue", "tenure", "cancel")

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class HistoryRead(Fact):
    """Everything below ``/reassigner/outcomes``, as far as it matters from now on."""

    wakes: ClassVar[Flags] = ("endings", "submissions", "cancel", "tenure")

    open: Mapping[RequestId, outcomes.OpenHistory]
    ended: Mapping[RequestId, outcomes.EndedHistory]


@dataclass(frozen=True, slots=True)
class AcceptedRead(Fact):
    """The accepted entries of a request, in the order in which they were accepted."""

    wakes: ClassVar[Flags] = ("cancel", "submissions")

    request: RequestId
    entries: tuple[AcceptedEntry, ...]
    options: RequestOptions = field(default_factory=RequestOptions)
    """The options of the request."""
    elsewhere: frozenset[TopicPartition] = frozenset()
    """Partitions that did not reach their target, or whose outcome cannot be read."""


@dataclass(frozen=True, slots=True)
class LegacyEntryRecord(Shared):
    """The entry in ``/admin/reassign_partitions``; ``replicas`` None removes it."""

    wakes: ClassVar[Flags] = ("plan", "tenure")

    partition: TopicPartition
    replicas: Replicas | None
    log_dirs: model.LogDirs = ()


@dataclass(frozen=True, slots=True)
class LegacyPlanEndedRecord(Durable):
    """``/admin/reassign_partitions`` is deleted, if it is still at this version."""

    wakes: ClassVar[Flags] = ("tenure",)

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RefusalRecord(Shared):
    """Refused entries, in a shard with the other outcomes of their request."""

    wakes: ClassVar[Flags] = ()

    refusals: tuple[model.Refusal, ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcomeRecord(Shared):
    """The outcome of a partition that did not reach its target, in a shard of its request."""

    wakes: ClassVar[Flags] = ("endings", "cancel")

    ending: model.PartitionOutcome


@dataclass(frozen=True, slots=True)
class PartRecord(Durable):
    """A submitted znode is being accepted: ``/reassigner/outcomes/<request>/part-<name>``."""

    wakes: ClassVar[Flags] = ("cancel", "submissions", "order", "queue")

    request: RequestId
    part: outcomes.Part


@dataclass(frozen=True, slots=True)
class AcceptedRecord(Shared):
    """An accepted entry, in a shard with others of its request in the same multi."""

    wakes: ClassVar[Flags] = ()

    request: RequestId
    entry: AcceptedEntry


@dataclass(frozen=True, slots=True)
class SubmissionReliedRecord(Volatile):
    """The change is valid only for this version of a submitted znode."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class SubmissionEndedRecord(Durable):
    """``/admin/reassignment_requests/<name>`` is deleted: all of it was accepted or refused."""

    wakes: ClassVar[Flags] = ("submissions", "endings", "capacity", "tenure", "cancel")

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class CancellationEndedRecord(Durable):
    """``/admin/cancel_reassignment_in_progress`` is deleted, if it is still at this version."""

    wakes: ClassVar[Flags] = ("endings", "submissions", "queue", "tenure", "plan")

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class QueueEntryEndedRecord(Shared):
    """The entry leaves ``/admin/reassign_partitions_queue``: it starts, or never will."""

    wakes: ClassVar[Flags] = ("queue", "tenure")

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class QueueEndedRecord(Durable):
    """``/admin/reassign_partitions_queue`` is deleted, if it is still at this version."""

    wakes: ClassVar[Flags] = ("endings", "tenure")

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RequestOutcomeRecord(Durable):
    """The outcome of a request: ``/reassigner/outcomes/<request>/summary``."""

    wakes: ClassVar[Flags] = ("endings", "throttles")

    summary: outcomes.Summary


@dataclass(frozen=True, slots=True)
class RequestOutcomeForgottenRecord(Durable):
    """An old outcome is deleted with its children; where they are very many, some of them first."""

    wakes: ClassVar[Flags] = ()

    request: RequestId
    children: tuple[str, ...]
    is_last: bool = True
    """Whether the outcome itself is deleted with these children."""


@dataclass(frozen=True, slots=True)
class JudgedRecord(Volatile):
    """This many entries of a submitted znode, from the first on, are settled."""

    wakes: ClassVar[Flags] = ("submissions",)
    is_journaled: ClassVar[bool] = False

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AtomicCheckedRecord(Volatile):
    """Every entry of an atomic request was judged acceptable."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    request: RequestId
    grounds: AtomicCheck


IntakeEvent = (
    SubmissionsListed
    | SubmissionsRead
    | CancellationRead
    | KillSwitchRead
    | QueueRead
    | HistoryRead
    | AcceptedRead
)
"""What is read of the requests of operators, except the legacy plan."""

RequestEvent = LegacyPlanRead | IntakeEvent


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
