"""
What follows for throttles, sizes and health when a reassignment comes, changes or goes.

Called by ``observe`` and ``apply`` where they fold a goal, however it became known.
"""

from __future__ import annotations

from controller.core.model import Instant, TopicPartition
from controller.core.scheduling.isr_health import judge
from controller.core.scheduling.partition_sizes import forget_size, size_wanted
from controller.core.view import ClusterView


def spec_held(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """A reassignment is ours, or has another goal: throttles, sizes and health go by it."""
    reassignment = view.reassignments[partition]
    view.participants.put(partition, reassignment.spec, view.known_assignment(partition))
    size_wanted(view, partition, now)
    judge(view, partition)
    view.due.throttles = True


def spec_let_go(view: ClusterView, partition: TopicPartition) -> None:
    """A reassignment is no more."""
    view.participants.drop(partition)
    forget_size(view, partition)
    judge(view, partition)
    view.due.throttles = True
