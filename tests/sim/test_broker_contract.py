"""The simulated broker keeps the contract that a real one keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller.core.cluster.model import LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import BrokerRequest, SetData
from controller.znodes import paths
from controller.znodes.topics import decode_state, encode_state
from tests.contracts.broker_contract import ONE, Answered, BrokerContract, BrokerRig, Controller
from tests.contracts.disk_contract import DiskContract, DiskRig
from tests.sim.brokers import SimBroker
from tests.sim.builders import Recorder
from tests.sim.channels import SimChannels
from tests.sim.fabric import Fabric
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import NO_SESSION, SimZooKeeper

SOON_S = 10.0


class _SimRig:
    """Brokers without any other controller; time passes only in ``wait_until``."""

    def __init__(self, seed: int) -> None:
        self._schedule = Schedule(seed)
        self._zookeeper = SimZooKeeper()
        self._fabric = Fabric(self._schedule, self._zookeeper)
        self._zookeeper.ensure(paths.BROKER_IDS)
        self._zookeeper.ensure(paths.ISR_NOTIFICATIONS)
        self._zookeeper.ensure(paths.LOG_DIR_EVENTS)
        for number in (1, 2, 3):
            broker = SimBroker(BrokerId(number), self._fabric)
            self._fabric.brokers[broker.id] = broker
            broker.start()
        self.epoch = ControllerEpoch(1)
        self.partition = TopicPartition("t", 0)
        first = encode_state(
            leader=ONE,
            leader_epoch=LeaderEpoch(0),
            isr=(ONE,),
            controller_epoch=self.epoch,
            leader_recovery_state=0,
        )
        self._zookeeper.ensure(paths.state_path(self.partition), first)
        controller = Controller(self)
        for live in self.live():
            self.send(live.id, controller.metadata())
        assert controller.send_state(ONE, self.state(), (ONE,)) == 0

    def live(self) -> tuple[LiveBroker, ...]:
        return tuple(LiveBroker(b.id, b.epoch, ()) for b in self._fabric.brokers.values())

    def send(self, broker: BrokerId, request: BrokerRequest, *, former: bool = False) -> Answered:
        inbox = Recorder()
        channels = SimChannels(self._fabric, inbox)
        live = next(b for b in self.live() if b.id == broker)
        channels.open(replace(live, epoch=BrokerEpoch(live.epoch - 1)) if former else live)
        channels.send(broker, request)
        self.wait_until(lambda: bool(inbox.events))
        answer = inbox.events[0]
        assert isinstance(answer, Answered)
        return answer

    def state(self) -> PartitionState:
        znode = self._zookeeper.get(paths.state_path(self.partition))
        assert znode is not None
        read = decode_state(znode.data, ZkVersion(znode.version))
        assert isinstance(read, PartitionState)
        return read

    def change(self, leader: BrokerId, isr: Replicas) -> PartitionState:
        before = self.state()
        data = encode_state(
            leader=leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + 1),
            isr=isr,
            controller_epoch=self.epoch,
            leader_recovery_state=0,
        )
        write = SetData(paths.state_path(self.partition), data, before.version)
        self._zookeeper.transact(NO_SESSION, [write])
        return self.state()

    def has_log(self, broker: BrokerId) -> bool:
        return self.partition in self._fabric.brokers[broker].logs

    def write(self) -> None:
        leader = self._fabric.brokers[ONE]
        leader.replication.append(self.partition, 1, lambda _error: None)

    def notified(self) -> bool:
        named = self.partition._asdict()
        return any(
            named in notice["partitions"] for notice in self._notices(paths.ISR_NOTIFICATIONS)
        )

    def lose_disk(self, broker: BrokerId) -> None:
        log = self._fabric.brokers[broker].logs.get(self.partition)
        self._fabric.brokers[broker].fail_directory(0 if log is None else log.directory)

    def announced(self, broker: BrokerId) -> bool:
        return any(notice["broker"] == broker for notice in self._notices(paths.LOG_DIR_EVENTS))

    def _notices(self, directory: str) -> Iterator[dict[str, Any]]:
        for name in self._zookeeper.children(directory) or ():
            znode = self._zookeeper.get(f"{directory}/{name}")
            if znode is not None:
                yield json.loads(znode.data)

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        end = self._schedule.now() + SOON_S
        while not predicate():
            at = self._schedule.next_at()
            assert at is not None
            assert at < end
            self._schedule.step()


class TestSimBroker(BrokerContract):
    """The contract on the model."""

    @pytest.fixture(params=range(3))
    def rig(self, request: pytest.FixtureRequest) -> BrokerRig:
        """Return a rig with one of several seeds."""
        return _SimRig(request.param)


class TestSimDisks(DiskContract):
    """The contract of disks on the model."""

    @pytest.fixture(params=range(3))
    def rig(self, request: pytest.FixtureRequest) -> DiskRig:
        """Return a rig with one of several seeds."""
        return _SimRig(request.param)
