"""
The contract of AlterReplicaLogDirs and of future logs: the same tests for the model and Kafka.

``DirectoriesContract`` is a base class; its rig has brokers with two log directories each, and a
partition with one replica, on broker 1.
"""

from __future__ import annotations

from typing import Final, Protocol

from controller.core.disks.placements import NOT_THERE
from controller.core.disks.records import LogDirsAltered, LogDirsDescribed
from controller.core.model import BrokerId, PlacedReplica, TopicPartition
from controller.kafka_errors import LOG_DIR_NOT_FOUND

ONE: Final = BrokerId(1)
TWO: Final = BrokerId(2)


class DirectoriesRig(Protocol):
    """Brokers that carry out requests about their directories."""

    @property
    def partition(self) -> TopicPartition:
        """A partition with a replica on broker 1 only."""
        ...

    def described(self, broker: BrokerId, *partitions: TopicPartition) -> LogDirsDescribed:
        """Ask a broker, and return the answer."""
        ...

    def altered(
        self, broker: BrokerId, partition: TopicPartition, directory: str
    ) -> LogDirsAltered:
        """Request a directory, and return the answer."""
        ...

    def add_replica(self, broker: BrokerId) -> None:
        """Have the partition get a replica on another broker, and wait for its log."""
        ...

    def settle(self) -> None:
        """Let some time pass."""
        ...


class DirectoriesContract:
    """Derive from this, with a fixture ``rig``."""

    def test_replica_is_described_where_it_is(self, rig: DirectoriesRig) -> None:
        """With every directory of its broker, and nothing of what is not there."""
        here = rig.described(ONE, rig.partition)
        assert here.problem is None
        assert [d.is_failed for d in here.dirs] == [False, False]
        assert here.replicas.keys() == {rig.partition}
        placed = here.replicas[rig.partition]
        assert placed == PlacedReplica(_directory(rig, ONE), placed.size)
        assert rig.described(TWO, rig.partition).replicas == {}

    def test_replica_moves_to_the_directory_that_is_named(self, rig: DirectoriesRig) -> None:
        """A future log grows there and replaces the former one."""
        before = _directory(rig, ONE)
        other = _other(rig, ONE, before)
        assert _error(rig.altered(ONE, rig.partition, other)) == 0
        for _ in range(100):
            placed = rig.described(ONE, rig.partition).replicas[rig.partition]
            if (placed.directory, placed.future) == (other, None):
                break
            assert (placed.directory, placed.future) == (before, other)
            rig.settle()
        assert _directory(rig, ONE) == other
        assert _error(rig.altered(ONE, rig.partition, other)) == 0
        placed = rig.described(ONE, rig.partition).replicas[rig.partition]
        assert (placed.directory, placed.future) == (other, None)

    def test_replica_is_made_in_the_directory_that_was_named_before(
        self, rig: DirectoriesRig
    ) -> None:
        """The answer says that it is not there; either directory can be named."""
        for directory in sorted((d.path for d in rig.described(TWO).dirs), reverse=True):
            assert _error(rig.altered(TWO, rig.partition, directory)) in NOT_THERE
        rig.add_replica(TWO)
        assert _directory(rig, TWO) == directory

    def test_directory_that_the_broker_does_not_have_is_refused(self, rig: DirectoriesRig) -> None:
        """Whether or not the replica is there."""
        for broker in (ONE, TWO):
            answer = rig.altered(broker, rig.partition, "/no-such-directory")
            assert _error(answer) == LOG_DIR_NOT_FOUND


def _error(answer: LogDirsAltered) -> int:
    (result,) = answer.results
    return result.error


def _directory(rig: DirectoriesRig, broker: BrokerId) -> str:
    directory = rig.described(broker, rig.partition).replicas[rig.partition].directory
    assert directory is not None
    return directory


def _other(rig: DirectoriesRig, broker: BrokerId, directory: str) -> str:
    (other,) = {d.path for d in rig.described(broker).dirs} - {directory}
    return other
