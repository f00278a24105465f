"""Real brokers keep the contracts of a failed disk and of DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.log_dirs import BrokerLogDirs
from controller.clocks import MonotonicClock
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import BrokerId, TopicPartition
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.real_brokers import RealRig
from integration.rigs.seized_controllers import QueueInbox, SeizedController
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from tests.contracts.disk_contract import DiskContract, DiskRig
from tests.contracts.log_dirs_contract import LogDirsContract


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Give three brokers with two disks each; ``cluster`` repairs them after every test."""
    options = ClusterOptions(brokers=3, broker=BrokerOptions(log_dirs=2))
    with Cluster.running(options) as cluster:
        yield cluster


class TestRealDisks(DiskContract):
    """The contract of disks."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[DiskRig]:
        """Return the role and a topic made before it was taken; a broker gets the role back."""
        rig = RealRig(cluster, make_topic({0: [1]}))
        yield rig
        rig.stop()


class RealLogDirs:
    """The first broker of the cluster, queried as by the daemon."""

    def __init__(
        self, cluster: Cluster, topic: str, log_dirs: BrokerLogDirs, inbox: QueueInbox
    ) -> None:
        self.partition = TopicPartition(topic, 0)
        self._log_dirs = log_dirs
        self._inbox = inbox
        reader = SeizedController(cluster.zookeeper_connect)
        self._broker = reader.brokers()[BrokerId(1)]
        reader.stop()
        log_dirs.update_brokers([self._broker])

    def described(self, *partitions: TopicPartition, is_whole: bool) -> LogDirsDescribed:
        """Query broker 1 about these partitions, and return the answer."""
        self._log_dirs.describe([self._broker], partitions, is_whole=is_whole)
        event = self._inbox.next()
        assert isinstance(event, LogDirsDescribed)
        return event


class TestRealLogDirs(LogDirsContract):
    """The contract of DescribeLogDirs."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[RealLogDirs]:
        """Return the brokers, and a topic on the first."""
        inbox = QueueInbox()
        log_dirs = BrokerLogDirs(inbox, ConnectionSettings(), MonotonicClock())
        log_dirs.start()
        made = RealLogDirs(cluster, make_topic({0: [1]}), log_dirs, inbox)
        # A broker makes the log some time after the topic.
        eventually(
            lambda: bool(made.described(made.partition, is_whole=False).replicas), within_s=40
        )
        yield made
        log_dirs.stop()
