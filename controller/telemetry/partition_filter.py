"""
A page of the reassigning partitions, filtered: what the status page's table shows.

Runs on the loop's thread, one page at a time: every reassignment is looked at once, and only those
of the page are described.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from controller.core.blocked_reasons import BlockedReasons
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.phases import LABELS, Pending
from controller.core.reassignments import Reassignment
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import is_stalled
from controller.telemetry.status import Clocks, partition_document

ROWS: Final = 50
IN_FLIGHT: Final = "in_flight"
"""Stands for every phase but ``pending``."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which partitions are wanted; empty is any."""

    topic: str = ""
    """A part of the topic's name."""
    request: str = ""
    phase: str = ""
    broker: int | None = None
    """It holds a replica, or will."""
    page: int = 1

    def selects(
        self, view: ClusterView, partition: TopicPartition, reassignment: Reassignment
    ) -> bool:
        """Whether a reassignment is wanted."""
        spec = reassignment.spec
        if self.request and spec.request != self.request:
            return False
        if self.topic and self.topic not in partition.topic:
            return False
        if self.phase == IN_FLIGHT:
            if isinstance(reassignment.phase, Pending) and not reassignment.step:
                return False
        elif self.phase and LABELS[type(reassignment.phase)] != self.phase:
            return False
        if self.broker is None:
            return True
        broker = BrokerId(self.broker)
        assignment = view.known_assignment(partition)
        return broker in spec.target or (assignment is not None and broker in assignment.replicas)


def listing_of(
    view: ClusterView, wanted: Filter, clocks: Clocks, *, stalled_after_s: float
) -> dict[str, Any]:
    """Return one page of the partitions that are wanted, those in flight first."""
    moving: list[TopicPartition] = []
    waiting: list[TopicPartition] = []
    for partition, reassignment in view.reassignments.items():
        if wanted.selects(view, partition, reassignment):
            (moving if reassignment.begun else waiting).append(partition)
    total = len(moving) + len(waiting)
    pages = max(1, -(-total // ROWS))
    page = min(max(1, wanted.page), pages)
    first, last = (page - 1) * ROWS, page * ROWS
    shown = moving[first:last] + waiting[max(0, first - len(moving)) : max(0, last - len(moving))]
    waits = BlockedReasons(view, clocks.now)
    still_since = Instant(clocks.now - stalled_after_s)
    return {
        "total": total,
        "page": page,
        "pages": pages,
        "partitions": [
            partition_document(
                view,
                partition,
                clocks,
                waits,
                is_stalled=view.leading
                and is_stalled(
                    view.reassignments[partition],
                    waits.of(view.reassignments[partition]),
                    still_since,
                ),
            )
            for partition in shown
        ],
    }
