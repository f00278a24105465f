"""The ledgers of limits, throttles and health."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from controller.core import model
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import (
    START,
    BrokerId,
    Instant,
    TopicPartition,
)
from controller.core.pacing.applied_throttles import (
    AppliedThrottle,
    Entity,
    EntityConfig,
    ThrottleRefusal,
)
from controller.core.pacing.controls import Controls
from controller.core.pacing.participants import Participants
from controller.core.pacing.pending_queue import PendingQueue


@dataclass(slots=True)
class PacingLedger(Ledger):
    """What is pending and in flight, and the health that limits it."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    waiting: PendingQueue = field(default_factory=PendingQueue)
    """Pending reassignments in the order in which they will be considered."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones that completed a step: they start first when capacity is free."""
    in_flight: int = 0
    incoming: dict[BrokerId, int] = field(default_factory=dict)
    outgoing: dict[BrokerId, int] = field(default_factory=dict)
    bytes_in_flight: int = 0
    pace: int | None = None
    """The adaptive limit of partitions in flight; None: the configured limit holds."""
    pace_since: Instant = START
    """When the interval under judgement began."""
    shrunk: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions without a reassignment whose ISR is smaller than their replica set."""
    under_min_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them known to be below ``min.insync.replicas``, or without a leader."""
    recovering: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them that live replicas can restore: copies would slow that down."""
    exposed: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    """The others by the brokers that serve them: copies there could take those replicas, too."""
    unjudged_topics: set[str] = field(default_factory=set)
    """Topics of shrunk partitions whose settings are not known yet."""
    isr_losses: deque[model.IsrLoss] = field(
        default_factory=lambda: deque(maxlen=model.EVIDENCE_KEPT)
    )
    slow_answers: deque[model.SlowAnswer] = field(
        default_factory=lambda: deque(maxlen=model.EVIDENCE_KEPT)
    )


@dataclass(slots=True)
class PacingSession(Ledger):
    """Whether this session read the controls."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    controls_read: bool = False


@dataclass(slots=True)
class PacingLeadership(Ledger):
    """The dynamic settings that throttle, and the reads of the records of applied throttles."""

    lifetime: ClassVar[Lifetime] = Lifetime.LEADERSHIP

    applied_throttles_read: bool = False
    unconfirmed_throttles: set[Entity] = field(default_factory=set)
    """Applied throttles of which a write was rejected: the next read shows whether they exist."""
    entity_configs: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    """Dynamic settings of the topics and brokers that are, or are to be, throttled."""
    requested_entities: dict[Entity, Instant] = field(default_factory=dict)
    """When dynamic settings were last requested."""
    throttle_refusals: dict[Entity, ThrottleRefusal] = field(default_factory=dict)
    kept_throttles: dict[Entity, tuple[str, ...]] = field(default_factory=dict)
    """Settings of others that occupy the place of a wanted throttle."""


@dataclass(slots=True)
class PacingHistory(Ledger):
    """The controls of operators, the throttles, and the clock of windows."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    controls: Controls = field(default_factory=Controls)
    controls_known: bool = False
    """Whether all controls were ever decoded, also in an earlier session."""
    applied_throttles: dict[Entity, AppliedThrottle] = field(default_factory=dict)
    participants: Participants = field(default_factory=Participants)
    scans_left: int = 0
    """Scans still needed until all pending ones were considered since a slot became free."""
    wall: tuple[Instant, float] | None = None
    """An instant and the wall clock's reading at it, in seconds since 1970."""

    def unix_s(self, now: Instant) -> float | None:
        """Return the wall clock's reading at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)
