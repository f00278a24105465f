"""Events of brokers' log directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from controller.core import model
from controller.core.model import BrokerId, TopicPartition
from controller.core.record_kinds import Fact
from controller.core.worklist import Flags


@dataclass(frozen=True, slots=True)
class SizesRead(Fact):
    """Bytes on disk of partitions, of the largest replica where several were reported."""

    wakes: ClassVar[Flags] = ()

    sizes: Mapping[TopicPartition, int]
    errors: Mapping[BrokerId, str] = field(default_factory=dict)
    """Brokers that reported nothing, and why."""
    replicas: Mapping[TopicPartition, Mapping[BrokerId, int]] = field(default_factory=dict)
    """Bytes of each replica by broker; omitted where very many were requested."""
    unmeasured: frozenset[TopicPartition] = frozenset()
    """Requested partitions of which no broker reported a replica."""
    disks: Mapping[BrokerId, model.BrokerDisks] = field(default_factory=dict)
    """The log directories of the brokers that answered."""
    placed: Mapping[TopicPartition, Mapping[BrokerId, str]] = field(default_factory=dict)
    """The directory of each replica by broker, of brokers with several; omitted like sizes."""
    unable: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers with an error that answered: they will report nothing later, either."""
    requested: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers that were queried; none means all."""


@dataclass(frozen=True, slots=True)
class LogDirEventsRead(Fact):
    """Log directory failure notifications: znode names and the brokers that wrote them."""

    wakes: ClassVar[Flags] = ()

    names: tuple[str, ...]
    brokers: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class LogDirsDescribed(Fact):
    """The log directories of a broker, and where the replicas are that it was asked for."""

    wakes: ClassVar[Flags] = ("directories",)

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    at: model.Instant
    """The instant before the broker was queried."""
    dirs: Mapping[str, bool]
    """Whether each of its directories has failed."""
    requested: frozenset[TopicPartition] = frozenset()
    """The requested partitions."""
    replicas: Mapping[TopicPartition, model.PlacedReplica] = field(default_factory=dict)
    """Those of them that it has, except in failed directories."""
    problem: str | None = None
    """Why nothing is known; None: it answered."""


class DirectoryResult(NamedTuple):
    """The answer to one replica of AlterReplicaLogDirs; the error is negative without one."""

    partition: TopicPartition
    directory: str
    error: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class LogDirsAltered(Fact):
    """A broker's answer to AlterReplicaLogDirs, or that there was none."""

    wakes: ClassVar[Flags] = ("directories",)

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    results: tuple[DirectoryResult, ...]


DiskEvent = SizesRead | LogDirEventsRead | LogDirsDescribed | LogDirsAltered
