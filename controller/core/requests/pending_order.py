"""
The order of a request's pending partitions, where sizes define it.

Sorting tens of thousands takes a moment, so it is done when sizes arrive or the order changes, not
for every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.core.controls import QueueOrder
from controller.core.model import BrokerId, TopicPartition
from controller.core.records import Change, Decision, PendingSortedRecord
from controller.core.scheduling.limits import order_of
from controller.core.view import ClusterView


def put_in_order(view: ClusterView) -> Decision:
    """Return the record that sorts every line, where the order is not that of submission."""
    if order_of(view) is QueueOrder.SUBMITTED or not view.waiting or not view.sizes:
        return Decision()
    return Decision((Change((PendingSortedRecord(),)),))


def sort_lines(view: ClusterView) -> None:
    """Sort every request's line by the order in force."""
    key = _key_of(view, order_of(view))
    for request in view.waiting.requests():
        view.waiting.sort(request, key)


def _key_of(view: ClusterView, order: QueueOrder) -> Callable[[TopicPartition], Any]:
    sizes = view.sizes
    if order is QueueOrder.SMALL_FIRST:
        # Unknown sizes come last.
        return lambda p: (p not in sizes, sizes.get(p, 0))
    if order is QueueOrder.LARGE_FIRST:
        return lambda p: -sizes.get(p, -1)
    filled = _fill_of_brokers(view)
    return lambda p: (-_fullest_left(view, filled, p), -sizes.get(p, 0))


def _fill_of_brokers(view: ClusterView) -> dict[BrokerId, int]:
    """Return the bytes each broker holds of what is waiting to move."""
    filled: dict[BrokerId, int] = {}
    for partition in view.reassignments:
        assignment = view.assignment(partition)
        for broker in assignment.replicas if assignment is not None else ():
            filled[broker] = filled.get(broker, 0) + view.sizes.get(partition, 0)
    return filled


def _fullest_left(view: ClusterView, filled: dict[BrokerId, int], partition: TopicPartition) -> int:
    """Return the fill of the fullest broker that the partition leaves."""
    target = view.reassignments[partition].spec.target
    assignment = view.assignment(partition)
    left = [r for r in assignment.replicas if r not in target] if assignment is not None else []
    return max((filled.get(r, 0) for r in left), default=-1)
