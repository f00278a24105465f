"""
Compare the cluster with the assignment that a plan was made from, partition by partition.

The plan's change still applies to a partition that changed in the meantime if the brokers to drop
are still replicas and the brokers to add are not. Other changed partitions are left out, with the
reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.core.model import Replicas


class Basis(StrEnum):
    """A partition's state relative to the plan."""

    UNCHANGED = "unchanged"
    DONE = "done"
    """It already has the planned replicas."""
    REBASED = "rebased"
    """It changed, and the plan's change applies to its current replicas."""
    GONE = "gone"
    """The topic or partition no longer exists."""
    CONFLICTING = "conflicting"
    """It changed, and the plan's change no longer applies."""


@dataclass(frozen=True, slots=True)
class Rebase:
    """The result for one entry of a plan."""

    basis: Basis
    target: Replicas | None
    """The replicas to request now; None: nothing."""


def rebase(planned_from: Replicas, target: Replicas, now: Replicas | None) -> Rebase:
    """
    Apply one entry of a plan to the partition's current replicas.

    Args:
        planned_from: The replicas when the plan was made.
        target: The planned replicas.
        now: The current replicas; None: the partition does not exist.

    """
    if now is None:
        return Rebase(Basis.GONE, None)
    # First, as an entry that changes log directories alone has the same replicas before and after.
    if now == planned_from:
        return Rebase(Basis.UNCHANGED, target)
    if now == target:
        return Rebase(Basis.DONE, None)
    adding = [b for b in target if b not in planned_from]
    removing = [b for b in planned_from if b not in target]
    clear = all(b in now for b in removing) and not any(b in now for b in adding)
    if not clear or len(adding) != len(removing) or not adding:
        return Rebase(Basis.CONFLICTING, None)
    instead = dict(zip(removing, adding, strict=True))
    return Rebase(Basis.REBASED, tuple(instead.get(b, b) for b in now))
