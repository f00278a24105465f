"""
The rule about the size of alter entries: max(|ORS|, |FTR|) + step_size replicas at most.

All replicas that the topic znode lists count, also those being dropped: an entry that adds is sent
when the drop before it has ended. A log whose deletion is acknowledged is no longer listed, though
its disk is free only after the brokers' ``file.delete.delay.ms``.

There is no compare-and-set for an entry, and the controller may carry it out late. So, as in
``alter_rules``, it is judged by the content of ZooKeeper when it was sent: another entry, of a
daemon that died meanwhile or of a superseded request, may be carried out in between, in addition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from controller.core.model import PartitionAssignment, TopicPartition
from controller.reactor.ports import AlterEntry
from tests.sim.decoded import read_topic
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.world import World


class _Known(NamedTuple):
    """A partition in ZooKeeper from a time on; without a limit nothing is judged."""

    at: float
    assignment: PartitionAssignment
    limit: int | None


class BoundRules:
    """The replicas of partitions and the bounds of our records; judges the entries."""

    def __init__(self, world: World, step_size: int | None) -> None:
        """Listen to every transaction; without a step size everything is allowed."""
        self._world = world
        self._step_size = step_size
        self._history: defaultdict[TopicPartition, list[_Known]] = defaultdict(list)
        for partition in world.partitions():
            self._note(partition, world.assignment(partition))
        world.zookeeper.listeners.append(self._transacted)

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic] if written.after is not None:
                    read = read_topic(written.after)
                    assignments = {} if isinstance(read, str) else read.partitions
                    for n, assignment in assignments.items():
                        self._note(TopicPartition(topic, n), assignment)
                case ["admin", "reassignments", topic, number]:
                    partition = TopicPartition(topic, int(number))
                    for known in self._history[partition][-1:]:
                        self._note(partition, known.assignment)
                case _:
                    pass

    def _note(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        known = _Known(self._world.now, assignment, self._limit(partition))
        if self._history[partition][-1:] != [known]:
            self._history[partition].append(known)

    def _limit(self, partition: TopicPartition) -> int | None:
        spec = self._world.invariants.records.spec_of(partition)
        if spec is None or self._step_size is None:
            return None
        return max(len(spec.original or spec.target), len(spec.target)) + self._step_size

    def judge(self, entry: AlterEntry, known_since: float, sent_at: float) -> None:
        """Judge an entry by any assignment between ``known_since`` and the time it was sent."""
        known = list(self._between(entry.partition, known_since, sent_at))
        self._world.invariants.judge.ensure(
            entry.cancels or any(_is_within(k, entry) for k in known),
            f"{entry.partition}: an entry for {entry.target} at {sent_at:.3f} exceeds {known}",
        )

    def _between(self, partition: TopicPartition, since: float, until: float) -> Iterator[_Known]:
        history = [k for k in self._history[partition] if k.at <= until]
        yield from [k for k in history if k.at <= since][-1:]
        yield from (k for k in history if k.at > since)


def _is_within(known: _Known, entry: AlterEntry) -> bool:
    """Return whether the partition stays within its limit, or was beyond it before."""
    stored, limit = known.assignment, known.limit
    origin = set(stored.origin_replicas)
    return limit is None or len(stored.replicas) > limit or len(origin | set(entry.target)) <= limit
