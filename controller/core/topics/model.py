"""
The vocabulary of topics: a topic znode as last read or written.

The next write of a topic znode is based on its copy. Where a write was rejected the copy is stale,
and no decision uses it before it is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core import model


@dataclass(slots=True)
class Topic:
    """A topic znode as last read or written; ``partitions`` is mutable."""

    partitions: dict[int, model.PartitionAssignment]
    version: model.ZkVersion
    czxid: model.Zxid
    topic_id: str | None
    """The id in the znode, or the last known one where a write of others left it out."""
    lacks_id: bool = False
    """Whether the znode has no id."""
    stale: bool = False
    """A write was rejected: nothing of this topic is decided before it is read again."""
    invalidated_in: int = 0
    """The read generation that made it stale: only a read that began later ends that."""
    read_in: int = 0
    """The read generation in which the newest read of it began."""
    unmarked: dict[int, model.Zxid] = field(default_factory=dict)
    """
    When each partition was last written, as far as known, by a release that does not mark AR and
    RR.

    For topics as Kafka 2.3 writes them; empty where the znode was marked when it was first read.
    """
    requests_before: int = 0
    """
    The newest settings request when this topic was first read.

    An answer to it, or to an older one, may describe a deleted topic of the same name.
    """

    def invalidate(self, generation: int) -> None:
        """Suspend decisions about it until a read that began in this generation or later."""
        self.stale, self.invalidated_in = True, generation

    @classmethod
    def of(cls, read: model.TopicAssignment, known_id: str | None = None) -> Topic:
        """
        Return a topic znode as it was read.

        Args:
            read: The content.
            known_id: The id of the same topic, for content that has none: a tool of before 2.8
                wrote it, and brokers would refuse another id for their logs.

        """
        return cls(
            dict(read.partitions),
            read.version,
            read.czxid,
            read.topic_id or known_id,
            lacks_id=read.topic_id is None,
        )
