"""
Channels to real brokers: a controller seized by hand speaks to them through our connections.

What is written to ZooKeeper here is written plainly, so that only ``controller.brokers`` is under
test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient

from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.brokers.config_queries import TopicConfigQuery
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.log_dirs import NAMED_MAX, BrokerLogDirs
from controller.brokers.messages import BY_PROTOCOL, WITHOUT_IDS
from controller.clocks import MonotonicClock
from controller.core.cluster.model import BEFORE_FEATURES
from controller.core.disks.records import LogDirsDescribed
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    TopicConfig,
    TopicPartition,
)
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.core.topics.model import NEVER_REQUESTED
from controller.core.topics.records import TopicConfigsRead
from controller.kafka_errors import NONE, STALE_CONTROLLER_EPOCH
from controller.reactor.ports import (
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
    UpdateMetadataState,
)
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import fill
from integration.rigs.seized_controllers import CONTROLLER, QueueInbox, SeizedController
from integration.rigs.waiting import eventually

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def inbox() -> QueueInbox:
    """Return an empty inbox."""
    return QueueInbox()


@pytest.fixture
def topic(make_topic: MakeTopic) -> TopicPartition:
    """Return a topic of one partition on broker 1, made while a broker is the controller."""
    return TopicPartition(make_topic({0: [1]}), 0)


@pytest.fixture
def configured(make_topic: MakeTopic, cluster: Cluster) -> str:
    """Return a topic with a setting of its own, whose metadata every broker has."""
    name = make_topic({0: [1]}, {"min.insync.replicas": "2"})
    for broker in cluster.brokers.values():
        admin = AdminClient({"bootstrap.servers": broker.address})
        eventually(partial(_knows, admin, name), within_s=30)
    return name


def _knows(admin: AdminClient, topic: str) -> bool:
    return admin.list_topics(topic, timeout=10).topics[topic].error is None


@pytest.fixture
def controller(cluster: Cluster, topic: TopicPartition) -> Iterator[SeizedController]:  # noqa: ARG001
    """Return the seized role; it goes back to a broker when the test ends."""
    seized = SeizedController(cluster.zookeeper_connect)
    eventually(seized.claim, within_s=30)
    yield seized
    seized.stop()


@pytest.fixture
def channels(controller: SeizedController, inbox: QueueInbox) -> Iterator[BrokerChannels]:
    """Return open channels to all brokers, which have heard of the new controller."""
    with_channels = BrokerChannels(inbox, ChannelOptions(CONTROLLER))
    with_channels.start()
    for broker in controller.brokers().values():
        with_channels.open(broker)
    fence(controller, with_channels, inbox)
    yield with_channels
    with_channels.stop()


def fence(controller: SeizedController, channels: BrokerChannels, inbox: QueueInbox) -> None:
    """Send every broker the controller epoch and the live brokers, and nothing else."""
    live = controller.brokers()
    for broker in live:
        channels.send(broker, UpdateMetadata(controller.epoch, (), tuple(live.values())))
    events = [inbox.next() for _ in live]
    assert {(type(e), e.error) for e in events if isinstance(e, UpdateMetadataAnswered)} == {
        (UpdateMetadataAnswered, NONE)
    }


def seen(state: LeaderAndIsrState) -> UpdateMetadataState:
    """Return a partition as clients are to see it."""
    return UpdateMetadataState(
        state.partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.replicas,
        (),
        state.topic_id,
    )


def assign(  # noqa: PLR0913, PLR0917 - who sends, and what
    controller: SeizedController,
    channels: BrokerChannels,
    inbox: QueueInbox,
    state: LeaderAndIsrState,
    new: Replicas = (),
    protocol: str = BEFORE_FEATURES,
) -> list[LeaderAndIsrAnswered]:
    """Send a state to its replicas, after everybody has seen it, and return their answers."""
    live = controller.brokers()
    for broker in live:
        metadata = UpdateMetadata(controller.epoch, (seen(state),), tuple(live.values()), protocol)
        channels.send(broker, metadata)
    for broker in state.replicas:
        sent = replace(state, is_new=broker in new)
        request = LeaderAndIsr(controller.epoch, (sent,), (live[state.leader],), protocol)
        channels.send(broker, request)
    events = [inbox.next() for _ in range(len(live) + len(state.replicas))]
    assert not [e for e in events if getattr(e, "error", NONE) != NONE]
    return [e for e in events if isinstance(e, LeaderAndIsrAnswered)]


def test_replica_is_moved_between_brokers(
    cluster: Cluster,
    topic: TopicPartition,
    controller: SeizedController,
    channels: BrokerChannels,
    inbox: QueueInbox,
) -> None:
    """Added, synchronised, made the only replica; the old one is deleted from disk."""
    expanded = replace(controller.change(topic), replicas=(ONE, TWO), adding_replicas=(TWO,))
    answers = assign(controller, channels, inbox, expanded, new=(TWO,))
    assert [r.error for a in answers for r in a.results] == [NONE, NONE]
    eventually(
        lambda: sorted(controller.state(topic)[0]["isr"]) == sorted((ONE, TWO)),
        within_s=30,
    )

    moved = controller.change(topic, leader=TWO, isr=[TWO])
    answers = assign(controller, channels, inbox, moved)
    assert [(a.broker, r.leader_epoch, r.error) for a in answers for r in a.results] == [
        (TWO, moved.leader_epoch, NONE)
    ]

    stop = StopReplicaState(topic, moved.leader_epoch, delete=True)
    channels.send(ONE, StopReplica(controller.epoch, (stop,)))
    stopped = inbox.next()
    assert isinstance(stopped, StopReplicaAnswered)
    assert [r.error for r in stopped.results] == [NONE]
    eventually(lambda: str(topic) not in cluster.replica_directories(ONE), within_s=30)
    assert str(topic) in cluster.replica_directories(TWO)


def test_leader_epoch_the_broker_has_is_a_partition_error(
    topic: TopicPartition,
    controller: SeizedController,
    channels: BrokerChannels,
    inbox: QueueInbox,
) -> None:
    """The same LeaderAndIsr again is refused for the partition, not for the request."""
    state = controller.change(topic)
    assign(controller, channels, inbox, state)
    again = assign(controller, channels, inbox, state)
    assert [(a.error, r.error) for a in again for r in a.results] == [
        (NONE, STALE_CONTROLLER_EPOCH)
    ]


def test_request_of_a_former_controller_is_refused(
    topic: TopicPartition, controller: SeizedController, channels: BrokerChannels, inbox: QueueInbox
) -> None:
    """An old controller epoch is refused as a whole, whatever the request."""
    old = ControllerEpoch(controller.epoch - 1)
    channels.send(ONE, UpdateMetadata(old, (), tuple(controller.brokers().values())))
    channels.send(ONE, LeaderAndIsr(old, (), ()))
    stop = StopReplicaState(topic, LeaderEpoch(1), delete=False)
    channels.send(ONE, StopReplica(old, (stop,)))
    events = [inbox.next() for _ in range(3)]
    assert [getattr(e, "error", None) for e in events] == [STALE_CONTROLLER_EPOCH] * 3


def test_request_for_a_former_incarnation_of_a_broker_is_refused(
    controller: SeizedController, channels: BrokerChannels, inbox: QueueInbox
) -> None:
    """A broker epoch older than its own is answered with STALE_BROKER_EPOCH (77)."""
    broker = controller.brokers()[ONE]
    channels.open(replace(broker, epoch=BrokerEpoch(broker.epoch - 1)))
    channels.send(broker.id, UpdateMetadata(controller.epoch, (), (broker,)))
    event = inbox.next()
    assert isinstance(event, UpdateMetadataAnswered)
    assert event.error == 77


@pytest.mark.parametrize(
    "protocol", [since for since, versions in BY_PROTOCOL if versions >= WITHOUT_IDS]
)
@pytest.mark.parametrize("topic_id", [None, "c29tZXRoaW5nIGVsc2UgIQ"])
def test_every_version_is_understood(  # noqa: PLR0913, PLR0917 - the fixtures
    topic: TopicPartition,
    controller: SeizedController,
    channels: BrokerChannels,
    inbox: QueueInbox,
    protocol: str,
    topic_id: str | None,
) -> None:
    """A broker takes the requests of each protocol, and its answers are understood."""
    state = replace(controller.change(topic), topic_id=topic_id)
    answers = assign(controller, channels, inbox, state, protocol=protocol)
    assert [(r.partition, r.error) for a in answers for r in a.results] == [(topic, NONE)]
    stop = StopReplicaState(state.partition, state.leader_epoch, delete=True)
    channels.send(ONE, StopReplica(controller.epoch, (stop,), protocol))
    stopped = inbox.next()
    assert isinstance(stopped, StopReplicaAnswered)
    assert [r.error for r in stopped.results] == [NONE]


def test_effective_settings_are_read_while_we_are_the_controller(
    configured: str, controller: SeizedController, channels: BrokerChannels, inbox: QueueInbox
) -> None:
    """A topic's own setting and an unknown topic, when clients can reach no controller."""
    assert channels.is_alive
    name = configured
    configs = TopicConfigQuery(inbox, ConnectionSettings())
    configs.start()
    try:
        configs.update_brokers(controller.brokers().values())
        configs.describe([name, "channels-no-such-topic"], NEVER_REQUESTED)
        event = inbox.next()
        assert isinstance(event, TopicConfigsRead)
        assert event.configs[name] == TopicConfig(2, unclean_leader_election=False)
        assert "error 3" in str(event.configs["channels-no-such-topic"])
    finally:
        configs.stop()


@pytest.mark.parametrize("others", [0, NAMED_MAX])
def test_every_broker_describes_its_replicas(
    cluster: Cluster, make_topic: MakeTopic, inbox: QueueInbox, others: int
) -> None:
    """By name, and among everything a broker has; a replica that is not there has no size."""
    topic = make_topic({0: (1, 2), 1: (3, 4), 2: (4, 5)})
    fill(cluster, [(topic, 0), (topic, 1)])
    log_dirs = BrokerLogDirs(inbox, ConnectionSettings(), MonotonicClock())
    reader = SeizedController(cluster.zookeeper_connect)
    log_dirs.start()
    sizes: dict[tuple[int, int], int] = {}
    try:
        brokers = list(reader.brokers().values())
        unknown = [TopicPartition(topic, n) for n in range(3, 4 + others)]
        wanted = [TopicPartition(topic, n) for n in range(3)] + unknown
        log_dirs.describe(brokers, wanted, is_whole=False)
        for _ in brokers:
            event = inbox.next()
            assert isinstance(event, LogDirsDescribed)
            assert event.problem is None
            sizes |= {(p.partition, event.broker): r.size for p, r in event.replicas.items()}
    finally:
        log_dirs.stop()
        reader.stop()
    assert sizes.keys() == {(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)}
    assert sizes[0, 1] > 5_000_000
    assert sizes[1, 3] > 5_000_000
    assert sizes[2, 4] == sizes[2, 5] == 0
