"""
The answers of a broker with a failed disk (KIP-112): the same tests for model and Kafka.

``DiskContract`` is a base class like ``BrokerContract``; its rig can lose a disk besides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId
from controller.kafka_errors import KAFKA_STORAGE_ERROR, NONE
from tests.contracts.broker_contract import (
    ONE,
    TWO,
    BrokerRig,
    ControlledContract,
    Controller,
)


class DiskRig(BrokerRig, Protocol):
    """A rig whose brokers have two disks each."""

    def lose_disk(self, broker: BrokerId) -> None:
        """Make a disk fail: the partition's, or any if the broker has no replica of it."""
        ...

    def announced(self, broker: BrokerId) -> bool:
        """Return whether a notification says that the broker lost a disk."""
        ...


class DiskContract(ControlledContract):
    """Derive from this, with a fixture ``rig``."""

    def test_a_broker_says_by_a_znode_that_it_lost_a_disk(
        self, rig: DiskRig, controller: Controller
    ) -> None:
        """The broker stays alive and answers requests without replicas as before."""
        assert not rig.announced(ONE)
        rig.lose_disk(ONE)
        rig.wait_until(lambda: rig.announced(ONE))
        assert not rig.announced(TWO)
        assert rig.send(ONE, controller.metadata()).error == NONE

    def test_a_replica_on_a_failed_disk_is_neither_led_nor_deleted(
        self, rig: DiskRig, controller: Controller
    ) -> None:
        """The broker answers a storage error for the partition, whatever the leader epoch."""
        rig.lose_disk(ONE)
        rig.wait_until(lambda: rig.announced(ONE))
        state = rig.change(ONE, (ONE,))
        for _ in range(2):
            assert controller.send_state(ONE, state, (ONE,)) == KAFKA_STORAGE_ERROR
        for delete in (False, True):
            assert controller.stop(ONE, state.leader_epoch, delete=delete) == KAFKA_STORAGE_ERROR

    def test_a_new_replica_gets_a_log_on_the_disk_that_is_left(
        self, rig: DiskRig, controller: Controller
    ) -> None:
        """A new replica cannot have a log on the failed disk."""
        _lose_a_disk_without_replica(rig, controller)
        assert controller.send_state(ONE, rig.change(ONE, (ONE,)), (ONE,)) == NONE
        rig.wait_until(lambda: rig.has_log(ONE))

    def test_any_other_is_offline_until_the_broker_restarts(
        self, rig: DiskRig, controller: Controller
    ) -> None:
        """Its log may be on the failed disk, so it can neither be created nor deleted."""
        _lose_a_disk_without_replica(rig, controller)
        request = controller.request_of(rig.change(ONE, (ONE,)), (ONE,))
        known = replace(request, states=tuple(replace(s, is_new=False) for s in request.states))
        refused = rig.send(ONE, known)
        assert isinstance(refused, LeaderAndIsrAnswered)
        assert refused.results[0].error == KAFKA_STORAGE_ERROR
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == KAFKA_STORAGE_ERROR
        assert controller.stop(ONE, state.leader_epoch, delete=True) == KAFKA_STORAGE_ERROR
        assert not rig.has_log(ONE)


def _lose_a_disk_without_replica(rig: DiskRig, controller: Controller) -> None:
    """Have ``ONE`` delete its replica, then lose a disk."""
    assert controller.stop(ONE, rig.state().leader_epoch, delete=True) == NONE
    rig.wait_until(lambda: not rig.has_log(ONE))
    rig.lose_disk(ONE)
    rig.wait_until(lambda: rig.announced(ONE))
