"""Real brokers keep the contracts of a failed disk and of DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import LogDirQuery
from controller.clocks import MonotonicClock
from controller.core.disks.records import SizesRead
from controller.core.model import TopicPartition
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
    """The brokers of the cluster, queried as by the daemon."""

    def __init__(self, cluster: Cluster, topic: str, sizes: LogDirQuery, inbox: QueueInbox) -> None:
        self.partition = TopicPartition(topic, 0)
        self._sizes = sizes
        self._inbox = inbox
        reader = SeizedController(cluster.zookeeper_connect)
        sizes.update_brokers(reader.brokers().values())
        reader.stop()

    def measured(self, *partitions: TopicPartition, whole: bool) -> SizesRead:
        """Query for these partitions and return the answer."""
        self._sizes.measure(partitions, whole=whole)
        event = self._inbox.next()
        assert isinstance(event, SizesRead)
        return event


class TestRealLogDirs(LogDirsContract):
    """The contract of DescribeLogDirs."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[RealLogDirs]:
        """Return the brokers, and a topic on the first."""
        inbox = QueueInbox()
        sizes = LogDirQuery(inbox, Security(), ListenerChoice(), MonotonicClock())
        sizes.start()
        made = RealLogDirs(cluster, make_topic({0: [1]}), sizes, inbox)
        # A broker makes the log some time after the topic.
        eventually(lambda: bool(made.measured(made.partition, whole=False).sizes), within_s=40)
        yield made
        sizes.stop()
