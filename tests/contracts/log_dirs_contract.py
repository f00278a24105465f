"""
The contract of DescribeLogDirs: the same tests for the fake broker and Kafka.

``LogDirsContract`` is a base class; its rig has brokers with two log directories each, and a
partition with a replica on broker 1.
"""

from __future__ import annotations

from typing import Protocol

from controller.core.disks.records import LogDirsDescribed
from controller.core.model import TopicPartition


class LogDirsRig(Protocol):
    """A broker that can be queried."""

    @property
    def partition(self) -> TopicPartition:
        """A partition with a replica on broker 1."""
        ...

    def described(self, *partitions: TopicPartition, is_whole: bool) -> LogDirsDescribed:
        """Query broker 1 about these partitions, and return the answer."""
        ...


class LogDirsContract:
    """Derive from this, with a fixture ``rig``."""

    def test_every_directory_is_described_whichever_partitions_are_named(
        self, rig: LogDirsRig
    ) -> None:
        """With the room on its volume, and also where no partition is named."""
        for partitions in ((rig.partition,), ()):
            read = rig.described(*partitions, is_whole=False)
            assert read.problem is None
            dirs = read.dirs
            assert len({d.path for d in dirs}) == len(dirs) == 2
            for directory in dirs:
                assert not directory.is_failed
                assert directory.total is not None
                assert directory.usable is not None
                assert 0 < directory.usable <= directory.total

    def test_replica_is_in_one_of_the_directories(self, rig: LogDirsRig) -> None:
        """The answer names it, with its size."""
        read = rig.described(rig.partition, is_whole=False)
        paths = {d.path for d in read.dirs}
        assert read.replicas[rig.partition].directory in paths
        assert read.replicas[rig.partition].size >= 0

    def test_logs_are_counted_where_all_are_listed(self, rig: LogDirsRig) -> None:
        """A named query says nothing of the others."""
        named = rig.described(rig.partition, is_whole=False)
        assert {d.logs for d in named.dirs} == {None}
        whole = rig.described(rig.partition, is_whole=True)
        assert sum(d.logs or 0 for d in whole.dirs) >= 1
        assert all(d.logs is not None for d in whole.dirs)

    def test_partition_that_is_not_there_has_no_replica(self, rig: LogDirsRig) -> None:
        """The answer says that it was asked about."""
        unknown = TopicPartition("no-such-topic", 0)
        read = rig.described(unknown, is_whole=False)
        assert read.replicas == {}
        assert read.partitions == {unknown}
