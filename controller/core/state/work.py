"""The sizes of partitions, as brokers reported them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from controller.core.disks.disk_ledger import QueryTimes, SizeReport
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import BrokerId, TopicPartition


@dataclass(slots=True)
class WorkState(Ledger):
    """The sizes of partitions and of copies in progress, and when brokers are queried again."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes on disk, as far as brokers reported them."""
    measured: dict[TopicPartition, SizeReport] = field(default_factory=dict)
    """The report from which growth is counted."""
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second by which a partition grew between two reports: the producers' rate."""
    copied: dict[TopicPartition, dict[BrokerId, SizeReport]] = field(default_factory=dict)
    """What the leader and the added replicas of a step in flight have, as they last reported."""
    queries: QueryTimes = field(default_factory=QueryTimes)
