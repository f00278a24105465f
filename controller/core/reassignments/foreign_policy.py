"""
The policy for foreign reassignments, which other clients began.

They are found in the topic znodes, reported, and left alone unless configured. The native engine is
the controller and carries them out to their own target. With the delegated engine the cluster's
controller does; the setting ``foreign_moves`` decides how ours relate to them.
"""

from __future__ import annotations

from controller.core import core_settings, model
from controller.core.model import Blocked, BlockedBy, Route, TopicPartition, count_text
from controller.core.view import ClusterView


def _foreign_policy(view: ClusterView) -> core_settings.ForeignMoves:
    """Return the policy for foreign reassignments; the native engine has to adopt them."""
    if view.role.engine is core_settings.EngineName.DELEGATED:
        return view.options.foreign_moves
    return core_settings.ForeignMoves.ADOPT


def is_limited(view: ClusterView, spec: model.ReassignmentSpec) -> bool:
    """Return whether the steps of a reassignment count against the limits."""
    return (
        spec.route is not Route.FOREIGN or _foreign_policy(view) is core_settings.ForeignMoves.ADOPT
    )


def foreign_spec(
    assignment: model.PartitionAssignment, topic_czxid: model.Zxid
) -> model.ReassignmentSpec:
    """Return the spec of a foreign reassignment: its target, and its origin where it is known."""
    return model.ReassignmentSpec(
        assignment.target_replicas,
        assignment.origin_replicas or None,
        model.FOREIGN,
        Route.FOREIGN,
        topic_czxid=topic_czxid,
    )


def foreign_gate(view: ClusterView, spec: model.ReassignmentSpec) -> Blocked | None:
    """Return why a step waits for foreign reassignments; a rollback does not wait."""
    if _foreign_policy(view) is not core_settings.ForeignMoves.WAIT or spec.rolls_back:
        return None
    if view.reassignments_tenure.may_have_foreign:
        return Blocked(BlockedBy.FOREIGN_MOVES, "foreign reassignments are being read")
    count = view.requests.foreign_count
    detail = f"foreign reassignments of {count_text(count, 'partition')}"
    return Blocked(BlockedBy.FOREIGN_MOVES, detail) if count else None


def is_ours(
    view: ClusterView, spec: model.ReassignmentSpec, assignment: model.PartitionAssignment
) -> bool:
    """
    Return whether a step in the topic znode can be ours; under ``adopt`` every step is.

    The alter entry itself is not recorded. The replicas that it adds were in this target or an
    earlier one of the partition; those that it removes were there before.
    """
    if _foreign_policy(view) is core_settings.ForeignMoves.ADOPT or spec.original is None:
        return True
    named = {*spec.target, *spec.original, *spec.abandoned}
    return named.issuperset(assignment.replicas)


def refusal_for_foreign(
    view: ClusterView, request: model.RequestId, partition: TopicPartition, entry: str
) -> model.Refusal | None:
    """Return the refusal of an entry while foreign reassignments exist, under ``refuse``."""
    count = view.requests.foreign_count
    if _foreign_policy(view) is not core_settings.ForeignMoves.REFUSE or not count:
        return None
    running = view.reassignments.by_partition.get(partition)
    if running is not None and running.spec.route is not Route.FOREIGN:
        return None
    return model.Refusal(
        request,
        entry,
        model.RefusalReason.FOREIGN_MOVE,
        f"foreign reassignments of {count_text(count, 'partition')}, and foreign_moves is refuse",
        partition,
    )


def waits_for_foreign(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether an entry has to wait for the foreign reassignment of its partition."""
    if _foreign_policy(view) is core_settings.ForeignMoves.ADOPT:
        return False
    running = view.reassignments.by_partition.get(partition)
    if running is not None:
        return running.spec.route is Route.FOREIGN
    assignment = view.topics.assignment(partition)
    return assignment is not None and assignment.is_reassigning
