"""Topic ids of simulated brokers: logs keep them, and a log of another topic is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core.cluster.model import BEFORE_FEATURES
from controller.core.core_settings import TenurePolicy
from controller.core.model import BrokerId, TopicPartition
from controller.reactor.ports import LeaderAndIsr
from controller.znodes import paths
from controller.znodes.topics import encode_topic
from tests.sim.brokers import SimBroker
from tests.sim.builders import leader_and_isr, update_metadata
from tests.sim.fabric import FIRST_WITH_IDS
from tests.sim.histories import reactors
from tests.sim.judges import InvariantViolationError
from tests.sim.plots import OPTIONS
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Put

P = TopicPartition("t", 0)
ONE, OTHER = "1" * 22, "2" * 22


def sent(
    broker: SimBroker, topic_id: str | None, epoch: int = 0, protocol: str = "3.9"
) -> list[int]:
    """Send a partition with an id; return the errors."""
    request = leader_and_isr(P, leader=1, replicas=(1, 2, 3), leader_epoch=epoch)
    states = tuple(replace(state, topic_id=topic_id) for state in request.states)
    answer = broker.handle(replace(request, states=states, protocol=protocol), broker.epoch)
    return [error for _, error in answer.results]


@pytest.fixture
def broker() -> SimBroker:
    """Return a broker that knows the others."""
    world = World(1, brokers=3, has_kafka_controllers=False)
    broker = next(iter(world.brokers.values()))
    broker.handle(update_metadata([1, 2, 3]), broker.epoch)
    return broker


def test_log_takes_the_first_id_and_keeps_it(broker: SimBroker) -> None:
    """At the leader epoch that it has, too; a request without one changes nothing."""
    assert sent(broker, ONE, protocol="2.7") == [kafka_errors.NONE]
    assert broker.logs[P].topic_id is None
    assert sent(broker, ONE) == [kafka_errors.NONE]
    assert sent(broker, ONE) == [kafka_errors.STALE_CONTROLLER_EPOCH]
    assert sent(broker, None, epoch=1) == [kafka_errors.NONE]
    broker.kill()
    assert broker.logs[P].topic_id == ONE


def test_log_of_another_topic_is_refused_at_every_leader_epoch(broker: SimBroker) -> None:
    """Until it is deleted."""
    assert sent(broker, ONE) == [kafka_errors.NONE]
    assert sent(broker, OTHER) == [kafka_errors.INCONSISTENT_TOPIC_ID]
    assert sent(broker, OTHER, epoch=7) == [kafka_errors.INCONSISTENT_TOPIC_ID]
    broker.discard_strays("t")
    assert sent(broker, OTHER) == [kafka_errors.NONE]


def with_ids() -> World:
    """Return a cluster of protocol 3.9 with a topic, and a controller of Kafka."""
    world = World(1, brokers=4, has_endpoint=True)
    world.fabric.alter_partition_version = FIRST_WITH_IDS
    world.create_topic("t", {0: [1, 2], 1: [2, 3]}, min_insync_replicas=1)
    world.settle()
    return world


def write(world: World, topic_id: str | None) -> None:
    """Let a tool write the topic znode with this id."""
    topic = world.topic("t")
    data = encode_topic(replace(topic, topic_id=topic_id))
    world.zookeeper.transact(NO_SESSION, [Put(paths.topic_path("t"), data)])


def log_ids(world: World) -> set[str | None]:
    """Return the ids of all logs of the topic."""
    logs = (log for b in world.brokers.values() for p, log in b.logs.items() if p.topic == "t")
    return {log.topic_id for log in logs}


def serve(world: World) -> None:
    """Start a daemon that keeps the role."""
    world.add_daemon(reactors(replace(OPTIONS, tenure=TenurePolicy.PERMANENT)))
    world.run_for(5.0)


def test_logs_whose_ids_were_lost_get_them_at_a_claim() -> None:
    """A former daemon sent none."""
    world = with_ids()
    for broker in world.brokers.values():
        for log in broker.logs.values():
            log.topic_id = None
    with pytest.raises(InvariantViolationError, match="its logs have"):
        world.invariants.judge_end({})
    serve(world)
    assert log_ids(world) == {world.topic("t").topic_id}
    world.invariants.judge_end({})


def test_topic_without_an_id_gets_it_in_a_tenure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool creates it while the daemon has the role; its logs begin with the id."""
    world = with_ids()
    serve(world)
    monkeypatch.setattr("tests.sim.world.WITHOUT_ID", 1.0)
    before = world.fabric.struck["topic_id_learnt"]
    world.create_topic("u", {0: [1, 2]})
    world.run_for(3.0)
    assert world.topic("u").topic_id is not None
    assert world.fabric.struck["topic_id_learnt"] == before
    world.invariants.judge_end({})


def test_known_id_is_put_back() -> None:
    """Brokers would refuse another one."""
    world = with_ids()
    serve(world)
    before = world.topic("t").topic_id
    write(world, None)
    world.run_for(3.0)
    assert world.topic("t").topic_id == before
    assert log_ids(world) == {before}


def test_daemon_that_sends_no_ids_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule would have found the earlier daemon."""
    world = with_ids()
    handle = SimBroker.handle

    def without(broker: SimBroker, request: object, *more: object) -> object:
        if isinstance(request, LeaderAndIsr):
            request = replace(request, protocol=BEFORE_FEATURES)
        return handle(broker, request, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(SimBroker, "handle", without)
    serve(world)
    world.submit_plan({P: [1, 4]})
    world.run_for(20.0)
    with pytest.raises(InvariantViolationError, match="its logs have"):
        world.invariants.judge_end({})


@pytest.mark.parametrize("has_kafka_controllers", [False, True])
def test_id_reaches_brokers_after_the_death_of_the_daemon_that_wrote_it(
    *, has_kafka_controllers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next controller finds it in the znode, and sends it at the same leader epochs."""
    world = with_ids()
    serve(world)
    monkeypatch.setattr("tests.sim.world.WITHOUT_ID", 1.0)
    world.create_topic("u", {0: [1, 2]})
    world.run_until(lambda: world.topic("u").topic_id is not None, within_s=5.0)
    (daemon,) = world.daemons
    daemon.crash()
    assert all(TopicPartition("u", 0) not in b.logs for b in world.brokers.values())
    if not has_kafka_controllers:
        for controller in world.kafka_controllers.values():
            controller.stands = False
        serve(world)
    world.run_for(30.0)
    world.invariants.judge_end({})
    assert {TopicPartition("u", 0) in world.brokers[BrokerId(b)].logs for b in (1, 2)} == {True}
