"""
Whether topics that are to be deleted still have a claim to the controller's role.

Only a broker's controller deletes topics. It gets the role once for each pending deletion: when
nothing of ours is in flight any more, at the latest after a patience. A deletion that cannot end,
because a replica's broker is away, must not hold up everything else for ever either; nor must
deletions that come one after the other. A claim that does not wait for the last of those leaves the
role to them again soon.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import Instant
from controller.core.options import TenurePolicy
from controller.core.reassignments import START
from controller.core.view import ClusterView

DELETION_PATIENCE_S: Final = 30.0
"""
How long a pending topic deletion holds up a claim, and a tenure a pending deletion, in seconds.

As long a broker that got the role for deletions keeps it, unless they end sooner.
"""
DELETIONS_PATIENCE_S: Final = 120.0
"""How long deletions that come while others are pending hold up a claim in all, in seconds."""


def owes_a_yield(view: ClusterView) -> bool:
    """Whether the role is still to be given, or left, to a broker that deletes topics."""
    if view.options.tenure is not TenurePolicy.ON_DEMAND or not view.deletions:
        return False
    return not view.deletions <= view.yielded


def is_hurried(view: ClusterView) -> bool:
    """
    Whether the role was claimed though a pending deletion had not had its time.

    Such a tenure lasts until the deletion is due, and steps begin in it: otherwise it would be
    given back before anything was done.
    """
    claimed = START if view.tenure is None else view.tenure.since
    return any(since < claimed for since in _owed(view))


def yield_due(view: ClusterView) -> Instant:
    """
    Return when a tenure that owes the role gives it back, whatever is in flight then.

    A copy may take days, or never end where its broker is dead; what is in flight is carried out by
    the next controller. Later deletions do not prolong that.
    """
    claimed = START if view.tenure is None else view.tenure.since
    return Instant(max(claimed, min(_owed(view), default=START)) + DELETION_PATIENCE_S)


def claim_due(view: ClusterView) -> Instant:
    """Return before when no claim is made because a broker is to delete topics; START: any time."""
    owed = _owed(view)
    if not owed or not owes_a_yield(view):
        return START
    last = max(owed) + DELETION_PATIENCE_S
    return Instant(min(last, view.held_up_since + DELETIONS_PATIENCE_S))


def note_deletions(view: ClusterView, topics: frozenset[str], now: Instant) -> None:
    """Note which deletions are pending; of one that ended, or was taken back, nothing is kept."""
    if not any(now < since + DELETION_PATIENCE_S for since in _owed(view)):
        view.held_up_since = now
    view.deletions_since = {t: view.deletions_since.get(t, now) for t in topics}
    # A topic of the same name that is deleted later has to be yielded to again.
    view.yielded &= topics


def note_yielded(view: ClusterView, now: Instant) -> None:
    """Note at a claim which deletions had their time while a broker could be the controller."""
    known = view.deletions_since.items()
    view.yielded |= {t for t, since in known if now >= since + DELETION_PATIENCE_S}


def begin_to_yield(view: ClusterView, now: Instant) -> None:
    """Let the time of the deletions begin that had none before, or not enough: a tenure ended."""
    view.held_up_since = now
    view.deletions_since = {
        topic: since if topic in view.yielded else now
        for topic, since in view.deletions_since.items()
    }


def _owed(view: ClusterView) -> list[Instant]:
    """Return since when each deletion is waited for that has not had its time before a claim."""
    return [since for t, since in view.deletions_since.items() if t not in view.yielded]
