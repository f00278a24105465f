"""The role in whole clusters: given back where a step cannot end, and where brokers refuse."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.deletions.model import DELETION_PATIENCE_S
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.controls import Pause, Pauses
from controller.core.role.claims_and_resignations import PROGRESS_PATIENCE_S
from controller.core.role.tenure_reset import REJECTED_RETRY_S
from controller.znodes import paths
from tests.sim.histories import is_finished, reactors
from tests.sim.seeds import seeds
from tests.sim.tenure_rules import TenureRules
from tests.sim.world import World

OPTIONS = Options(tenure_linger_s=3.0)
MOVED = TopicPartition("moved", 0)
SOON_S = 15.0


def _with_a_dead_target(seed: int) -> World:
    """Return a daemon with a step in flight whose new replica's broker is dead for good."""
    world = World(seed)
    world.create_topic("moved", {0: [1, 2, 3]}, min_insync_replicas=2)
    world.create_topic("other", {0: [1, 2, 3]})
    world.producer.start()
    world.settle()
    world.brokers[BrokerId(4)].replication.extra_fetch_s = 3600.0
    TenureRules(world)
    world.add_daemon(reactors(OPTIONS))
    world.submit_request({MOVED: [1, 2, 4]})
    world.run_until(lambda: world.assignment(MOVED).is_reassigning, within_s=30.0)
    world.brokers[BrokerId(4)].kill()
    world.run_for(10.0)
    assert world.active_kafka_controller() is None
    return world


def _ends_well(world: World) -> None:
    broker = world.brokers[BrokerId(4)]
    broker.replication.extra_fetch_s = 0.0
    broker.start()
    world.pause(Pauses())
    world.run_until(lambda: is_finished(world), within_s=120.0, look_every_s=0.5)
    assert set(world.assignment(MOVED).replicas) == {1, 2, 4}
    world.producer.stop()
    world.run_for(5.0)
    world.invariants.judge_end({})


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_a_topic_is_deleted_though_a_step_waits_for_a_dead_broker(seed: int) -> None:
    """The role is claimed again afterwards, and kept, as no other deletion is pending."""
    world = _with_a_dead_target(seed)
    world.delete_topic("other")
    world.run_until(
        lambda: world.zookeeper.get(paths.topic_path("other")) is None,
        within_s=DELETION_PATIENCE_S + SOON_S,
    )
    world.run_for(SOON_S)
    assert world.active_kafka_controller() is None
    epoch = world.zookeeper.get(paths.CONTROLLER_EPOCH)
    world.run_for(3 * DELETION_PATIENCE_S)
    assert world.zookeeper.get(paths.CONTROLLER_EPOCH) == epoch
    _ends_well(world)


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_a_pause_gives_the_role_to_a_broker_though_a_step_waits_for_a_dead_one(seed: int) -> None:
    """A Kafka controller ends the step when the broker is back, or the daemon after the pause."""
    world = _with_a_dead_target(seed)
    world.pause(Pauses(everything=Pause("topics are created")))
    world.run_for(PROGRESS_PATIENCE_S + OPTIONS.tenure_linger_s + SOON_S)
    assert world.active_kafka_controller() is not None
    epoch = world.zookeeper.get(paths.CONTROLLER_EPOCH)
    world.create_topic("new", {0: [1, 2, 3]})
    world.run_for(300.0)
    assert world.is_healthy(TopicPartition("new", 0))
    assert world.zookeeper.get(paths.CONTROLLER_EPOCH) == epoch
    _ends_well(world)


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_brokers_that_refuse_the_daemon_keep_their_controller(seed: int) -> None:
    """The daemon writes nothing; when brokers accept requests, its next claim succeeds."""
    world = World(seed)
    world.create_topic("moved", {0: [1, 2, 3]})
    world.producer.start()
    world.settle()
    before = world.state(MOVED)
    world.fabric.network.refusing |= set(world.brokers)
    world.add_daemon(reactors(OPTIONS))
    world.submit_request({MOVED: [1, 2, 4]})
    world.run_for(REJECTED_RETRY_S - 10.0)
    assert world.fabric.struck["requests_refused"] <= len(world.brokers)
    assert world.active_kafka_controller() is not None
    assert world.state(MOVED) == before
    world.fabric.network.refusing.clear()
    world.run_until(lambda: is_finished(world), within_s=90.0, look_every_s=0.5)
    assert set(world.assignment(MOVED).replicas) == {1, 2, 4}


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_deletions_that_cannot_end_one_after_the_other_do_not_keep_the_daemon_from_work(
    seed: int,
) -> None:
    """The role is claimed between them, for a while; they end when their broker is back."""
    world = World(seed)
    world.create_topic("moved", {0: [1, 2, 3]}, min_insync_replicas=2)
    doomed = [f"doomed{n}" for n in range(20)]
    for topic in doomed:
        world.create_topic(topic, {0: [1, 2, 5]})
    world.producer.start()
    world.settle()
    world.brokers[BrokerId(5)].kill()
    TenureRules(world)
    world.add_daemon(reactors(OPTIONS))
    world.delete_topic(doomed[0])
    world.submit_request({MOVED: [1, 2, 4]})
    for topic in doomed[1:]:
        world.run_for(20.0)
        world.delete_topic(topic)
    assert set(world.assignment(MOVED).replicas) == {1, 2, 4}
    world.brokers[BrokerId(5)].start()
    world.run_until(lambda: is_finished(world), within_s=300.0, look_every_s=0.5)
    world.producer.stop()
    world.run_for(5.0)
    world.invariants.judge_end({})


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_a_topic_that_is_created_again_is_not_moved_by_a_request_for_the_former_one(
    seed: int,
) -> None:
    """The request waited, and no daemon was running when the topic was replaced."""
    world = World(seed)
    world.create_topic("moved", {0: [1, 2, 3]}, produce=False)
    world.create_topic("other", {0: [1, 2, 3]})
    world.settle()
    world.pause(Pauses(everything=Pause("not yet")))
    daemon = world.add_daemon(reactors(OPTIONS))
    request = world.submit_request({MOVED: [1, 2, 4]})
    record = paths.reassignment_path(MOVED)
    world.run_until(lambda: world.zookeeper.get(record) is not None, within_s=30.0)
    daemon.crash()
    world.run_for(30.0)
    world.delete_topic("moved")
    world.run_until(lambda: world.zookeeper.get(paths.topic_path("moved")) is None, within_s=60.0)
    world.run_for(90.0)
    world.create_topic("moved", {0: [2, 3, 5]}, produce=False)
    world.settle()
    world.pause(Pauses())
    world.add_daemon(reactors(OPTIONS))
    world.run_until(lambda: is_finished(world), within_s=90.0, look_every_s=0.5)
    assert world.assignment(MOVED).replicas == (2, 3, 5)
    summary = world.zookeeper.get(paths.outcome_path(request))
    assert summary is not None
    assert "the topic was deleted and created again" in summary.data.decode()


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_topic_that_is_created_again_just_before_a_claim_gets_states_of_its_own(seed: int) -> None:
    """The daemon hears late of it, and its version is the former one's."""
    world = World(seed)
    world.create_topic("moved", {0: [1, 2, 3]}, produce=False)
    other = {0: [1, 2, 3], 1: [2, 3, 1]}
    world.create_topic("other", other, produce=False)
    world.settle()
    daemon = world.add_daemon(reactors(OPTIONS))
    world.run_for(5.0)
    daemon.store.lanes.read_topics_at(world.now + 60.0)

    def create() -> None:
        world.create_topic("other", {0: [2, 3]}, produce=False)
        world.submit_request({MOVED: [1, 2, 4]})

    world.delete_topic_for("other", create)
    world.run_until(lambda: world.assignment(MOVED).replicas == (1, 2, 4), within_s=60.0)
    world.run_until(lambda: is_finished(world), within_s=90.0, look_every_s=0.5)
    state = world.state(TopicPartition("other", 0))
    assert state is not None
    assert set(state.isr) == {2, 3}
    assert world.zookeeper.get(paths.state_path(TopicPartition("other", 1))) is None
