"""The daemon's channels: order, resends, closing."""

from __future__ import annotations

import pytest

from controller import kafka_errors
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from tests.sim.builders import Recorder, leader_and_isr, stop_replica, update_metadata
from tests.sim.channels import SimChannels
from tests.sim.seeds import seeds
from tests.sim.world import World

P = TopicPartition("t", 0)
ONE = BrokerId(1)


class _Bench:
    """One broker and the daemon's channels."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, brokers=1, has_kafka_controllers=False)
        self.inbox = Recorder()
        self.channels = SimChannels(self.world.fabric, self.inbox)
        self.broker = self.world.brokers[ONE]

    def open(self) -> LiveBroker:
        live = LiveBroker(ONE, self.broker.epoch, ())
        self.channels.open(live)
        return live


@pytest.mark.parametrize("loss", [0.0, 0.5])
@pytest.mark.parametrize("seed", seeds(range(5)))
def test_requests_arrive_and_are_answered_in_order(seed: int, loss: float) -> None:
    """Broken connections change neither the order nor the number of answers."""
    bench = _Bench(seed)
    bench.world.fabric.network.loss = loss
    bench.open()
    bench.channels.send(ONE, update_metadata([1]))
    bench.channels.send(ONE, leader_and_isr(P, leader=1, replicas=[1], leader_epoch=7))
    bench.channels.send(ONE, stop_replica(P, leader_epoch=7, delete=True))
    bench.world.run_for(60.0)
    assert [type(e) for e in bench.inbox.events] == [
        UpdateMetadataAnswered,
        LeaderAndIsrAnswered,
        StopReplicaAnswered,
    ]
    assert P not in bench.broker.logs


def test_answers_carry_what_was_sent() -> None:
    """An answer carries its request, so that no callback is needed."""
    bench = _Bench()
    live = bench.open()
    bench.channels.send(ONE, leader_and_isr(P, leader=1, replicas=[1], leader_epoch=7))
    bench.world.run_for(1.0)
    (event,) = bench.inbox.of(LeaderAndIsrAnswered)
    assert 0 < event.took_s <= 1.0
    assert event == LeaderAndIsrAnswered(
        broker=ONE,
        broker_epoch=live.epoch,
        error=kafka_errors.NONE,
        results=(LeaderAndIsrResult(P, LeaderEpoch(7), kafka_errors.NONE),),
        resent=False,
        took_s=event.took_s,
    )


def test_a_request_that_reached_the_broker_before_says_so() -> None:
    """The error "already at this epoch" acknowledges a request only if it was resent."""
    seen: set[tuple[bool, int]] = set()
    for seed in range(40):
        bench = _Bench(seed)
        bench.world.fabric.network.loss = 0.4
        bench.open()
        bench.channels.send(ONE, leader_and_isr(P, leader=1, replicas=[1]))
        bench.world.run_for(60.0)
        (answer,) = bench.inbox.of(LeaderAndIsrAnswered)
        seen.add((answer.resent, answer.results[0].error))
    assert seen == {(False, kafka_errors.NONE), (True, kafka_errors.STALE_CONTROLLER_EPOCH)}


def test_a_closed_channel_answers_nothing_more() -> None:
    """A request under way still reaches the broker."""
    bench = _Bench()
    bench.open()
    bench.channels.send(ONE, leader_and_isr(P, leader=1, replicas=[1]))
    bench.channels.send(ONE, stop_replica(P, leader_epoch=0, delete=True))
    bench.channels.close_all()
    bench.world.run_for(10.0)
    assert bench.inbox.events == []
    assert P in bench.broker.logs


def test_nothing_is_sent_without_a_channel() -> None:
    """An event reports that the broker has no channel."""
    bench = _Bench()
    bench.channels.send(ONE, update_metadata([1]))
    bench.channels.close(ONE)
    bench.world.run_for(1.0)
    assert bench.inbox.events == []
    assert bench.channels.sent == 0


def test_a_channel_to_another_epoch_replaces_the_one_before() -> None:
    """Opening a channel again with the same epoch keeps its queue."""
    bench = _Bench()
    live = bench.open()
    bench.channels.send(ONE, update_metadata([1]))
    bench.channels.open(live)
    bench.channels.send(ONE, update_metadata([1]))
    bench.world.run_for(1.0)
    assert len(bench.inbox.events) == 2
    bench.channels.send(ONE, update_metadata([1]))
    bench.channels.open(LiveBroker(ONE, BrokerEpoch(live.epoch + 1), ()))
    bench.world.run_for(1.0)
    assert len(bench.inbox.events) == 2


def test_a_dead_broker_is_tried_until_it_is_back() -> None:
    """The request reaches the broker after its restart, and is refused."""
    bench = _Bench()
    bench.open()
    bench.broker.kill()
    bench.channels.send(ONE, update_metadata([1]))
    bench.world.run_for(20.0)
    assert bench.inbox.events == []
    bench.broker.start()
    bench.world.run_for(2.0)
    (answer,) = bench.inbox.of(UpdateMetadataAnswered)
    assert answer.error == kafka_errors.STALE_BROKER_EPOCH
