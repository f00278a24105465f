"""
The log of one replica: records with the leader epoch they were written in, and a high watermark.

A log outlives the broker process that wrote it. Values are unique within a partition, so two logs
that agree on the record at an offset agree on everything before it (the log matching property).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Record(NamedTuple):
    """One record; ``value`` is unique within its partition."""

    leader_epoch: int
    value: int


@dataclass(slots=True)
class Future:
    """A copy of a log in another directory of its broker, which replaces it when it caught up."""

    directory: int
    end: int = 0
    is_stuck: bool = False
    """It makes no progress any more (KAFKA-9654)."""


class Log:
    """Records of one replica on one disk."""

    __slots__ = ("directory", "high_watermark", "is_online", "records", "topic_id")

    def __init__(self, directory: int) -> None:
        self.directory = directory
        self.is_online = True
        self.records: list[Record] = []
        self.high_watermark = 0
        self.topic_id: str | None = None
        """Kept with the log, from the first LeaderAndIsr that has one (KIP-516)."""

    @property
    def end(self) -> int:
        """The offset the next record will get."""
        return len(self.records)

    def common_end(self, other: Log) -> int:
        """Return the offset up to which both logs are the same."""
        end = min(self.end, other.end)
        while end and self.records[end - 1] != other.records[end - 1]:
            end -= 1
        return end

    def truncate(self, end: int) -> None:
        """Forget every record from ``end`` on."""
        del self.records[end:]
        self.high_watermark = min(self.high_watermark, end)

    def holds(self, committed: list[Record]) -> bool:
        """Return whether the log begins with these records."""
        end = len(committed)
        return end == 0 or (self.end >= end and self.records[end - 1] == committed[-1])
