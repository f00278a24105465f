"""
The rules about data: no acknowledged record is lost, and no log is deleted that is still needed.

The acknowledgements to producers are remembered here; the ISR comes from the znodes. An unclean
election that the settings permit takes back the promise for records that the new leader lacks, and
nothing else does: a topic may have permitted one before, or may permit one now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.model import BrokerId, PartitionState, Replicas, TopicPartition
from controller.reactor.ports import StopReplica, StopReplicaState
from controller.znodes import paths
from tests.sim.brokers import DELETED_LEADER
from tests.sim.logs import Log, Record
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.deletion_rules import DeletionRules
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge, Znodes


class DataRules:
    """The ``Witness`` of every simulation."""

    def __init__(self, fabric: Fabric, judge: Judge, znodes: Znodes) -> None:
        self._fabric = fabric
        self._judge = judge
        self._znodes = znodes
        self._committed: dict[TopicPartition, list[Record]] = {}
        self._serving: dict[TopicPartition, tuple[int, Replicas]] = {}
        """The newest leader epoch a leader accepted, and the replicas that came with it."""
        self._void_before: dict[TopicPartition, int] = {}
        """The leader epoch of the newest unclean election: leaders before it promise nothing."""
        self.deletions: DeletionRules | None = None
        """Judges the deletions of whole topics."""
        self._doomed: set[str] = set()
        """Topics whose deletion has begun: their data is no longer promised."""

    def committed(self, partition: TopicPartition) -> int:
        """Return how many records of a partition were acknowledged to producers."""
        return len(self._committed.get(partition, ()))

    def forget(self, topic: str) -> None:
        """Forget the data of a deleted topic."""
        self._doomed.discard(topic)
        for partition in [p for p in self._committed if p.topic == topic]:
            del self._committed[partition]
        for partition in [p for p in self._void_before if p.topic == topic]:
            del self._void_before[partition]
        for partition in [p for p in self._serving if p.topic == topic]:
            del self._serving[partition]

    # --- nothing acknowledged is lost ----------------------------------------------------------

    def acknowledged(
        self, partition: TopicPartition, log: Log, offset: int, leader_epoch: int
    ) -> None:
        """Remember an acknowledged record, and judge that it is safe."""
        if partition.topic in self._doomed or leader_epoch < self._void_before.get(partition, 0):
            return
        committed = self._committed.setdefault(partition, [])
        self._judge.applies(Rule.ACKNOWLEDGED_ONCE)
        if offset < len(committed):
            # A former leader may acknowledge late what its successor has committed already.
            if log.records[offset] != committed[offset]:
                self._judge.fail(f"{partition}: two leaders acknowledged offset {offset}")
        elif log.holds(committed):
            committed += log.records[len(committed) : offset + 1]
        else:
            self._judge.fail(f"{partition}: the leader lacks some of {len(committed)} records")
        self.nothing_is_lost(partition)

    def elected_uncleanly(self, partition: TopicPartition, after: PartitionState) -> None:
        """Take back the promise of what a leader elected uncleanly, and permitted so, lacks."""
        self._void_before[partition] = after.leader_epoch
        committed = self._committed.get(partition, [])
        log = self._fabric.brokers[after.leader].logs.get(partition)
        held = [] if log is None else log.records
        kept = min(len(committed), len(held))
        while kept and committed[kept - 1] != held[kept - 1]:
            kept -= 1
        del committed[kept:]

    def truncated(self, broker: BrokerId, partition: TopicPartition) -> None:
        """Judge that a truncation loses nothing."""
        self._judge.note(f"{partition}: broker {broker} truncated its log")
        self.nothing_is_lost(partition)

    def nothing_is_lost(self, partition: TopicPartition) -> None:
        """Judge that every member of the ISR, dead or alive, holds every acknowledged record."""
        state, committed = self._znodes.states.get(partition), self._committed.get(partition)
        if state is None or not committed:
            return
        if partition.topic in self._doomed:
            return
        for member in state.isr:
            log = self._fabric.brokers[member].copy(partition)
            self._judge.applies(Rule.NOTHING_LOST)
            if log is None or not log.holds(committed):
                self._judge.fail(
                    f"{partition}: ISR member {member} lacks some of {len(committed)} "
                    "acknowledged records"
                )

    # --- no log is deleted that is still needed ------------------------------------------------

    def leader_accepted(
        self, broker: BrokerId, partition: TopicPartition, leader_epoch: int, replicas: Replicas
    ) -> None:
        """Remember which replicas the newest leader knows of."""
        self._judge.note(f"{partition}: {broker} leads at {leader_epoch} with {replicas}")
        self._bounced_leads_anew(broker, partition, leader_epoch)
        if leader_epoch >= self._serving.get(partition, (-1, ()))[0]:
            self._serving[partition] = (leader_epoch, replicas)

    def _bounced_leads_anew(
        self, broker: BrokerId, partition: TopicPartition, leader_epoch: int
    ) -> None:
        """Judge that a broker that restarted in a tenure, and may lack records, leads anew only."""
        leader = self._fabric.brokers[broker]
        claimed = self._znodes.claims.get(leader.controller_epoch)
        epoch, led_since = self._znodes.led_since.get(partition, (-1, 0))
        is_dying = self._fabric.zookeeper.get(f"{paths.DELETIONS}/{partition.topic}") is not None
        if claimed is None or leader.epoch <= claimed or leader_epoch != epoch or is_dying:
            return
        self._judge.ensure(
            led_since > leader.epoch,
            f"{partition}: broker {broker} registered anew at {leader.epoch}, after the claim at "
            f"{claimed}, and still leads at epoch {epoch} of {led_since}",
            Rule.BOUNCED_LEADS_ANEW,
        )

    def deleted(self, broker: BrokerId, partition: TopicPartition, leader_epoch: int) -> None:
        """Judge that no replica needs a log that a controller had deleted."""
        self._judge.note(f"{partition}: broker {broker} deleted its log ({leader_epoch})")
        state = self._znodes.states.get(partition)
        if leader_epoch == DELETED_LEADER:
            self._doomed.add(partition.topic)
        if partition.topic in self._doomed or state is None:
            return
        # Of Kafka's controllers, a request of a former topic may wait until the name is used again:
        # before Kafka 2.6 nothing fences it (KIP-570).
        is_daemons = self._fabric.brokers[broker].controller_epoch in self._znodes.claims
        if not (is_daemons or self._fabric.fences_stop_replica):
            return
        self._judge.ensure(
            broker not in state.isr,
            f"{partition}: the log of ISR member {broker} was deleted",
            Rule.ISR_MEMBER_KEPT,
        )

    def daemon_stops(self, broker: BrokerId, request: StopReplica) -> None:
        """Judge a StopReplica of the daemon, unless it is deposed: brokers refuse that one."""
        if request.controller_epoch == self._znodes.epoch:
            if self.deletions is not None:
                self.deletions.stops(broker, request)
            for stop in request.states:
                if stop.delete and stop.leader_epoch != DELETED_LEADER:
                    self._only_excluded_is_deleted(broker, stop)

    def _only_excluded_is_deleted(self, broker: BrokerId, stop: StopReplicaState) -> None:
        """Judge that the daemon deletes only what the newest leader knows to be excluded."""
        partition = stop.partition
        state, assignment = self._znodes.states.get(partition), self._znodes.assignment(partition)
        if state is None or assignment is None:
            return
        self._judge.ensure(
            broker not in state.isr,
            f"{partition}: the daemon deletes replica {broker}, which is in ISR {state.isr}",
            Rule.DELETES_NONE_IN_ISR,
        )
        hosted = self._fabric.brokers[broker].hosted.get(partition)
        # One request is under way at a time: a stop from before the replica was added again
        # arrives first.
        is_old = broker in assignment.adding_replicas and (
            hosted is None or hosted.leader_epoch <= stop.leader_epoch
        )
        if is_old:
            return
        self._judge.ensure(
            broker not in assignment.target_replicas,
            f"{partition}: the daemon deletes replica {broker}, which is to stay: {assignment}",
            Rule.DELETES_NONE_TO_STAY,
        )
        epoch, replicas = self._serving.get(partition, (-1, ()))
        self._judge.ensure(
            epoch >= 0 and broker not in replicas,
            f"{partition}: the daemon deletes replica {broker}, but the leader of epoch {epoch} "
            f"counts it among {replicas}",
            Rule.DELETES_ONLY_EXCLUDED,
        )
