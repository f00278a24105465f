"""
What must hold in every simulated history, judged with every ZooKeeper transaction.

The rules see effects only and know nothing of the daemon's memory. Those that Kafka's own
controller breaks by design apply to the daemon only, which is told by the sessions that took
``/controller`` with an id that is no broker's. The rules about data are ``data_rules``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.core.model import (
    NO_LEADER,
    BrokerId,
    PartitionAssignment,
    PartitionState,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.reactor.ports import Check
from controller.znodes import paths
from controller.znodes.controllers import decode_controller
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.states import decode_state
from controller.znodes.topics import decode_topic
from tests.sim.data_rules import DataRules
from tests.sim.judges import Judge, Znodes
from tests.sim.zookeeper import NOBODY, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric

KNOWN_S: Final = 20.0
"""A broker that came or went so recently may be taken for dead by a daemon that was paused."""


class Invariants:
    """The rules about znodes, and what has to be remembered to judge them."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._znodes = Znodes()
        self._judge = Judge(fabric.schedule)
        self._data = DataRules(fabric, self._judge, self._znodes)
        self._writers: dict[int, int] = {}
        """Which session wrote states with a controller epoch."""
        self._daemons: set[int] = set()
        self._moved_at: dict[BrokerId, float] = {}
        """When a broker's registration last came or went."""
        fabric.witnesses.append(self._data)
        fabric.zookeeper.listeners.append(self.transacted)

    @property
    def checks(self) -> int:
        """Rules applied so far."""
        return self._judge.checks

    def committed(self, partition: TopicPartition) -> int:
        """Return how many records of a partition producers were told to be safe."""
        return self._data.committed(partition)

    # --- ZooKeeper -----------------------------------------------------------------------------

    def transacted(self, transaction: Transaction) -> None:
        """Judge a transaction: topics first, since states are judged by what they say now."""
        self._judge.note(transaction)
        states: list[tuple[TopicPartition, Written]] = []
        topics: list[tuple[str, Written]] = []
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic]:
                    topics.append((topic, written))
                case ["brokers", "topics", topic, "partitions", number, "state"]:
                    states.append((TopicPartition(topic, int(number)), written))
                case [*parts]:
                    self._other_written(transaction, parts, written)
        for topic, written in topics:
            self._topic_written(transaction, topic, written)
        for partition, written in states:
            self._state_written(transaction, partition, written)
        for topic, _ in topics:
            if transaction.session in self._daemons:
                self._isr_within_replicas(topic)

    def _other_written(self, transaction: Transaction, parts: list[str], written: Written) -> None:
        match parts:
            case ["controller_epoch"]:
                self._epoch_moved(written)
            case ["controller"]:
                self._controller_changed(written)
            case ["brokers", "ids", name]:
                self._moved_at[BrokerId(int(name))] = self._fabric.schedule.now()
            case ["admin", "reassign_partitions"]:
                self._plan_written(transaction, written)
            case _:
                pass

    def _unreadable(self, transaction: Transaction, written: Written, why: str) -> None:
        """Only a test that plays the vandal writes garbage."""
        vandalized = transaction.session == NOBODY
        self._judge.ensure(vandalized, f"{written.path} cannot be read: {why}")

    def _epoch_moved(self, written: Written) -> None:
        before = 0 if written.before is None else int(written.before.data)
        after = 0 if written.after is None else int(written.after.data)
        self._judge.ensure(
            written.before is None or after == before + 1,
            f"/controller_epoch went from {before} to {after}",
        )
        self._znodes.epoch = after

    def _controller_changed(self, written: Written) -> None:
        if written.after is None:
            return
        read = decode_controller(written.after.data)
        if not isinstance(read, str) and read.broker_id not in self._fabric.brokers:
            self._daemons.add(written.after.ephemeral_owner)

    def _plan_written(self, transaction: Transaction, written: Written) -> None:
        if written.after is None or transaction.session not in self._daemons:
            return
        plan = decode_legacy_plan(written.after.data, ZkVersion(0), Zxid(0))
        self._judge.ensure(
            plan.unreadable is None and not plan.refused,
            "the daemon wrote a plan that Kafka would reject",
        )

    # --- topics --------------------------------------------------------------------------------

    def _topic_written(self, transaction: Transaction, topic: str, written: Written) -> None:
        before = self._znodes.topics.get(topic)
        if written.after is None:
            self._znodes.topics.pop(topic, None)
            self._data.forget(topic)
            return
        znode = written.after
        after = decode_topic(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
        if isinstance(after, str):
            self._unreadable(transaction, written, after)
            self._znodes.topics.pop(topic, None)
            return
        self._znodes.topics[topic] = after
        if before is None:
            return
        missing = before.partitions.keys() - after.partitions.keys()
        self._judge.ensure(not missing, f"{topic} lost partitions {sorted(missing)}")
        self._judge.ensure(before.topic_id == after.topic_id, f"{topic} got another topic id")
        for number, assignment in after.partitions.items():
            partition = TopicPartition(topic, number)
            self._well_formed(partition, assignment)
            old = before.partitions.get(number)
            if old is not None and old != assignment and transaction.session in self._daemons:
                self._dropped_are_gone(partition, old, assignment)

    def _well_formed(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        replicas = set(assignment.replicas)
        marked = set(assignment.adding_replicas) | set(assignment.removing_replicas)
        self._judge.ensure(bool(replicas), f"{partition} has no replicas")
        self._judge.ensure(len(replicas) == len(assignment.replicas), f"{partition} has one twice")
        self._judge.ensure(marked <= replicas, f"{partition}: AR or RR name others than RS")
        self._judge.ensure(bool(assignment.target_replicas), f"{partition} would remove everything")

    def _dropped_are_gone(
        self, partition: TopicPartition, old: PartitionAssignment, new: PartitionAssignment
    ) -> None:
        """RR is forgotten only when the log is gone or an orphan record says that it is not."""
        for broker_id in old.replicas:
            if broker_id in new.replicas:
                continue
            broker = self._fabric.brokers.get(broker_id)
            is_recorded = self._fabric.zookeeper.get(paths.orphan_path(broker_id, partition))
            self._judge.ensure(
                broker is None or partition not in broker.logs or is_recorded is not None,
                f"{partition}: the topic znode forgot replica {broker_id}, which still has its log",
            )

    def _isr_within_replicas(self, topic: str) -> None:
        read = self._znodes.topics.get(topic)
        for number, assignment in () if read is None else read.partitions.items():
            state = self._znodes.states.get(TopicPartition(topic, number))
            self._judge.ensure(
                state is None or set(state.isr) <= set(assignment.replicas),
                f"{topic}-{number}: ISR {state and state.isr} is not within {assignment.replicas}",
            )

    # --- states --------------------------------------------------------------------------------

    def _state_written(
        self, transaction: Transaction, partition: TopicPartition, written: Written
    ) -> None:
        before = self._znodes.states.pop(partition, None)
        if written.after is None:
            return
        after = decode_state(written.after.data, ZkVersion(written.after.version))
        if isinstance(after, str):
            self._unreadable(transaction, written, after)
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
        self._data.nothing_is_lost(partition)

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
        floor = min(wanted, len(assignment.target_replicas))
        dropped = [r for r in before.isr if r not in after.isr and self._was_live(r, partition)]
        self._judge.ensure(
            not dropped or len(after.isr) >= floor,
            f"{partition}: live replicas {dropped} left the ISR {before.isr}, which is below "
            f"{floor} now: {after.isr}",
        )

    def _was_live(self, broker_id: BrokerId, partition: TopicPartition) -> bool:
        """Whether no controller could take the replica for dead, however late its news."""
        broker = self._fabric.brokers.get(broker_id)
        if broker is None or self._fabric.zookeeper.get(paths.broker_path(broker_id)) is None:
            return False
        log = broker.logs.get(partition)
        since = self._fabric.schedule.now() - self._moved_at.get(broker_id, -KNOWN_S)
        return since >= KNOWN_S and log is not None and log.is_online
