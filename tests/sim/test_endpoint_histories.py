"""Histories in which brokers ask the daemon, and the rules about its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrResult,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.core_settings import TenurePolicy
from controller.core.model import BrokerEpoch, BrokerId, LeaderEpoch, Replicas, ZkVersion
from controller.reactor.ports import Check, SetData
from controller.znodes import paths
from controller.znodes.topics import encode_state
from tests.core.builders import replicas, tp
from tests.sim import broker_to_controller
from tests.sim.controller_endpoints import SimEndpoint
from tests.sim.daemons import CONTROLLER_ID
from tests.sim.endpoint_campaigns import attempt, endpoint_plot_of, endpoint_world
from tests.sim.endpoint_rules import EndpointRule, EndpointRules
from tests.sim.fabric import FIRST_WITH_IDS, Fabric
from tests.sim.histories import reactors
from tests.sim.judges import InvariantViolationError
from tests.sim.plots import OPTIONS
from tests.sim.seeds import seeds
from tests.sim.world import World
from tests.sim.zookeeper import AnyOperation

HOLDING = replace(OPTIONS, tenure=TenurePolicy.PERMANENT)


@pytest.mark.parametrize("seed", seeds(range(6), first=2))
def test_brokers_that_send_requests_are_served_through_faults(seed: int) -> None:
    """Lost and doubled answers, a role that moves, old addresses, shutdowns amid steps."""
    played = attempt(seed)
    assert played.failure is None
    assert played.met[EndpointRule.PRODUCER_IDS_ONCE]


def held(version: int = 1) -> tuple[World, EndpointRules]:
    """Return a cluster whose brokers ask a daemon that keeps the role, in this version."""
    world = World(1, brokers=4, has_endpoint=True)
    world.fabric.alter_partition_version = version
    world.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]}, min_insync_replicas=2)
    world.settle()
    world.add_daemon(reactors(HOLDING))
    world.producer.start()
    world.run_for(5.0)
    assert world.invariants.endpoint is not None
    return world, world.invariants.endpoint


@pytest.mark.parametrize("version", range(4))
def test_leader_changes_the_isr_through_the_daemon(version: int) -> None:
    """No broker writes a state; the high watermark waits for members that are asked for."""
    world, rules = held(version)
    assert (world.topic("t").topic_id is not None) == (version >= FIRST_WITH_IDS)
    before = rules.applied[EndpointRule.ISR_AS_REQUESTED]
    world.brokers[BrokerId(3)].replication.extra_fetch_s = 1e9
    world.run_for(15.0)
    state = world.state(tp())
    assert state is not None
    assert state.isr == replicas(1, 2)
    assert world.brokers[BrokerId(1)].hosted[tp()].partition_epoch == state.version
    assert rules.applied[EndpointRule.ISR_AS_REQUESTED] >= before + 2


def test_broker_that_shuts_down_stops_without_a_leadership() -> None:
    """It asks once, and producers find the new leader at once."""
    world, rules = held()
    broker = world.brokers[BrokerId(1)]
    assert broker.to_controller is not None
    broker.to_controller.shut_down(broker.stop)
    world.run_until(lambda: not broker.is_alive, within_s=2.0)
    assert rules.applied[EndpointRule.NOTHING_LEFT]
    assert world.fabric.struck["shut_down_cleanly"] == 1
    state = world.state(tp())
    assert state is not None
    assert (state.leader, state.isr) == (2, replicas(2, 3))


def result(isr: Replicas, version: int) -> IsrResult:
    """Return what a leader is told."""
    epoch, at = LeaderEpoch(0), ZkVersion(version)
    return IsrResult("t", None, 0, 0, BrokerId(1), epoch, isr, 0, at)


REQUEST = AlterPartition(BrokerId(1), BrokerEpoch(0), 1, ())


@pytest.mark.parametrize(
    ("isr", "version", "is_true"),
    [((1, 2, 3), 0, True), ((1, 2), 0, False), ((1, 2, 3), 1, False)],
)
def test_isr_that_zookeeper_does_not_have_is_found(
    isr: tuple[int, ...],
    version: int,
    is_true: bool,  # noqa: FBT001 - a case of the test
) -> None:
    """Another ISR, or the same at another version."""
    _, rules = held()
    answer = AlterPartitionAnswer(0, (result(replicas(*isr), version),))
    if is_true:
        rules.daemon_answers(0, REQUEST, answer)
    else:
        with pytest.raises(InvariantViolationError, match="is told"):
            rules.daemon_answers(0, REQUEST, answer)


def test_isr_that_no_leader_requested_is_found() -> None:
    """The daemon decides no ISR without a new leader epoch."""
    world, _ = held()
    (daemon,) = world.daemons
    state, fence = world.state(tp()), world.zookeeper.get(paths.CONTROLLER_EPOCH)
    assert state is not None
    assert fence is not None
    data = encode_state(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=replicas(1, 2),
        controller_epoch=state.controller_epoch,
        leader_recovery_state=0,
    )
    multi: list[AnyOperation] = [
        Check(paths.CONTROLLER_EPOCH, ZkVersion(fence.version)),
        SetData(paths.state_path(tp()), data, state.version),
    ]
    with pytest.raises(InvariantViolationError, match="no leader asked for"):
        world.zookeeper.transact(daemon.store.session.id, multi)


def test_block_that_two_brokers_receive_is_found() -> None:
    """Whichever controller handed it out."""
    _, rules = held()
    answer = ProducerIdsAnswer(0, 7_000_000, 1000)
    rules.daemon_answers(0, AllocateProducerIds(BrokerId(1), REQUEST.broker_epoch), answer)
    rules.ids_received(BrokerId(1), answer)
    with pytest.raises(InvariantViolationError, match="received"):
        rules.ids_received(BrokerId(2), answer)
    with pytest.raises(InvariantViolationError, match="handed out before"):
        rules.daemon_answers(0, AllocateProducerIds(BrokerId(1), REQUEST.broker_epoch), answer)


def test_leadership_that_an_answer_leaves_out_is_found() -> None:
    """The broker would stop as its leader."""
    world, rules = held()
    (daemon,) = world.daemons
    requested = ControlledShutdown(BrokerId(1), REQUEST.broker_epoch)
    session = daemon.store.session.id
    rules.daemon_answers(session, requested, ControlledShutdownAnswer(0, (tp(),)))
    with pytest.raises(InvariantViolationError, match="leads"):
        rules.daemon_answers(session, requested, ControlledShutdownAnswer(0))


def test_leader_that_is_refused_for_good_waits_for_the_next_epoch() -> None:
    """As Kafka's: after these errors only a LeaderAndIsr continues."""
    world, _ = held()
    broker = world.brokers[BrokerId(1)]
    hosted = broker.hosted[tp()]
    assert broker.to_controller is not None
    hosted.partition_epoch -= 1
    world.brokers[BrokerId(3)].replication.extra_fetch_s = 1e9
    world.run_for(15.0)
    assert hosted.wanted == replicas(1, 2)
    assert world.state(tp()) is not None
    epoch = hosted.leader_epoch
    other = world.brokers[BrokerId(2)]
    other.kill()
    world.run_until(lambda: hosted.leader_epoch > epoch, within_s=30.0)
    assert hosted.wanted is None


@pytest.mark.parametrize("version", [0, 1])
def test_leader_of_a_former_topic_of_the_same_name_changes_other_isrs(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request names the topic only, and is ahead of the new topic for good."""
    world, _ = held(version)
    world.create_topic("u", {0: [1, 2, 3]}, min_insync_replicas=1)
    world.run_for(1.0)
    fall_behind(world, 3)
    world.run_for(15.0)
    catch_up(world, 3)
    world.run_for(10.0)
    reach = broker_to_controller.transmit
    monkeypatch.setattr(
        broker_to_controller, "transmit", lambda fabric, _, once, __: lose(fabric, once)
    )
    fall_behind(world, 3)
    world.run_for(6.0)
    world.delete_topic("t")
    world.run_until(lambda: world.zookeeper.get(paths.topic_path("t")) is None, within_s=30.0)
    world.create_topic("t", {0: [2, 4]})
    monkeypatch.setattr(broker_to_controller, "transmit", reach)
    world.run_until(lambda: isr_of(world, "u") == replicas(1, 2), within_s=15.0)
    catch_up(world, 3)
    world.run_until(lambda: isr_of(world, "u") == replicas(1, 2, 3), within_s=15.0)


def lose(fabric: Fabric, once: Callable[[None], None]) -> None:
    """Break the connection before the request arrives."""
    fabric.schedule.call_in(0.05, lambda: once(None))


def fall_behind(world: World, broker_id: int) -> None:
    """Let a broker fetch nothing."""
    world.brokers[BrokerId(broker_id)].replication.extra_fetch_s = 1e9


def catch_up(world: World, broker_id: int) -> None:
    """Let a broker fetch again."""
    broker = world.brokers[BrokerId(broker_id)]
    broker.replication.extra_fetch_s = 0.0
    for partition, replica in broker.hosted.items():
        replica.fetch_due = False
        broker.replication.schedule_fetch(partition)


def isr_of(world: World, topic: str) -> Replicas | None:
    """Return the ISR of the first partition of a topic."""
    state = world.state(tp(0, topic))
    return None if state is None else state.isr


def test_answer_that_the_next_leader_epoch_overtakes_does_not_end_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to Kafka 2.8 the leader then forgets its request of the next epoch (KAFKA-12686)."""
    world = World(1, brokers=5, has_endpoint=True)
    world.fabric.alter_partition_version = 0
    world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=1)
    world.create_topic("u", {0: [1, 2, 4]}, min_insync_replicas=1)
    world.settle()
    world.add_daemon(reactors(replace(HOLDING, step_size=1)))
    world.producer.start()
    world.run_for(5.0)
    answer = SimEndpoint.handle
    late: list[BrokerAnswer] = []

    def send(
        self: SimEndpoint, request: RequestFromBroker, reply: Callable[[BrokerAnswer | None], None]
    ) -> None:
        def delayed(given: BrokerAnswer | None) -> None:
            if late or not isinstance(given, AlterPartitionAnswer) or given.error:
                reply(given)
                return
            late.append(given)
            world.schedule.call_in(0.05, lambda: reply(given))

        answer(self, request, delayed)

    monkeypatch.setattr(SimEndpoint, "handle", send)
    world.submit_plan({tp(): [1, 4, 5]})
    world.run_until(lambda: world.assignment(tp()).replicas == replicas(1, 4, 5), within_s=30.0)
    assert late
    assert world.fabric.struck["request_forgotten"]


def test_plots_differ_from_those_of_the_campaign_by_the_requests_of_brokers_only() -> None:
    """So a failure can be compared with the history in which brokers write ISRs themselves."""
    plot = endpoint_plot_of(3)
    assert plot.weights.broker_shut_down > 0
    assert endpoint_world(3, plot).fabric.has_endpoint


def place_on_the_daemon(world: World) -> dict[int, list[int]]:
    """Let a broker create a topic by itself, as of Kafka 2.8; return its replicas."""
    own = int(CONTROLLER_ID)
    placed = {0: [own, 1], 1: [2, own], 2: [own]}
    world.create_topic("auto", placed)
    return placed


def test_topic_that_a_broker_placed_on_the_daemon_is_on_brokers_only() -> None:
    """Its first states and its replicas are one write."""
    world, _ = held()
    place_on_the_daemon(world)
    world.run_until(world.all_healthy, within_s=20.0)
    found = {n: a.replicas for n, a in world.topic("auto").partitions.items()}
    assert [len(found[n]) for n in range(3)] == [2, 2, 1]
    assert CONTROLLER_ID not in {r for replicas in found.values() for r in replicas}


def test_daemon_that_dies_before_the_repair_leaves_it_to_the_next() -> None:
    """Kafka's controller creates what has another replica; the rest has no state until then."""
    world, _ = held()
    (daemon,) = world.daemons
    daemon.crash_after(0)
    placed = place_on_the_daemon(world)
    world.run_for(60.0)
    assert not daemon.is_alive
    states = [world.state(tp(n, "auto")) for n in range(3)]
    assert [None if s is None else s.isr for s in states] == [replicas(1), replicas(2), None]
    assert world.topic("auto").partitions[0].replicas == tuple(placed[0])
    world.add_daemon(reactors(HOLDING))
    world.run_for(20.0)
    (replica,) = world.topic("auto").partitions[2].replicas
    state = world.state(tp(2, "auto"))
    assert state is not None
    assert state.isr == (replica,)
    assert replica in world.brokers
    # Only a plan changes the replicas of partitions that have a state.
    assert CONTROLLER_ID in world.topic("auto").partitions[0].replicas


def lose_log_behind_cut(world: World) -> None:
    """Let broker 3 be back, be asked for, and restart without its logs; the requests are held."""
    network, broker = world.fabric.network, world.brokers[BrokerId(3)]
    broker.stop()
    world.run_for(1.0)
    network.cut |= world.brokers.keys() - {broker.id}
    leader = world.brokers[BrokerId(1)].session
    if broker.to_controller is None and leader is not None:
        leader.suspend()
    broker.start()
    world.run_for(3.0)
    assert network.held
    broker.kill()
    for directory in broker.directories:
        broker.empty_directory(directory)
    fall_behind(world, broker.id)


def is_back_when_it_has_copied(world: World, epoch: int) -> None:
    """Ensure that held requests add no empty replica, at this leader epoch, and later ones do."""
    for broker in world.brokers.values():
        if broker.session is not None:
            broker.session.resume()
    world.fabric.network.deliver()
    world.run_for(1.5)
    state = world.state(tp())
    assert state is not None
    assert (state.isr, state.leader_epoch) == (replicas(1, 2), epoch)
    catch_up(world, 3)
    world.run_until(lambda: isr_of(world, "t") == replicas(1, 2, 3), within_s=15.0)


@pytest.mark.parametrize("version", range(4))
def test_request_that_is_older_than_the_loss_of_a_log_adds_no_empty_replica(version: int) -> None:
    """Only the leader's way to the daemon was cut; the daemon wrote the state."""
    world, _ = held(version)
    lose_log_behind_cut(world)
    before = world.state(tp())
    assert before is not None
    world.brokers[BrokerId(3)].start()
    world.run_for(2.0)
    is_back_when_it_has_copied(world, before.leader_epoch + 1)


def test_write_that_is_older_than_the_loss_of_a_log_adds_no_empty_replica() -> None:
    """Below protocol 2.7 the leader writes the ISR itself, when it is connected again."""
    world = World(1, brokers=4)
    world.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]}, min_insync_replicas=2)
    world.settle()
    world.add_daemon(reactors(HOLDING))
    world.producer.start()
    world.run_for(5.0)
    lose_log_behind_cut(world)
    before = world.state(tp())
    assert before is not None
    world.brokers[BrokerId(3)].start()
    world.run_for(1.5)
    is_back_when_it_has_copied(world, before.leader_epoch + 1)


@pytest.mark.parametrize("version", range(4))
def test_daemon_that_dies_before_it_raises_the_epoch_leaves_it_to_the_next(version: int) -> None:
    """The registration is newer than the state."""
    world = World(1, brokers=4, has_endpoint=True, has_kafka_controllers=False)
    world.fabric.alter_partition_version = version
    world.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]}, min_insync_replicas=2)
    daemon = world.add_daemon(reactors(HOLDING))
    world.settle()
    world.producer.start()
    lose_log_behind_cut(world)
    before = world.state(tp())
    assert before is not None
    daemon.crash()
    world.brokers[BrokerId(3)].start()
    world.run_for(1.0)
    world.add_daemon(reactors(HOLDING))
    world.run_until(lambda: (world.state(tp()) or before).version > before.version, within_s=30.0)
    is_back_when_it_has_copied(world, before.leader_epoch + 1)


def test_replica_whose_broker_is_dead_enters_no_isr_by_an_old_request() -> None:
    """Leaders of the first version know no such error; it may be back without its log."""
    world, _ = held(version=0)
    lose_log_behind_cut(world)
    world.run_for(10.0)
    world.fabric.network.deliver()
    world.run_for(5.0)
    assert isr_of(world, "t") == replicas(1, 2)
