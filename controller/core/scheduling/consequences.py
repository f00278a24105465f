"""
The effects on throttles, sizes and health when a reassignment begins, changes or ends.

Called by ``observe`` and ``apply`` when they fold in a spec from any source.
"""

from __future__ import annotations

from controller.core.model import Instant, TopicPartition
from controller.core.scheduling.isr_health import judge
from controller.core.scheduling.partition_sizes import forget_size, size_wanted
from controller.core.view import ClusterView


def spec_held(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Update throttles, sizes and health for a reassignment that is new or has another spec."""
    reassignment = view.reassignments[partition]
    view.participants.put(partition, reassignment.spec, view.known_assignment(partition))
    size_wanted(view, partition, now)
    judge(view, partition)
    view.due.throttles = True


def spec_let_go(view: ClusterView, partition: TopicPartition) -> None:
    """Update throttles, sizes and health for a reassignment that is gone."""
    view.participants.drop(partition)
    forget_size(view, partition)
    judge(view, partition)
    view.due.throttles = True
