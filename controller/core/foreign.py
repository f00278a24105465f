"""
Moves that others started: found in the topic znodes, told, and left alone unless asked for.

The native engine is the controller and drives them to their own target. The delegated one sees them
made by the cluster's controller; what they mean for ours is a setting (``foreign_moves``).
"""

from __future__ import annotations

from controller.core.model import (
    Blocked,
    BlockedBy,
    PartitionAssignment,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.options import EngineName, ForeignMoves
from controller.core.view import ClusterView

FOREIGN = RequestId("foreign")


def policy_of(view: ClusterView) -> ForeignMoves:
    """Return what foreign moves do to ours: a controller has to drive them itself."""
    if view.engine is EngineName.DELEGATED:
        return view.options.foreign_moves
    return ForeignMoves.ADOPT


def foreign_spec(assignment: PartitionAssignment) -> ReassignmentSpec:
    """Return where a move of others leads, and where it came from."""
    return ReassignmentSpec(
        assignment.target_replicas, assignment.origin_replicas, FOREIGN, Route.FOREIGN
    )


def count_of(view: ClusterView) -> int:
    """Return how many partitions others move."""
    known = view.requests.get(FOREIGN)
    return 0 if known is None else known.open


def foreign_gate(view: ClusterView, spec: ReassignmentSpec) -> Blocked | None:
    """Return why a step of ours waits for others; what goes back does not."""
    if policy_of(view) is not ForeignMoves.WAIT or spec.rolls_back:
        return None
    if view.may_have_foreign:
        return Blocked(BlockedBy.FOREIGN_MOVES, "whether others move partitions is being read")
    count = count_of(view)
    if not count:
        return None
    return Blocked(BlockedBy.FOREIGN_MOVES, f"others move {count} partitions")


def is_explained(
    view: ClusterView, spec: ReassignmentSpec, assignment: PartitionAssignment
) -> bool:
    """
    Whether a step in the topic znode can be one of ours; adopted, every step is.

    The order itself is not on record: what it adds was asked for by this goal or an earlier one of
    the partition, what it removes was there before.
    """
    if policy_of(view) is ForeignMoves.ADOPT or spec.original is None:
        return True
    named = {*spec.target, *spec.original, *spec.abandoned}
    return named.issuperset(assignment.replicas)


def others_have_it(
    view: ClusterView, request: RequestId, partition: TopicPartition, entry: str
) -> Refusal | None:
    """Return the refusal of an entry while others move partitions, where a setting wants it."""
    if policy_of(view) is not ForeignMoves.REFUSE or not count_of(view):
        return None
    running = view.reassignments.get(partition)
    if running is not None and running.spec.route is not Route.FOREIGN:
        return None
    return Refusal(
        request,
        entry,
        RefusalReason.FOREIGN_MOVE,
        f"others move {count_of(view)} partitions of this cluster, and foreign_moves is refuse",
        partition,
    )


def waits_for_others(view: ClusterView, partition: TopicPartition) -> bool:
    """Whether an entry is accepted only when others have ended their move of its partition."""
    if policy_of(view) is ForeignMoves.ADOPT:
        return False
    running = view.reassignments.get(partition)
    if running is not None:
        return running.spec.route is Route.FOREIGN
    assignment = view.assignment(partition)
    return assignment is not None and assignment.is_reassigning
