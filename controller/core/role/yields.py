"""
Whether topics that are to be deleted still have a claim to the controller's role.

Only a broker's controller deletes topics. It gets the role once for each pending deletion: when
nothing of ours is in flight any more, at the latest after a patience. A deletion that cannot end,
because a replica's broker is away, must not hold up everything else for ever either.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import Instant
from controller.core.options import TenurePolicy
from controller.core.view import ClusterView
from controller.core.works import START

DELETION_PATIENCE_S: Final = 30.0
"""
How long a pending topic deletion holds up a claim, and a tenure a pending deletion, in seconds.

As long a broker that got the role for deletions keeps it, unless they end sooner.
"""


def owes_a_yield(view: ClusterView) -> bool:
    """Whether the role is still to be given, or left, to a broker that deletes topics."""
    if view.options.tenure is not TenurePolicy.ON_DEMAND or not view.deletions:
        return False
    if view.deletions <= view.yielded:
        return False
    # A deletion that was pending long before the claim had its time.
    tenure, since = view.tenure, view.deletions_since
    return tenure is None or since is None or tenure.since < since + DELETION_PATIENCE_S


def yield_due(view: ClusterView) -> Instant:
    """
    Return when a tenure that owes the role gives it back, whatever is in flight then.

    A copy may take days, or never end where its broker is dead; what is in flight is carried out by
    the next controller.
    """
    since = START if view.deletions_since is None else view.deletions_since
    claimed = START if view.tenure is None else view.tenure.since
    return Instant(max(since, claimed) + DELETION_PATIENCE_S)


def claim_due(view: ClusterView) -> Instant:
    """Return before when no claim is made because a broker is to delete topics; START: any time."""
    if owes_a_yield(view):
        since = view.deletions_since
        return START if since is None else Instant(since + DELETION_PATIENCE_S)
    if view.deletions and view.deletions <= view.yielded:
        return Instant(view.yielded_at + DELETION_PATIENCE_S)
    return START
