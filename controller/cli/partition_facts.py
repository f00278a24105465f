"""
The state of one partition by ZooKeeper, for ``explain``: assignment, target, and what it became.

A request that accepted the partition later replaces what an older one left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from controller.cli.request_state import open_requests
from controller.core import model
from controller.core.model import ReassignmentSpec, Replicas, TopicPartition, entry_text
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.steps import Step, steps_to
from controller.errors import InvalidInputError
from controller.previews.entries import has_begun
from controller.previews.holds import evacuation_words

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


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
    """The last request refused it."""
    outcome: model.PartitionOutcome | None = None
    """What the last request made of it, if that was not done."""
    evacuated: Mapping[model.BrokerId, str] = field(default_factory=dict)
    """Its brokers that are evacuated from leaderships, since when, and the verdict on each."""

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
    def has_moved(self) -> bool:
        """Whether its reassignment made a step, as far as its record says."""
        spec = self.spec
        return isinstance(spec, ReassignmentSpec) and has_begun(spec, self.assignment)

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
        assignment = self.assignment

        def is_sound(replica: model.BrokerId) -> bool:
            is_kept = known is None or replica in known.isr or replica in assignment.adding_replicas
            return is_kept and replica in self.live

        leader = model.NO_LEADER if known is None else known.leader
        return steps_to(self.assignment.target_replicas, target, leader, step_size, is_sound)


def read_facts(operator: OperatorClient, partition: TopicPartition) -> PartitionFacts:
    """Read the state of a partition from ZooKeeper; it must exist."""
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
    ended = EndedRequests(operator, partition)
    return PartitionFacts(
        partition=partition,
        assignment=assignment,
        state=operator.partitions.states([partition]).get(partition),
        spec=spec,
        planned=None if plan is None else plan.entries.get(partition),
        live=operator.cluster.broker_ids(),
        is_being_deleted=partition.topic in operator.partitions.deletions(),
        orphans=operator.partitions.orphans_of(partition),
        refusal=ended.last_refusal(),
        outcome=_outcome_of(operator, open_requests(operator), partition) or ended.last_outcome(),
        evacuated=_evacuated(operator, assignment.replicas),
    )


def _evacuated(operator: OperatorClient, replicas: Replicas) -> dict[model.BrokerId, str]:
    """Describe the evacuations of brokers with a replica."""
    found = operator.requests.evacuations().brokers
    if found.keys().isdisjoint(replicas):
        return {}
    from controller.previews.evacuation_preview import verdicts  # noqa: PLC0415 - rarely needed

    said = verdicts(operator)
    return {b: evacuation_words(found[b], said.get(b)) for b in replicas if b in found}


def _outcome_of(
    operator: OperatorClient, requests: Iterable[model.RequestId], partition: TopicPartition
) -> model.PartitionOutcome | None:
    histories = operator.outcomes.histories(requests).values()
    endings = (outcome for history in histories for outcome in history.endings)
    return next((outcome for outcome in endings if outcome.partition == partition), None)


class EndedRequests:
    """What ended requests made of a partition, as far as no newer one accepted it."""

    def __init__(self, operator: OperatorClient, partition: TopicPartition) -> None:
        """Read the newest outcomes; entries are read where a request is newer than a finding."""
        self._operator = operator
        self._partition = partition
        self._outcomes = operator.newest_outcomes()
        self._accepts = cache(self._is_accepted_by)

    def last_outcome(self) -> model.PartitionOutcome | None:
        """Return the last outcome other than done; None where a newer request accepted it."""
        for summary in self._outcomes:
            if any(summary.fates.values()):
                found = _outcome_of(self._operator, [summary.request], self._partition)
                if found is not None:
                    return None if self._is_outdated(found.request) else found
        return None

    def last_refusal(self) -> model.Refusal | None:
        """Return the last refusal; None where a newer request accepted it."""
        entry_start = entry_text(self._partition, ()).removesuffix("]")
        refusals = (refusal for outcome in self._outcomes for refusal in outcome.refused)
        found = next((r for r in refusals if r.entry.startswith(entry_start)), None)
        return None if found is None or self._is_outdated(found.request) else found

    def _is_outdated(self, request: model.RequestId) -> bool:
        newer = takewhile(lambda summary: summary.request != request, self._outcomes)
        return any(self._accepts(summary.request) for summary in newer)

    def _is_accepted_by(self, request: model.RequestId) -> bool:
        entries = self._operator.outcomes.accepted_entries(request)
        return any(entry.partition == self._partition for entry in entries)
