"""Kafka's own controller: elections, duties, and reassignments carried to their end."""

from __future__ import annotations

import pytest

from controller.core.model import BrokerId, PartitionAssignment, TopicPartition
from controller.znodes import paths
from controller.znodes.brokers_and_controller import decode_controller
from tests.sim.builders import ids
from tests.sim.seeds import seeds
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Put

P = TopicPartition("t", 0)


def _world(replicas: dict[int, list[int]] | None = None, *, min_isr: int = 1) -> World:
    world = World(7)
    world.create_topic("t", replicas or {0: [1, 2, 3]}, min_insync_replicas=min_isr)
    world.producer.start()
    world.settle()
    return world


def _controller(world: World) -> int:
    znode = world.zookeeper.get(paths.CONTROLLER)
    read = None if znode is None else decode_controller(znode.data)
    return -1 if read is None or isinstance(read, str) else read.broker_id


def _is_done(world: World) -> bool:
    return world.zookeeper.get(paths.LEGACY_PLAN) is None and world.all_healthy()


def test_a_new_topic_gets_leaders_and_takes_records() -> None:
    """The first live replica leads; all live ones are in ISR."""
    world = _world()
    state = world.state(P)
    assert state is not None
    assert (state.leader, state.leader_epoch) == (1, 0)
    world.run_for(5.0)
    assert world.invariants.committed(P) > 10


def test_the_role_passes_to_another_broker() -> None:
    """The role passes when the controller dies, and when an operator deletes ``/controller``."""
    world = _world()
    first = _controller(world)
    world.brokers[BrokerId(first)].kill()
    world.run_for(10.0)
    second = _controller(world)
    assert second not in (first, -1)
    world.remove_controller()
    world.run_for(2.0)
    znode = world.zookeeper.get(paths.CONTROLLER_EPOCH)
    assert znode is not None
    assert znode.data == b"3"
    assert sum(c.is_active for c in world.kafka_controllers.values()) == 1


def test_a_dead_leader_is_replaced_and_rejoins_the_isr() -> None:
    """The first live replica of the assignment in the ISR becomes the leader."""
    world = _world()
    world.brokers[BrokerId(1)].kill()
    world.run_for(10.0)
    state = world.state(P)
    assert state is not None
    assert (state.leader, set(state.isr)) == (2, {2, 3})
    world.brokers[BrokerId(1)].start()
    world.settle()


def test_a_leader_that_restarts_unnoticed_is_replaced() -> None:
    """It may have lost its disk: a restart is a failure first, and then a start."""
    world = _world()
    while _controller(world) == 1:
        world.remove_controller()
        world.run_for(2.0)
    world.brokers[BrokerId(1)].kill()
    world.brokers[BrokerId(1)].start()
    world.run_for(2.0)
    state = world.state(P)
    assert state is not None
    assert state.leader == 2


def test_the_last_isr_member_is_waited_for() -> None:
    """Without unclean election no other replica becomes the leader."""
    world = _world({0: [1, 2]})
    for broker in (1, 2):
        world.brokers[BrokerId(broker)].kill()
        world.run_for(10.0)
    state = world.state(P)
    assert state is not None
    assert (state.leader, state.isr) == (-1, (2,))
    world.brokers[BrokerId(1)].start()
    world.run_for(10.0)
    state = world.state(P)
    assert state is not None
    assert state.leader == -1
    world.brokers[BrokerId(2)].start()
    world.settle()


def test_a_plan_is_carried_out_with_all_data() -> None:
    """The plan's znode is deleted when the last of its partitions is done."""
    world = _world({0: [1, 2, 3], 1: [1, 2], 2: [1, 2, 3], 3: [1, 2, 3], 4: [1, 2]})
    world.run_for(5.0)
    targets = {0: [4, 5], 1: [1, 2, 5], 2: [3], 3: [3, 2, 1], 4: [1, 2]}
    world.submit_plan({TopicPartition("t", n): r for n, r in targets.items()})
    world.run_until(lambda: _is_done(world), within_s=30.0)
    for number, replicas in targets.items():
        partition = TopicPartition("t", number)
        assert world.assignment(partition) == PartitionAssignment(ids(replicas))
        world.run_for(1.0)
        assert world.holders(partition) == set(replicas)
        assert world.invariants.committed(partition) > 10


def test_what_the_topic_znode_says_is_finished_by_the_next_controller() -> None:
    """Adding and removing replicas suffice, without any plan."""
    world = _world()
    topic = b'{"version":2,"partitions":{"0":[4,5,1,2,3]},"adding_replicas":{"0":[4,5]},'
    topic += b'"removing_replicas":{"0":[1,2,3]}}'
    world.zookeeper.transact(NO_SESSION, [Put(paths.topic_path("t"), topic)])
    world.remove_controller()
    world.run_until(lambda: world.is_healthy(P), within_s=30.0)
    assert world.assignment(P).replicas == (4, 5)


def test_an_edited_plan_is_ignored_until_it_is_created_anew() -> None:
    """Only the creation of the znode counts."""
    world = _world({0: [1, 2, 3], 1: [1, 2, 3]})
    other = TopicPartition("t", 1)
    world.brokers[BrokerId(5)].stop()
    world.submit_plan({P: [1, 2, 5]})
    world.run_for(2.0)
    edited = b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,3,4]}]}'
    world.zookeeper.transact(NO_SESSION, [Put(paths.LEGACY_PLAN, edited)])
    world.run_for(5.0)
    assert world.assignment(other).replicas == (1, 2, 3)
    world.remove_controller()
    world.run_until(lambda: world.assignment(other).replicas == (2, 3, 4), within_s=10.0)


def test_partitions_are_added_and_topics_deleted() -> None:
    """A deletion waits for replicas that are away."""
    world = _world()
    world.add_partitions("t", {1: [3, 4]})
    world.settle()
    world.brokers[BrokerId(4)].stop()
    world.delete_topic("t")
    world.run_for(10.0)
    assert world.partitions() != []
    world.brokers[BrokerId(4)].start()
    world.run_until(lambda: not world.partitions(), within_s=10.0)
    world.run_for(1.0)
    assert world.holders(P) == set()


def test_a_failed_disk_elsewhere_does_not_bring_back_what_is_being_deleted() -> None:
    """Replicas being deleted get no LeaderAndIsr, which would create their logs again."""
    world = _world()
    elsewhere = TopicPartition("elsewhere", 0)
    world.create_topic("elsewhere", {0: [4, 5]}, min_insync_replicas=1)
    world.settle()
    world.fabric.network.late_s[BrokerId(3)] = 4.0
    world.delete_topic("t")
    world.run_until(lambda: world.holders(P) == {3}, within_s=10.0)
    broker = world.brokers[BrokerId(4)]
    broker.fail_directory(broker.logs[elsewhere].directory)
    world.run_until(lambda: P not in world.partitions(), within_s=30.0)
    assert world.holders(P) == set()


def test_preferred_leaders_are_elected_on_request() -> None:
    """The request's znode is deleted."""
    world = _world()
    world.brokers[BrokerId(1)].kill()
    world.run_for(10.0)
    world.brokers[BrokerId(1)].start()
    world.settle()
    world.request_preferred_election([P])
    world.run_for(1.0)
    state = world.state(P)
    assert state is not None
    assert state.leader == 1
    assert world.zookeeper.get(paths.PREFERRED_ELECTION) is None


def test_replicas_on_a_failed_disk_are_taken_for_dead() -> None:
    """Another replica leads until the disk is repaired and the broker restarted."""
    world = _world()
    broker = world.brokers[BrokerId(1)]
    broker.fail_directory(broker.logs[P].directory)
    world.run_for(5.0)
    state = world.state(P)
    assert state is not None
    assert (state.leader, set(state.isr)) == (2, {2, 3})
    broker.kill()
    broker.repair_directories()
    broker.start()
    world.settle()


@pytest.mark.parametrize("seed", seeds(range(10), first=2))
def test_a_controller_that_dies_between_its_writes_is_succeeded(seed: int) -> None:
    """The next controller finishes the plan, wherever the first one dies."""
    world = World(seed)
    world.create_topic("t", {n: [1, 2, 3] for n in range(4)}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    world.fabric.kafka_crash_rate = 0.1
    world.submit_plan({TopicPartition("t", n): [3, 4, 5] for n in range(4)})
    world.run_for(30.0)
    world.fabric.kafka_crash_rate = 0.0
    for broker in world.brokers.values():
        broker.start()
    world.run_until(lambda: _is_done(world), within_s=60.0)
