"""
Whether topics that are to be deleted still have a claim to the controller's role.

Only a broker's controller deletes topics. It has the role once for each pending deletion; one that
cannot end, because a replica's broker is away, must not hold up everything else for ever.
"""

from __future__ import annotations

from typing import Final

from controller.core.options import TenurePolicy
from controller.core.view import ClusterView

DELETION_PATIENCE_S: Final = 30.0
"""How long a pending topic deletion holds up a claim."""


def owes_a_yield(view: ClusterView) -> bool:
    """Whether the role is still to be given, or left, to a broker that deletes topics."""
    if view.options.tenure is not TenurePolicy.ON_DEMAND or not view.deletions:
        return False
    if view.deletions <= view.yielded:
        return False
    # A deletion that was pending long before the claim had its time.
    tenure, since = view.tenure, view.deletions_since
    return tenure is None or since is None or tenure.since < since + DELETION_PATIENCE_S
