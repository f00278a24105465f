"""The sizes of partitions, as brokers reported them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from controller.core.ledger import Ledger, Lifetime
from controller.core.model import (
    START,
    Instant,
    TopicPartition,
)


@dataclass(slots=True)
class WorkState(Ledger):
    """The sizes of partitions and of copies in progress, and when they are requested again."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

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
