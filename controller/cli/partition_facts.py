"""
What ZooKeeper says of one partition: its assignment, what is planned for it, what is left of it.

Read at once for ``explain``; worded nowhere here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.cli.ports import InspectorPort
from controller.core.events import Orphan
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    PartitionAssignment,
    PartitionOutcome,
    PartitionState,
    ReassignmentSpec,
    Refusal,
    Replicas,
    TopicAssignment,
    TopicPartition,
)
from controller.core.outcomes import Summary
from controller.core.requests.acceptance import entry_text
from controller.core.steps import Step, steps_to
from controller.errors import InvalidInputError
from controller.znodes.paths import parse_topic_partition


class Standing(StrEnum):
    """What ZooKeeper says of the partition."""

    MOVING = "moving"
    """The daemon has a record of it and a step is under way."""
    WAITING = "waiting"
    """The daemon has a record of it and no step is under way."""
    NOT_ACCEPTED = "not_accepted"
    """It stands in ``/admin/reassign_partitions``, and the daemon has no record of it."""
    FOREIGN = "foreign"
    """The topic znode names adding or removing replicas, and the daemon has no record of it."""
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What ZooKeeper says of a partition."""

    partition: TopicPartition
    assignment: PartitionAssignment
    state: PartitionState | str | None
    spec: ReassignmentSpec | str | None
    planned: Replicas | None
    """Its entry in the legacy znode."""
    live: frozenset[BrokerId]
    is_being_deleted: bool
    orphans: tuple[Orphan | str, ...]
    refusal: Refusal | None
    """The last time it was refused."""
    ending: PartitionOutcome | None = None
    """The last time it ended otherwise than at its target."""

    @property
    def standing(self) -> Standing:
        """How far it has come."""
        if self.spec is not None:
            return Standing.MOVING if self.assignment.is_reassigning else Standing.WAITING
        if self.assignment.is_reassigning:
            return Standing.FOREIGN
        return Standing.IDLE if self.planned is None else Standing.NOT_ACCEPTED

    @property
    def target(self) -> Replicas | None:
        """The replicas it is to have, None where nothing is planned."""
        if isinstance(self.spec, ReassignmentSpec):
            return self.spec.target
        if self.assignment.is_reassigning:
            return self.assignment.target_replicas
        return self.planned

    def steps(self, step_size: int | None) -> tuple[Step, ...]:
        """Return the steps to come after the one under way, as things stand."""
        state, target = self.state, self.target
        if target is None:
            return ()
        known = state if isinstance(state, PartitionState) else None

        def is_sound(replica: BrokerId) -> bool:
            is_synced = known is None or replica in known.isr
            return (
                is_synced or replica in self.assignment.adding_replicas
            ) and replica in self.live

        leader = NO_LEADER if known is None else known.leader
        return steps_to(self.assignment.target_replicas, target, leader, step_size, is_sound)


def named_partition(words: list[str]) -> TopicPartition:
    """
    Read ``TOPIC-PARTITION`` or ``TOPIC PARTITION``.

    Raises:
        PlanInvalidError: it is neither.

    """
    found = parse_topic_partition("-".join(words)) if 1 <= len(words) <= 2 else None  # noqa: PLR2004 - as above
    if found is None:
        raise InvalidInputError(
            f"{' '.join(words)!r} names no partition: write TOPIC-PARTITION or TOPIC PARTITION"
        )
    return found


def gather(inspector: InspectorPort, partition: TopicPartition) -> PartitionFacts:
    """
    Read what ZooKeeper says of a partition.

    Raises:
        PlanInvalidError: there is no such partition, or its topic znode cannot be understood.

    """
    plan = inspector.read_plan()
    spec = inspector.read_specs([partition]).get(partition)
    topic = inspector.read_topics([partition.topic]).get(partition.topic)
    if topic is None:
        raise InvalidInputError(f"there is no topic {partition.topic}")
    if not isinstance(topic, TopicAssignment):
        raise InvalidInputError(
            f"the topic znode of {partition.topic} cannot be understood: {topic}"
        )
    assignment = topic.partitions.get(partition.partition)
    if assignment is None:
        raise InvalidInputError(f"topic {partition.topic} has no partition {partition.partition}")
    outcomes = inspector.newest_outcomes()
    return PartitionFacts(
        partition=partition,
        assignment=assignment,
        state=inspector.read_states([partition]).get(partition),
        spec=spec,
        planned=None if plan is None else plan.entries.get(partition),
        live=inspector.live_brokers(),
        is_being_deleted=partition.topic in inspector.read_deletions(),
        orphans=inspector.orphans_of(partition),
        refusal=_last_refusal(outcomes, partition),
        ending=_last_ending(inspector, outcomes, partition),
    )


def _last_refusal(outcomes: Sequence[Summary], partition: TopicPartition) -> Refusal | None:
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


def _last_ending(
    inspector: InspectorPort, outcomes: Sequence[Summary], partition: TopicPartition
) -> PartitionOutcome | None:
    """Look among the open requests, then, the newest first, those of which something went wrong."""
    still_open = [name for name, has_ended in inspector.request_ids().items() if not has_ended]
    wrong = [[outcome.request] for outcome in outcomes if any(outcome.fates.values())]
    for names in (still_open, *wrong):
        for history in inspector.read_history(names).values():
            for ending in history.endings:
                if ending.partition == partition:
                    return ending
    return None
