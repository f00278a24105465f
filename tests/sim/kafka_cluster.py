"""
The state of an active Kafka controller, and its writes and requests.

No decisions are made here. Reads are of the whole cluster and immediate; every write is a
transaction led by a check of ``/controller_epoch``; what is sent is gathered and flushed per pass,
LeaderAndIsr first, then UpdateMetadata, then StopReplica, as ``ControllerBrokerRequestBatch`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from controller import kafka_errors
from controller.core.cluster.model import BEFORE_FEATURES, LiveBroker
from controller.core.leadership.model import RECOVERING
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.reactor.ports import (
    BrokerRequest,
    Check,
    LeaderAndIsr,
    LeaderAndIsrState,
    SetData,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
    UpdateMetadataState,
)
from controller.znodes import paths
from controller.znodes.brokers_and_controller import decode_broker
from controller.znodes.topics import encode_state, encode_topic
from tests.sim.brokers import DELETED_LEADER
from tests.sim.decoded import read_state, read_topic
from tests.sim.links import Link
from tests.sim.zookeeper import (
    AnyOperation,
    Make,
    Put,
    SessionExpiredError,
    TransactionFailedError,
    Watch,
)

if TYPE_CHECKING:
    from tests.sim.brokers import Answer, SimBroker
    from tests.sim.fabric import Fabric


class ControllerMoved(Exception):  # noqa: N818 - Kafka's name
    """A write was refused because a newer controller exists, or the session is gone."""


class KafkaCluster:
    """The controller context of one active controller."""

    def __init__(
        self,
        broker: SimBroker,
        fabric: Fabric,
        epoch: ControllerEpoch,
        fence: ZkVersion,
        wake: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        self.live: dict[BrokerId, LiveBroker] = {}
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.offline: set[tuple[BrokerId, TopicPartition]] = set()
        self.deleted: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas whose deletion was acknowledged; a new request needs a new acknowledgement."""
        self.moved: set[TopicPartition] = set()
        """Partitions whose replicas are, in memory, already their target (B2)."""
        self.zookeeper = fabric.zookeeper
        self._fabric = fabric
        self._broker = broker
        self._fence = fence
        self._wake = wake
        self._links: dict[BrokerId, Link] = {}
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, LeaderAndIsrState]] = {}
        self._metadata: dict[BrokerId, dict[TopicPartition, UpdateMetadataState]] = {}
        self._stops: dict[BrokerId, list[StopReplicaState]] = {}

    # --- reading -------------------------------------------------------------------------------

    def watch(self) -> Watch | None:
        """Return a watch that wakes the controller."""
        session = self._broker.session
        return None if session is None else session.watch(f"kafka {self.epoch}", self._wake)

    def read_brokers(self) -> dict[BrokerId, LiveBroker]:
        """Read the registrations."""
        found: dict[BrokerId, LiveBroker] = {}
        for name in sorted(self.zookeeper.children(paths.BROKER_IDS, self.watch()) or ()):
            broker = BrokerId(int(name))
            znode = self.zookeeper.get(paths.broker_path(broker))
            if znode is not None:
                read = decode_broker(broker, znode.data, Zxid(znode.czxid))
                if isinstance(read, LiveBroker):
                    found[broker] = read
        return found

    def read_topics(self) -> None:
        """Read all topics and states."""
        self.topics, self.states = {}, {}
        for name in sorted(self.zookeeper.children(paths.TOPICS, self.watch()) or ()):
            znode = self.zookeeper.get(paths.topic_path(name), self.watch())
            if znode is None:
                continue
            read = read_topic(znode)
            if isinstance(read, str):
                continue
            self.topics[name] = read = self._with_id(name, read)
            for number, assignment in read.partitions.items():
                partition = TopicPartition(name, number)
                watch = self.watch() if assignment.is_reassigning else None
                self._read_state(partition, watch)

    def _with_id(self, name: str, read: TopicAssignment) -> TopicAssignment:
        """Write the id of a topic that has none (``KafkaController.processTopicIds``)."""
        if read.topic_id is not None or not self._fabric.has_topic_ids:
            return read
        named = replace(read, topic_id=f"k{self.zookeeper.zxid:021}")
        self.write([Put(paths.topic_path(name), encode_topic(named))])
        return named

    def _read_state(self, partition: TopicPartition, watch: Watch | None) -> None:
        znode = self.zookeeper.get(paths.state_path(partition), watch)
        if znode is not None:
            read = read_state(znode)
            if not isinstance(read, str):
                self.states[partition] = read

    def partitions(self) -> list[TopicPartition]:
        """Return every partition of every topic."""
        return [TopicPartition(t, n) for t, read in self.topics.items() for n in read.partitions]

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return a partition's assignment as the controller holds it in memory."""
        topic = self.topics.get(partition.topic)
        assignment = None if topic is None else topic.partitions.get(partition.partition)
        if assignment is not None and partition in self.moved:
            return PartitionAssignment(assignment.target_replicas)
        return assignment

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether a replica is on a live broker and a good disk."""
        return broker in self.live and (broker, partition) not in self.offline

    # --- writing -------------------------------------------------------------------------------

    def write(self, operations: list[AnyOperation]) -> None:
        """
        Write under the fence.

        Raises:
            ControllerMoved: the fence did not hold, or the broker died right after this write.

        """
        check = Check(paths.CONTROLLER_EPOCH, self._fence)
        try:
            self.zookeeper.transact(self._broker.session_id, [check, *operations])
        except (TransactionFailedError, SessionExpiredError) as error:
            raise ControllerMoved from error
        if self._fabric.schedule.random.random() < self._fabric.kafka_crash_rate:
            self._fabric.strike("kafka_controller_dies")
            self._fabric.schedule.call_in(0.0, self._broker.kill)
            raise ControllerMoved

    def write_state(self, partition: TopicPartition, leader: BrokerId, isr: Replicas) -> None:
        """Set a state: always with the next leader epoch."""
        before = self.states[partition]
        is_marked = self._fabric.marks_recovery and not set(isr) <= set(before.isr)
        after = PartitionState(
            leader=leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + 1),
            isr=isr,
            controller_epoch=self.epoch,
            version=ZkVersion(before.version + 1),
            leader_recovery_state=RECOVERING if is_marked else before.leader_recovery_state,
        )
        self.write([SetData(paths.state_path(partition), _encode(after), before.version)])
        self.states[partition] = after
        self._read_state(partition, self.watch())

    def create_state(self, partition: TopicPartition, leader: BrokerId, isr: Replicas) -> None:
        """Make the first state of a partition."""
        state = PartitionState(leader, LeaderEpoch(0), isr, self.epoch, ZkVersion(0))
        parent = paths.partitions_path(partition.topic)
        for path in (parent, f"{parent}/{partition.partition}"):
            if self.zookeeper.get(path) is None:
                self.write([Make(path)])
        self.write([Make(paths.state_path(partition), _encode(state))])
        self.states[partition] = state

    def write_assignment(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        """Rewrite the topic znode, whatever its version, as Kafka does."""
        topic = self.topics[partition.topic]
        partitions = {**topic.partitions, partition.partition: assignment}
        after = TopicAssignment(partitions, topic.version, topic.czxid, topic.topic_id)
        self.write([Put(paths.topic_path(partition.topic), encode_topic(after))])
        self.topics[partition.topic] = after

    # --- sending -------------------------------------------------------------------------------

    def connect(self, broker: LiveBroker) -> None:
        """Open the connection to a broker that registered."""
        self.disconnect(broker.id)
        sender = self._broker.kafka_endpoint
        self._links[broker.id] = Link(self._fabric, broker.id, broker.epoch, sender=sender)

    def disconnect(self, broker: BrokerId) -> None:
        """Close the connection to a broker that is gone."""
        link = self._links.pop(broker, None)
        if link is not None:
            link.close()

    def send_state(
        self, partition: TopicPartition, brokers: Iterable[BrokerId], new: Replicas = ()
    ) -> None:
        """Gather a LeaderAndIsr for these brokers and an UpdateMetadata for all."""
        assignment, state = self.assignment(partition), self.states.get(partition)
        if assignment is None or state is None:
            return
        for broker in brokers:
            if broker in self._links:
                batch = self._leader_and_isr.setdefault(broker, {})
                batch[partition] = LeaderAndIsrState(
                    partition=partition,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=state.version,
                    replicas=assignment.replicas,
                    adding_replicas=assignment.adding_replicas,
                    removing_replicas=assignment.removing_replicas,
                    is_new=broker in new,
                    topic_id=self.topics[partition.topic].topic_id,
                    leader_recovery_state=state.leader_recovery_state,
                )
        self.publish(partition, self._links)

    def publish(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Gather an UpdateMetadata of a partition."""
        assignment, state = self.assignment(partition), self.states.get(partition)
        if assignment is None or state is None:
            return
        leader = state.leader if self.is_live(state.leader, partition) else NO_LEADER
        self._publish(partition, assignment.replicas, state, leader, brokers)

    def publish_deleted(self, partition: TopicPartition) -> None:
        """Gather an UpdateMetadata that takes a partition out of the brokers' caches."""
        leader = BrokerId(DELETED_LEADER)
        self._publish(partition, (), self.states[partition], leader, self._links)

    def _publish(
        self,
        partition: TopicPartition,
        replicas: Replicas,
        state: PartitionState,
        leader: BrokerId,
        brokers: Iterable[BrokerId],
    ) -> None:
        seen = UpdateMetadataState(
            partition=partition,
            controller_epoch=state.controller_epoch,
            leader=leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.version,
            replicas=replicas,
            offline_replicas=(),
            topic_id=self.topics[partition.topic].topic_id,
        )
        for broker in brokers:
            self._metadata.setdefault(broker, {})[partition] = seen

    def stop(
        self, partition: TopicPartition, broker: BrokerId, epoch: int, *, delete: bool
    ) -> None:
        """Gather a StopReplica."""
        if broker in self._links:
            state = StopReplicaState(partition, LeaderEpoch(epoch), delete)
            self._stops.setdefault(broker, []).append(state)

    def publish_live_brokers(self) -> None:
        """Send every broker the live brokers, ahead of everything gathered."""
        for broker in self._links:
            self._send(broker, UpdateMetadata(self.epoch, (), tuple(self.live.values())))

    def flush(self) -> None:
        """Send what was gathered."""
        live = tuple(self.live.values())
        has_ids = self._fabric.schedule.now() >= self._fabric.ids_sent_from
        protocol = self._fabric.protocol if has_ids else BEFORE_FEATURES
        for broker, states in self._leader_and_isr.items():
            self._send(broker, LeaderAndIsr(self.epoch, tuple(states.values()), live, protocol))
        for broker, seen in self._metadata.items():
            self._send(broker, UpdateMetadata(self.epoch, tuple(seen.values()), live))
        for broker, stops in self._stops.items():
            for delete in (False, True):
                chosen = tuple(s for s in stops if s.delete is delete)
                if chosen:
                    self._send(broker, StopReplica(self.epoch, chosen))
        self._leader_and_isr, self._metadata, self._stops = {}, {}, {}

    def close(self) -> None:
        """Close every connection."""
        for broker in list(self._links):
            self.disconnect(broker)

    def _send(self, broker: BrokerId, request: BrokerRequest) -> None:
        link = self._links.get(broker)
        if link is None:
            return

        def answered(answer: Answer, _resent: bool) -> None:  # noqa: FBT001 - a callback
            if isinstance(request, LeaderAndIsr):
                self._learn_disks(broker, answer)
            elif isinstance(request, StopReplica):
                self._learn_deletions(broker, request, answer)

        link.send(request, answered)

    def _learn_deletions(self, broker: BrokerId, request: StopReplica, answer: Answer) -> None:
        requested = {s.partition for s in request.states if s.delete}
        done = (p for p, error in answer.results if p in requested and error == kafka_errors.NONE)
        self.deleted.update((broker, partition) for partition in done)
        self._wake()

    def _learn_disks(self, broker: BrokerId, answer: Answer) -> None:
        for partition, error in answer.results:
            replica = (broker, partition)
            if error == kafka_errors.KAFKA_STORAGE_ERROR and replica not in self.offline:
                self.offline.add(replica)
                self._wake()
            elif error == kafka_errors.NONE:
                self.offline.discard(replica)


def _encode(state: PartitionState) -> bytes:
    return encode_state(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        controller_epoch=state.controller_epoch,
        leader_recovery_state=state.leader_recovery_state,
    )
