"""
One partition in one cycle: its facts, and the writes and sends that phases consist of.

``native`` and ``delegated`` decide which of them are due.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from controller.core import effects, model
from controller.core.leadership import leader_selection
from controller.core.leadership.leader_selection import state_record
from controller.core.leadership.records import StateRecord
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    Replicas,
    Route,
    TopicPartition,
)
from controller.core.pacing.limits_in_force import step_size_of, tolerated_brokers
from controller.core.reassignments import gates, orphans, phases, records
from controller.core.reassignments.model import Reassignment
from controller.core.records import Change, Record
from controller.core.requests import submissions
from controller.core.requests.records import LegacyEntryRecord, RefusalRecord
from controller.core.view import ClusterView

INTOLERANT: Final = (
    "(the cluster's controller waits for every replica of a target: only the native engine "
    "tolerates lagging ones)"
)


def elects_leader(view: ClusterView, spec: model.ReassignmentSpec) -> bool:
    """Return whether a reassignment of the order alone ends with the election of its leader."""
    if not spec.is_order_alone:
        return False
    request = view.requests.by_id.get(spec.request)
    return request is not None and request.options.elect_leaders


@dataclass
class PartitionContext:
    """One partition in one cycle: its facts, read once."""

    view: ClusterView
    partition: TopicPartition
    reassignment: Reassignment
    assignment: model.PartitionAssignment
    state: model.PartitionState
    now: Instant

    @classmethod
    def of(
        cls, view: ClusterView, partition: TopicPartition, now: Instant
    ) -> Self | Blocked | None:
        """
        Return a partition's context, or which fact is unknown; None if there is nothing to do.

        The reassignment of a former topic ends when it is examined (``decide``); pending ones are
        considered before that.
        """
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None or view.is_of_former_topic(partition):
            return None
        assignment = view.topics.assignment(partition)
        state = view.leadership.states.get(partition)
        if assignment is None or state is None:
            return gates.state_unknown(view, partition)
        return cls(view, partition, reassignment, assignment, state, now)

    # --- small facts -----------------------------------------------------------------------------

    @property
    def awaited_leader(self) -> BrokerId | None:
        """The replica whose election ends the reassignment; None: it leads, or none is awaited."""
        leader, spec = self.spec.target[0], self.spec
        if leader == self.state.leader or spec.rolls_back or not elects_leader(self.view, spec):
            return None
        return leader

    @property
    def spec(self) -> model.ReassignmentSpec:
        """The spec of the reassignment."""
        return self.reassignment.spec

    def is_live(self, broker: BrokerId) -> bool:
        """Return whether the replica is on a live broker and a good disk."""
        return self.view.is_live(broker, self.partition)

    def is_staying(self, broker: BrokerId) -> bool:
        """Return whether the replica is live and its broker is not shutting down."""
        return self.view.is_staying(broker, self.partition)

    @property
    def drops_first(self) -> bool:
        """Whether a step may drop before it adds: no single jump, no foreign reassignment."""
        return self.step_size is not None and self.spec.route is not Route.FOREIGN

    @property
    def step_size(self) -> int | None:
        """The most replicas that a step adds; None is all at once."""
        return step_size_of(self.view, self.spec)

    @property
    def tolerated(self) -> Replicas:
        """
        The replicas that no step waits for, where they are not in sync.

        They stay: they were there before, are there now and are to be there afterwards, so they
        are no replacement of a copy that is dropped. Kafka's controller waits for every replica of
        a target: there is no such choice where it carries out the steps.
        """
        spec, assignment = self.spec, self.assignment
        named = tolerated_brokers(self.view, spec.request)
        if not named or not self.view.is_native or spec.rolls_back or spec.original is None:
            return ()
        there = [r for r in assignment.target_replicas if r not in assignment.adding_replicas]
        staying = {*spec.original} & {*spec.target} & {*there}
        return tuple(r for r in named if r in staying)

    def phase(self, phase: phases.Phase, cause: str) -> records.PhaseRecord:
        """Return the record of a phase change."""
        return records.PhaseRecord(self.partition, phase, self.now, cause)

    def change(self, *written: Record, effects: tuple[effects.Effect, ...] = ()) -> Change:
        """Return a change of this partition."""
        return Change(records=written, effects=effects, partition=self.partition)

    @property
    def has_drifted(self) -> bool:
        """Whether another client changed the replicas of an approved entry before it began."""
        return submissions.has_drifted(self.spec, self.assignment)

    def refused_as_drifted(self) -> Change:
        """Return the end of a drifted entry, valid while the topic znode is unchanged."""
        spec, expected = self.spec, self.spec.expected or ()
        name, version = spec.request, spec.version
        refusal = model.Refusal(
            name,
            f"{self.partition} -> [{model.ids(spec.target)}]",
            model.RefusalReason.DRIFTED,
            submissions.drift_text(expected, self.assignment),
            self.partition,
            was_accepted=True,
        )
        return self.change(
            *orphans.left_where_it_stands(self.view, self.partition, self.reassignment),
            records.SpecEndedRecord(self.partition, version, name, "drifted", stands=True),
            RefusalRecord((refusal,)),
        )

    def approval_used(self) -> tuple[Record, ...]:
        """Return the record with which an approved entry begins: replicas differ then."""
        if self.spec.expected is None:
            return ()
        begun = replace(self.spec, expected=None, asked=None)
        return (records.SpecRecord(self.partition, begun),)

    def listing(self) -> tuple[Record, ...]:
        """Return the legacy entry that has to appear because the partition is in flight."""
        legacy, target = self.view.requests.legacy, self.spec.target
        if self.spec.route is not Route.LEGACY or legacy is None:
            return ()
        if legacy.entries.get(self.partition) == target:
            return ()
        return (LegacyEntryRecord(self.partition, target, self.spec.log_dirs),)

    def state_record(self, leader: BrokerId, isr: Replicas) -> StateRecord:
        """Return the compare-and-set of the state, with the leader epoch bumped."""
        return state_record(self.view, self.partition, self.state, leader, isr)

    def send_state(self, replicas: Replicas, new: Replicas) -> tuple[effects.Effect, ...]:
        """Return LeaderAndIsr to these live replicas and UpdateMetadata to all (A2, B3)."""
        live = self.view.receivers(replicas, self.partition)
        return (
            effects.SendLeaderAndIsr(self.partition, live, tuple(r for r in new if r in live)),
            effects.SendUpdateMetadata((self.partition,)),
        )

    def drop_blocked(self, dropping: Replicas) -> Blocked | None:
        """
        Return what keeps these replicas from leaving the ISR now; None also when there are none.

        max(1, min(min.insync.replicas, |FTR|)) live members must remain: Kafka's controller does
        not check it, and producers fail.
        """
        if not dropping:
            return None
        config = self.view.topics.configs.get(self.partition.topic)
        if config is None:
            return gates.config_unknown(self.view, self.partition.topic)
        floor = max(1, min(config.min_insync_replicas, len(self.spec.target)))
        remaining = tuple(r for r in self.state.isr if r not in dropping and self.is_staying(r))
        if len(remaining) >= floor:
            return None
        stay, without = model.ids(remaining) or "no replica", model.ids(dropping)
        detail = f"only {stay} would stay in sync without {without}, {floor} needed"
        return Blocked(BlockedBy.MIN_ISR, detail)

    def keeps_copies(self, dropping: Replicas) -> bool:
        """
        Return whether enough good copies remain without these replicas, or none of these is one.

        As many as the smaller of the original and the target assignment: a good copy leaves only
        after its replacement is in sync. A dead or lagging replica may leave at any time. A
        tolerated replica that is no good copy was none before, either: of the original assignment
        it does not count.
        """
        good = self.view.live(self.state.isr, self.partition)
        left = [r for r in good if r not in dropping]
        lacking = sum(r not in good for r in self.tolerated)
        original, target = self.spec.original or self.spec.target, self.spec.target
        copies = min(len(original) - lacking, len(target))
        return len(left) >= copies or len(left) == len(good)

    def copies_gate(self, dropping: Replicas, current: Replicas | None = None) -> Blocked | None:
        """
        Return what keeps good copies from leaving: the target must be in sync, or its current part.

        A target replica that leaves as well replaces nothing: the ISR after the drop is judged. A
        dead replica of the target does not delay a rollback: it may never return.
        """
        if self.keeps_copies(dropping):
            return None
        awaited = tuple(r for r in self.spec.target if current is None or r in current)
        if self.spec.rolls_back:
            awaited = self.view.live(awaited, self.partition)
        left = replace(self.state, isr=tuple(r for r in self.state.isr if r not in dropping))
        blocked = gates.sync_gate(self.view, self.partition, self.spec, left, awaited)
        if blocked is None or not self.tolerated:
            return blocked
        lost = f"{blocked.detail}, and without {model.ids(dropping)} a copy would be given up"
        return replace(blocked, detail=lost)

    def in_sync_gate(self, target: Replicas, *, tolerates: bool = True) -> Blocked | None:
        """Return the block of those of these replicas that are awaited."""
        awaited = self.awaited(target, tolerates=tolerates)
        if not awaited:
            return None
        blocked = gates.sync_gate(self.view, self.partition, self.spec, self.state, awaited)
        return self.said_intolerant(blocked)

    def awaited(self, target: Replicas, *, tolerates: bool = True) -> Replicas:
        """Return which of these replicas are not in the ISR; a rollback awaits added ones only."""
        lagging = gates.lagging_replicas(self.spec, self.state, target)
        if not lagging:
            return ()
        if self.spec.rolls_back:
            lagging = tuple(r for r in lagging if r in self.assignment.adding_replicas)
        tolerated = self.tolerated if tolerates else ()
        return tuple(r for r in lagging if r not in tolerated)

    def said_intolerant(self, blocked: Blocked | None) -> Blocked | None:
        """Say, where that is so, that a replica is awaited although the request tolerates it."""
        if blocked is None or self.view.is_native or blocked.is_copying:
            return blocked
        is_of_replica = blocked.by in {BlockedBy.REPLICA_NOT_IN_ISR, BlockedBy.BROKER_DEAD}
        if not is_of_replica or not tolerated_brokers(self.view, self.spec.request):
            return blocked
        return replace(blocked, detail=f"{blocked.detail} {INTOLERANT}")

    def leader_within(self, target: Replicas) -> BrokerId | None:
        """Return the leader among these replicas: the present one where possible."""
        if self.state.leader in target and self.is_staying(self.state.leader):
            return self.state.leader
        return leader_selection.reassigned_leader(target, self.state.isr, self.is_staying)

    def stop(self, brokers: Replicas, deletes: tuple[bool, ...]) -> tuple[effects.Effect, ...]:
        """Return StopReplica, without or with deletion, or both in this order (B4, B5)."""
        epoch = self.state.leader_epoch
        return tuple(
            effects.SendStopReplica(self.partition, broker, epoch, delete)
            for delete in deletes
            for broker in brokers
        )

    def orphans(self, brokers: frozenset[BrokerId]) -> tuple[Record, ...]:
        """Return a record for each replica whose deletion was not confirmed."""
        live = self.view.cluster.brokers
        left = ((b, "not confirmed" if b in live else "not live") for b in sorted(brokers))
        return orphans.orphan_records(self.view, self.partition, left)

    def reduced_assignment(self) -> model.PartitionAssignment | None:
        """
        Return the assignment without the replicas a Kafka controller added beyond our step size.

        Only replicas that are not in the ISR leave, and only where the original replicas are known.
        """
        size, original, adding = self.step_size, self.spec.original, self.assignment.adding_replicas
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
        return model.PartitionAssignment(kept + surplus, adding, surplus)
