"""
The rules about partition states: leader and ISR, epochs, and who may write what.

Those that Kafka's own controller breaks by design apply to the daemons only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.core.model import (
    NO_LEADER,
    BrokerId,
    PartitionState,
    TopicPartition,
)
from controller.reactor.ports import Check
from controller.znodes import paths
from tests.sim.decoded import read_state
from tests.sim.zookeeper import NOBODY, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge, Znodes
    from tests.sim.record_rules import RecordRules

KNOWN_S: Final = 20.0
"""A broker that came or went so recently may be taken for dead by a daemon that was paused."""


class StateRules:
    """What has to be remembered to judge the states."""

    def __init__(
        self,
        fabric: Fabric,
        judge: Judge,
        znodes: Znodes,
        records: RecordRules,
        daemons: set[int],
    ) -> None:
        self._fabric = fabric
        self._judge = judge
        self._znodes = znodes
        self._records = records
        self._daemons = daemons
        self._writers: dict[int, int] = {}
        """Which session wrote states with a controller epoch."""
        self._moved_at: dict[BrokerId, float] = {}
        """When a broker's registration last came or went."""

    def broker_moved(self, broker: BrokerId) -> None:
        """Take note that a registration came or went."""
        self._moved_at[broker] = self._fabric.schedule.now()

    def written(
        self, transaction: Transaction, partition: TopicPartition, written: Written
    ) -> None:
        """Judge a state by who wrote it."""
        before = self._znodes.states.pop(partition, None)
        if written.after is None:
            return
        after = read_state(written.after)
        if isinstance(after, str):
            vandalized = transaction.session == NOBODY
            self._judge.ensure(vandalized, f"{written.path} cannot be read: {after}")
            return
        self._znodes.states[partition] = after
        self._judge.ensure(bool(after.isr), f"{partition}: empty ISR")
        self._judge.ensure(
            after.leader == NO_LEADER or after.leader in after.isr,
            f"{partition}: leader {after.leader} is not in ISR {after.isr}",
        )
        fenced = any(
            isinstance(op, Check) and op.path == paths.CONTROLLER_EPOCH
            for op in transaction.operations
        )
        if fenced:
            self._written_by_controller(transaction, partition, before, after)
        elif before is not None:
            self._written_by_leader(transaction, partition, before, after)

    def _written_by_controller(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        before: PartitionState | None,
        after: PartitionState,
    ) -> None:
        writer = self._writers.setdefault(after.controller_epoch, transaction.session)
        self._judge.ensure(
            writer == transaction.session,
            f"{partition}: two writers with controller epoch {after.controller_epoch}",
        )
        self._judge.ensure(
            after.controller_epoch == self._znodes.epoch,
            f"{partition}: written with controller epoch {after.controller_epoch}, "
            f"the present one is {self._znodes.epoch}",
        )
        expected = 0 if before is None else before.leader_epoch + 1
        self._judge.ensure(
            after.leader_epoch == expected,
            f"{partition}: leader epoch {after.leader_epoch} instead of {expected}",
        )
        if before is None:
            return
        unclean = self._fabric.config(partition.topic).unclean_leader_election
        self._judge.ensure(
            unclean or set(after.isr) <= set(before.isr),
            f"{partition}: a controller grew the ISR from {before.isr} to {after.isr}",
        )
        if transaction.session in self._daemons:
            self._within_replicas(partition, after)
            self._above_floor(partition, before, after)

    def _written_by_leader(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) -> None:
        kept = (after.leader, after.leader_epoch, after.controller_epoch)
        self._judge.ensure(
            kept == (before.leader, before.leader_epoch, before.controller_epoch),
            f"{partition}: a broker wrote {after} over {before}",
        )
        writer = self._fabric.brokers[after.leader].session_id
        self._judge.ensure(
            writer == transaction.session, f"{partition}: ISR written by another than its leader"
        )
        added = set(after.isr) - set(before.isr)
        self._judge.ensure(
            added <= set(self._znodes.replicas(partition)),
            f"{partition}: {sorted(added)} entered the ISR, replicas are "
            f"{self._znodes.replicas(partition)}",
        )

    def _within_replicas(self, partition: TopicPartition, after: PartitionState) -> None:
        self._judge.ensure(
            set(after.isr) <= set(self._znodes.replicas(partition)),
            f"{partition}: the daemon wrote ISR {after.isr}, "
            f"replicas are {self._znodes.replicas(partition)}",
        )

    def _above_floor(
        self, partition: TopicPartition, before: PartitionState, after: PartitionState
    ) -> None:
        """The daemon never takes a live replica out of an ISR that is too small without it."""
        assignment = self._znodes.assignment(partition)
        if assignment is None:
            return
        wanted = self._fabric.config(partition.topic).min_insync_replicas
        final = self._records.target_of(partition) or assignment.target_replicas
        floor = min(wanted, len(final))
        dropped = [r for r in before.isr if r not in after.isr and self._was_live(r, partition)]
        self._judge.ensure(
            not dropped or len(after.isr) >= floor,
            f"{partition}: live replicas {dropped} left the ISR {before.isr}, which is below "
            f"{floor} now: {after.isr}",
        )

    def _was_live(self, broker_id: BrokerId, partition: TopicPartition) -> bool:
        """Whether no controller could take the replica for dead, however late its news."""
        broker = self._fabric.brokers.get(broker_id)
        if broker is None or self.may_seem_dead(broker_id):
            return False
        log = broker.logs.get(partition)
        return log is not None and log.is_online

    def may_seem_dead(self, broker: BrokerId) -> bool:
        """Whether a controller may take a broker for dead, its news being late."""
        since = self._fabric.schedule.now() - self._moved_at.get(broker, -KNOWN_S)
        return since < KNOWN_S or self._fabric.zookeeper.get(paths.broker_path(broker)) is None
