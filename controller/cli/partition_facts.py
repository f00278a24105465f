"""The state of one partition in ZooKeeper: assignment, state, target, records and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.core import model
from controller.core.model import ReassignmentSpec, Replicas, TopicPartition
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.steps import Step, steps_to
from controller.core.requests.acceptance import entry_text
from controller.core.requests.outcomes import Summary
from controller.errors import InvalidInputError
from controller.zk.operator_client import OperatorClient
from controller.znodes.paths import parse_topic_partition


class PartitionStanding(StrEnum):
    """The state of a partition's reassignment, by ZooKeeper."""

    MOVING = "moving"
    """A record exists, and a step is in flight."""
    WAITING = "waiting"
    """A record exists, and no step is in flight."""
    NOT_ACCEPTED = "not_accepted"
    """``/admin/reassign_partitions`` has an entry, and there is no record."""
    FOREIGN = "foreign"
    """The topic znode has adding or removing replicas, and there is no record."""
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """The state of a partition in ZooKeeper; a text is the reason why it cannot be decoded."""

    partition: TopicPartition
    assignment: model.PartitionAssignment
    state: model.PartitionState | str | None
    spec: ReassignmentSpec | str | None
    planned: Replicas | None
    """The target in ``/admin/reassign_partitions``."""
    live: frozenset[model.BrokerId]
    is_being_deleted: bool
    orphans: tuple[Orphan | str, ...]
    refusal: model.Refusal | None
    """The last refusal."""
    outcome: model.PartitionOutcome | None = None
    """The last outcome other than done."""

    @property
    def standing(self) -> PartitionStanding:
        """The state of the reassignment."""
        if self.spec is not None:
            is_moving = self.assignment.is_reassigning
            return PartitionStanding.MOVING if is_moving else PartitionStanding.WAITING
        if self.assignment.is_reassigning:
            return PartitionStanding.FOREIGN
        return PartitionStanding.IDLE if self.planned is None else PartitionStanding.NOT_ACCEPTED

    @property
    def target(self) -> Replicas | None:
        """The target replicas, None without a reassignment."""
        if isinstance(self.spec, ReassignmentSpec):
            return self.spec.target
        if self.assignment.is_reassigning:
            return self.assignment.target_replicas
        return self.planned

    def steps(self, step_size: int | None) -> tuple[Step, ...]:
        """Return the steps after the one in flight, if nothing changes."""
        state, target = self.state, self.target
        if target is None:
            return ()
        known = state if isinstance(state, model.PartitionState) else None

        def is_sound(replica: model.BrokerId) -> bool:
            is_synced = known is None or replica in known.isr
            return (
                is_synced or replica in self.assignment.adding_replicas
            ) and replica in self.live

        leader = model.NO_LEADER if known is None else known.leader
        return steps_to(self.assignment.target_replicas, target, leader, step_size, is_sound)


def named_partition(words: list[str]) -> TopicPartition:
    """
    Parse ``TOPIC-PARTITION`` or ``TOPIC PARTITION``.

    Raises:
        InvalidInputError: the words are neither.

    """
    found = parse_topic_partition("-".join(words)) if 1 <= len(words) <= 2 else None  # noqa: PLR2004 - one word or two
    if found is None:
        raise InvalidInputError(
            f"{' '.join(words)!r} is not a partition: write TOPIC-PARTITION or TOPIC PARTITION"
        )
    return found


def gather(operator: OperatorClient, partition: TopicPartition) -> PartitionFacts:
    """
    Read the state of a partition from ZooKeeper.

    Raises:
        InvalidInputError: the partition does not exist, or its topic znode cannot be decoded.

    """
    plan = operator.requests.plan()
    spec = operator.partitions.specs([partition]).get(partition)
    topic = operator.partitions.topics([partition.topic]).get(partition.topic)
    if topic is None:
        raise InvalidInputError(f"there is no topic {partition.topic}")
    if not isinstance(topic, model.TopicAssignment):
        raise InvalidInputError(f"the topic znode of {partition.topic} cannot be decoded: {topic}")
    assignment = topic.partitions.get(partition.partition)
    if assignment is None:
        raise InvalidInputError(f"topic {partition.topic} has no partition {partition.partition}")
    outcomes = operator.newest_outcomes()
    return PartitionFacts(
        partition=partition,
        assignment=assignment,
        state=operator.partitions.states([partition]).get(partition),
        spec=spec,
        planned=None if plan is None else plan.entries.get(partition),
        live=operator.cluster.broker_ids(),
        is_being_deleted=partition.topic in operator.partitions.deletions(),
        orphans=operator.partitions.orphans_of(partition),
        refusal=_last_refusal(outcomes, partition),
        outcome=_last_outcome(operator, outcomes, partition),
    )


def _last_refusal(outcomes: Sequence[Summary], partition: TopicPartition) -> model.Refusal | None:
    begin = entry_text(partition, ()).removesuffix("]")
    return next(
        (
            refusal
            for outcome in outcomes
            for refusal in outcome.refused
            if refusal.entry.startswith(begin)
        ),
        None,
    )


def _last_outcome(
    operator: OperatorClient, outcomes: Sequence[Summary], partition: TopicPartition
) -> model.PartitionOutcome | None:
    """Search open requests, then requests with other outcomes than done, the newest first."""
    still_open = [
        name for name, has_ended in operator.outcomes.ended_requests().items() if not has_ended
    ]
    others = [[summary.request] for summary in outcomes if any(summary.fates.values())]
    for names in (still_open, *others):
        for history in operator.outcomes.histories(names).values():
            for outcome in history.endings:
                if outcome.partition == partition:
                    return outcome
    return None
