"""
Retarget a step in flight: its target changed (the drop set of KIP-236), or a disk has no room.

Nothing is added here. An added replica that is not wanted any more leaves, at once where it is not
in sync, otherwise through the gate of every drop; a removed replica that is wanted again stays, and
so does a good copy that waits for replicas which only a later step adds. A copy that would fill its
disk is taken back before it is in sync. From there the ordinary steps continue. Pure arithmetic
over one partition's facts; the writes are in ``step_start``.
"""

from __future__ import annotations

from typing import Final

from controller.core.disks import disk_space
from controller.core.model import BlockedBy, PartitionAssignment, ReassignmentSpec, Replicas, Route
from controller.core.reassignments.partition_context import PartitionContext
from controller.core.reassignments.steps import drop_set

NO_ROOM: Final = "a log directory fills"
"""The cause of a step's retarget that takes copies back."""


def retargeted_step(context: PartitionContext) -> tuple[PartitionAssignment, str] | None:
    """
    Return the retargeted entry of the topic znode with its cause; None: the step is right.

    A replica that leaves while it is being added is listed as both adding and removing until its
    deletion is acknowledged: a Kafka controller that takes over removes it then.
    """
    is_off = is_off_course(context)
    if not is_off and not _is_stuck(context):
        copies = without_room(context)
        return (_taken_back(context, copies), NO_ROOM) if copies else None
    cause = changed_cause(context.spec) if is_off else "good copies wait for a later step"
    assignment, target = context.assignment, context.spec.target
    dropping = _dropping(context)
    if dropping and set(dropping) == {r for r in assignment.replicas if r not in target}:
        kept = tuple(r for r in target if r in assignment.replicas)
    else:
        kept = tuple(r for r in assignment.replicas if r not in dropping)
    replicas = kept + dropping
    adding = tuple(r for r in replicas if r in assignment.adding_replicas)
    return PartitionAssignment(replicas, adding, dropping), cause


def is_off_course(context: PartitionContext) -> bool:
    """Return whether the step adds unwanted replicas or removes wanted ones."""
    assignment, target = context.assignment, context.spec.target
    adding, removing = assignment.adding_replicas, assignment.removing_replicas
    unwanted = any(r not in target and r not in removing for r in adding)
    # A replica in both sets was reduced to the step size, or is leaving already.
    missed = any(r in target and r not in adding for r in removing)
    return unwanted or missed


def changed_cause(spec: ReassignmentSpec) -> str:
    """Return the cause of a step's retarget to the present target."""
    return "rolled back" if spec.rolls_back else "the target changed"


def without_room(context: PartitionContext) -> Replicas:
    """
    Return the added replicas that would fill their disks and are not in the ISR.

    A foreign reassignment continues: once it is not in the topic znode, nothing records it.
    """
    if context.spec.route is Route.FOREIGN:
        return ()
    assignment, isr = context.assignment, context.state.isr
    copying = (
        r
        for r in assignment.adding_replicas
        if r not in isr and r not in assignment.removing_replicas
    )
    return tuple(r for r in copying if disk_space.has_no_room(context.view, r, context.partition))


def _taken_back(context: PartitionContext, copies: Replicas) -> PartitionAssignment:
    """
    Return the entry of the topic znode without these copies; all other replicas stay.

    So does a replica that the step removes, unless it is leaving as an unwanted copy: it may be the
    one that the copy was to replace.
    """
    assignment, isr = context.assignment, context.state.isr
    adding = assignment.adding_replicas
    leaving = tuple(r for r in assignment.removing_replicas if r in adding and r not in isr)
    dropping = copies + leaving
    staying = tuple(r for r in assignment.replicas if r not in dropping)
    original = context.spec.original or ()
    kept = original if set(original) == set(staying) else staying
    return PartitionAssignment(kept + dropping, adding, dropping)


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
    if not is_below_min_isr and context.copies_gate(removing) is None:
        return False
    if context.in_sync_gate(assignment.target_replicas) is not None:
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
