"""
The preconditions of an alter request to the cluster's own controller.

The gates are a function of these facts: while none of them changes, their result holds. Where one
changed before the request is sent, it is withdrawn and everything is decided again.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    TopicConfig,
    TopicPartition,
)
from controller.core.view import ClusterView


class AlterPreconditions(NamedTuple):
    """The facts about one partition."""

    spec: ReassignmentSpec
    assignment: PartitionAssignment
    state: PartitionState
    settings: TopicConfig | None
    live: tuple[tuple[BrokerId, BrokerEpoch], ...]
    """Live brokers that have, had or are to have a replica, with their registrations."""


def preconditions_of(view: ClusterView, partition: TopicPartition) -> AlterPreconditions | None:
    """Return the facts; None where one is unknown or may have changed since it was read."""
    reassignment = view.reassignments.get(partition)
    assignment, state = view.assignment(partition), view.states.get(partition)
    if reassignment is None or assignment is None or state is None:
        return None
    if view.watched.get(partition) is not True:
        return None
    spec = reassignment.spec
    concerned = {*assignment.replicas, *spec.target, *(spec.original or ())}
    live = ((b, view.brokers[b].epoch) for b in sorted(concerned) if view.is_live(b, partition))
    return AlterPreconditions(
        spec, assignment, state, view.configs.get(partition.topic), tuple(live)
    )
