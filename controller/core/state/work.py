"""
The work: reassignments, requests, orphans, throttles, and the znodes by which operators steer.

It outlives tenures and sessions: the znodes are durable, and the next read of them corrects it.
The phases of reassignments are volatile: the begin and the end of a tenure reset them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from controller.core import model
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import (
    FOREIGN,
    START,
    BrokerId,
    Instant,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.pacing.applied_throttles import AppliedThrottle, Entity
from controller.core.pacing.controls import Controls
from controller.core.pacing.participants import Participants
from controller.core.reassignments import phases
from controller.core.reassignments.model import Orphan, Reassignment
from controller.core.requests import outcomes, submissions
from controller.core.requests.model import PlanNode, Request, kind_of
from controller.core.requests.records import AcceptedRead


@dataclass(slots=True)
class WorkState(Ledger):
    """The reassignments and requests, and what is recorded or measured about them."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    # reassignments
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    topics_at_work: Counter[str] = field(default_factory=Counter)
    """The number of reassignments of each topic; topics without any have no entry."""
    rolling_back: Counter[RequestId] = field(default_factory=Counter)
    """The number of reassignments that each cancellation rolls back; others have no entry."""
    other_routes: int = 0
    """
    How often a reassignment of a route other than ``request`` began, changed its spec or ended.
    """
    scans_left: int = 0
    """Scans still needed until all pending ones were considered since a slot became free."""
    unreadable_specs: dict[str, str] = field(default_factory=dict)

    # requests
    requests: dict[RequestId, Request] = field(default_factory=dict)
    ended: dict[RequestId, outcomes.EndedHistory] = field(default_factory=dict)
    """Requests whose outcome is kept, the oldest first."""
    unlearned: set[RequestId] = field(default_factory=set)
    """Requests of which an earlier daemon accepted entries that were not read yet."""

    # orphans
    orphans: dict[tuple[BrokerId, TopicPartition], Orphan] = field(default_factory=dict)
    orphaned: Counter[TopicPartition] = field(default_factory=Counter)
    """Orphans per partition: its leader must be confirmed before any of them is deleted."""
    orphans_failed: set[Orphan] = field(default_factory=set)
    """Orphans on a failed disk: not tried again before their broker registers again."""

    # throttles
    applied_throttles: dict[Entity, AppliedThrottle] = field(default_factory=dict)
    participants: Participants = field(default_factory=Participants)

    # sizes
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes on disk, as far as brokers reported them."""
    measured: dict[TopicPartition, tuple[Instant, int]] = field(default_factory=dict)
    """The size from which growth is counted, and when it was reported."""
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second by which a partition grew between two sizes: the producers' rate."""
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes that the added replicas of a step in flight hold, as far as brokers reported them."""
    unmeasured: dict[TopicPartition, None] = field(default_factory=dict)
    """Reassignments whose size was never requested."""
    unmeasured_since: Instant = START
    sizes_requested_at: Instant = START
    """When sizes, other than those of copies in progress, were last requested."""
    measure_at: Instant = START
    """When all sizes are to be requested again."""
    copies_at: Instant = START
    """When the sizes of the partitions being copied are to be requested again."""
    room_at: Instant = START
    """When brokers without room may be queried again."""
    counts_at: Instant = START
    """When they may be queried for all their logs again."""

    def request_of(self, request: RequestId, now: Instant) -> Request:
        """Return the request, known or new."""
        known = self.requests.get(request)
        if known is None:
            kind = kind_of(request)
            route = Route.LEGACY if kind == "legacy" else Route.REQUEST
            known = self.requests[request] = Request(route, now, kind=kind)
        return known

    @property
    def foreign_count(self) -> int:
        """The number of partitions with a foreign reassignment."""
        known = self.requests.get(FOREIGN)
        return 0 if known is None else known.open

    def has_excluded(self, partition: TopicPartition) -> bool:
        """Return whether this tenure excluded the removing replicas: they only get StopReplica."""
        reassignment = self.reassignments.get(partition)
        if reassignment is None:
            return False
        phase = reassignment.phase
        return isinstance(phase, phases.Shrinking | phases.Stopping) or (
            isinstance(phase, phases.Starting) and phase.excluded_at is not None
        )

    def legacy_reassignments(self) -> list[TopicPartition]:
        """Return the unfinished reassignments of the legacy znode."""
        return [p for p, r in self.reassignments.items() if r.spec.route is Route.LEGACY]


@dataclass(slots=True)
class IntakeState(Ledger):
    """
    The requests of operators as last read: plan, queue, cancellation and controls.

    It outlives sessions: a znode that was carried out is recognised when it is read again
    (``legacy_ended``, ``queue_ended``, ``cancellation_ended``). Submitted requests are part of the
    session.
    """

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    # the legacy plan
    legacy: PlanNode | None = None
    legacy_ended: model.Zxid | None = None
    legacy_last: model.Zxid | None = None
    """The plan at the last look, also in an earlier session; 0: there was none."""
    legacy_came: Instant | None = None
    """When that plan appeared; None: it existed at the first look."""

    # the queue
    queue: PlanNode | None = None
    queue_ended: model.Zxid | None = None

    # cancellation
    cancellation: submissions.Cancellation | None = None
    cancellation_stale: bool = False
    """
    The write of its end was rejected because the znode was changed or deleted; it is read again.
    """
    cancellation_ended: model.Zxid | None = None
    accepted: dict[RequestId, AcceptedRead] = field(default_factory=dict)
    """The original replicas of a request's partitions, for one that is to be undone as a whole."""

    # controls
    controls: Controls = field(default_factory=Controls)
    controls_known: bool = False
    """Whether all controls were ever decoded, also in an earlier session."""
