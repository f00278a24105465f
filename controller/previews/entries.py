"""
The entries of a plan, each with what ZooKeeper has of its partition.

The order of reads matters. An entry leaves the znode that submitted it only after its record
exists, and the record goes only with the last write of the topic znode. Submissions are read before
records, and records before topic znodes. So no entry is missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from controller.core import model
from controller.core.model import OutcomeKind, Replicas, TopicPartition
from controller.previews.plan_files import Plan
from controller.zk.operator_client import OperatorClient


class EntryState(StrEnum):
    """The state of one entry of a plan."""

    SUBMITTED = "submitted"
    """Written to ZooKeeper, not accepted yet."""
    ACCEPTED = "accepted"
    """Recorded by the daemon, pending."""
    MOVING = "moving"
    """The topic znode has adding or removing replicas."""
    ROLLING_BACK = "rolling_back"
    """Cancelled; the original replicas are its target now."""
    DONE = "done"
    REFUSED = "refused"
    """Neither recorded nor at its target."""
    CANCELLED = "cancelled"
    """Cancelled before its first step."""
    ROLLED_BACK = "rolled_back"
    SUPERSEDED = "superseded"
    """A later request replaced its target."""

    @property
    def is_open(self) -> bool:
        """Whether the state will change."""
        return self in _OPEN

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancellation of it has ended."""
        return self in (EntryState.CANCELLED, EntryState.ROLLED_BACK)


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
    submitted = _submitted_targets(operator)
    specs = operator.partitions.specs(plan)
    assignments = operator.partitions.assignments(plan)
    return [
        _entry(p, target, target in submitted.get(p, ()), specs.get(p), assignments[p])
        for p, target in plan.items()
    ]


def _submitted_targets(operator: OperatorClient) -> Mapping[TopicPartition, list[Replicas]]:
    """Return the targets that were submitted by any route and are not accepted yet."""
    found: dict[TopicPartition, list[Replicas]] = {}
    plans = [operator.requests.queue(), operator.requests.plan()]
    for submitted in (*plans, *operator.requests.open_submissions()):
        for partition, replicas in (submitted.entries if submitted else {}).items():
            found.setdefault(partition, []).append(replicas)
    return found


def _entry(
    partition: TopicPartition,
    target: Replicas,
    is_submitted: bool,  # noqa: FBT001 - one of many facts
    spec: model.ReassignmentSpec | str | None,
    assignment: model.PartitionAssignment | None,
) -> Entry:
    known = spec if isinstance(spec, model.ReassignmentSpec) else None
    state = (
        _state_by_record(known, target, assignment)
        or (EntryState.SUBMITTED if is_submitted else None)
        or _state_by_topic(target, assignment)
    )
    return Entry(partition, target, state, assignment, known)


def _state_by_record(
    spec: model.ReassignmentSpec | None,
    target: Replicas,
    assignment: model.PartitionAssignment | None,
) -> EntryState | None:
    """Return the state by the daemon's record, None without a record of this entry."""
    if spec is not None and spec.target == target:
        moving = assignment is not None and assignment.is_reassigning
        return EntryState.MOVING if moving else EntryState.ACCEPTED
    if spec is not None and spec.rolls_back:
        return EntryState.ROLLING_BACK
    return None


def _state_by_topic(target: Replicas, assignment: model.PartitionAssignment | None) -> EntryState:
    """Return the state by the topic znode alone."""
    if assignment is None:
        return EntryState.REFUSED
    if assignment.is_reassigning:
        # A foreign reassignment, to this target or to another one.
        same = assignment.target_replicas == target
        return EntryState.MOVING if same else EntryState.REFUSED
    return EntryState.DONE if assignment.replicas == target else EntryState.REFUSED
