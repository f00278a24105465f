"""
Participants: the topics and brokers that the open reassignments concern, by request.

Updated as reassignments begin, change and end, so that the end of a throttle is noticed without a
pass over all of them. An entity that was changed since it was last found right is ``unsettled``:
``throttles`` examines it, and no throttled step begins on it before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core import model
from controller.core.model import Replicas, RequestId, Route, TopicPartition
from controller.core.pacing import applied_throttles


@dataclass(frozen=True, slots=True)
class Participant:
    """The copies of one reassignment: where they may come from, and where they go."""

    spec: model.ReassignmentSpec
    sources: Replicas
    receivers: Replicas


def participant_of(
    spec: model.ReassignmentSpec, assignment: model.PartitionAssignment | None
) -> Participant:
    """
    Return the sources and receivers of a reassignment.

    They stay the same from the first step to the last, so that no setting is rewritten in between:
    any replica from before the reassignment may serve, every other replica receives. In a rollback,
    or after a change of the target, an original replica that was dropped, or is just being dropped,
    receives as well.
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
    """The participants of all open reassignments that are throttled by us."""

    topics: dict[str, dict[int, Participant]] = field(default_factory=dict)
    requests: dict[applied_throttles.Entity, Counter[RequestId]] = field(default_factory=dict)
    """The number of reassignments of each request that concern a topic or a broker."""
    movers: dict[applied_throttles.Entity, Counter[RequestId]] = field(default_factory=dict)
    """The number of those of each request that begin or stop moves within a broker."""
    unsettled: dict[applied_throttles.Entity, int] = field(default_factory=dict)
    """Entities to examine, with the number of the newest note about each."""
    notes: int = 0

    def put(
        self,
        partition: TopicPartition,
        spec: model.ReassignmentSpec,
        assignment: model.PartitionAssignment | None,
    ) -> None:
        """Count a reassignment that began or changed; foreign ones are not throttled."""
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
        for broker in spec.placed_brokers:
            entity = applied_throttles.broker_entity(broker)
            self.movers.setdefault(entity, Counter())[spec.request] += 1
            self.note(entity)
        self.note(applied_throttles.topic_entity(partition.topic))

    def drop(self, partition: TopicPartition) -> None:
        """Forget a reassignment that ended; only the last of its request changes a throttle."""
        in_topic = self.topics.get(partition.topic, {})
        participant = in_topic.pop(partition.partition, None)
        if participant is None:
            return
        if not in_topic:
            del self.topics[partition.topic]
        for broker in participant.spec.placed_brokers:
            entity = applied_throttles.broker_entity(broker)
            movers = self.movers[entity]
            movers[participant.spec.request] -= 1
            if not movers[participant.spec.request]:
                del movers[participant.spec.request]
                self.note(entity)
            if not movers:
                del self.movers[entity]
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
        """Forget everything: it is read again."""
        self.topics.clear()
        self.requests.clear()
        self.movers.clear()
        self.unsettled.clear()

    def holds(self, partition: TopicPartition, spec: model.ReassignmentSpec) -> bool:
        """Return whether the reassignment is counted with this spec."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return participant is not None and participant.spec == spec

    def entities(self, partition: TopicPartition) -> Iterable[applied_throttles.Entity]:
        """Return the topic and the brokers of a reassignment; none if it is not counted."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return () if participant is None else _entities(partition, participant)

    def note(self, entity: applied_throttles.Entity) -> None:
        """Have a topic or a broker examined."""
        self.notes += 1
        self.unsettled[entity] = self.notes

    def note_all(self, leased: Iterable[applied_throttles.Entity]) -> None:
        """Have every entity examined that is concerned or has a throttle applied."""
        for entity in sorted({*self.requests, *leased}):
            self.note(entity)

    def settle(self, entity: applied_throttles.Entity, note: int) -> bool:
        """Note that an entity was found right as of a note; False if a newer note exists."""
        if self.unsettled.get(entity) != note:
            return False
        del self.unsettled[entity]
        return True


def _entities(
    partition: TopicPartition, participant: Participant
) -> tuple[applied_throttles.Entity, ...]:
    brokers = sorted({*participant.sources, *participant.receivers})
    return (
        applied_throttles.topic_entity(partition.topic),
        *(applied_throttles.broker_entity(b) for b in brokers),
    )
