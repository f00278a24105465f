"""Clients create topics and partitions through daemons that die; the rules about it can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core.calls.client_requests import (
    CreatePartitions,
    CreatePartitionsAnswer,
    CreateTopics,
    CreateTopicsAnswer,
    MorePartitions,
    NewTopic,
    RequestOnTopics,
    TopicAnswer,
    TopicDefaults,
)
from controller.core.core_settings import TenurePolicy
from controller.core.model import PartitionAssignment, TopicPartition, ZkVersion
from controller.core.topics.model import TopicResult
from controller.reactor.ports import Check, Create, SetData
from controller.znodes import paths
from controller.znodes.entity_configs import encode_entity_config
from controller.znodes.topics import encode_topic
from tests.core.builders import replicas
from tests.sim.controller_endpoints import ControllerListener, SimEndpoint
from tests.sim.daemons import SimDaemon
from tests.sim.histories import reactors
from tests.sim.judges import InvariantViolationError
from tests.sim.plots import OPTIONS
from tests.sim.topic_rules import TopicRule, TopicRules
from tests.sim.world import World
from tests.sim.zookeeper import AnyOperation

HOLDING = replace(OPTIONS, tenure=TenurePolicy.PERMANENT)
DEFAULTS = TopicDefaults(1, 2, uses_topic_ids=True)
SETTINGS = (("min.insync.replicas", "1"),)
ID = f"{0:022}"
NEW = NewTopic("new", 2, 2, (), SETTINGS, ID)
CREATION = CreateTopics((NEW,), DEFAULTS, 20.0, validate_only=False)
GROWTH = CreatePartitions((MorePartitions("t", 4, None),), 20.0, validate_only=False)
PLACES = {0: (1, 2), 1: (2, 3)}
Successor = Callable[[World], None]


def held(*, has_kafka_controllers: bool = True) -> World:
    """Return a cluster of brokers that ask, whose daemon keeps the role."""
    world = World(1, brokers=4, has_endpoint=True, has_kafka_controllers=has_kafka_controllers)
    world.fabric.alter_partition_version = 2
    world.fabric.needs_producer_ids = False
    world.create_topic("t", {0: [1, 2], 1: [2, 3]})
    if has_kafka_controllers:
        world.settle()
    world.add_daemon(reactors(HOLDING))
    world.run_until(world.all_healthy, within_s=20.0)
    world.run_until(lambda: _leads(world), within_s=20.0)
    world.run_for(3.0)
    return world


def _leads(world: World) -> bool:
    known = world.zookeeper.get(paths.CONTROLLER)
    sessions = {d.store.session.id for d in world.daemons if d.is_alive}
    return known is not None and known.ephemeral_owner in sessions


def daemon_of(world: World) -> tuple[SimDaemon, SimEndpoint]:
    """Return the daemon and its endpoint."""
    (daemon,) = world.daemons
    assert daemon.endpoint is not None
    return daemon, daemon.endpoint


def rules_of(world: World) -> TopicRules:
    """Return the rules about topics of clients."""
    assert world.invariants.topics is not None
    return world.invariants.topics


def send(world: World, request: RequestOnTopics) -> list[TopicAnswer | None]:
    """Let a client ask the daemon; return where its answer will be."""
    answers: list[TopicAnswer | None] = []
    daemon_of(world)[1].handle_topics(request, answers.append)
    return answers


def answered(world: World, request: RequestOnTopics) -> tuple[TopicResult, ...]:
    """Let a client ask the daemon; return the results."""
    answers = send(world, request)
    world.run_until(lambda: bool(answers), within_s=30.0)
    assert answers[0] is not None
    return answers[0].results


def test_topic_is_created_with_leaders_and_settings() -> None:
    """The rules judge the answer."""
    world = held()
    (result,) = answered(world, CREATION)
    assert (result.error, result.topic_id) == (0, ID)
    assert rules_of(world).applied[TopicRule.CREATED_AS_TOLD]
    assert all(world.state(TopicPartition("new", n)) for n in range(2))


def test_topic_is_extended() -> None:
    """And the new partitions have leaders."""
    world = held()
    (result,) = answered(world, GROWTH)
    assert result.error == 0
    assert rules_of(world).applied[TopicRule.GROWN_AS_TOLD]
    assert all(world.state(TopicPartition("t", n)) for n in range(4))


def led_by_kafka() -> tuple[World, ControllerListener]:
    """Return a cluster without a daemon, and the address of its controller."""
    world = World(1, brokers=4, has_endpoint=True)
    world.fabric.alter_partition_version = 2
    world.fabric.needs_producer_ids = False
    world.create_topic("t", {0: [1, 2], 1: [2, 3]})
    world.settle()
    active = world.active_kafka_controller()
    (known,) = (world.brokers[b] for b, c in world.kafka_controllers.items() if c is active)
    assert known.kafka_endpoint is not None
    return world, known.kafka_endpoint


def test_broker_that_is_the_controller_serves_clients_too() -> None:
    """It writes settings and topic one after the other, and its next pass the states."""
    world, kafka = led_by_kafka()
    answers: list[TopicAnswer | None] = []
    kafka.handle_topics(CREATION, answers.append)
    kafka.handle_topics(CREATION, answers.append)
    kafka.handle_topics(GROWTH, answers.append)
    errors = [r.error for a in answers if a is not None for r in a.results]
    assert errors == [0, kafka_errors.TOPIC_ALREADY_EXISTS, 0]
    world.settle()
    assert len(world.topic("new").partitions) == 2
    assert len(world.topic("t").partitions) == 4


def test_settings_that_a_dying_broker_left_are_replaced() -> None:
    """Kafka writes them before the topic."""
    world, kafka = led_by_kafka()
    path = f"{paths.TOPIC_CONFIGS}/new"
    world.fabric.kafka_crash_rate = 1.0
    other = replace(NEW, configs=(("retention.ms", "7"),))
    kafka.handle_topics(replace(CREATION, topics=(other,)), lambda _: None)
    world.fabric.kafka_crash_rate = 0.0
    assert world.zookeeper.get(path) is not None
    assert world.zookeeper.get(paths.topic_path("new")) is None
    world.add_daemon(reactors(HOLDING))
    world.run_until(lambda: _leads(world), within_s=30.0)
    world.run_for(3.0)
    (result,) = answered(world, CREATION)
    assert result.error == 0
    settings = world.zookeeper.get(path)
    assert settings is not None
    assert settings.data == encode_entity_config(SETTINGS)


# --- deaths --------------------------------------------------------------------------------------


def another_daemon(world: World) -> None:
    """Let a second daemon take over."""
    world.add_daemon(reactors(HOLDING))


def a_broker(world: World) -> None:
    """Let Kafka's controller take over."""
    world.run_until(lambda: world.active_kafka_controller() is not None, within_s=30.0)


def boundaries(request: RequestOnTopics) -> int:
    """Return how many boundaries a daemon passes before it answers."""
    world = held()
    daemon, _ = daemon_of(world)
    before = daemon.failpoints
    answered(world, request)
    return daemon.failpoints - before


@pytest.mark.parametrize("request_", [CREATION, GROWTH], ids=["creation", "growth"])
@pytest.mark.parametrize("successor", [another_daemon, a_broker])
def test_daemon_dies_at_each_boundary(request_: RequestOnTopics, successor: Successor) -> None:
    """Nothing or all of it is written, and the next controller completes it."""
    count = boundaries(request_)
    assert count > 4
    written = 0
    for boundary in range(count):
        world = held(has_kafka_controllers=successor is a_broker)
        daemon, _ = daemon_of(world)
        daemon.crash_after(boundary)
        answers = send(world, request_)
        while daemon.is_alive and not answers:
            world.step()
        daemon.crash()
        assert answers
        is_written = world.zookeeper.get(paths.topic_path("new")) is not None
        is_written |= len(world.topic("t").partitions) > 2
        written += is_written
        successor(world)
        world.run_for(20.0)
        world.run_until(world.all_healthy, within_s=60.0)
        assert (len(world.partitions()) > 2) == is_written
        rules_of(world).judge_end()
    assert 0 < written < count


# --- the rules can fail --------------------------------------------------------------------------


def write(world: World, *operations: AnyOperation) -> None:
    """Write as the daemon would."""
    fence = world.zookeeper.get(paths.CONTROLLER_EPOCH)
    assert fence is not None
    check = Check(paths.CONTROLLER_EPOCH, ZkVersion(fence.version))
    session = daemon_of(world)[0].store.session.id
    world.zookeeper.transact(session, [check, *operations])


def settings_of(name: str = "new") -> Create:
    """Return the creation of the settings."""
    return Create(f"{paths.TOPIC_CONFIGS}/{name}", encode_entity_config(SETTINGS))


def topic_of(world: World, places: dict[int, tuple[int, ...]] | None = None) -> Create:
    """Return the creation of the topic."""
    assigned = {n: PartitionAssignment(replicas(*r)) for n, r in (places or PLACES).items()}
    content = replace(world.topic("t"), partitions=assigned, topic_id=ID)
    return Create(paths.topic_path("new"), encode_topic(content))


def waiting(world: World, request: RequestOnTopics = CREATION) -> SimEndpoint:
    """Let a client wait, as far as the rules see; return where."""
    _, endpoint = daemon_of(world)
    rules_of(world).request_received(endpoint, 77, request)
    return endpoint


def answer(world: World, result: TopicResult, request: RequestOnTopics = CREATION) -> None:
    """Let the daemon answer."""
    kind = CreateTopicsAnswer if isinstance(request, CreateTopics) else CreatePartitionsAnswer
    rules_of(world).daemon_answers(daemon_of(world)[1], 77, request, kind(0, (result,)))


TOLD = TopicResult("new", 0, None, 2, 2, ID)


def test_topic_without_its_settings_is_found() -> None:
    """They follow in a transaction of their own."""
    world = held()
    waiting(world)
    with pytest.raises(InvariantViolationError, match=TopicRule.WRITTEN_WHOLE):
        write(world, topic_of(world))


@pytest.mark.parametrize(
    ("request_", "places"),
    [
        (None, PLACES),
        (replace(CREATION, validate_only=True), PLACES),
        (CREATION, {0: (1, 2)}),
        (CREATION, {0: (1, 2), 1: (2, 3, 4)}),
        (CREATION, {0: (1, 2), 1: (3, 9)}),
        (replace(CREATION, topics=(replace(NEW, configs=()),)), PLACES),
        (replace(CREATION, topics=(replace(NEW, topic_id="other"),)), PLACES),
        (replace(CREATION, topics=(replace(NEW, assignments=((0, replicas(1)),)),)), PLACES),
    ],
)
def test_topic_that_no_client_requested_is_found(
    request_: RequestOnTopics | None, places: dict[int, tuple[int, ...]]
) -> None:
    """Whatever differs from what the client asked for."""
    world = held()
    if request_ is not None:
        waiting(world, request_)
    only = request_ is not None and request_.validate_only
    rule = TopicRule.REFUSED_WROTE_NOTHING if only else TopicRule.ONLY_AS_REQUESTED
    with pytest.raises(InvariantViolationError, match=rule):
        write(world, settings_of(), topic_of(world, places))


def test_topic_that_was_refused_and_written_is_found() -> None:
    """Whichever came first."""
    world = held()
    waiting(world)
    write(world, settings_of(), topic_of(world))
    with pytest.raises(InvariantViolationError, match=TopicRule.REFUSED_WROTE_NOTHING):
        answer(world, TopicResult("new", kafka_errors.INVALID_CONFIG))
    world = held()
    waiting(world)
    answer(world, TopicResult("new", kafka_errors.INVALID_CONFIG))
    with pytest.raises(InvariantViolationError, match=TopicRule.ONLY_AS_REQUESTED):
        write(world, settings_of(), topic_of(world))


@pytest.mark.parametrize(
    ("result", "is_written", "lets_lead", "why"),
    [
        (TOLD, False, False, "nobody wrote"),
        (TOLD, True, False, "no leader has acknowledged"),
        (TOLD._replace(num_partitions=3), True, True, "was written so"),
        (TOLD._replace(replication_factor=3), True, True, "was written so"),
        (TOLD._replace(topic_id="other"), True, True, "was written so"),
    ],
)
def test_answer_that_is_not_so_is_found(
    result: TopicResult,
    is_written: bool,  # noqa: FBT001 - a case of the test
    lets_lead: bool,  # noqa: FBT001 - a case of the test
    why: str,
) -> None:
    """Before the write, before the leaders, or with other numbers."""
    world = held()
    waiting(world)
    if is_written:
        write(world, settings_of(), topic_of(world))
    if lets_lead:
        world.run_for(5.0)
    with pytest.raises(InvariantViolationError, match=why):
        answer(world, result)


def test_topic_that_is_gone_when_it_is_answered_is_found() -> None:
    """As long as the daemon is the controller, nobody else deletes topics."""
    world = held()
    waiting(world)
    write(world, settings_of(), topic_of(world))
    world.run_for(5.0)
    world.zookeeper.remove_tree(paths.topic_path("new"))
    world.run_for(0.1)
    with pytest.raises(InvariantViolationError, match="the topic is gone"):
        answer(world, TOLD)


def grown(world: World, moving: PartitionAssignment | None = None) -> SetData:
    """Return a write that adds two partitions; ``moving`` is written before, by somebody else."""
    if moving is not None:
        world.assign("t", {0: moving})
    before = world.topic("t")
    added = {n: PartitionAssignment(replicas(1, 2)) for n in (2, 3)}
    after = replace(before, partitions={**before.partitions, **added})
    return SetData(paths.topic_path("t"), encode_topic(after), before.version)


def test_growth_of_a_moving_topic_is_found() -> None:
    """A reassignment decides by the partitions that it began with."""
    world = held()
    waiting(world, GROWTH)
    moving = PartitionAssignment(replicas(1, 2, 3), replicas(3))
    with pytest.raises(InvariantViolationError, match=TopicRule.NOT_WHILE_MOVING):
        write(world, grown(world, moving))


def test_growth_that_no_client_requested_is_found() -> None:
    """To more partitions, or with other replicas."""
    for wanted in (MorePartitions("t", 3, None), MorePartitions("t", 4, (replicas(3, 4),) * 2)):
        world = held()
        waiting(world, replace(GROWTH, topics=(wanted,)))
        with pytest.raises(InvariantViolationError, match=TopicRule.ONLY_AS_REQUESTED):
            write(world, grown(world))


def test_growth_that_is_answered_before_the_leaders_lead_is_found() -> None:
    """The client would produce to partitions without a leader."""
    world = held()
    waiting(world, GROWTH)
    write(world, grown(world))
    with pytest.raises(InvariantViolationError, match=TopicRule.GROWN_AS_TOLD):
        answer(world, TopicResult("t", 0, None, 4, first_new=2), GROWTH)


def test_topic_without_states_is_found_in_the_end() -> None:
    """Whoever wrote it, a controller has to complete it."""
    world = held()
    for controller in world.kafka_controllers.values():
        controller.stands = False
    daemon_of(world)[0].crash()
    world.create_topic("new", {0: [1, 2]})
    world.run_for(20.0)
    with pytest.raises(InvariantViolationError, match=TopicRule.FIRST_STATES):
        rules_of(world).judge_end()
