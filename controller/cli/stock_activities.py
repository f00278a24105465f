"""
Which partitions are being reassigned, as Kafka's own tool understands it.

The tool asks the controller; here it is the topic znodes, whoever wrote them, and what the daemon
has accepted or is about to judge. A reassignment of ours is told as a whole, as Kafka would carry
it out, not as the step that is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.cli.ports import InspectorPort
from controller.core.model import (
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    TopicAssignment,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Activity:
    """One partition that is being reassigned."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas


@dataclass(frozen=True, slots=True)
class Activities:
    """One look at the cluster."""

    topics: Mapping[str, TopicAssignment]
    active: Mapping[TopicPartition, Activity]

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return what the topic znode says of a partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


def read_activities(inspector: InspectorPort) -> Activities:
    """
    Look.

    The order of the reads matters, see ``plans.look``: an entry always stands somewhere.
    """
    targets: dict[TopicPartition, Replicas] = {}
    plan = inspector.read_plan()
    submitted = inspector.read_submissions(inspector.submission_names()).values()
    for found in (plan, *submitted):
        targets |= {} if found is None else found.entries
    specs = inspector.read_specs(inspector.reassigned_partitions())
    targets |= {p: spec.target for p, spec in specs.items() if isinstance(spec, ReassignmentSpec)}
    topics = inspector.survey_topics()
    return Activities(topics, dict(_active(topics, targets)))


def _active(
    topics: Mapping[str, TopicAssignment], targets: Mapping[TopicPartition, Replicas]
) -> Iterable[tuple[TopicPartition, Activity]]:
    for topic, assignment in topics.items():
        for number, found in assignment.partitions.items():
            partition = TopicPartition(topic, number)
            target = targets.get(partition)
            if target is not None:
                yield partition, _towards(target, found)
            elif found.is_reassigning:
                yield (
                    partition,
                    Activity(found.replicas, found.adding_replicas, found.removing_replicas),
                )


def _towards(target: Replicas, now: PartitionAssignment) -> Activity:
    removing = tuple(r for r in now.replicas if r not in target)
    return Activity(
        replicas=target + removing,
        adding=tuple(r for r in target if r not in now.origin_replicas),
        removing=removing,
    )
