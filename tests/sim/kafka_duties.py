"""
The duties of Kafka's active controller: brokers, leaders, new topics, notifications, deletions.

A pass is one event of Kafka's event thread: it reads everything and carries out what is due.
Reassignments are ``kafka_reassignments``. Java's order is kept: brokers first, then elections, then
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from controller.core.leadership.leader_selection import offline_leader, preferred_leader
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import Delete
from controller.znodes import paths
from controller.znodes.topics import decode_partition_list
from tests.sim.brokers import DELETED_LEADER
from tests.sim.kafka_cluster import ControllerMoved, KafkaCluster
from tests.sim.kafka_reassignments import KafkaReassignments
from tests.sim.zookeeper import AnyOperation

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric
    from tests.sim.schedule import Scheduled

PASS_S: Final = (0.002, 0.08)


class KafkaDuties:
    """One tenure of Kafka's controller."""

    def __init__(
        self,
        broker: SimBroker,
        fabric: Fabric,
        epoch: ControllerEpoch,
        fence: ZkVersion,
        context: type[KafkaCluster] = KafkaCluster,
    ) -> None:
        self._fabric = fabric
        self._broker = broker
        self._failing_over = False
        """A take-over that had to wait for ZooKeeper."""
        self._cluster = context(broker, fabric, epoch, fence, self.wake)
        self._reassignments = KafkaReassignments(self._cluster)
        self._due: Scheduled | None = None
        self._is_over = False
        self.busy_until = 0.0
        """The time before which it serves no client because of other events."""
        self._bounced: set[BrokerId] = set()
        self._doomed: dict[str, set[tuple[BrokerId, TopicPartition]]] = {}
        """Topics being deleted, with their replicas; live ones got StopReplica."""
        self._elections: set[TopicPartition] = set()
        """Partitions for which a client requested a preferred election."""
        self._ineligible: set[str] = set()
        """Topics to be deleted, which the failover found with a replica that is not live."""

    def begin(self) -> None:
        """Take over (``onControllerFailover``)."""
        self._pass(failover=True)

    def end(self) -> None:
        """Stop for good: nothing more is written or sent."""
        self._is_over = True
        self._cluster.close()

    def write(self, operations: list[AnyOperation]) -> None:
        """
        Write for a broker that asks, and make a pass soon: the ISR may be what a move waits for.

        Raises:
            ControllerMoved: the fence did not hold, or the broker died right after this write.

        """
        self._cluster.write(operations)
        self.wake()

    def alter(self, partition: TopicPartition, target: Replicas | None) -> None:
        """Serve AlterPartitionReassignments: a new target, or None to go back."""
        self._reassignments.requested[partition] = target
        self.wake()

    def elect(self, partitions: Iterable[TopicPartition]) -> None:
        """Serve ElectLeaders: hold preferred elections."""
        self._elections.update(partitions)
        self.wake()

    def is_about_to_alter(self, partition: TopicPartition) -> bool:
        """Return whether an alter entry of the partition awaits the next pass."""
        return self._reassignments.requested.get(partition) is not None

    def wake(self) -> None:
        """Make a pass soon."""
        if self._due is None and not self._is_over:
            self._due = self._fabric.schedule.call_between(*PASS_S, self._woken)

    def _woken(self) -> None:
        self._due = None
        self._pass(failover=False)

    def _pass(self, *, failover: bool) -> None:
        if self._is_over:
            return
        if not self._broker.is_connected:
            # Kafka's event thread blocks until ZooKeeper answers again.
            self._failing_over = self._failing_over or failover
            self.wake()
            return
        failover, self._failing_over = failover or self._failing_over, False
        try:
            self._work(failover=failover)
        except ControllerMoved:
            self.end()

    def _work(self, *, failover: bool) -> None:
        cluster = self._cluster
        joined = self._brokers()
        cluster.read_topics()
        if failover:
            self._notifications()
        self._new_partitions()
        for partition in cluster.partitions():
            self._repair(partition)
        for broker in joined:
            self._introduce(broker)
        doomed = self._deletions_pending()
        self._reassignments.alter(doomed)
        self._reassignments.work(failover=failover, joined=joined, doomed=doomed)
        if not failover:
            self._notifications()
        self._preferred()
        self._deletions(failover=failover)
        cluster.flush()
        self._bounced = set()

    # --- brokers -------------------------------------------------------------------------------

    def _brokers(self) -> set[BrokerId]:
        """Compare the registrations with those known; return the brokers that joined or bounced."""
        cluster = self._cluster
        before, now = cluster.live, cluster.read_brokers()
        self._bounced = {b for b in before.keys() & now.keys() if before[b].epoch != now[b].epoch}
        gone = (before.keys() - now.keys()) | self._bounced
        joined = (now.keys() - before.keys()) | self._bounced
        cluster.live = now
        for broker in sorted(gone):
            cluster.disconnect(broker)
            cluster.offline = {(b, p) for b, p in cluster.offline if b != broker}
        for broker in sorted(joined):
            cluster.connect(now[broker])
        if gone or joined:
            cluster.publish_live_brokers()
        return joined

    def _introduce(self, broker: BrokerId) -> None:
        """Send a broker that joined all metadata and its replicas."""
        cluster = self._cluster
        for topic, replicas in list(self._doomed.items()):
            if any(r == broker for r, _ in replicas):
                # Requests from before its restart may be lost: the deletion is resumed.
                del self._doomed[topic]
        for partition in cluster.partitions():
            assignment = cluster.assignment(partition)
            cluster.publish(partition, (broker,))
            if assignment is not None and broker in assignment.replicas:
                self._ineligible.discard(partition.topic)
            if assignment is not None and broker in assignment.replicas:
                cluster.send_state(partition, (broker,))

    # --- partitions ----------------------------------------------------------------------------

    def _new_partitions(self) -> None:
        cluster = self._cluster
        for partition in cluster.partitions():
            assignment = cluster.assignment(partition)
            if assignment is None or partition in cluster.states:
                continue
            if partition.topic in self._deletions_pending():
                continue
            live = tuple(r for r in assignment.replicas if cluster.is_live(r, partition))
            if live:
                cluster.create_state(partition, live[0], live)
                cluster.send_state(partition, live, new=live)

    def _repair(self, partition: TopicPartition) -> None:
        """Elect where the leader is gone; take replicas that are gone out of the ISR."""
        cluster = self._cluster
        state, assignment = cluster.states.get(partition), cluster.assignment(partition)
        if state is None or assignment is None or partition.topic in self._doomed:
            return

        def is_gone(replica: BrokerId) -> bool:
            return not cluster.is_live(replica, partition) or replica in self._bounced

        leader = state.leader
        if leader == NO_LEADER or is_gone(leader):
            unclean = self._fabric.config(partition.topic).unclean_leader_election
            replicas, isr = assignment.replicas, state.isr
            elected = offline_leader(replicas, isr, lambda r: not is_gone(r), unclean=unclean)
            if elected is None:
                # A broker that bounced is treated as failed first, then as started.
                elected = offline_leader(
                    replicas, isr, lambda r: cluster.is_live(r, partition), unclean=unclean
                )
            leader = NO_LEADER if elected is None else elected
        isr = tuple(r for r in state.isr if not is_gone(r) or r == leader)
        if leader != NO_LEADER and leader not in isr:
            isr = (leader,)
        isr = isr or state.isr[-1:]
        if (leader, isr) == (state.leader, state.isr):
            return
        cluster.write_state(partition, leader, isr)
        live = [r for r in assignment.replicas if cluster.is_live(r, partition)]
        cluster.send_state(partition, live)

    # --- notifications, elections --------------------------------------------------------------

    def _notifications(self) -> None:
        cluster = self._cluster
        for directory in (paths.ISR_NOTIFICATIONS, paths.LOG_DIR_EVENTS):
            names = sorted(cluster.zookeeper.children(directory, cluster.watch()) or ())
            if not names:
                continue
            for partition in cluster.partitions():
                assignment = cluster.assignment(partition)
                # A replica being deleted takes no part: from there to online is no valid transition
                # (``ReplicaStateMachine``), and a LeaderAndIsr would create its log again.
                if assignment is not None and partition.topic not in self._doomed:
                    receivers = assignment.replicas if directory == paths.LOG_DIR_EVENTS else ()
                    cluster.send_state(partition, [r for r in receivers if r in cluster.live])
            cluster.write([Delete(f"{directory}/{name}", None) for name in names])

    def _preferred(self) -> None:
        cluster, requested = self._cluster, self._elections
        self._elections = set()
        self._elect(requested)
        znode = cluster.zookeeper.exists(paths.PREFERRED_ELECTION, cluster.watch())
        if znode is None:
            return
        wanted = decode_partition_list(znode.data)
        self._elect(() if isinstance(wanted, str) else wanted)
        cluster.write([Delete(paths.PREFERRED_ELECTION, None)])

    def _elect(self, wanted: Iterable[TopicPartition]) -> None:
        cluster = self._cluster
        for partition in sorted(wanted):
            assignment, state = cluster.assignment(partition), cluster.states.get(partition)
            if assignment is None or state is None or partition.topic in self._deletions_pending():
                continue
            leader = self._preferred_leader(partition, state)
            if leader is not None and leader != state.leader:
                cluster.write_state(partition, leader, state.isr)
                cluster.send_state(partition, assignment.replicas)

    def _preferred_leader(
        self, partition: TopicPartition, state: PartitionState
    ) -> BrokerId | None:
        assignment = self._cluster.assignment(partition)
        replicas = () if assignment is None else assignment.replicas
        return preferred_leader(replicas, state.isr, lambda r: self._cluster.is_live(r, partition))

    # --- deletions -----------------------------------------------------------------------------

    def _deletions_pending(self) -> tuple[str, ...]:
        zookeeper = self._cluster.zookeeper
        return tuple(sorted(zookeeper.children(paths.DELETIONS, self._cluster.watch()) or ()))

    def _deletions(self, *, failover: bool) -> None:
        """
        Delete the live replicas of topics that are queued and not moving (``onTopicDeletion``).

        Their znodes follow when all replicas are deleted.
        """
        cluster = self._cluster
        for topic in self._deletions_pending():
            read = cluster.topics.get(topic)
            if read is None:
                cluster.write([Delete(f"{paths.DELETIONS}/{topic}", None)])
                continue
            replicas = {
                (r, TopicPartition(topic, n))
                for n, assignment in read.partitions.items()
                for r in assignment.replicas
            }
            moving = any(a.is_reassigning for a in read.partitions.values())
            if failover and not all(cluster.is_live(*replica) for replica in replicas):
                self._ineligible.add(topic)
            if moving or topic in self._ineligible:
                continue
            if topic not in self._doomed:
                self._doom(topic, replicas)
            elif self._is_stopped(topic):
                self._forget(topic)

    def _doom(self, topic: str, replicas: set[tuple[BrokerId, TopicPartition]]) -> None:
        cluster = self._cluster
        self._doomed[topic] = replicas
        cluster.deleted -= replicas
        for broker, partition in sorted(replicas):
            if partition in cluster.states:
                cluster.publish_deleted(partition)
            if not cluster.is_live(broker, partition):
                continue
            cluster.stop(partition, broker, DELETED_LEADER, delete=False)
            cluster.stop(partition, broker, DELETED_LEADER, delete=True)

    def _is_stopped(self, topic: str) -> bool:
        """
        Return whether every replica's broker acknowledged the deletion.

        A broker without a log may still create one, by a request that was sent before.
        """
        return self._doomed[topic] <= self._cluster.deleted

    def _forget(self, topic: str) -> None:
        cluster = self._cluster
        root = paths.topic_path(topic)
        found = [root]
        for path in found:
            found.extend(f"{path}/{name}" for name in cluster.zookeeper.children(path) or ())
        settings = f"{paths.TOPIC_CONFIGS}/{topic}"
        has_settings = cluster.zookeeper.get(settings) is not None
        last = (*((settings,) if has_settings else ()), f"{paths.DELETIONS}/{topic}")
        cluster.write([Delete(path, None) for path in (*reversed(found), *last)])
        cluster.topics.pop(topic)
        del self._doomed[topic]
