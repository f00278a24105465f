"""
Topic deletions that only a broker's controller decides, and the role that is owed to them.

These are deletions in a cluster where a broker says no to ``delete.topic.enable``, or says nothing,
and those of a topic whose znode is unreadable; the others are ``topic_deletions``. A broker gets
the role once for each of them: when no step of ours is in flight, at the latest after a timeout. A
deletion that cannot end must not delay everything else for ever; nor must consecutive deletions. A
claim that does not wait for the last of those leaves the role to them again soon.
"""

from __future__ import annotations

from typing import Final

from controller.core.deletions.pending_deletions import left_to_a_broker
from controller.core.model import START, Instant
from controller.core.options import TenurePolicy
from controller.core.view import ClusterView

DELETION_PATIENCE_S: Final = 30.0
"""
How long a pending deletion delays a claim, and a tenure a pending deletion, in seconds.

A broker that got the role for deletions also keeps it that long, unless they end sooner.
"""
DELETIONS_PATIENCE_S: Final = 120.0
"""How long consecutive deletions delay a claim in total, in seconds."""


def owes_a_yield(view: ClusterView) -> bool:
    """Return whether the role is still owed to a broker that deletes topics."""
    if view.options.tenure is not TenurePolicy.ON_DEMAND or not view.deletions_session.markers:
        return False
    return bool(
        left_to_a_broker(view, view.deletions_session.markers - view.deletions_process.yielded)
    )


def is_hurried(view: ClusterView) -> bool:
    """
    Return whether the role was claimed before a pending deletion had its time.

    Such a tenure lasts until the deletion is due, and steps begin in it: otherwise it would end
    before anything was done.
    """
    claimed = START if view.tenure.held is None else view.tenure.held.since
    return any(since < claimed for since in _pending_since(view))


def yield_due(view: ClusterView) -> Instant:
    """
    Return when a tenure that owes the role resigns, whatever is in flight then.

    A copy may take days, or never end where its broker is dead; the next controller carries out
    what is in flight. Later deletions do not extend that time.
    """
    claimed = START if view.tenure.held is None else view.tenure.held.since
    return Instant(max(claimed, min(_pending_since(view), default=START)) + DELETION_PATIENCE_S)


def claim_due(view: ClusterView) -> Instant:
    """Return the earliest time of a claim while a broker is to delete topics; START: any time."""
    owed = _pending_since(view)
    if not owed or not owes_a_yield(view):
        return START
    last = max(owed) + DELETION_PATIENCE_S
    return Instant(min(last, view.deletions_process.held_up_since + DELETIONS_PATIENCE_S))


def note_deletions(view: ClusterView, topics: frozenset[str], now: Instant) -> None:
    """Note the pending deletions; one that ended, or was revoked, is forgotten."""
    deletions_process = view.deletions_process
    if not any(now < since + DELETION_PATIENCE_S for since in _pending_since(view)):
        deletions_process.held_up_since = now
    deletions_process.since = {t: deletions_process.since.get(t, now) for t in topics}
    # A later deletion of a topic with the same name is owed the role again.
    deletions_process.yielded &= topics


def note_yielded(view: ClusterView, now: Instant) -> None:
    """Note at a claim which deletions had their time while a broker could be the controller."""
    known = view.deletions_process.since.items()
    view.deletions_process.yielded |= {
        t for t, since in known if now >= since + DELETION_PATIENCE_S
    }


def begin_to_yield(view: ClusterView, now: Instant) -> None:
    """Restart the time of deletions that did not have it: a tenure ended."""
    deletions_process = view.deletions_process
    deletions_process.held_up_since = now
    deletions_process.since = {
        topic: since if topic in deletions_process.yielded else now
        for topic, since in deletions_process.since.items()
    }


def _pending_since(view: ClusterView) -> list[Instant]:
    """Return since when each deletion is pending that did not have its time before a claim."""
    since = view.deletions_process.since
    return [since[t] for t in left_to_a_broker(view, since.keys() - view.deletions_process.yielded)]
