"""Strangers that a Kafka controller left in an ISR (KAFKA-12315), and the daemon."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    Replicas,
    TopicPartition,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.znodes import paths
from controller.znodes.reassignments import encode_orphan
from tests.sim.builders import ids
from tests.sim.histories import is_finished, reactors
from tests.sim.seeds import seeds
from tests.sim.world import World

PARTITION = TopicPartition("t", 0)
DROPPED = BrokerId(3)


def _dropped_in_the_topic_znode_alone(seed: int) -> World:
    world = World(seed)
    world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    znode = world.zookeeper.get(paths.topic_path("t"))
    assert znode is not None
    orphan = Orphan(DROPPED, PARTITION, Zxid(znode.czxid), "dropped by another controller")
    record = paths.orphan_path(DROPPED, PARTITION)
    world.assign("t", {0: PartitionAssignment(ids([1, 2]))})
    world.zookeeper.ensure(record, encode_orphan(orphan))
    return world


@pytest.mark.parametrize("seed", seeds(range(5)))
@pytest.mark.parametrize("target", [None, [1, 2, 3], [2, 4]])
def test_it_leaves_the_isr_and_the_disk(seed: int, target: list[int] | None) -> None:
    """A stranger that a request adds again copies its log anew."""
    world = _dropped_in_the_topic_znode_alone(seed)
    world.add_daemon(reactors(Options()))
    if target is not None:
        world.submit_request({PARTITION: target})

    def is_over() -> bool:
        left = world.zookeeper.get(paths.orphan_path(DROPPED, PARTITION))
        there = world.assignment(PARTITION).replicas == tuple(target or (1, 2))
        return left is None and there and is_finished(world)

    world.run_until(is_over, within_s=120.0, look_every_s=1.0)
    world.run_for(5.0)
    state = world.state(PARTITION)
    assert state is not None
    assert set(state.isr) == set(target or (1, 2))
    assert world.holders(PARTITION) == set(target or (1, 2))
    world.producer.stop()
    world.run_for(5.0)
    world.invariants.judge_end({})


@pytest.mark.parametrize("seed", seeds(range(5)))
@pytest.mark.parametrize("replicas", [[1, 2], [1, 4], [2, 4], [3, 5]])
def test_strangers_leave_the_isr_and_logs_stay_until_live_replicas_caught_up(
    seed: int, replicas: list[int]
) -> None:
    """No record is lost, with each stranger as the leader, and with an empty replica."""
    world = _dropped_in_the_topic_znode_alone(seed)
    world.assign("t", {0: PartitionAssignment(ids(replicas))})
    world.add_daemon(reactors(Options(tenure=TenurePolicy.PERMANENT)))
    assert _has_strangers(world)
    world.run_until(lambda: not _has_strangers(world), within_s=30.0)
    dropped = set(ids([3])) - set(replicas)
    lacking = set(replicas) - set(_isr(world))
    if lacking:
        assert dropped <= world.holders(PARTITION)
    world.settle()
    world.run_for(10.0)
    assert set(_isr(world)) == set(replicas)
    assert not dropped & world.holders(PARTITION)
    world.producer.stop()
    world.run_for(5.0)


def _isr(world: World) -> Replicas:
    state = world.state(PARTITION)
    assert state is not None
    return state.isr


def _has_strangers(world: World) -> bool:
    return not set(_isr(world)) <= set(world.assignment(PARTITION).replicas)
