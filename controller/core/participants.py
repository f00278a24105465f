"""
Which topics and brokers the open reassignments concern, and by which requests.

Kept as reassignments come, change and go, so that a throttle's end is noticed without looking at
all of them. What was touched since it was last found right is ``unsettled``: ``throttles`` looks
at it, and no throttled step begins on it before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.applied_throttles import Entity, broker_entity, topic_entity
from controller.core.model import (
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Participant:
    """One reassignment's copies: where they may come from, and where they go."""

    spec: ReassignmentSpec
    sources: Replicas
    receivers: Replicas


def participant_of(spec: ReassignmentSpec, assignment: PartitionAssignment | None) -> Participant:
    """
    Return the stake of a goal.

    It is the same from the first step to the last, so that nothing has to be rewritten in between:
    any replica from before the reassignment may serve, whatever is not one of them receives. On
    the way back, or after a change of the target, an original that was dropped, or is just being
    dropped, receives as well.
    """
    present: Replicas | None = None
    leaving: Replicas = ()
    if assignment is not None:
        present = assignment.origin_replicas
        leaving = assignment.removing_replicas
    before = spec.original if spec.original is not None else present or ()
    here = tuple(r for r in (before if present is None else present) if r not in leaving)
    receivers = tuple(r for r in spec.target if r not in before or r not in here)
    abandoned = tuple(sorted(spec.abandoned - frozenset(before)))
    return Participant(spec, before + abandoned, receivers)


@dataclass(slots=True)
class Participants:
    """The stakes of all open reassignments that are ours to pace."""

    topics: dict[str, dict[int, Participant]] = field(default_factory=dict)
    requests: dict[Entity, Counter[RequestId]] = field(default_factory=dict)
    """How many reassignments of each request concern a topic or a broker."""
    unsettled: dict[Entity, int] = field(default_factory=dict)
    """What has to be looked at, with the number of the newest note about it."""
    notes: int = 0

    def put(
        self,
        partition: TopicPartition,
        spec: ReassignmentSpec,
        assignment: PartitionAssignment | None,
    ) -> None:
        """Count a reassignment that began or changed; what others began is not ours to pace."""
        self.drop(partition)
        if spec.route is Route.FOREIGN:
            return
        participant = participant_of(spec, assignment)
        self.topics.setdefault(partition.topic, {})[partition.partition] = participant
        for entity in _entities(partition, participant):
            requests = self.requests.setdefault(entity, Counter())
            requests[spec.request] += 1
            if requests[spec.request] == 1:
                self.note(entity)
        self.note(topic_entity(partition.topic))

    def drop(self, partition: TopicPartition) -> None:
        """Forget a reassignment that ended; only the last of its request changes anything."""
        in_topic = self.topics.get(partition.topic, {})
        participant = in_topic.pop(partition.partition, None)
        if participant is None:
            return
        if not in_topic:
            del self.topics[partition.topic]
        for entity in _entities(partition, participant):
            requests = self.requests[entity]
            requests[participant.spec.request] -= 1
            if requests[participant.spec.request] > 0:
                continue
            del requests[participant.spec.request]
            if not requests:
                del self.requests[entity]
            self.note(entity)

    def clear(self) -> None:
        """Forget everything: it is read anew."""
        self.topics.clear()
        self.requests.clear()
        self.unsettled.clear()

    def holds(self, partition: TopicPartition, spec: ReassignmentSpec) -> bool:
        """Whether the reassignment is counted with this very goal."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return participant is not None and participant.spec == spec

    def entities(self, partition: TopicPartition) -> Iterable[Entity]:
        """Return the topic and the brokers a reassignment concerns; none if it is not counted."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return () if participant is None else _entities(partition, participant)

    def note(self, entity: Entity) -> None:
        """Have a topic or a broker looked at."""
        self.notes += 1
        self.unsettled[entity] = self.notes

    def note_all(self, leased: Iterable[Entity]) -> None:
        """Have everything looked at: what is concerned, and what is leased."""
        for entity in sorted({*self.requests, *leased}):
            self.note(entity)

    def settle(self, entity: Entity, note: int) -> bool:
        """It was found right as of a note; False: a newer one has it looked at again."""
        if self.unsettled.get(entity) != note:
            return False
        del self.unsettled[entity]
        return True


def _entities(partition: TopicPartition, participant: Participant) -> tuple[Entity, ...]:
    brokers = sorted({*participant.sources, *participant.receivers})
    return (topic_entity(partition.topic), *(broker_entity(b) for b in brokers))
