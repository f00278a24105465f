"""The simulation as a whole: determinism, the clock, and faults under Kafka's controllers."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.model import BrokerId, TopicPartition
from controller.znodes import paths
from tests.sim.faults import Faults
from tests.sim.histories import reactors
from tests.sim.seeds import seeds
from tests.sim.world import NotReachedError, World
from tests.sim.zookeeper import Transaction


def _world(seed: int) -> World:
    world = World(seed)
    world.create_topic("t", {n: [1 + n % 5, 1 + (n + 1) % 5] for n in range(6)})
    world.create_topic("u", {0: [1, 2, 3], 1: [3, 4, 5]}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    return world


def _history(seed: int) -> list[tuple[float, Transaction]]:
    world = _world(seed)
    seen: list[tuple[float, Transaction]] = []
    world.zookeeper.listeners.append(lambda t: seen.append((world.now, t)))
    faults = Faults(world, every_s=1.0)
    faults.start()
    world.submit_plan({TopicPartition("t", n): [5, 4, 3] for n in range(6)})
    world.run_for(30.0)
    return seen


def test_the_same_seed_gives_the_same_history() -> None:
    """All writes and their times are identical."""
    assert _history(11) == _history(11)


def test_another_seed_gives_another_history() -> None:
    """Equal histories would prove no more than one."""
    assert _history(11) != _history(12)


def test_time_passes_though_nothing_happens() -> None:
    """The clock advances by the requested time."""
    world = World(1, brokers=0)
    world.run_for(3.0)
    assert world.now == 3.0


def test_waiting_in_vain_is_an_error() -> None:
    """The text of the error has the seed."""
    with pytest.raises(NotReachedError, match="seed 4"):
        World(4).run_until(lambda: False, within_s=5.0)


@pytest.mark.parametrize("seed", seeds(range(10), first=2))
def test_kafkas_own_controllers_survive_every_fault(seed: int) -> None:
    """No acknowledged record is lost, and every plan ends once the cluster is healed."""
    world = _world(seed)
    faults = Faults(world, every_s=1.5)
    faults.start()
    for _ in range(3):
        if world.zookeeper.get(paths.LEGACY_PLAN) is None:
            chance = world.schedule.random
            brokers = sorted(world.brokers)
            world.submit_plan({p: chance.sample(brokers, 3) for p in world.partitions()})
        world.run_for(15.0)
    faults.heal()
    world.run_until(
        lambda: world.zookeeper.get(paths.LEGACY_PLAN) is None and world.all_healthy(),
        within_s=120.0,
    )
    assert sum(faults.drawn.values()) > 5
    assert all(world.invariants.committed(p) > 0 for p in world.partitions())


def test_thousands_of_events_pass() -> None:
    """A history is worth something only if a lot happens in it."""
    world = _world(3)
    world.run_for(60.0)
    assert world.schedule.events > 3000
    assert world.invariants.checks > 3000
    assert set(world.producer.answers) == {0}
    assert all(BrokerId(b) in world.brokers for b in range(1, 6))


@pytest.mark.parametrize("after", [0, 1])
def test_partitions_that_are_added_while_very_many_begin_are_kept(after: int) -> None:
    """Their writer replaces the topic znode unconditionally, and we need more than one multi."""
    world = World(1, brokers=4)
    world.create_topic("t", {n: [1, 2] for n in range(450)}, produce=False)
    world.settle()
    many = Options(
        max_partitions_in_flight=1000,
        max_incoming_per_broker=1000,
        max_outgoing_per_broker=1000,
    )
    daemon = world.add_daemon(reactors(many))
    begun: list[int] = []

    def add() -> None:
        begun.append(sum(a.is_reassigning for a in world.topic("t").partitions.values()))
        world.add_partitions("t", {450: [1, 2]})

    daemon.store.faults.interrupt_commit(add, after=after, writing=paths.topic_path("t"))
    world.run_for(1.0)  # the daemon has looked: it takes the plan before a broker begins it
    world.submit_plan({TopicPartition("t", n): [1, 3] for n in range(450)})
    world.run_until(lambda: bool(begun), within_s=60.0)
    world.run_for(5.0)
    partitions = world.topic("t").partitions
    assert partitions[450].replicas == (1, 2)
    assert sum(3 in a.replicas for a in partitions.values()) == 450
