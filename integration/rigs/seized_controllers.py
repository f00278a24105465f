"""
The controller role, taken by hand, for tests that speak to real brokers as a controller does.

What is written to ZooKeeper here is written plainly, so that only ``controller.brokers``, or the
brokers themselves, are under test.
"""

from __future__ import annotations

import json
import queue
import time
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.core.records import Event
from controller.reactor.ports import LeaderAndIsrState

CONTROLLER: Final = BrokerId(2_000_000)
"""An id that is not the daemon's: writes by hand are not judged by its laws."""
ANSWER_WITHIN_S: Final = 40.0


@dataclass
class QueueInbox:
    """An inbox a test can wait on."""

    events: queue.Queue[Event] = field(default_factory=queue.Queue)

    def put(self, event: Event) -> None:
        """Add an event."""
        self.events.put(event)

    def next(self) -> Event:
        """Return the next event."""
        return self.events.get(timeout=ANSWER_WITHIN_S)


class SeizedController:
    """The controller role, taken in one multi, and what it reads and writes meanwhile."""

    def __init__(self, zookeeper: str) -> None:
        self.client = KazooClient(zookeeper)
        self.client.start()
        self.epoch = ControllerEpoch(0)

    def claim(self) -> bool:
        """Take the role from whichever broker has it; False if it changed hands meanwhile."""
        if self.client.exists("/controller") is None:
            return False
        _, held = self.client.get("/controller")
        epoch, known = self.client.get("/controller_epoch")
        multi = self.client.transaction()
        multi.set_data("/controller_epoch", b"%d" % (int(epoch) + 1), version=known.version)
        multi.delete("/controller", version=held.version)
        document = {"version": 1, "brokerid": CONTROLLER, "timestamp": str(int(time.time() * 1000))}
        multi.create("/controller", json.dumps(document).encode(), ephemeral=True)
        if [r for r in multi.commit() if isinstance(r, Exception)]:
            return False
        self.epoch = ControllerEpoch(int(epoch) + 1)
        return True

    def stop(self) -> None:
        """Give the role back by ending the session."""
        self.client.stop()
        self.client.close()

    def brokers(self) -> dict[BrokerId, LiveBroker]:
        """Return the registrations."""
        live = {}
        for name in self.client.get_children("/brokers/ids"):
            data, stat = self.client.get(f"/brokers/ids/{name}")
            live[BrokerId(int(name))] = _live_broker(int(name), json.loads(data), stat.czxid)
        return live

    def state(self, partition: TopicPartition) -> tuple[dict[str, Any], int]:
        """Return a partition's state and its version."""
        data, stat = self.client.get(_state_path(partition))
        return json.loads(data), stat.version

    def change(self, partition: TopicPartition, **fields: object) -> LeaderAndIsrState:
        """Compare and set a partition's state with the next leader epoch; return the state."""
        state, version = self.state(partition)
        state |= {"leader_epoch": state["leader_epoch"] + 1, "controller_epoch": self.epoch}
        state |= fields
        self.client.set(_state_path(partition), json.dumps(state).encode(), version=version)
        return LeaderAndIsrState(
            partition=partition,
            controller_epoch=self.epoch,
            leader=BrokerId(state["leader"]),
            leader_epoch=LeaderEpoch(state["leader_epoch"]),
            isr=_ids(state["isr"]),
            partition_epoch=ZkVersion(version + 1),
            replicas=_ids(state["isr"]),
            adding_replicas=(),
            removing_replicas=(),
            is_new=False,
            topic_id=None,
        )


def _state_path(partition: TopicPartition) -> str:
    return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"


def _ids(numbers: list[int]) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)


def _live_broker(broker: int, document: dict[str, Any], czxid: int) -> LiveBroker:
    endpoints = []
    for url in document["endpoints"]:
        listener, _, address = url.partition("://")
        host, _, port = address.rpartition(":")
        protocol = document["listener_security_protocol_map"][listener]
        endpoints.append(Endpoint(listener, host, int(port), protocol))
    return LiveBroker(BrokerId(broker), BrokerEpoch(czxid), tuple(endpoints))
