"""
The volumes of all brokers as planned so far, and where a replica may go.

For small plans: a few replicas leave full disks, nothing else changes. A move copies a replica to
another broker, or to another volume of its broker. It never puts two replicas of a partition on one
broker, takes no rack from a partition, and fills no volume above its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from controller.core.model import BrokerId, LogDirs, Replicas, TopicPartition
from controller.core.requests.submissions import NamedDirs
from controller.core.topics.replica_choice import Racks, rack_of


@dataclass(slots=True)
class DiskVolume:
    """A volume of a broker, as planned so far; without ``paths``, all of a broker's disks."""

    broker: BrokerId
    paths: tuple[str, ...]
    """Its log directories."""
    total: int
    used: int
    limit: float
    """The most bytes that it may hold."""

    @property
    def name(self) -> str:
        """The volume in messages."""
        return f"broker {self.broker}" + (f", {self.paths[0]}" if self.paths else "")


class MovableReplica(NamedTuple):
    """A replica that may move. The order of fields is that in which equal ones are preferred."""

    size: int
    """The bytes that a new replica copies from the leader."""
    partition: TopicPartition
    frees: int
    """The bytes that it has itself."""
    volume: int
    """Index of the volume that holds it."""
    replicas: Replicas
    """All replicas of the partition."""


class ReplicaMove(NamedTuple):
    """A replica that moves to another volume."""

    replica: MovableReplica
    source: BrokerId
    target: BrokerId
    volume: int
    """Index of the target volume."""

    @property
    def after(self) -> Replicas:
        """The replicas of the partition, in the order of before."""
        return tuple(self.target if b == self.source else b for b in self.replica.replicas)


class VolumeChange(NamedTuple):
    """A volume that a plan changes."""

    broker: BrokerId
    log_dirs: tuple[str, ...]
    total_bytes: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """The moves of a small plan, in the order in which they were chosen."""

    moves: tuple[ReplicaMove, ...]
    log_dirs: NamedDirs
    """The directories that entries name."""
    volumes: tuple[VolumeChange, ...]
    """The volumes that change."""

    @property
    def changed(self) -> dict[TopicPartition, Replicas]:
        """The replicas after the plan, of each partition of which one moves."""
        return {move.replica.partition: move.after for move in self.moves}

    @property
    def before(self) -> dict[TopicPartition, Replicas]:
        """The replicas before the plan, of each partition of which one moves."""
        return {move.replica.partition: move.replica.replicas for move in self.moves}

    @property
    def copies(self) -> int:
        """The number of replicas that another broker copies."""
        return sum(move.source != move.target for move in self.moves)

    @property
    def bytes_moved(self) -> int:
        """The bytes that are copied, between brokers and within one."""
        return sum(move.replica.size for move in self.moves)

    @property
    def bytes_copied(self) -> int:
        """The bytes that are copied between brokers."""
        return sum(move.replica.size for move in self.moves if move.source != move.target)

    def document(self) -> dict[str, Any]:
        """Return the figures for ``--json``."""
        return {
            "moves": len(self.moves),
            "replicas_copied": self.copies,
            "bytes_copied": self.bytes_copied,
            "replicas_relocated": len(self.moves) - self.copies,
            "bytes_relocated": self.bytes_moved - self.bytes_copied,
            "volumes": [
                {**volume._asdict(), "log_dirs": list(volume.log_dirs)} for volume in self.volumes
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCluster:
    """What small plans are made from, besides the replicas that may move."""

    volumes: Sequence[DiskVolume]
    """Those of known size, of brokers that answered."""
    takers: Collection[BrokerId]
    """The brokers that may get replicas."""
    racks: Racks
    """The racks of all brokers."""
    of_topics: Mapping[tuple[str, BrokerId], int]
    """The replicas of each topic on each broker, of the topics that may change."""

    def room(self, mark: float = 1.0) -> VolumeRoom:
        """Return the present volumes, none of which may be filled above a share."""
        volumes = [replace(v, limit=min(v.limit, mark * v.total)) for v in self.volumes]
        return VolumeRoom(volumes, self.takers, self.racks, self.of_topics)


class VolumeRoom:
    """The volumes, and the rules of placement."""

    def __init__(
        self,
        volumes: Iterable[DiskVolume],
        takers: Collection[BrokerId],
        racks: Racks,
        of_topics: Mapping[tuple[str, BrokerId], int],
    ) -> None:
        """Start from the present volumes; the other arguments are those of ``DiskCluster``."""
        self.volumes: Final = list(volumes)
        self._used_before: Final = [volume.used for volume in self.volumes]
        self._takers: Final = frozenset(takers)
        self._racks: Final = {v.broker: rack_of(v.broker, racks) for v in self.volumes}
        self._all_racks: Final = racks
        self._of_topics: Final = Counter(dict(of_topics))
        self._cap: Final[dict[str, int]] = {}
        """The largest number of a topic's replicas on one broker, before."""
        for (topic, _), count in of_topics.items():
            self._cap[topic] = max(count, self._cap.get(topic, 0))

    def broker_of(self, replica: MovableReplica) -> BrokerId:
        """Return the broker that holds a replica."""
        return self.volumes[replica.volume].broker

    def places(
        self, replica: MovableReplica, *, stays_on_broker: bool = False, keeps_topics: bool = False
    ) -> list[ReplicaMove]:
        """
        Return the possible moves of a replica, the best first.

        With ``stays_on_broker``, other volumes of its broker are possible, and preferred: nothing
        is copied over the network. Then a rack that the partition does not use yet is, then a
        broker that gets no more replicas of the topic than any broker had (with ``keeps_topics``,
        no other is possible), then the largest free share.
        """
        size, partition, _, source, replicas = replica
        home = self.volumes[source].broker
        own = rack_of(home, self._all_racks)
        others = {rack_of(b, self._all_racks) for b in replicas if b != home}
        topic = partition.topic
        cap = self._cap.get(topic, 0)
        found: list[tuple[bool, bool, bool, float, int]] = []
        for n, volume in enumerate(self.volumes):
            broker = volume.broker
            free = volume.limit - volume.used - size
            if free < 0 or n == source or broker not in self._takers:
                continue
            if broker == home:
                if stays_on_broker:
                    found.append((False, False, False, -free / max(1, volume.total), n))
                continue
            if broker in replicas:
                continue
            rack = self._racks[broker]
            # The only replica in its rack may go to no rack in use: a rack would be lost.
            if rack in others and own not in others:
                continue
            rises = self._of_topics[topic, broker] >= cap
            if not (rises and keeps_topics):
                row = (True, rack in others, rises, -free / max(1, volume.total), n)
                found.append(row)
        return [ReplicaMove(replica, home, self.volumes[n].broker, n) for *_, n in sorted(found)]

    def apply(self, move: ReplicaMove, by: int = 1) -> None:
        """Carry out a move; with ``by`` -1, take it back."""
        replica = move.replica
        self.volumes[move.volume].used += by * replica.size
        self.volumes[replica.volume].used -= by * replica.frees
        self._of_topics[replica.partition.topic, move.target] += by
        self._of_topics[replica.partition.topic, move.source] -= by

    def log_dirs(self, moves: Iterable[ReplicaMove]) -> NamedDirs:
        """
        Return the directories that the entries of moves are to name.

        A broker with one directory has nothing to choose. The directories of a volume share its
        bytes.
        """
        several = Counter(v.broker for v in self.volumes for _ in v.paths)
        taken: Counter[tuple[int, str]] = Counter()
        named: dict[TopicPartition, LogDirs] = {}
        for move in moves:
            paths = self.volumes[move.volume].paths
            if several[move.target] > 1:
                path = min(paths, key=lambda p: (taken[move.volume, p], p))
                taken[move.volume, path] += move.replica.size
                named[move.replica.partition] = ((move.target, path),)
        return named

    def changes(self) -> tuple[VolumeChange, ...]:
        """Return the volumes that changed."""
        return tuple(
            VolumeChange(v.broker, v.paths, v.total, before, v.used)
            for v, before in zip(self.volumes, self._used_before, strict=True)
            if v.used != before
        )

    def fill(self, volumes: Iterable[int]) -> float:
        """Return the used share of some volumes together."""
        held = [self.volumes[n] for n in volumes]
        return sum(v.used for v in held) / max(1, sum(v.total for v in held))
