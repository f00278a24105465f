"""
A driver that plays the cluster's own controller for the delegated engine.

It handles alter entries as Kafka does (KIP-455): it records an entry in the topic znode over the
step under way, drops at once the replicas that the new entry no longer names, and ends a step when
its target is in sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from controller.core.core_settings import EngineName, ForeignMoves, Options
from controller.core.effects import AlterReassignment, Effect, ReadPurpose, ReadStates
from controller.core.leadership.records import StateCreatedRecord, StateRecord, StatesRead
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.records import AppliedThrottlesRead
from controller.core.reassignments.records import (
    AlterResult,
    OrphansRead,
    ReassignmentsAltered,
    SpecsRead,
)
from controller.core.records import TimerFired
from controller.core.requests.records import HistoryRead
from controller.core.role.records import ControllerClaimed, Deposed
from controller.core.topics.records import AssignmentRecord, TopicsRead
from controller.kafka_errors import NONE
from tests.core.builders import EPOCH, Driver


def delegated(
    foreign_moves: ForeignMoves = ForeignMoves.WAIT, *, step_size: int | None = 1
) -> Options:
    """Return settings of the delegated engine."""
    return Options(engine=EngineName.DELEGATED, foreign_moves=foreign_moves, step_size=step_size)


@dataclass
class DelegatedDriver(Driver):
    """A driver whose partitions are reassigned by the cluster's controller."""

    options: Options = field(default_factory=delegated)
    refuses: tuple[int, str] | None = None
    """The controller's answer to every entry instead of carrying it out."""
    answers: bool = True
    answers_configs: bool = True
    answers_states: bool = True

    @property
    def orders(self) -> list[tuple[Replicas, bool]]:
        """The alter entries so far: replicas, and whether they cancel."""
        return [(e.target, e.cancels) for e in self.sent if isinstance(e, AlterReassignment)]

    def answer(self, effect: Effect) -> None:
        """Make what is ordered, and read what is asked for."""
        match effect:
            case AlterReassignment() if self.refuses is not None:
                self._sent(effect, *self.refuses)
            case AlterReassignment() if self.answers:
                self.order(effect.partition, None if effect.cancels else effect.target)
                self._sent(effect, NONE, "")
            case ReadStates(partitions=partitions, purpose=purpose):
                if not self.answers_states:
                    return
                known = {
                    p: self.view.leadership.states[p]
                    for p in partitions
                    if p in self.view.leadership.states
                }
                armed = frozenset(known) if purpose is ReadPurpose.WATCH else None
                self.fold(StatesRead(known, armed=armed))
            case _:
                super().answer(effect)

    def _sent(self, effect: AlterReassignment, error: int, why: str) -> None:
        result = AlterResult(effect.partition, effect.target, error, why)
        self.fold(ReassignmentsAltered((result,), BrokerId(1)))

    def order(self, partition: TopicPartition, target: Replicas | None) -> None:
        """Do what the controller does with an alter entry of any client; None cancels."""
        before = self.assignment(partition)
        origin = tuple(r for r in before.replicas if r not in before.adding_replicas)
        target = origin if target is None else target
        after = PartitionAssignment(
            tuple(dict.fromkeys((*target, *origin))),
            tuple(r for r in target if r not in origin),
            tuple(r for r in origin if r not in target),
        )
        gone = [r for r in before.replicas if r not in after.replicas]
        self._write(partition, after)
        self._leave(partition, gone, after.target_replicas)
        self._end(partition)

    def assignment(self, partition: TopicPartition) -> PartitionAssignment:
        """Return what the topic znode says."""
        return self.view.topics.by_name[partition.topic].partitions[partition.partition]

    def change_isr(self, partition: TopicPartition, isr: Replicas) -> None:
        """Let the leader change the ISR; the controller ends the step if it can."""
        super().change_isr(partition, isr)
        self._end(partition)
        self.settle()

    def _end(self, partition: TopicPartition) -> None:
        assignment = self.assignment(partition)
        target = assignment.target_replicas
        if not assignment.is_reassigning or not set(target) <= set(self._state(partition).isr):
            if not assignment.is_reassigning:
                self.history[partition].append(assignment)
            return
        self._leave(partition, list(assignment.removing_replicas), target)
        self._write(partition, PartitionAssignment(target))

    def _leave(self, partition: TopicPartition, gone: list[BrokerId], target: Replicas) -> None:
        state = self._state(partition)
        isr = tuple(r for r in state.isr if r not in gone)
        leader = state.leader
        if leader in gone:
            leader = next(
                (r for r in target if r in isr and r in self.view.cluster.brokers), BrokerId(-1)
            )
        assert leader != -1, f"{partition} goes offline: ISR {state.isr}, gone {gone}"
        if (leader, isr) != (state.leader, state.isr):
            self.fold(
                StatesRead(
                    {
                        partition: PartitionState(
                            leader,
                            LeaderEpoch(state.leader_epoch + 1),
                            isr,
                            state.controller_epoch,
                            ZkVersion(state.version + 1),
                        )
                    }
                )
            )

    def _state(self, partition: TopicPartition) -> PartitionState:
        return self.view.leadership.states[partition]

    def _write(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        topic = self.view.topics.by_name[partition.topic]
        partitions = {**topic.partitions, partition.partition: assignment}
        self.history.setdefault(partition, []).append(assignment)
        version = ZkVersion(topic.version + 1)
        self.fold(TopicsRead({partition.topic: TopicAssignment(partitions, version, topic.czxid)}))

    def run(self, partition: TopicPartition) -> None:
        """Let every new replica catch up until the reassignment ended."""
        for _ in range(50):
            if partition not in self.view.reassignments.by_partition:
                return
            self.change_isr(partition, self.assignment(partition).replicas)
        raise AssertionError(
            f"{partition} does not end: {self.view.reassignments.by_partition[partition]}"
        )

    def replace_daemon(self, *, ends_step: bool) -> None:
        """Kill the daemon and start another; a step in flight may end in between."""
        specs = {p: r.spec for p, r in self.view.reassignments.by_partition.items()}
        states = dict(self.view.leadership.states)
        self.observe(Deposed("killed"))
        for partition, state in states.items() if ends_step else ():
            assignment = self.assignment(partition)
            target = assignment.target_replicas
            if assignment.is_reassigning:
                self._write(partition, PartitionAssignment(target))
                leader = state.leader if state.leader in target else target[0]
                version = ZkVersion(state.version + 5)
                states[partition] = replace(state, leader=leader, isr=target, version=version)
        self.observe(
            SpecsRead(specs, {}),
            OrphansRead(frozenset()),
            HistoryRead({}, {}),
            AppliedThrottlesRead({}),
        )
        self.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
        self.observe(StatesRead(states))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and a timer fire."""
        self.now = Instant(self.now + seconds)
        self.observe(TimerFired("any"))

    def wrote_for_kafka(self) -> list[object]:
        """Return whatever was written that is the controller's alone."""
        kinds = AssignmentRecord | StateRecord | StateCreatedRecord
        return [r for c in self.changes for r in c.records if isinstance(r, kinds)]
