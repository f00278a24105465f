"""The rules by which a broker accepts a controller's requests (kafka-facts 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller import kafka_errors
from controller.core.model import BrokerEpoch, TopicPartition
from controller.reactor.ports import BrokerRequest
from tests.sim.brokers import DELETED_LEADER, DIRECTORIES, SimBroker
from tests.sim.builders import leader_and_isr, stop_replica, update_metadata
from tests.sim.world import World

P = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    """Return three brokers that know each other; the test is the controller, of epoch 1."""
    world = World(1, brokers=3, has_kafka_controllers=False)
    for broker in world.brokers.values():
        _send(broker, update_metadata([1, 2, 3]))
    return world


@pytest.fixture
def broker(world: World) -> SimBroker:
    """Return the first of them."""
    return next(iter(world.brokers.values()))


def _send(broker: SimBroker, request: BrokerRequest, epoch: int | None = None) -> int | list[int]:
    """Send a request; return its error, or those of its partitions."""
    to = broker.epoch if epoch is None else BrokerEpoch(epoch)
    answer = broker.handle(request, to)
    return answer.error or [error for _, error in answer.results]


def _accept(broker: SimBroker, leader: int = 1, epoch: int = 0, **more: Sequence[int]) -> None:
    replicas = more.get("replicas", (1, 2, 3))
    request = leader_and_isr(P, leader=leader, replicas=replicas, leader_epoch=epoch)
    assert _send(broker, request) == [kafka_errors.NONE]


@pytest.mark.parametrize(
    "request_",
    [
        update_metadata([1], controller_epoch=4),
        leader_and_isr(P, leader=1, replicas=[1], controller_epoch=4),
        stop_replica(P, leader_epoch=0, delete=True, controller_epoch=4),
    ],
)
def test_a_former_controller_is_refused(broker: SimBroker, request_: BrokerRequest) -> None:
    """Any request of a newer epoch, even an empty one, fences all requests of the older."""
    _send(broker, update_metadata([1, 2, 3], controller_epoch=5))
    assert _send(broker, request_) == kafka_errors.STALE_CONTROLLER_EPOCH
    assert broker.live == {1, 2, 3}


def test_a_restarted_broker_has_forgotten_the_controller_epoch(broker: SimBroker) -> None:
    """A broker keeps the controller epoch in memory only."""
    _send(broker, update_metadata([1], controller_epoch=5))
    broker.kill()
    broker.start()
    assert _send(broker, update_metadata([1], controller_epoch=4)) == []


def test_a_request_for_the_former_life_of_a_broker_is_refused(broker: SimBroker) -> None:
    """A larger broker epoch, or -1, is accepted."""
    former = broker.epoch
    broker.kill()
    broker.start()
    assert broker.epoch > former
    assert _send(broker, update_metadata([1]), former) == kafka_errors.STALE_BROKER_EPOCH
    assert _send(broker, update_metadata([1]), broker.epoch + 7) == []
    assert _send(broker, update_metadata([1]), -1) == []


def test_leader_epoch_zero_is_news_to_a_broker_without_the_replica(broker: SimBroker) -> None:
    """A broker without the replica starts from epoch -1."""
    _accept(broker, epoch=0)
    assert broker.hosted[P].leads(broker.id)


@pytest.mark.parametrize("epoch", [3, 2])
def test_an_epoch_that_is_not_newer_changes_nothing(broker: SimBroker, epoch: int) -> None:
    """The name of the error is misleading."""
    _accept(broker, epoch=3)
    request = leader_and_isr(P, leader=2, replicas=[1, 2], leader_epoch=epoch)
    assert _send(broker, request) == [kafka_errors.STALE_CONTROLLER_EPOCH]
    assert broker.hosted[P].leader == 1
    assert broker.hosted[P].replicas == (1, 2, 3)


def test_a_broker_that_is_no_replica_says_so(broker: SimBroker) -> None:
    """The broker creates no log, also not when it becomes a replica later (up to Kafka 2.8)."""
    request = leader_and_isr(P, leader=2, replicas=[2, 3])
    assert _send(broker, request) == [kafka_errors.UNKNOWN_TOPIC_OR_PARTITION]
    later = leader_and_isr(P, leader=2, replicas=[1, 2], leader_epoch=1)
    assert _send(broker, later) == [kafka_errors.KAFKA_STORAGE_ERROR]
    assert P not in broker.logs


def test_following_an_unknown_leader_is_skipped_without_an_error(broker: SimBroker) -> None:
    """The broker creates the log without the epoch: the request works once metadata came."""
    _send(broker, update_metadata([1]))
    request = leader_and_isr(P, leader=2, replicas=[1, 2])
    assert _send(broker, request) == [kafka_errors.NONE]
    assert P in broker.logs
    assert not broker.hosted[P].is_fetching
    _send(broker, update_metadata([1, 2]))
    assert _send(broker, request) == [kafka_errors.NONE]
    assert broker.hosted[P].is_fetching


def test_an_older_partition_epoch_is_dropped_without_an_error(broker: SimBroker) -> None:
    """A controller of Kafka 3.x always sends the version that its own write returned."""
    first = leader_and_isr(P, leader=1, replicas=[1, 2], leader_epoch=1, partition_epoch=5)
    older = leader_and_isr(P, leader=2, replicas=[1, 2], leader_epoch=2, partition_epoch=4)
    assert _send(broker, first) == [kafka_errors.NONE]
    assert _send(broker, older) == [kafka_errors.NONE]
    assert broker.hosted[P].leader_epoch == 1


def test_an_offline_directory_is_reported_before_anything_else(broker: SimBroker) -> None:
    """A controller learns of failed disks by it, even for an epoch that the broker has."""
    _accept(broker, epoch=3)
    broker.fail_directory(broker.logs[P].directory)
    request = leader_and_isr(P, leader=1, replicas=[1, 2, 3], leader_epoch=3)
    assert _send(broker, request) == [kafka_errors.KAFKA_STORAGE_ERROR]
    stop = stop_replica(P, leader_epoch=4, delete=True)
    assert _send(broker, stop) == [kafka_errors.KAFKA_STORAGE_ERROR]


def test_what_may_be_on_a_failed_disk_is_offline_until_the_restart(broker: SimBroker) -> None:
    """The replica stays offline even if the next request calls it new."""
    broker.fail_directory(0)
    old = leader_and_isr(P, leader=1, replicas=[1, 2], is_new=False)
    new = leader_and_isr(P, leader=1, replicas=[1, 2], is_new=True)
    for request in (old, new):
        assert _send(broker, request) == [kafka_errors.KAFKA_STORAGE_ERROR]
    broker.kill()
    broker.start()
    assert _send(broker, new) == [kafka_errors.NONE]
    assert broker.logs[P].directory == DIRECTORIES - 1


def test_a_broker_that_restarts_without_a_disk_does_not_know_what_was_there(
    broker: SimBroker,
) -> None:
    """If the request calls the replica new, a log is created; else it stays offline."""
    _accept(broker)
    log = broker.logs[P]
    broker.fail_directory(log.directory)
    broker.kill()
    broker.start()
    old = leader_and_isr(P, leader=1, replicas=[1, 2], leader_epoch=9, is_new=False)
    assert _send(broker, old) == [kafka_errors.KAFKA_STORAGE_ERROR]
    assert (P in broker.logs, broker.copy(P)) == (False, log)
    broker.kill()
    broker.start()
    new = leader_and_isr(P, leader=1, replicas=[1, 2], leader_epoch=9, is_new=True)
    assert _send(broker, new) == [kafka_errors.NONE]
    assert broker.copy(P) is not log
    broker.kill()
    broker.repair_directories()
    assert broker.copy(P) is not log


def test_a_stop_replica_with_an_older_leader_epoch_is_fenced(broker: SimBroker) -> None:
    """A late StopReplica cannot delete a replica that is assigned again."""
    _accept(broker, epoch=3)
    stale = stop_replica(P, leader_epoch=2, delete=True)
    assert _send(broker, stale) == [kafka_errors.FENCED_LEADER_EPOCH]
    assert P in broker.logs


def test_stop_replica_below_version_3_is_not_fenced(world: World, broker: SimBroker) -> None:
    """Older versions of the request carry no leader epoch."""
    world.fabric.fences_stop_replica = False
    _accept(broker, epoch=3)
    assert _send(broker, stop_replica(P, leader_epoch=0, delete=True)) == [kafka_errors.NONE]
    assert P not in broker.logs


def test_stopping_without_deletion_keeps_the_replica(broker: SimBroker) -> None:
    """Only the fetcher of the replica stops."""
    _accept(broker, leader=2)
    assert _send(broker, stop_replica(P, leader_epoch=0, delete=False)) == [kafka_errors.NONE]
    assert not broker.hosted[P].is_fetching
    assert P in broker.logs


@pytest.mark.parametrize("epoch", [0, 7, -1, DELETED_LEADER])
def test_deletion_takes_the_replica_and_its_log(broker: SimBroker, epoch: int) -> None:
    """The same epoch, a newer one, none, and that of a topic being deleted are accepted."""
    _accept(broker)
    assert _send(broker, stop_replica(P, leader_epoch=epoch, delete=True)) == [kafka_errors.NONE]
    assert P not in broker.hosted
    assert P not in broker.logs


def test_a_log_the_broker_does_not_host_is_deleted_all_the_same(broker: SimBroker) -> None:
    """After a restart a broker hosts no replica until it gets a LeaderAndIsr."""
    _accept(broker, epoch=3)
    broker.kill()
    broker.start()
    assert _send(broker, stop_replica(P, leader_epoch=0, delete=True)) == [kafka_errors.NONE]
    assert P not in broker.logs


def test_a_killed_broker_keeps_its_logs_and_its_registration_for_a_while(
    world: World, broker: SimBroker
) -> None:
    """The registration is deleted when the session times out."""
    _accept(broker)
    broker.kill()
    world.run_for(1.0)
    assert "1" in (world.zookeeper.children("/brokers/ids") or ())
    world.run_for(world.fabric.broker_session_s)
    assert "1" not in (world.zookeeper.children("/brokers/ids") or ())
    assert P in broker.logs
    assert not broker.hosted


def test_a_log_that_an_expired_broker_could_not_make_needs_a_newer_epoch(
    world: World, broker: SimBroker
) -> None:
    """The settings of the topic could not be read, but the leader epoch is noted."""
    added = leader_and_isr(P, leader=2, replicas=[1, 2], leader_epoch=3)
    broker.expire()
    assert _send(broker, added) == kafka_errors.UNKNOWN_SERVER_ERROR
    world.run_for(2.0)
    assert _send(broker, added) == [kafka_errors.STALE_CONTROLLER_EPOCH]
    assert P not in broker.logs
    _accept(broker, leader=2, epoch=4)
    assert broker.hosted[P].log is broker.logs[P]
    assert broker.hosted[P].is_fetching


def test_an_expired_broker_registers_again_and_continues(world: World, broker: SimBroker) -> None:
    """Its broker epoch grows, and it hosts the same replicas."""
    _accept(broker)
    former = broker.epoch
    broker.expire()
    world.run_for(2.0)
    assert broker.epoch > former
    assert P in broker.hosted
