"""
Topics, and their active reassignments as Kafka's tool sees them.

Kafka's tool asks the controller. Here they come from topic znodes, and from what the daemon has
accepted or has yet to accept. A reassignment of the daemon is shown whole, not as the step in
flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.core import model
from controller.zk.operator_client import OperatorClient


@dataclass(frozen=True, slots=True)
class ActiveReassignment:
    """One active reassignment, as KIP-455 describes it."""

    replicas: model.Replicas
    adding: model.Replicas
    removing: model.Replicas


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Topics and active reassignments."""

    topics: Mapping[str, model.TopicAssignment]
    active: Mapping[model.TopicPartition, ActiveReassignment]

    def assignment(self, partition: model.TopicPartition) -> model.PartitionAssignment | None:
        """Return the assignment of a partition, None if it does not exist."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


def read_cluster(operator: OperatorClient) -> ClusterState:
    """Read topics and active reassignments; the order of reads is as in ``entries``."""
    targets: dict[model.TopicPartition, model.Replicas] = {}
    plan = operator.requests.plan()
    for found in (plan, *operator.requests.open_submissions()):
        targets |= {} if found is None else found.entries
    specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
    targets |= {
        p: spec.target for p, spec in specs.items() if isinstance(spec, model.ReassignmentSpec)
    }
    topics = operator.survey_topics()
    return ClusterState(topics, dict(_active(topics, targets)))


def _active(
    topics: Mapping[str, model.TopicAssignment],
    targets: Mapping[model.TopicPartition, model.Replicas],
) -> Iterator[tuple[model.TopicPartition, ActiveReassignment]]:
    for topic, assignment in topics.items():
        for number, found in assignment.partitions.items():
            partition = model.TopicPartition(topic, number)
            target = targets.get(partition)
            if target is not None:
                yield partition, _whole(target, found)
            elif found.is_reassigning:
                yield (
                    partition,
                    ActiveReassignment(
                        found.replicas, found.adding_replicas, found.removing_replicas
                    ),
                )


def _whole(target: model.Replicas, now: model.PartitionAssignment) -> ActiveReassignment:
    """Return the reassignment as Kafka would carry it out, in a single step."""
    removing = tuple(r for r in now.replicas if r not in target)
    return ActiveReassignment(
        replicas=target + removing,
        adding=tuple(r for r in target if r not in now.origin_replicas),
        removing=removing,
    )
