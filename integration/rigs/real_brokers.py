"""A real cluster as the rig of the contracts that brokers keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Producer
from kazoo.exceptions import NoNodeError

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.reactor.ports import BrokerRequest
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.seized_controllers import CONTROLLER, QueueInbox, SeizedController
from integration.rigs.waiting import eventually
from tests.contracts.broker_contract import Answered

SOON_S: Final = 40.0
ISR_NOTIFICATIONS: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"


class RealRig:
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
        """The newest controller epoch: the role's."""
        return self._seized.epoch

    @epoch.setter
    def epoch(self, epoch: ControllerEpoch) -> None:
        # A later controller needs a newer epoch than the test used.
        self._seized.epoch = epoch
        self._seized.client.set("/controller_epoch", b"%d" % epoch)

    def live(self) -> tuple[LiveBroker, ...]:
        """Return the registered brokers."""
        return tuple(self._seized.brokers().values())

    def send(self, broker: BrokerId, request: BrokerRequest, *, former: bool = False) -> Answered:
        """Send a request and wait for its answer."""
        live = self._seized.brokers()[broker]
        self._channels.open(replace(live, epoch=BrokerEpoch(live.epoch - 1)) if former else live)
        self._channels.send(broker, request)
        answer = self._inbox.next()
        assert isinstance(
            answer, LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered
        )
        return answer

    def state(self) -> PartitionState:
        """Read the partition's state."""
        document, version = self._seized.state(self.partition)
        return PartitionState(
            document["leader"],
            document["leader_epoch"],
            tuple(BrokerId(b) for b in document["isr"]),
            document["controller_epoch"],
            ZkVersion(version),
        )

    def change(self, leader: BrokerId, isr: Replicas) -> PartitionState:
        """Compare and set the state, leader epoch bumped."""
        self._seized.change(self.partition, leader=leader, isr=list(isr))
        return self.state()

    def has_log(self, broker: BrokerId) -> bool:
        """Look for the directory on the broker's disks."""
        return str(self.partition) in self._cluster.replica_directories(broker)

    def write(self) -> None:
        """Produce a record that waits for no follower."""
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap_servers, "acks": "1", **QUIET}
        )
        producer.produce(self.partition.topic, b"x", partition=self.partition.partition)
        assert producer.flush(SOON_S) == 0, "the record is not written"

    def notified(self) -> bool:
        """Look for an ISR change notification of the partition."""
        named = self.partition._asdict()
        return any(named in notice["partitions"] for notice in self._notices(ISR_NOTIFICATIONS))

    def lose_disk(self, broker: BrokerId) -> None:
        """Make the partition's disk fail, or the first if the broker has no replica of it."""
        process = self._cluster.brokers[broker]
        having = [
            number
            for number, log_dir in enumerate(process.log_dirs)
            if (log_dir / str(self.partition)).is_dir()
        ]
        process.fail_disk(next(iter(having), 0))

    def announced(self, broker: BrokerId) -> bool:
        """Look for a log directory event of the broker."""
        return any(notice["broker"] == broker for notice in self._notices(LOG_DIR_EVENTS))

    def _notices(self, directory: str) -> Iterator[dict[str, Any]]:
        client = self._seized.client
        for name in client.get_children(directory):
            try:
                data, _ = client.get(f"{directory}/{name}")
            except NoNodeError:
                continue
            yield json.loads(data)

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        """Wait until something is so."""
        eventually(predicate, within_s=SOON_S)

    def stop(self) -> None:
        """Give the role back to a broker."""
        self._channels.stop()
        self._seized.stop()
