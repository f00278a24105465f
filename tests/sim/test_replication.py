"""Replication: high watermarks, acknowledgements, and changes of the ISR."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller import kafka_errors
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.reactor.ports import Check
from controller.znodes import paths
from controller.znodes.topics import encode_state, encode_topic
from tests.sim.brokers import SimBroker
from tests.sim.builders import ids, leader_and_isr, update_metadata
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Make, Put

P = TopicPartition("t", 0)


class _Bench:
    """Three brokers without a controller: the test sends its requests."""

    def __init__(self, *, isr: Sequence[int] = (1, 2, 3), min_isr: int = 2) -> None:
        self.world = World(3, brokers=3, has_kafka_controllers=False)
        self.world.fabric.configs["t"] = TopicConfig(min_isr, unclean_leader_election=False)
        self.answers: list[int] = []
        assignment = {0: PartitionAssignment(ids([1, 2, 3]))}
        topic = encode_topic(TopicAssignment(assignment, ZkVersion(0), Zxid(0)))
        made = [Make(paths.topic_path("t"), topic), Make(paths.partitions_path("t"))]
        made += [
            Make(f"{paths.partitions_path(P.topic)}/{P.partition}"),
            Make(paths.state_path(P), _state(isr, epoch=0)),
        ]
        self.world.zookeeper.transact(NO_SESSION, [Put(paths.CONTROLLER_EPOCH, b"1"), *made])
        self.send_state([1, 2, 3], isr=isr)

    def broker(self, number: int) -> SimBroker:
        return self.world.brokers[BrokerId(number)]

    def send_state(
        self,
        replicas: Sequence[int],
        *,
        isr: Sequence[int],
        leader: int = 1,
        epoch: int = 0,
        version: int = 0,
        brokers: Sequence[int] = (1, 2, 3),
    ) -> None:
        """Send metadata and a LeaderAndIsr to these brokers."""
        request = leader_and_isr(
            P,
            leader=leader,
            replicas=replicas,
            isr=isr,
            leader_epoch=epoch,
            partition_epoch=version,
        )
        for number in brokers:
            broker = self.broker(number)
            broker.handle(update_metadata([1, 2, 3]), broker.epoch)
            broker.handle(request, broker.epoch)

    def write_state(self, isr: Sequence[int], *, leader: int = 1, epoch: int) -> int:
        """Write the state as a controller does; return its new version."""
        data = _state(isr, leader=leader, epoch=epoch)
        fence = Check(paths.CONTROLLER_EPOCH, ZkVersion(1))
        self.world.zookeeper.transact(NO_SESSION, [fence, Put(paths.state_path(P), data)])
        znode = self.world.zookeeper.get(paths.state_path(P))
        return -1 if znode is None else znode.version

    def produce(self, count: int = 1, *, to: int = 1) -> None:
        for _ in range(count):
            value = len(self.answers) * 1000 + self.world.schedule.events
            self.broker(to).replication.append(P, value, self.answers.append)

    def isr(self) -> set[int]:
        state = self.world.state(P)
        return set() if state is None else set(state.isr)


def _state(isr: Sequence[int], *, epoch: int, leader: int = 1) -> bytes:
    return encode_state(
        leader=leader,
        leader_epoch=epoch,
        isr=ids(isr),
        controller_epoch=1,
        leader_recovery_state=0,
    )


def test_a_record_is_acknowledged_when_the_whole_isr_has_it() -> None:
    """A record is not acknowledged before every member of the ISR has it."""
    bench = _Bench()
    bench.produce()
    assert bench.answers == []
    bench.world.run_for(1.0)
    assert bench.answers == [kafka_errors.NONE]
    assert all(bench.broker(n).logs[P].end == 1 for n in (1, 2, 3))
    assert bench.world.invariants.committed(P) == 1


def test_too_small_an_isr_takes_no_record() -> None:
    """``min.insync.replicas`` is checked before anything is written."""
    bench = _Bench(isr=[1], min_isr=2)
    bench.produce()
    assert bench.answers == [kafka_errors.NOT_ENOUGH_REPLICAS]
    assert bench.broker(1).logs[P].end == 0


def test_a_follower_that_caught_up_enters_the_isr() -> None:
    """The leader adds it by a compare-and-set that keeps leader and epochs."""
    bench = _Bench(isr=[1], min_isr=1)
    bench.produce(500)
    bench.world.run_for(1.0)
    assert bench.isr() == {1, 2, 3}
    state = bench.world.state(P)
    assert state is not None
    assert (state.leader_epoch, state.controller_epoch, state.version) == (0, 1, 2)


def test_what_a_follower_held_before_it_lost_its_log_does_not_count() -> None:
    """Only a new fetch lets a follower enter, as its former log may be lost."""
    bench = _Bench(isr=[1, 2], min_isr=1)
    leader, follower = bench.broker(1), bench.broker(3)
    assert leader.session is not None
    leader.session.suspend()
    bench.produce()
    bench.world.run_for(1.0)
    assert follower.logs[P].end == 1
    follower.stop()
    del follower.logs[P]
    follower.start()
    leader.session.resume()
    bench.world.run_for(1.0)
    assert bench.isr() == {1, 2}


def test_only_a_replica_that_the_leader_knows_enters_the_isr() -> None:
    """A broker outside ``replicas`` is not even served."""
    bench = _Bench(isr=[1], min_isr=1)
    version = bench.write_state([1], epoch=1)
    bench.send_state([1, 2], isr=[1], epoch=1, version=version, brokers=[1, 2])
    bench.send_state([1, 2, 3], isr=[1], epoch=1, version=version, brokers=[3])
    bench.produce(5)
    bench.world.run_for(10.0)
    assert bench.isr() == {1, 2}
    assert bench.broker(3).logs[P].end == 0


def test_a_leader_with_a_stale_version_cannot_change_the_isr() -> None:
    """The ISR stays until the LeaderAndIsr of the controller that wrote arrives."""
    bench = _Bench(isr=[1], min_isr=1)
    version = bench.write_state([1], epoch=1)
    bench.produce(5)
    bench.world.run_for(10.0)
    assert bench.isr() == {1}
    bench.send_state([1, 2, 3], isr=[1], epoch=1, version=version)
    bench.world.run_for(1.0)
    assert bench.isr() == {1, 2, 3}


def test_a_dead_follower_leaves_the_isr_when_records_are_waiting_for_it() -> None:
    """The records are acknowledged then, and a notification reports the change."""
    bench = _Bench()
    bench.world.run_for(1.0)
    bench.broker(3).kill()
    bench.world.run_for(10.0)
    assert bench.isr() == {1, 2, 3}
    bench.produce()
    bench.world.run_for(10.0)
    assert bench.isr() == {1, 2}
    assert bench.answers == [kafka_errors.NONE]
    assert bench.world.zookeeper.children(paths.ISR_NOTIFICATIONS) != ()


def test_a_record_is_not_acknowledged_below_the_minimum() -> None:
    """The ISR shrank after it was written: the producer learns that it may be lost."""
    bench = _Bench()
    bench.broker(2).kill()
    bench.broker(3).kill()
    bench.produce()
    bench.world.run_for(20.0)
    assert bench.answers == [kafka_errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert bench.world.invariants.committed(P) == 0


def test_a_new_leader_makes_followers_cut_off_what_it_does_not_have() -> None:
    """An unacknowledged record of the old leader disappears; acknowledged ones do not."""
    bench = _Bench()
    bench.produce(3)
    bench.world.run_for(1.0)
    bench.broker(2).kill()
    bench.broker(3).kill()
    bench.produce(2)
    bench.world.run_for(0.5)
    assert bench.broker(1).logs[P].end == 5
    bench.broker(2).start()
    bench.broker(3).start()
    version = bench.write_state([1, 2, 3], leader=2, epoch=1)
    bench.send_state([1, 2, 3], isr=[1, 2, 3], leader=2, epoch=1, version=version)
    bench.world.run_for(1.0)
    assert [bench.broker(n).logs[P].end for n in (1, 2, 3)] == [3, 3, 3]
    assert bench.answers == [kafka_errors.NONE] * 3 + [kafka_errors.NOT_LEADER_OR_FOLLOWER] * 2
    assert bench.world.invariants.committed(P) == 3


def test_a_deposed_leader_cannot_acknowledge_alone() -> None:
    """Its followers do not fetch from it any more, before it knows that it is deposed."""
    bench = _Bench()
    version = bench.write_state([2, 3], leader=2, epoch=1)
    bench.send_state([2, 3], isr=[2, 3], leader=2, epoch=1, version=version, brokers=[2, 3])
    bench.produce(to=1)
    bench.world.run_for(10.0)
    assert bench.answers == []
    assert bench.isr() == {2, 3}


@pytest.mark.parametrize("requested", [2, 3])
def test_followers_take_no_records(requested: int) -> None:
    """Producers have to find the leader."""
    bench = _Bench()
    bench.produce(to=requested)
    assert bench.answers == [kafka_errors.NOT_LEADER_OR_FOLLOWER]
