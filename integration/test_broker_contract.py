"""Real brokers keep the contract that the simulated one keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.real_brokers import RealRig
from tests.contracts.broker_contract import BrokerContract, BrokerRig


class TestRealBroker(BrokerContract):
    """The contract on the brokers of the shared cluster."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[BrokerRig]:
        """Return the role and a topic made before it was taken; a broker gets the role back."""
        rig = RealRig(cluster, make_topic({0: [1]}))
        yield rig
        rig.stop()
