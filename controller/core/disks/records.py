"""Events of brokers' log directories."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core import model
from controller.core.bases import Fact
from controller.core.model import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class LogDirEventsRead(Fact, wakes=()):
    """Log directory failure notifications: znode names and the brokers that wrote them."""

    names: tuple[str, ...]
    brokers: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class LogDirsDescribed(Fact, wakes=("log_dirs",)):
    """What a broker has in its log directories, or why it does not say so (DescribeLogDirs)."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    at: model.Instant
    """The instant before the broker was queried: what happened earlier is included."""
    partitions: AbstractSet[TopicPartition] = frozenset()
    """The partitions that it was queried for."""
    dirs: tuple[model.LogDir, ...] = ()
    replicas: Mapping[TopicPartition, model.PlacedReplica] = field(default_factory=dict)
    """Those of the partitions that it has, except in failed directories."""
    problem: str | None = None
    """Why nothing is known; None: it described its directories."""
    is_refused: bool = False
    """Whether it answered with that problem: it will describe nothing later, either."""

    @property
    def report(self) -> model.BrokerDisks:
        """The log directories, with the registration and the time."""
        return model.BrokerDisks(self.broker_epoch, self.at, self.dirs)


class DirectoryResult(NamedTuple):
    """The answer to one replica of AlterReplicaLogDirs; the error is negative without one."""

    partition: TopicPartition
    directory: str
    error: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class LogDirsAltered(Fact, wakes=("log_dirs",)):
    """A broker's answer to AlterReplicaLogDirs, or that there was none."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    results: tuple[DirectoryResult, ...]


DiskEvent = LogDirEventsRead | LogDirsDescribed | LogDirsAltered
