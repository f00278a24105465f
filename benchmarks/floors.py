"""
The time that brokers need to answer the requests of a plan, and nothing else.

The same requests as ours for ``--step-size all``, one per broker and stage: the new replicas are
created, the old ones excluded, stopped and deleted, with the metadata to all brokers. There are no
ZooKeeper writes in between and no waits for copies, so no controller can be faster on these
brokers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId, LeaderEpoch, TopicPartition, ZkVersion
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import NONE
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
    UpdateMetadataState,
)
from integration.rigs.cluster import Cluster
from integration.rigs.seized_controllers import CONTROLLER, QueueInbox, SeizedController
from integration.rigs.waiting import eventually


@dataclass(frozen=True, slots=True)
class _Move:
    """One partition: its leader stays, one follower takes another's place."""

    state: LeaderAndIsrState
    old: BrokerId
    new: BrokerId


def floor_s(cluster: Cluster, topic: str, partitions: int) -> float:
    """Make a topic, move a replica of each partition by requests alone; return the seconds."""
    ids = sorted(cluster.brokers)
    pairs = {n: [ids[n % len(ids)], ids[(n + 1) % len(ids)]] for n in range(partitions)}
    cluster.create_topic(topic, pairs)
    seized, inbox = SeizedController(cluster.zookeeper_connect), QueueInbox()
    channels = BrokerChannels(inbox, ChannelOptions(CONTROLLER))
    channels.start()
    try:
        eventually(seized.claim, within_s=30)
        stages = _Stages(seized, channels, inbox)
        moves = [_move(seized, TopicPartition(topic, n), pair, ids) for n, pair in pairs.items()]
        stages.fence()
        started = time.monotonic()
        stages.create(moves)
        stages.exclude(moves)
        stages.stop(moves)
        took = time.monotonic() - started
    finally:
        channels.stop()
        seized.stop()
    eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
    _delete(cluster, topic)
    return took


def _delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic whose brokers are ahead of what ZooKeeper says of it."""

    def is_requested() -> bool:
        cluster.delete_topics(topic)
        return True

    # Clients need a moment to learn that a broker is the controller again.
    eventually(is_requested, within_s=120, every_s=1.0, tolerating=(KafkaException,))
    eventually(lambda: cluster.topic(topic) is None, within_s=120, what=f"{topic} is deleted")


def _move(
    seized: SeizedController, partition: TopicPartition, pair: Sequence[int], ids: Sequence[int]
) -> _Move:
    found, version = seized.state(partition)
    leader, old = (BrokerId(n) for n in pair)
    new = next(BrokerId(n) for n in ids if n not in pair)
    state = LeaderAndIsrState(
        partition=partition,
        controller_epoch=seized.epoch,
        leader=leader,
        leader_epoch=LeaderEpoch(found["leader_epoch"] + 1),
        isr=(leader, old),
        partition_epoch=ZkVersion(version),
        replicas=(leader, old, new),
        adding_replicas=(new,),
        removing_replicas=(old,),
        is_new=False,
        topic_id=None,
    )
    return _Move(state, old, new)


class _Stages:
    """The stages of the plan; each is over when every broker has answered."""

    def __init__(
        self, seized: SeizedController, channels: BrokerChannels, inbox: QueueInbox
    ) -> None:
        self._epoch = seized.epoch
        self._live: Mapping[BrokerId, LiveBroker] = seized.brokers()
        self._channels = channels
        self._inbox = inbox
        for broker in self._live.values():
            channels.open(broker)

    def fence(self) -> None:
        """Send the brokers the controller epoch."""
        self._send_all({broker: [self._metadata(())] for broker in self._live})

    def create(self, moves: Iterable[_Move]) -> None:
        """Create the new replicas, and send the metadata to all brokers."""
        states = list(moves)
        self._send_all(
            {
                broker: [
                    self._leader_and_isr(
                        replace(m.state, is_new=m.new == broker)
                        for m in states
                        if broker in m.state.replicas
                    ),
                    self._metadata(m.state for m in states),
                ]
                for broker in self._live
            }
        )

    def exclude(self, moves: Iterable[_Move]) -> None:
        """Exclude the old replicas, and send the metadata to all brokers."""
        states = [_excluded(m) for m in moves]
        self._send_all(
            {
                broker: [
                    self._leader_and_isr(s for s in states if broker in s.replicas),
                    self._metadata(states),
                ]
                for broker in self._live
            }
        )

    def stop(self, moves: Iterable[_Move]) -> None:
        """Have the old replicas stopped, then deleted."""
        by_broker: dict[BrokerId, list[LeaderAndIsrState]] = {broker: [] for broker in self._live}
        for move in moves:
            by_broker[move.old].append(_excluded(move))
        self._send_all(
            {
                broker: [self._stop_replica(states, delete=delete) for delete in (False, True)]
                for broker, states in by_broker.items()
                if states
            }
        )

    def _stop_replica(self, states: Iterable[LeaderAndIsrState], *, delete: bool) -> StopReplica:
        return StopReplica(
            self._epoch,
            tuple(StopReplicaState(s.partition, s.leader_epoch, delete) for s in states),
        )

    def _leader_and_isr(self, states: Iterable[LeaderAndIsrState]) -> LeaderAndIsr:
        return LeaderAndIsr(self._epoch, tuple(states), tuple(self._live.values()))

    def _metadata(self, states: Iterable[LeaderAndIsrState]) -> UpdateMetadata:
        return UpdateMetadata(
            self._epoch, tuple(_seen(state) for state in states), tuple(self._live.values())
        )

    def _send_all(self, requests: Mapping[BrokerId, list[BrokerRequest]]) -> None:
        for broker, several in requests.items():
            for request in several:
                self._channels.send(broker, request)
        for _ in range(sum(map(len, requests.values()))):
            event = self._inbox.next()
            assert isinstance(
                event, LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered
            ), event
            assert event.error == NONE, event


def _excluded(move: _Move) -> LeaderAndIsrState:
    state = move.state
    kept = (state.leader, move.new)
    return replace(
        state,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        replicas=kept,
        isr=kept,
        adding_replicas=(),
        removing_replicas=(),
    )


def _seen(state: LeaderAndIsrState) -> UpdateMetadataState:
    return UpdateMetadataState(
        partition=state.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        offline_replicas=(),
        topic_id=None,
    )
