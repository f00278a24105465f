"""Real brokers that lose a disk keep the contract that the simulated one keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.real_brokers import RealRig
from integration.rigs.servers import BrokerOptions
from tests.contracts.disk_contract import DiskContract, DiskRig


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
