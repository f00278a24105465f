"""
The contract of DescribeLogDirs: the same tests for the fake broker and Kafka.

``LogDirsContract`` is a base class; its rig has brokers with two log directories each, and a
partition with a replica on broker 1.
"""

from __future__ import annotations

from typing import Final, Protocol

from controller.core.disks.records import SizesRead
from controller.core.model import BrokerId, TopicPartition

ONE: Final = BrokerId(1)


class LogDirsRig(Protocol):
    """Brokers that can be queried."""

    @property
    def partition(self) -> TopicPartition:
        """A partition with a replica on broker 1."""
        ...

    def measured(self, *partitions: TopicPartition, whole: bool) -> SizesRead:
        """Query for these partitions and return the answer."""
        ...


class LogDirsContract:
    """Derive from this, with a fixture ``rig``."""

    def test_every_directory_is_described_whichever_partitions_are_named(
        self, rig: LogDirsRig
    ) -> None:
        """With the room on its volume, and also where no partition is named."""
        for partitions in ((rig.partition,), ()):
            read = rig.measured(*partitions, whole=False)
            assert read.errors == {}
            dirs = read.disks[ONE].dirs
            assert len({d.path for d in dirs}) == len(dirs) == 2
            for directory in dirs:
                assert not directory.is_failed
                assert directory.total is not None
                assert directory.usable is not None
                assert 0 < directory.usable <= directory.total

    def test_replica_is_in_one_of_the_directories(self, rig: LogDirsRig) -> None:
        """The answer names it, with its size."""
        read = rig.measured(rig.partition, whole=False)
        paths = {d.path for d in read.disks[ONE].dirs}
        assert read.placed[rig.partition][ONE] in paths
        assert read.replicas[rig.partition][ONE] >= 0

    def test_logs_are_counted_where_all_are_listed(self, rig: LogDirsRig) -> None:
        """A named query says nothing of the others."""
        named = rig.measured(rig.partition, whole=False)
        assert {d.logs for d in named.disks[ONE].dirs} == {None}
        whole = rig.measured(rig.partition, whole=True)
        assert sum(d.logs or 0 for d in whole.disks[ONE].dirs) >= 1
        assert all(d.logs is not None for d in whole.disks[ONE].dirs)

    def test_partition_that_is_not_there_has_no_size(self, rig: LogDirsRig) -> None:
        """It is named as unmeasured."""
        unknown = TopicPartition("no-such-topic", 0)
        read = rig.measured(unknown, whole=False)
        assert read.sizes == {}
        assert read.unmeasured == {unknown}
