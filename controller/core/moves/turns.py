"""
One partition in one turn: its facts, and the writes and sends every phase is made of.

What to do with them, and when, is ``native``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from controller.core.effects import (
    Effect,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from controller.core.model import (
    Blocked,
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    Replicas,
    Route,
    TopicPartition,
)
from controller.core.moves.gates import drop_gate, sync_gate
from controller.core.moves.lacks import state_unknown
from controller.core.moves.leaders import reassigned_leader
from controller.core.moves.remnants import orphan_records, without_strangers
from controller.core.pace.limits import step_size_of
from controller.core.phases import Phase
from controller.core.records import (
    Change,
    LegacyEntryRecord,
    PhaseRecord,
    Record,
    StateRecord,
)
from controller.core.view import ClusterView
from controller.core.works import Reassignment
from controller.errors import InvariantError


class Turn:
    """One partition in one turn: what is known of it, read once."""

    def __init__(  # noqa: PLR0913, PLR0917 - the facts of one partition
        self,
        view: ClusterView,
        partition: TopicPartition,
        reassignment: Reassignment,
        assignment: PartitionAssignment,
        state: PartitionState,
        now: Instant,
    ) -> None:
        """Collect the partition's facts."""
        self.view = view
        self.partition = partition
        self.reassignment = reassignment
        self.goal = reassignment.goal
        self.assignment = assignment
        self.state = state
        self.now = now

    @classmethod
    def of(
        cls, view: ClusterView, partition: TopicPartition, now: Instant
    ) -> Self | Blocked | None:
        """Return a partition's turn, or what of it is not known; None: it is not reassigning."""
        reassignment = view.reassignments.get(partition)
        if reassignment is None:
            return None
        assignment = view.assignment(partition)
        state = view.states.get(partition)
        if assignment is None or state is None:
            return state_unknown(view, partition)
        return cls(view, partition, reassignment, assignment, state, now)

    # --- small facts ---------------------------------------------------------------------------

    def is_live(self, broker: BrokerId) -> bool:
        """Whether the replica is on a live broker and a good disk."""
        return self.view.is_live(broker, self.partition)

    @property
    def drops_first(self) -> bool:
        """Whether a step may drop before it adds: not the single jump, not other people's moves."""
        return self.step_size is not None and self.goal.route is not Route.FOREIGN

    @property
    def step_size(self) -> int | None:
        """How many replicas a step adds at most; None is all at once."""
        return step_size_of(self.view, self.goal)

    def phase(self, phase: Phase, cause: str) -> PhaseRecord:
        """Return the record of a phase change."""
        return PhaseRecord(self.partition, phase, self.now, cause)

    def change(self, *records: Record, effects: tuple[Effect, ...] = ()) -> Change:
        """Return a change of this partition."""
        return Change(records=records, effects=effects, partition=self.partition)

    def listing(self) -> tuple[Record, ...]:
        """Return the legacy entry that has to appear because the partition gets in flight."""
        view = self.view
        if self.goal.route is not Route.LEGACY or view.legacy is None:
            return ()
        if view.legacy.entries.get(self.partition) == self.goal.target:
            return ()
        return (LegacyEntryRecord(self.partition, self.goal.target),)

    def state_record(self, leader: BrokerId, isr: Replicas) -> StateRecord:
        """Return the state's compare-and-set, with the epoch bump that makes it deliverable."""
        return state_record(self.view, self.partition, self.state, leader, isr)

    def tell(self, replicas: Replicas, new: Replicas) -> tuple[Effect, ...]:
        """Return LeaderAndIsr to the given live replicas and UpdateMetadata to all (A2, B3)."""
        live = self.view.live(replicas, self.partition)
        return (
            SendLeaderAndIsr(self.partition, live, tuple(r for r in new if r in live)),
            SendUpdateMetadata((self.partition,)),
        )

    def drop_blocked(self, dropping: Replicas) -> Blocked | None:
        """Return what keeps these replicas from leaving now; None also when there are none."""
        if not dropping:
            return None
        return drop_gate(self.view, self.partition, self.goal, self.state, dropping)

    def keeps_copies(self, dropping: Replicas) -> bool:
        """
        Whether enough good copies stay without these replicas, or none of these is one.

        As many as the smaller of the original and the target assignment has: what replaces a good
        copy is there before it goes. What is dead or lags may go at any time.
        """
        good = self.view.live(self.state.isr, self.partition)
        left = [r for r in good if r not in dropping]
        copies = min(len(self.goal.original or self.goal.target), len(self.goal.target))
        return len(left) >= copies or len(left) == len(good)

    def uncopied(self, dropping: Replicas) -> Blocked | None:
        """
        Return what keeps good copies from leaving: the target is to be in sync instead of them.

        One of the target that leaves as well replaces nothing: the ISR that would be left is
        judged. A replica of the target that is dead does not hold up the way back: it may never
        return.
        """
        return self._uncopied(dropping, self.goal.target)

    def uncopied_yet(self, dropping: Replicas, current: Replicas) -> Blocked | None:
        """Return what keeps good copies from making room: replicas that stay and catch up."""
        return self._uncopied(dropping, tuple(r for r in self.goal.target if r in current))

    def _uncopied(self, dropping: Replicas, awaited: Replicas) -> Blocked | None:
        if self.keeps_copies(dropping):
            return None
        if self.goal.rolls_back:
            awaited = self.view.live(awaited, self.partition)
        left = replace(self.state, isr=tuple(r for r in self.state.isr if r not in dropping))
        return sync_gate(self.view, self.partition, self.goal, left, awaited)

    def unsynced(self, target: Replicas) -> Blocked | None:
        """Return what keeps these replicas from being in sync; going back waits for copies only."""
        if self.goal.rolls_back:
            target = tuple(r for r in target if r in self.assignment.adding_replicas)
        return sync_gate(self.view, self.partition, self.goal, self.state, target)

    def leader_within(self, target: Replicas) -> BrokerId | None:
        """Return the leader to have among these replicas: the present one where possible."""
        if self.state.leader in target and self.is_live(self.state.leader):
            return self.state.leader
        return reassigned_leader(target, self.state.isr, self.is_live)

    def stop(self, brokers: Replicas) -> tuple[Effect, ...]:
        """Return StopReplica, first without and then with deletion (B4, B5)."""
        epoch = self.state.leader_epoch
        return tuple(
            SendStopReplica(self.partition, broker, epoch, delete)
            for delete in (False, True)
            for broker in brokers
        )

    def orphans(self, brokers: frozenset[BrokerId]) -> tuple[Record, ...]:
        """Return a record for each replica whose deletion nobody confirmed."""
        return self.orphan_records(
            (b, "not live" if b not in self.view.brokers else "not confirmed")
            for b in sorted(brokers)
        )

    def orphan_records(self, left: Iterable[tuple[BrokerId, str]]) -> tuple[Record, ...]:
        """Return the records of replicas that may still be on disk, each with its reason."""
        return orphan_records(self.view, self.partition, left)

    def reduced(self) -> PartitionAssignment | None:
        """
        Return the assignment without the replicas a Kafka controller added beyond our step size.

        Only replicas that are not in ISR go, and only where the originals are known.
        """
        size = self.step_size
        original = self.goal.original
        adding = self.assignment.adding_replicas
        if size is None or original is None or not self.drops_first or len(adding) <= size:
            return None
        synced = tuple(r for r in adding if r in self.state.isr)
        copying = tuple(r for r in adding if r not in self.state.isr)
        surplus = copying[max(size - len(synced), 0) :]
        if not surplus:
            return None
        staying = tuple(r for r in self.assignment.replicas if r not in surplus)
        kept = tuple(r for r in original if r in staying)
        kept += tuple(r for r in staying if r not in kept)
        return PartitionAssignment(kept + surplus, adding, surplus)


def state_record(
    view: ClusterView,
    partition: TopicPartition,
    state: PartitionState,
    leader: BrokerId,
    isr: Replicas,
) -> StateRecord:
    """
    Return the compare-and-set of a state, with the epoch bump that makes it deliverable.

    The ISR is written without brokers that are no replicas.

    Raises:
        InvariantError: there is no tenure; nothing may be decided then.

    """
    if view.tenure is None:
        raise InvariantError("a state is written outside a tenure")
    return StateRecord(
        partition=partition,
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=without_strangers(view, partition, leader, isr),
        controller_epoch=view.tenure.epoch,
        expected_version=state.version,
        leader_recovery_state=state.leader_recovery_state,
    )
