"""
The rule about logs that Kafka's controller leaves behind: a dead broker's drop is recorded.

That controller forgets the brokers that it could not send StopReplica to. The delegated engine
cannot delete either, but where it leads a reassignment of the partition it sees the drop, and has
to record it. A drop, or the absence of a broker, that no daemon observed need not be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.core.model import BrokerId, PartitionAssignment, TopicPartition
from controller.znodes import paths
from tests.sim.decoded import read_topic
from tests.sim.zookeeper import Transaction, Written, Znode

if TYPE_CHECKING:
    from controller.core.view import ClusterView
    from tests.sim.world import World

KNOWN_S: Final = 3.0
"""The time that a daemon may take to read everything when it begins to lead."""
WRITTEN_S: Final = 20.0
"""The time that a record may be refused; the next leader has not seen the drop."""


@dataclass(slots=True)
class Drop:
    """A dead broker's replica that was dropped from a partition with a spec."""

    broker: BrokerId
    partition: TopicPartition
    seen_at: float | None = None
    """The time at which the leading daemon knew of the drop and of the broker's death."""


class LostLogs:
    """Every drop that a daemon has seen, or is about to."""

    def __init__(self, world: World) -> None:
        """Listen to every transaction."""
        self._world = world
        self._led_since = world.now
        self._drops: list[Drop] = []
        self.seen = 0
        """The number of drops that daemons have seen."""
        world.zookeeper.listeners.append(self._transacted)

    def look(self, view: ClusterView) -> None:
        """Note which drops the view of a leading daemon shows."""
        for drop in self._drops if view.tenure.held is not None else ():
            known = view.topics.known_assignment(drop.partition)
            is_seen = (
                drop.partition in view.reassignments.by_partition
                and known is not None
                and drop.broker not in known.replicas
                and drop.broker not in view.cluster.brokers
            )
            if is_seen and drop.seen_at is None:
                drop.seen_at = self._world.now
                self.seen += 1

    def judge_end(self) -> None:
        """Judge that every log that is still left has a record."""
        for drop in self._drops:
            if drop.seen_at is None or drop.partition not in self._world.brokers[drop.broker].logs:
                continue
            record = paths.orphan_path(drop.broker, drop.partition)
            self._world.invariants.judge.ensure(
                self._world.zookeeper.get(record) is not None,
                f"{drop.partition}: broker {drop.broker} was dead when it was dropped, its log is "
                "left, and no record names it",
            )

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written:
            parent, _, name = written.path.rpartition("/")
            if written.path == paths.EPOCH:
                self._led_since = self._world.now
                written_by = self._world.now - WRITTEN_S
                self._drops = [d for d in self._drops if (d.seen_at or written_by) < written_by]
            elif parent == paths.BROKER_IDS and written.after is not None:
                self._drops = [
                    d for d in self._drops if d.broker != int(name) or d.seen_at is not None
                ]
            elif parent == paths.TOPICS:
                self._assigned(name, written)

    def _assigned(self, topic: str, written: Written) -> None:
        before, after = _partitions(written.before), _partitions(written.after)
        if written.after is None:
            # A log of a deleted topic looks like that of a new one, and has no record.
            self._drops = [d for d in self._drops if d.partition.topic != topic]
        for number, now in after.items():
            partition = TopicPartition(topic, number)
            self._drops = [
                d for d in self._drops if d.partition != partition or d.broker not in now.replicas
            ]
            if number in before and self._is_followed(partition):
                gone = (b for b in before[number].replicas if b not in now.replicas)
                self._drops += [Drop(b, partition) for b in gone if self._is_dead(b)]

    def _is_followed(self, partition: TopicPartition) -> bool:
        is_ours = self._world.invariants.records.spec_of(partition) is not None
        return is_ours and self._world.now - self._led_since >= KNOWN_S

    def _is_dead(self, broker: BrokerId) -> bool:
        return self._world.zookeeper.get(paths.broker_path(broker)) is None


def _partitions(znode: Znode | None) -> dict[int, PartitionAssignment]:
    read = "gone" if znode is None else read_topic(znode)
    return {} if isinstance(read, str) else dict(read.partitions)
