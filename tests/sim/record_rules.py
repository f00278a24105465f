"""
The rules about our own records, and about what a reassignment may leave behind.

Records are written under the claim only; a record ends when no step is in flight; no partition
outgrows its bound; and every log that our records could name is deleted or recorded. What a Kafka
controller alone left behind does not count: no controller repairs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import Check
from controller.znodes import paths
from controller.znodes.reassignments import decode_spec
from tests.sim.rules import Rule
from tests.sim.zookeeper import NO_SESSION, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge, Znodes


class RecordRules:
    """The records of the daemons over time; judges them, and the logs left behind."""

    def __init__(self, fabric: Fabric, judge: Judge, znodes: Znodes) -> None:
        self._fabric = fabric
        self._judge = judge
        self._znodes = znodes
        self._specs: dict[TopicPartition, ReassignmentSpec] = {}
        self._not_ours: set[tuple[BrokerId, TopicPartition]] = set()
        """Logs that another controller left behind, without an orphan record."""
        self.step_size: int | None = None
        """The daemons' setting; None for the single step, which has no bound."""
        self.step_size_of: Callable[[ReassignmentSpec], int | None] = lambda _: self.step_size
        """Returns the largest step size that may apply to a spec."""
        self.tolerated_of: Callable[[ReassignmentSpec], Collection[BrokerId]] = lambda _: ()
        """Returns the brokers whose lagging replicas may not be awaited."""
        self.lowest_min_isr: Callable[[str], int] = lambda _: 1
        """The lowest ``min.insync.replicas`` of a topic that a daemon may decide by."""

    fence: str = paths.CONTROLLER_EPOCH
    """The znode whose version guards records: that of the claim, or that of the leadership."""
    owes_logs: bool = True
    """True if every log that is left needs a record; Kafka's controller writes none."""

    def spec_of(self, partition: TopicPartition) -> ReassignmentSpec | None:
        """Return the present spec of a partition."""
        return self._specs.get(partition)

    def target_of(self, partition: TopicPartition) -> Replicas | None:
        """Return FTR of a partition with a spec."""
        spec = self._specs.get(partition)
        return None if spec is None else spec.target

    # --- records -------------------------------------------------------------------------------

    def own_written(self, transaction: Transaction, written: Written) -> None:
        """Judge that a record of the daemon is written under the claim."""
        fenced = any(
            isinstance(op, Check) and op.path == self.fence for op in transaction.operations
        )
        self._judge.ensure(
            fenced or transaction.session == NO_SESSION,
            f"{written.path} was written without a check of the claim",
            Rule.WRITTEN_UNDER_CLAIM,
        )

    def spec_written(self, partition: TopicPartition, written: Written) -> None:
        """Note a spec; judge that no step is in flight when it ends."""
        if written.after is not None:
            read = decode_spec(written.after.data, ZkVersion(written.after.version))
            self._judge.ensure(
                isinstance(read, ReassignmentSpec),
                f"{written.path} cannot be decoded: {read}",
                Rule.SPEC_READABLE,
            )
            if isinstance(read, ReassignmentSpec):
                self._specs[partition] = read
                if written.before is None:
                    self._enough_replicas(partition, read)
            return
        is_former = self._is_former(partition)
        spec = self._specs.pop(partition, None)
        assignment = self._znodes.assignment(partition)
        is_at_rest = is_former or assignment is None or not assignment.is_reassigning
        if not is_at_rest and spec is not None and assignment is not None:
            # Another client may begin where ours has ended, before the record is deleted.
            is_at_rest = set(assignment.origin_replicas) == set(spec.target)
        self._judge.ensure(
            is_at_rest,
            f"{partition}: our record ended while the topic znode says {assignment}",
            Rule.SPEC_ENDS_AT_REST,
        )

    def _enough_replicas(self, partition: TopicPartition, spec: ReassignmentSpec) -> None:
        """Judge that no accepted target has fewer replicas than ``min.insync.replicas``."""
        assignment = self._znodes.assignment(partition)
        if assignment is None or spec.rolls_back:
            return
        least = min(self.lowest_min_isr(partition.topic), len(assignment.replicas))
        self._judge.ensure(
            len(spec.target) >= least,
            f"{partition}: {spec.target} was accepted, min.insync.replicas is {least}",
            Rule.ENOUGH_REPLICAS,
        )

    def of_this_topic(self, partition: TopicPartition) -> None:
        """Judge that the spec by which the daemon changes a topic is not of a former topic."""
        if partition in self._specs:
            self._judge.ensure(
                not self._is_former(partition),
                f"{partition}: {self._specs[partition]} was accepted for an earlier topic",
                Rule.SPEC_OF_THIS_TOPIC,
            )

    def _is_former(self, partition: TopicPartition) -> bool:
        spec, topic = self._specs.get(partition), self._znodes.topics.get(partition.topic)
        accepted_for = None if spec is None else spec.topic_czxid
        return accepted_for is not None and topic is not None and accepted_for != topic.czxid

    # --- the bound -----------------------------------------------------------------------------

    def within_bound(
        self, partition: TopicPartition, old: PartitionAssignment, new: PartitionAssignment
    ) -> None:
        """
        Judge how many replicas the daemon lets serve, and how many the topic znode lists.

        At most max(|ORS|, |FTR|) + step_size serve or copy: RS without RR. RS may list more only by
        what is being dropped, and only if the same transaction took that out of the ISR: no log of
        it serves or copies any more. Replicas that another controller added do not count.
        How long a deleted log keeps its disk is the broker's, and tried on real ones.
        """
        spec = self._specs.get(partition)
        step_size = None if spec is None else self.step_size_of(spec)
        if spec is None or step_size is None:
            return
        limit = max(len(spec.original or spec.target), len(spec.target)) + step_size
        if len(old.replicas) > limit:
            return
        self._judge.ensure(
            len(new.target_replicas) <= limit,
            f"{partition}: {len(new.target_replicas)} replicas, at most {limit} are allowed: {new}",
            Rule.WITHIN_BOUND,
        )
        state = self._znodes.states.get(partition)
        synced = set() if state is None else set(new.removing_replicas) & set(state.isr)
        if len(new.replicas) <= limit:
            return
        self._judge.ensure(
            not synced,
            f"{partition}: {new} exceeds {limit} replicas, and {sorted(synced)} are still in ISR",
            Rule.DROPPED_OUT_OF_ISR,
        )

    # --- logs left behind ----------------------------------------------------------------------

    def assigned_by_others(
        self, partition: TopicPartition, old: PartitionAssignment, new: PartitionAssignment
    ) -> None:
        """Note replicas that another controller dropped, whose logs may stay undeleted."""
        spec = self._specs.get(partition)
        proven = () if spec is None or self._is_former(partition) else spec.original or ()
        for broker in old.replicas:
            if broker not in new.replicas and broker not in proven:
                self._not_ours.add((broker, partition))

    def assigned(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        """Note the replicas of an assignment: their logs are needed."""
        for broker in assignment.replicas:
            self._not_ours.discard((broker, partition))

    def topic_deleted(self, topic: str) -> None:
        """Note the logs left of a deleted topic: they look like those of a new topic."""
        for broker in self._fabric.brokers.values():
            self._not_ours |= {(broker.id, p) for p in broker.logs if p.topic == topic}

    def nothing_is_left(self) -> None:
        """Judge that no log is left on any disk that neither a partition nor a record names."""
        for broker in self._fabric.brokers.values() if self.owes_logs else ():
            for partition in broker.logs:
                assignment = self._znodes.assignment(partition)
                if assignment is None or (broker.id, partition) in self._not_ours:
                    continue
                record = self._fabric.zookeeper.get(paths.orphan_path(broker.id, partition))
                self._judge.ensure(
                    broker.id in assignment.replicas or record is not None,
                    f"{partition}: broker {broker.id} has a log, the replicas are "
                    f"{assignment.replicas}, and no record names it",
                    Rule.NO_LOG_LEFT,
                )
