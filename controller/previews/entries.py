"""
The entries of a plan, each with what ZooKeeper has of its partition, and active reassignments.

The order of reads matters. An entry leaves the znode that submitted it only after its record
exists, and the record goes only with the last write of the topic znode. Submissions are read before
records, and records before topic znodes. So no entry is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from controller.core import model
from controller.core.model import BrokerId, OutcomeKind, Replicas, TopicPartition
from controller.errors import InvalidInputError
from controller.previews.plan_files import Plan
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


class EntryState(StrEnum):
    """The state of one entry of a plan."""

    SUBMITTED = "submitted"
    """Written to ZooKeeper, not accepted yet."""
    ACCEPTED = "accepted"
    """Recorded by the daemon, pending."""
    MOVING = "moving"
    """Its first step has begun, as far as the topic znode shows that."""
    ROLLING_BACK = "rolling_back"
    """Cancelled; the original replicas are its target now."""
    DONE = "done"
    REFUSED = "refused"
    """Neither recorded nor at its target."""
    CANCELLED = "cancelled"
    """Cancelled before its first step."""
    ROLLED_BACK = "rolled_back"
    UNDONE = "undone"
    """It was at its target, and was moved back since."""
    SUPERSEDED = "superseded"
    """A later request replaced its target."""

    @property
    def is_open(self) -> bool:
        """Whether the state will change."""
        return self in _OPEN

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancellation of it has ended."""
        return self in {EntryState.CANCELLED, EntryState.ROLLED_BACK, EntryState.UNDONE}


_OPEN: Final = frozenset(
    {EntryState.SUBMITTED, EntryState.ACCEPTED, EntryState.MOVING, EntryState.ROLLING_BACK}
)
STATE_OF_OUTCOME: Final[Mapping[OutcomeKind, EntryState]] = MappingProxyType(
    {
        OutcomeKind.CANCELLED: EntryState.CANCELLED,
        OutcomeKind.ROLLED_BACK: EntryState.ROLLED_BACK,
        OutcomeKind.SUPERSEDED: EntryState.SUPERSEDED,
    }
)
"""A skipped cancellation does not change the state of an entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a plan, with what ZooKeeper has of its partition."""

    partition: TopicPartition
    target: Replicas
    state: EntryState
    assignment: model.PartitionAssignment | None
    spec: model.ReassignmentSpec | None

    @property
    def original(self) -> Replicas | None:
        """The recorded original replicas; without a record, the replicas that are not added."""
        if self.spec is not None:
            return self.spec.original
        if self.assignment is None:
            return None
        adding = self.assignment.adding_replicas
        return tuple(r for r in self.assignment.replicas if r not in adding)

    @property
    def settled(self) -> Replicas | None:
        """The replicas when the reassignment that is in progress has ended, as KIP-860 compares."""
        if self.spec is not None:
            return self.spec.target
        return None if self.assignment is None else self.assignment.target_replicas

    def document(self) -> dict[str, Any]:
        """Return the entry for ``--json``."""
        assignment = self.assignment
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "state": self.state.value,
            "target_replicas": list(self.target),
            "replicas": None if assignment is None else list(assignment.replicas),
            "adding_replicas": [] if assignment is None else list(assignment.adding_replicas),
            "removing_replicas": [] if assignment is None else list(assignment.removing_replicas),
        }


def read_entries(operator: OperatorClient, plan: Plan) -> list[Entry]:
    """Read the state of each entry of a plan."""
    requests = operator.requests
    submitted = {
        entry
        for found in (requests.queue(), requests.plan(), *requests.open_submissions())
        for entry in (found.entries.items() if found else ())
    }
    specs = operator.partitions.specs(plan)
    assignments = operator.partitions.assignments(plan)
    entries = []
    for partition, target in plan.items():
        found, assignment = specs.get(partition), assignments[partition]
        spec = found if isinstance(found, model.ReassignmentSpec) else None
        state = _state_by_record(spec, target, assignment)
        if state is None and (partition, target) in submitted:
            state = EntryState.SUBMITTED
        state = state or _state_by_topic(target, assignment)
        entries.append(Entry(partition, target, state, assignment, spec))
    return entries


def _state_by_record(
    spec: model.ReassignmentSpec | None,
    target: Replicas,
    assignment: model.PartitionAssignment | None,
) -> EntryState | None:
    """Return the state by the daemon's record, None without a record of this entry."""
    if spec is not None and spec.target == target:
        return EntryState.MOVING if has_begun(spec, assignment) else EntryState.ACCEPTED
    if spec is not None and spec.rolls_back:
        return EntryState.ROLLING_BACK
    return None


def has_begun(spec: model.ReassignmentSpec, assignment: model.PartitionAssignment | None) -> bool:
    """Return whether a step of a reassignment has begun, also if it is between two steps."""
    if assignment is None:
        return False
    is_away = spec.original is not None and assignment.replicas != spec.original
    return assignment.is_reassigning or is_away


def _state_by_topic(target: Replicas, assignment: model.PartitionAssignment | None) -> EntryState:
    """Return the state by the topic znode alone."""
    if assignment is not None and assignment.target_replicas == target:
        # A reassignment to the target may be a foreign one.
        return EntryState.MOVING if assignment.is_reassigning else EntryState.DONE
    return EntryState.REFUSED


# --- active reassignments ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActiveReassignment:
    """One active reassignment, as KIP-455 describes it."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas that it ends with."""
        return tuple(r for r in self.replicas if r not in self.removing)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Topics and active reassignments."""

    topics: Mapping[str, model.TopicAssignment]
    active: Mapping[TopicPartition, ActiveReassignment]

    def assignment(self, partition: TopicPartition) -> model.PartitionAssignment | None:
        """Return the assignment of a partition, None if it does not exist."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


def read_cluster(operator: OperatorClient) -> ClusterState:
    """
    Read topics and active reassignments, as Kafka's tool sees them.

    Kafka's tool asks the controller. Here they come from topic znodes, and from what the daemon has
    accepted or has yet to accept. A reassignment of the daemon is shown whole, not as the step in
    flight.
    """
    targets: dict[TopicPartition, Replicas] = {}
    plan = operator.requests.plan()
    for submitted in (plan, *operator.requests.open_submissions()):
        targets |= {} if submitted is None else submitted.entries
    specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
    targets |= {
        p: spec.target for p, spec in specs.items() if isinstance(spec, model.ReassignmentSpec)
    }
    topics = operator.partitions.readable_topics()
    active: dict[TopicPartition, ActiveReassignment] = {}
    for topic, assignment in topics.items():
        for number, found in assignment.partitions.items():
            partition = TopicPartition(topic, number)
            target = targets.get(partition)
            if target is not None:
                active[partition] = _whole(target, found)
            elif found.is_reassigning:
                active[partition] = ActiveReassignment(
                    found.replicas, found.adding_replicas, found.removing_replicas
                )
    return ClusterState(topics, active)


def check_brokers(
    operator: OperatorClient,
    brokers: Iterable[BrokerId],
    topics: Mapping[str, model.TopicAssignment] | None = None,
) -> None:
    """
    Check that the cluster has brokers, live or by a replica; ``topics`` if they were read already.

    Raises:
        InvalidInputError: it does not have one.

    """
    unknown = set(brokers) - operator.cluster.broker_ids()
    if unknown:
        for topic in (operator.partitions.readable_topics() if topics is None else topics).values():
            for assignment in topic.partitions.values():
                unknown.difference_update(assignment.replicas)
    if unknown:
        raise InvalidInputError(unknown_text(sorted(unknown)))


def unknown_text(brokers: Iterable[BrokerId]) -> str:
    """Describe brokers that the cluster does not have."""
    return (
        f"there is no broker {ids(brokers)}: it is not live, and no partition has a replica on it"
    )


def _whole(target: Replicas, now: model.PartitionAssignment) -> ActiveReassignment:
    """Return the reassignment as Kafka would carry it out, in a single step."""
    removing = tuple(r for r in now.replicas if r not in target)
    return ActiveReassignment(
        replicas=target + removing,
        adding=tuple(r for r in target if r not in now.origin_replicas),
        removing=removing,
    )
