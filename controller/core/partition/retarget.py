"""
Retarget a step in flight whose target changed: the drop set of KIP-236, and the rollback.

Nothing is added here. An added replica that is not wanted any more leaves, at once where it is not
in sync, otherwise through the gate of every drop; a removed replica that is wanted again stays, and
so does a good copy that waits for replicas which only a later step adds. From there the ordinary
steps continue. Pure arithmetic over one partition's facts; the writes are in ``step_start``.
"""

from __future__ import annotations

from controller.core.model import BlockedBy, PartitionAssignment, Replicas
from controller.core.partition.context import PartitionContext
from controller.core.steps import drop_set


def retargeted_step(context: PartitionContext) -> PartitionAssignment | None:
    """
    Return the retargeted entry of the topic znode, or None where the step is right.

    A replica that leaves while it is being added is listed as both adding and removing until its
    deletion is acknowledged: a Kafka controller that takes over removes it then.
    """
    if not is_off_course(context) and not _is_stuck(context):
        return None
    assignment, target = context.assignment, context.spec.target
    dropping = _dropping(context)
    if dropping and set(dropping) == {r for r in assignment.replicas if r not in target}:
        kept = tuple(r for r in target if r in assignment.replicas)
    else:
        kept = tuple(r for r in assignment.replicas if r not in dropping)
    replicas = kept + dropping
    adding = tuple(r for r in replicas if r in assignment.adding_replicas)
    return PartitionAssignment(replicas, adding, dropping)


def is_off_course(context: PartitionContext) -> bool:
    """Return whether the step adds unwanted replicas or removes wanted ones."""
    assignment, target = context.assignment, context.spec.target
    adding, removing = assignment.adding_replicas, assignment.removing_replicas
    unwanted = any(r not in target and r not in removing for r in adding)
    # A replica in both sets was reduced to the step size, or is leaving already.
    missed = any(r in target and r not in adding for r in removing)
    return unwanted or missed


def _is_stuck(context: PartitionContext) -> bool:
    """
    Return whether the removed replicas wait for replicas that only a later step can add.

    A foreign step removes copies that the rollback still needs. So does a step of ours that lost
    another copy meanwhile, one whose target got larger, and one that removes a replica that was
    dead at its begin and is a good copy now. The same holds where ``min.insync.replicas`` was
    raised since.
    """
    assignment, isr = context.assignment, context.state.isr
    removing = assignment.removing_replicas
    if not removing:
        return False
    waits_for = context.drop_blocked(removing)
    is_below_min_isr = waits_for is not None and waits_for.by is BlockedBy.MIN_ISR
    if not is_below_min_isr and context.uncopied(removing) is None:
        return False
    if context.unsynced(assignment.target_replicas) is not None:
        return False
    live = context.view.live(context.spec.target, context.partition)
    return all(r in isr for r in live if r in assignment.replicas)


def _dropping(context: PartitionContext) -> Replicas:
    """Return the replicas that can leave now."""
    assignment, state, spec = context.assignment, context.state, context.spec
    excess = tuple(r for r in assignment.replicas if r not in spec.target)
    is_whole = all(r in assignment.replicas for r in spec.target)
    if is_whole and context.keeps_copies(excess) and context.drop_blocked(excess) is None:
        return excess
    chosen = drop_set(assignment.replicas, state.isr, state.leader, spec.top, spec.target)
    if is_whole:
        chosen = excess
    can_go = context.keeps_copies(chosen) and context.drop_blocked(chosen) is None
    if chosen and can_go and state.leader not in chosen:
        return chosen
    return tuple(r for r in chosen if r not in state.isr and r != state.leader)
