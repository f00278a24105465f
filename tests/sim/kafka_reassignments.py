"""
Reassignment by Kafka's controller (2.4 and later): phases of ``onPartitionReassignment``.

Phase B runs to its end in one event, as Kafka's does; the controller may die between two of its
writes. Known weaknesses are kept: B4 removes dropped replicas from the ISR one by one, whatever
the result of B3's election, and StopReplica is sent without waiting for acknowledgements.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from controller.core.leadership.leader_selection import reassigned_leader
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.reactor.ports import Delete
from controller.znodes import paths
from controller.znodes.plans import decode_legacy_plan, encode_legacy_plan
from tests.sim.zookeeper import Put

if TYPE_CHECKING:
    from tests.sim.kafka_cluster import KafkaCluster


def _distinct(replicas: Replicas) -> Replicas:
    return tuple(dict.fromkeys(replicas))


class KafkaReassignments:
    """The partitions being reassigned in one tenure of Kafka's controller."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._started: set[TopicPartition] = set()
        """Partitions that went through phase A in this tenure."""
        self.requested: dict[TopicPartition, Replicas | None] = {}
        """The entries of AlterPartitionReassignments requests since the last pass."""
        self._plan: int | None = None
        """The czxid of the legacy znode that was dealt with: only its creation counts."""

    def work(self, *, failover: bool, joined: set[BrokerId], doomed: Collection[str]) -> None:
        """Advance every reassigning partition as far as it goes."""
        self._take_plan(doomed)
        cluster = self._cluster
        for partition in cluster.partitions():
            stored = cluster.topics[partition.topic].partitions[partition.partition]
            if not stored.is_reassigning or partition not in cluster.states:
                continue
            if not joined.isdisjoint(stored.target_replicas) and not failover:
                self._started.discard(partition)
            while self._advance(partition, stored, cluster.states[partition]):
                pass

    def alter(self, doomed: Collection[str]) -> None:
        """Begin the requested reassignments, without those that Kafka refuses (KIP-455)."""
        requested, self.requested = self.requested, {}
        cluster = self._cluster
        for partition, wanted in requested.items():
            topic = cluster.topics.get(partition.topic)
            stored = None if topic is None else topic.partitions.get(partition.partition)
            if stored is None or partition.topic in doomed or partition not in cluster.states:
                continue
            if wanted is None and not stored.is_reassigning:
                continue
            target = stored.origin_replicas if wanted is None else wanted
            if not all(r in cluster.live or r in stored.replicas for r in target):
                continue
            self._entry_done(partition, None)
            self._begin(partition, stored, target)

    # --- the legacy znode ----------------------------------------------------------------------

    def _entries(self) -> tuple[int, dict[TopicPartition, Replicas]] | None:
        zookeeper = self._cluster.zookeeper
        znode = zookeeper.exists(paths.LEGACY_PLAN, self._cluster.watch())
        if znode is None:
            return None
        plan = decode_legacy_plan(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
        return znode.czxid, dict(plan.entries)

    def _take_plan(self, doomed: Collection[str]) -> None:
        """Start what a new legacy znode lists; entries of unknown and doomed partitions go."""
        found = self._entries()
        if found is None or found[0] == self._plan:
            return
        self._plan, entries = found
        for partition, target in entries.items():
            topic = self._cluster.topics.get(partition.topic)
            stored = None if topic is None else topic.partitions.get(partition.partition)
            known = partition in self._cluster.states and partition.topic not in doomed
            if stored is None or not known:
                self._entry_done(partition, None)
            elif stored.is_reassigning or stored.replicas != target:
                self._begin(partition, stored, target)
            else:
                self._entry_done(partition, target)

    def _begin(
        self, partition: TopicPartition, stored: PartitionAssignment, target: Replicas
    ) -> None:
        """U1 (and U3, where a reassignment is replaced)."""
        cluster = self._cluster
        origin = stored.origin_replicas
        replicas = _distinct(target + origin)
        adding = tuple(r for r in replicas if r not in origin)
        removing = tuple(r for r in replicas if r not in target)
        dropped = tuple(r for r in stored.replicas if r not in replicas)
        if set(cluster.states[partition].isr) <= set(dropped):
            # Kafka would delete the last replicas in sync here, and their data with them: the added
            # replicas have taken over, and the original ones are no longer in sync. Such entries of
            # other clients are skipped; those of the daemon are judged (``alter_rules``).
            return
        cluster.moved.discard(partition)
        self._started.discard(partition)
        cluster.write_assignment(partition, PartitionAssignment(replicas, adding, removing))
        state = cluster.states[partition]
        isr = tuple(r for r in state.isr if r not in dropped)
        if isr != state.isr and isr:
            leader = state.leader if state.leader in isr else isr[0]
            cluster.write_state(partition, leader, isr)
            cluster.send_state(partition, replicas)
        self._stop(partition, dropped)
        if not adding and not removing:
            # Only the order changes: straight to B, with an epoch bump and no change of the leader.
            cluster.write_state(partition, cluster.states[partition].leader, isr or state.isr)
            cluster.send_state(partition, replicas)
            self._entry_done(partition, target)

    def _entry_done(self, partition: TopicPartition, target: Replicas | None) -> None:
        """B7: take the entry out if it has exactly these replicas; the last one takes the node."""
        found = self._entries()
        if found is None or (target is not None and found[1].get(partition) != target):
            return
        entries = found[1]
        entries.pop(partition, None)
        if entries:
            self._cluster.write([Put(paths.LEGACY_PLAN, encode_legacy_plan(entries))])
        else:
            self._cluster.write([Delete(paths.LEGACY_PLAN, None)])

    # --- phases A and B ------------------------------------------------------------------------

    def _advance(
        self, partition: TopicPartition, stored: PartitionAssignment, state: PartitionState
    ) -> bool:
        """Do the next step; whether another is due at once."""
        cluster = self._cluster
        target = stored.target_replicas
        if partition in cluster.moved:
            return self._shrink(partition, stored, state)
        if set(target) <= set(state.isr):
            self._move_leader(partition, target, state)
            return True
        if partition not in self._started:
            self._started.add(partition)
            cluster.write_state(partition, state.leader, state.isr)
            # Kafka's controller calls members of the ISR new, too; the loss is not simulated.
            new = tuple(r for r in stored.adding_replicas if r not in state.isr)
            cluster.send_state(partition, stored.replicas, new=new)
        return False

    def _move_leader(
        self, partition: TopicPartition, target: Replicas, state: PartitionState
    ) -> None:
        """B2, B3."""
        cluster = self._cluster
        cluster.moved.add(partition)
        leader: BrokerId | None = state.leader
        if state.leader not in target or not cluster.is_live(state.leader, partition):
            leader = reassigned_leader(target, state.isr, lambda r: cluster.is_live(r, partition))
        if leader is not None:
            cluster.write_state(partition, leader, state.isr)
            cluster.send_state(partition, target)

    def _shrink(
        self, partition: TopicPartition, stored: PartitionAssignment, state: PartitionState
    ) -> bool:
        """B4 for one replica, or, when none is left in the ISR, B5 to B8."""
        cluster = self._cluster
        target = stored.target_replicas
        present = [r for r in stored.removing_replicas if r in state.isr]
        if present and len(state.isr) > 1:
            leader = NO_LEADER if state.leader == present[0] else state.leader
            cluster.write_state(partition, leader, tuple(r for r in state.isr if r != present[0]))
            cluster.send_state(partition, target)
            return True
        self._stop(partition, stored.removing_replicas)
        cluster.write_assignment(partition, PartitionAssignment(target))
        cluster.moved.discard(partition)
        self._started.discard(partition)
        self._entry_done(partition, target)
        cluster.publish(partition, cluster.live)
        return False

    def _stop(self, partition: TopicPartition, replicas: Replicas) -> None:
        """B4, B5: stop, then delete, without waiting for the responses."""
        epoch = self._cluster.states[partition].leader_epoch
        for broker in replicas:
            self._cluster.stop(partition, broker, epoch, delete=False)
            self._cluster.stop(partition, broker, epoch, delete=True)
