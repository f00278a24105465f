"""
Abstract brokers: how they judge a controller's requests, copy records, and change ISRs.

The rules are those of ``tests.sim.brokers`` and ``tests.sim.replication`` (Kafka's
``ReplicaManager`` and ``Partition``) without time: a fetch copies everything, and whether a
follower counts as slow is a choice of the explorer. All parts are immutable values, so a copy of a
broker is cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.explore.production import (
    LeaderAndIsr,
    StopReplica,
    TopicPartition,
    UpdateMetadata,
    kafka_errors,
)

NO_EPOCH = -1
FORGETTING = 0
"""The AlterPartition of the releases that forget one at a new leader epoch (KAFKA-12686)."""
DURING_DELETE = -2


class Record(NamedTuple):
    """One record; ``value`` is unique within its partition."""

    leader_epoch: int
    value: int


class Log(NamedTuple):
    """The records of one replica on one disk."""

    records: tuple[Record, ...] = ()
    high_watermark: int = 0

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self.records)

    def holds(self, committed: tuple[Record, ...]) -> bool:
        """Return whether the log begins with these records."""
        return self.records[: len(committed)] == committed


class Replica(NamedTuple):
    """A replica in the memory of its broker."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    is_fetching: bool = False
    epoch_start: int = 0
    ends: tuple[tuple[int, int], ...] = ()
    """A leader's knowledge of its followers' logs, in this leader epoch."""
    waiting: tuple[int, ...] = ()
    """Offsets for whose acknowledgement producers wait."""
    joining: tuple[int, ...] = ()
    """Excluded followers whose last fetch a leader may still be handling."""
    wanted: tuple[int, ...] | None = None
    """The ISR that a leader asked its controller for, until it is answered."""

    @property
    def counted(self) -> frozenset[int]:
        """The members that a leader waits for: those of the ISR, and of the one it asked for."""
        return frozenset(self.isr).union(self.wanted or ())

    def end_of(self, follower: int) -> int:
        """Return the end of a follower's log, as the leader knows it."""
        return dict(self.ends).get(follower, -1)


class Asking(NamedTuple):
    """What a broker asks its controller: an ISR change of the partition."""

    change: Any = None
    """The change that is not answered yet (``AlterPartitionManager.unsentIsrUpdates``)."""
    request: Any = None
    """The last request that was sent and is not answered."""
    is_sent: bool = False
    """Whether the broker waits for the answer; else it sends the request, again if need be."""
    answer: Any = None
    """The answer on its way back."""


class Broker:
    """One broker, over any number of lives of its process."""

    __slots__ = (
        "asking", "asks", "controller_epoch", "epoch", "hosted", "id", "is_alive", "joins_late",
        "live", "logs", "lost", "session", "session_ends", "writing", "writing_at",
    )  # fmt: skip

    def __init__(self, number: int, asks: int | None = None, *, joins_late: bool = False) -> None:
        self.id = number
        self.joins_late = joins_late
        """Whether it may be handling a fetch of a follower that a LeaderAndIsr excludes."""
        self.asks = asks
        """The version of AlterPartition that it sends; None: it writes ISRs to ZooKeeper."""
        self.is_alive = False
        self.session = -1
        self.session_ends = 0.0
        """When ZooKeeper ends the session of a process that died, at the latest."""
        self.epoch = -1
        self.controller_epoch = 0
        self.live: frozenset[int] = frozenset()
        self.hosted: dict[TopicPartition, Replica] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.lost: frozenset[TopicPartition] = frozenset()
        """Partitions whose log was lost by a fault of the disk, and not copied again since."""
        self.writing: tuple[int, ...] = ()
        """The ISR of a write that waits for the connection to ZooKeeper."""
        self.asking = Asking()
        self.writing_at: Replica | None = None
        """The replica as it was when that write was decided."""

    def copied(self, _memo: Any) -> Broker:
        """Return an independent copy."""
        other = Broker.__new__(Broker)
        other.id, other.is_alive, other.session = self.id, self.is_alive, self.session
        other.epoch, other.controller_epoch = self.epoch, self.controller_epoch
        other.session_ends = self.session_ends
        other.live, other.lost = self.live, self.lost
        other.writing, other.writing_at = self.writing, self.writing_at
        other.asking, other.asks, other.joins_late = self.asking, self.asks, self.joins_late
        other.hosted, other.logs = self.hosted.copy(), self.logs.copy()
        return other

    def form(self) -> Any:
        """Return the canonical form."""
        return (
            self.id,
            self.is_alive,
            self.session,
            self.session_ends,
            self.epoch,
            self.controller_epoch,
            tuple(sorted(self.live)),
            tuple(sorted(self.hosted.items())),
            tuple(sorted(self.logs.items())),
            tuple(sorted(self.lost)),
            self.writing,
            self.writing_at,
            self.asking,
        )

    @property
    def session_id(self) -> int:
        """The ZooKeeper session, as the simulator calls it."""
        return self.session

    def copy(self, partition: TopicPartition) -> Log | None:
        """Return what the broker has of a partition."""
        return self.logs.get(partition)

    def leads(self, partition: TopicPartition) -> bool:
        """Return whether it believes that it leads a partition."""
        replica = self.hosted.get(partition)
        return self.is_alive and replica is not None and replica.leader == self.id

    def is_asking(self, partition: TopicPartition) -> bool:
        """Return whether no other ISR can be asked for before an answer."""
        replica = self.hosted[partition]
        return replica.wanted is not None or self.asking.change is not None

    # --- life ----------------------------------------------------------------------------------

    def end(self) -> None:
        """End the process: what was in memory is gone."""
        self.is_alive = False
        self.hosted = {}
        self.writing, self.writing_at = (), None
        self.asking = Asking()
        self.controller_epoch = 0
        self.live = frozenset()

    def lose_logs(self) -> None:
        """Lose the disk while the process is down."""
        self.lost = self.lost.union(self.logs)
        self.logs = {}

    # --- requests ------------------------------------------------------------------------------

    def handle(
        self, request: Any, broker_epoch: int, events: list[Any]
    ) -> tuple[int, tuple[tuple[TopicPartition, int], ...]]:
        """Carry out a controller's request; return its error and those of its partitions."""
        if request.controller_epoch < self.controller_epoch:
            return kafka_errors.STALE_CONTROLLER_EPOCH, ()
        if -1 < broker_epoch < self.epoch:
            return kafka_errors.STALE_BROKER_EPOCH, ()
        self.controller_epoch = request.controller_epoch
        if isinstance(request, UpdateMetadata):
            self.live = frozenset(broker.id for broker in request.live_brokers)
            return kafka_errors.NONE, ()
        if isinstance(request, LeaderAndIsr):
            return kafka_errors.NONE, tuple(
                (s.partition, self._accept(s, events)) for s in request.states
            )
        assert isinstance(request, StopReplica)
        return kafka_errors.NONE, tuple(
            (s.partition, self._stop(s, events)) for s in request.states
        )

    def _accept(self, state: Any, events: list[Any]) -> int:
        partition = state.partition
        known = self.hosted.get(partition)
        if known is not None and state.leader_epoch <= known.leader_epoch:
            return kafka_errors.STALE_CONTROLLER_EPOCH
        if self.id not in state.replicas:
            return kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = Log()
        if state.leader not in {self.id, *self.live}:
            # The transition is skipped, and the answer is NONE.
            self.hosted.setdefault(partition, Replica(-1, -1, 0, -1, (), ()))
            return kafka_errors.NONE
        if known is not None and state.partition_epoch < known.partition_epoch:
            return kafka_errors.NONE
        is_leader = state.leader == self.id
        waiting = (
            known.waiting if known is not None and is_leader and known.leader == self.id else ()
        )
        joining: tuple[int, ...] = ()
        if self.joins_late and known is not None and is_leader:
            ended = (follower for follower, end in known.ends if end == log.end)
            joining = tuple(f for f in ended if f not in state.replicas)
        self.hosted[partition] = Replica(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            controller_epoch=state.controller_epoch,
            partition_epoch=state.partition_epoch,
            isr=tuple(state.isr),
            replicas=tuple(state.replicas),
            is_fetching=not is_leader,
            epoch_start=log.end if is_leader else 0,
            waiting=waiting,
            joining=joining,
        )
        if self.asks == FORGETTING:
            self.asking = self.asking._replace(change=None)
        if is_leader:
            events.append(("leads", self.id, partition, state.leader_epoch, tuple(state.replicas)))
        return kafka_errors.NONE

    def _stop(self, state: Any, events: list[Any]) -> int:
        partition, epoch = state.partition, state.leader_epoch
        replica = self.hosted.get(partition)
        is_fenced = epoch not in {DURING_DELETE, NO_EPOCH}
        if is_fenced and replica is not None and epoch < replica.leader_epoch:
            return kafka_errors.FENCED_LEADER_EPOCH
        if replica is not None:
            if state.delete:
                del self.hosted[partition]
            else:
                self.hosted[partition] = replica._replace(is_fetching=False)
        if state.delete and partition in self.logs:
            del self.logs[partition]
            self.lost -= {partition}
            events.append(("deleted", self.id, partition, epoch))
        return kafka_errors.NONE
