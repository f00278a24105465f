"""Real brokers keep the contract that the simulated one keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from confluent_kafka import Producer
from kazoo.exceptions import NoNodeError

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.core.events import (
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LiveBroker,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import BrokerRequest
from integration.cluster import QUIET, Cluster
from integration.conftest import MakeTopic
from integration.seized_controllers import CONTROLLER, QueueInbox, SeizedController
from integration.waiting import eventually
from tests.contracts.broker_contract import Answered, BrokerContract, BrokerRig

SOON_S: Final = 40.0
ISR_NOTIFICATIONS: Final = "/isr_change_notification"


class _RealRig:
    """The role on a real cluster, with a channel to every broker."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self._cluster = cluster
        self._seized = SeizedController(cluster.zookeeper_connect)
        eventually(self._seized.claim, within_s=SOON_S)
        self._inbox = QueueInbox()
        self._channels = BrokerChannels(self._inbox, ChannelOptions(CONTROLLER))
        self._channels.start()
        for broker in self.live():
            self._channels.open(broker)

    @property
    def epoch(self) -> ControllerEpoch:
        return self._seized.epoch

    @epoch.setter
    def epoch(self, epoch: ControllerEpoch) -> None:
        # A later controller has to be newer than what a test made of ours.
        self._seized.epoch = epoch
        self._seized.client.set("/controller_epoch", b"%d" % epoch)

    def live(self) -> tuple[LiveBroker, ...]:
        return tuple(self._seized.brokers().values())

    def ask(self, broker: BrokerId, request: BrokerRequest, *, former: bool = False) -> Answered:
        live = self._seized.brokers()[broker]
        self._channels.open(replace(live, epoch=BrokerEpoch(live.epoch - 1)) if former else live)
        self._channels.send(broker, request)
        answer = self._inbox.next()
        assert isinstance(
            answer, LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered
        )
        return answer

    def state(self) -> PartitionState:
        document, version = self._seized.state(self.partition)
        return PartitionState(
            document["leader"],
            document["leader_epoch"],
            tuple(BrokerId(b) for b in document["isr"]),
            document["controller_epoch"],
            ZkVersion(version),
        )

    def change(self, leader: BrokerId, isr: Replicas) -> PartitionState:
        self._seized.change(self.partition, leader=leader, isr=list(isr))
        return self.state()

    def has_log(self, broker: BrokerId) -> bool:
        return str(self.partition) in self._cluster.replica_directories(broker)

    def write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap_servers, "acks": "1", **QUIET}
        )
        producer.produce(self.partition.topic, b"x", partition=self.partition.partition)
        assert producer.flush(SOON_S) == 0, "the record is not written"

    def notified(self) -> bool:
        client = self._seized.client
        for name in client.get_children(ISR_NOTIFICATIONS):
            try:
                data, _ = client.get(f"{ISR_NOTIFICATIONS}/{name}")
            except NoNodeError:
                continue
            if self.partition._asdict() in json.loads(data)["partitions"]:
                return True
        return False

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        eventually(predicate, within_s=SOON_S)

    def stop(self) -> None:
        self._channels.stop()
        self._seized.stop()


class TestRealBroker(BrokerContract):
    """The contract on the brokers of the shared cluster."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[BrokerRig]:
        """Return the role and a topic made before it was taken; a broker gets the role back."""
        rig = _RealRig(cluster, make_topic({0: [1]}))
        yield rig
        rig.stop()
