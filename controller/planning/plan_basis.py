"""
Whether the cluster is still what a plan was made from, partition by partition.

A partition that changed meanwhile may still take the plan's change where that is clear: the brokers
it drops are there yet, the ones it adds are not. Everything else is left out, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.core.model import Replicas


class Basis(StrEnum):
    """How a partition stands to the plan."""

    UNCHANGED = "unchanged"
    DONE = "done"
    """It has the replicas that the plan wants already."""
    REBASED = "rebased"
    """It changed; the plan's change can be made to what it is now."""
    GONE = "gone"
    """The topic or partition does not exist any more."""
    CONFLICTING = "conflicting"
    """It changed, and what the plan wants of it is not clear any more."""


@dataclass(frozen=True, slots=True)
class Rebase:
    """What becomes of one entry of a plan."""

    basis: Basis
    target: Replicas | None
    """What to ask for now; None: nothing."""


def rebase(planned_from: Replicas, target: Replicas, now: Replicas | None) -> Rebase:
    """
    Hold one entry of a plan against the cluster.

    Args:
        planned_from: The replicas when the plan was made.
        target: The replicas it wants.
        now: The replicas now; None: there is no such partition.

    """
    if now is None:
        return Rebase(Basis.GONE, None)
    if now == target:
        return Rebase(Basis.DONE, None)
    if now == planned_from:
        return Rebase(Basis.UNCHANGED, target)
    adding = [b for b in target if b not in planned_from]
    removing = [b for b in planned_from if b not in target]
    clear = all(b in now for b in removing) and not any(b in now for b in adding)
    if not clear or len(adding) != len(removing) or not adding:
        return Rebase(Basis.CONFLICTING, None)
    instead = dict(zip(removing, adding, strict=True))
    return Rebase(Basis.REBASED, tuple(instead.get(b, b) for b in now))
