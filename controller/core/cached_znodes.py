"""
Znodes of many partitions, as last read or written: what the view keeps of them and changes.

What is written to them next is made of these copies. Where a write was refused the copy is stale,
and nothing is decided by it before it was read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core.model import (
    LegacyPlan,
    PartitionAssignment,
    Replicas,
    TopicPartition,
    ZkVersion,
    Zxid,
)


@dataclass(slots=True)
class Topic:
    """A topic znode as last read or written; ``partitions`` is ours to change."""

    partitions: dict[int, PartitionAssignment]
    version: ZkVersion
    czxid: Zxid
    topic_id: str | None
    stale: bool = False
    """A write was rejected: nothing of this topic is decided before it is read again."""
    doubted: int = 0
    """The doubt that made it stale: only a read that began later ends it."""
    read_in: int = 0
    """The doubt that stood when the newest read of it began."""
    unmarked: dict[int, Zxid] = field(default_factory=dict)
    """
    When each partition was written, as far as we saw, by what does not say what it adds.

    Of topics as Kafka 2.3 writes them; none where the znode was marked when it was first read.
    """
    asked_before: int = 0
    """
    The newest question for settings when this topic was first read.

    An answer to it, or to an older one, may describe a deleted topic of the same name.
    """

    def put_in_doubt(self, doubt: int) -> None:
        """Have nothing decided by it before a read that began after this doubt."""
        self.stale, self.doubted = True, doubt


@dataclass(slots=True)
class PlanNode:
    """
    A plan's znode as last read or written; ``entries`` is ours to change.

    ``/admin/reassign_partitions`` or ``/admin/reassign_partitions_queue``.
    """

    entries: dict[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    refused: tuple[tuple[str, str], ...] = ()
    unreadable: str | None = None
    raw: bytes = b""
    stale: bool = False
    written: bool = False
    """Whether we wrote it since it was read."""

    @classmethod
    def of(cls, plan: LegacyPlan) -> PlanNode:
        """Return a plan's znode as it was just read."""
        return cls(
            entries=dict(plan.entries),
            version=plan.version,
            czxid=plan.czxid,
            refused=plan.refused,
            unreadable=plan.unreadable,
            raw=plan.raw,
        )
