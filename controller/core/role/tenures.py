"""
When to claim the controller role, and when to give it back.

Holding ``/controller`` stops topic administration through Kafka's API, so under ``on_demand`` the
daemon holds it only while it has work, and yields once to each pending topic deletion. The tenure
of an engine that leaves the role with a broker lasts as long as the daemon leads.
"""

from __future__ import annotations

from controller.core.effects import Effect, ResignController, SetTimer, Stop
from controller.core.model import Blocked, BlockedBy, Instant, Route
from controller.core.options import TenurePolicy
from controller.core.pace.holds import next_opening, request_hold
from controller.core.records import (
    Change,
    Decision,
    EngineRecord,
    IdleRecord,
    Record,
    YieldedRecord,
)
from controller.core.requests.cancelling import needs_the_role
from controller.core.requests.legacy import has_undecided, unlisted, would_be_started
from controller.core.requests.queues import is_standing_still
from controller.core.requests.requests import is_due
from controller.core.role.eligibility import choice_of
from controller.core.role.engines import engine_of
from controller.core.role.yields import DELETION_PATIENCE_S, owes_a_yield
from controller.core.view import ClusterView
from controller.core.works import Reassignment

CLAIM_TIMER = "claim"
LINGER_TIMER = "linger"
WINDOW_TIMER = "window"
DELETION_TIMER = "deletion_patience"
ORPHAN_TIMER = "orphans"
ORPHAN_PATIENCE_S = 60.0
"""How long orphans alone keep the role."""


def has_work(view: ClusterView, now: Instant) -> bool:
    """Whether anything needs the controller's role now: what is held back does not."""
    if view.in_flight or needs_the_role(view) or _has_submissions(view) or _has_queue(view):
        return True
    if view.tenure is not None and would_be_started(view):
        return True
    held = {
        name: request_hold(view, name, now) is not None
        for name, request in view.requests.items()
        if request.open
    }
    if not all(held.values()) or any(r.goal.rolls_back for r in _few(view)):
        return True
    if view.legacy is not None and (
        has_undecided(view) or not any(view.requests[name].route is Route.LEGACY for name in held)
    ):
        return True
    # Outside a tenure a Kafka controller holds preferred elections itself.
    return view.tenure is not None and bool(view.preferred or view.preferred_version is not None)


def _few(view: ClusterView) -> list[Reassignment]:
    """Return what goes back: it is first in line, and waits for nothing but a pause of all."""
    if view.controls.pauses.everything is not None:
        return []
    if view.tenure is not None:
        return [view.reassignments[p] for p in view.resumed]
    return list(view.reassignments.values())


def _has_submissions(view: ClusterView) -> bool:
    """Whether a request can be accepted or refused; disabled, that needs no role."""
    if view.kill_switch:
        return False
    return any(is_due(view, s) for s in view.submissions.values())


def _has_queue(view: ClusterView) -> bool:
    queue = view.queue
    if queue is None:
        return False
    if queue.unreadable is not None or queue.refused or not queue.entries:
        return True
    return not is_standing_still(view)


def has_orphans(view: ClusterView, now: Instant) -> bool:
    """Whether an orphan's broker is back, and it is time to try, or to wait for the answer."""
    if view.tenure is None:
        if now < view.orphans_after:
            return False
    elif now >= view.tenure.since + ORPHAN_PATIENCE_S:
        return False
    return any(
        orphan.broker in view.brokers
        and orphan not in view.orphans_failed
        and not view.is_undeletable(orphan)
        for orphan in view.orphans.values()
    )


def hold_of(view: ClusterView) -> Blocked | None:
    """Return why no new step may begin now, if so."""
    if view.stopping or view.resigning:
        return Blocked(BlockedBy.DRAINING, "the controller role is being given back")
    if _owes_a_yield(view):
        topics = ", ".join(sorted(view.deletions or ())[:3])
        return Blocked(BlockedBy.TOPIC_DELETION, f"topic deletion is pending: {topics}")
    return None


def _owes_a_yield(view: ClusterView) -> bool:
    return engine_of(view).holds_role and owes_a_yield(view)


def consider_tenure(view: ClusterView, now: Instant) -> Decision:
    """Return the claim, the hand-back or the time to look again."""
    considered = _consider(view, now)
    opening = next_opening(view, now)
    if opening is None:
        return considered
    again = SetTimer(WINDOW_TIMER, opening)
    return Decision(considered.changes, (*considered.effects, again))


def _consider(view: ClusterView, now: Instant) -> Decision:  # noqa: PLR0911 - one return per rule
    if view.tenure is None:
        chosen = _chosen(view)
        return Decision((Change((chosen,)),)) if chosen else Decision(effects=_claim(view, now))
    if view.resigning:
        return Decision()
    if view.fenced is not None:
        return Decision(effects=(ResignController(view.fenced),))
    if view.stopping:
        return _hand_over(view, "the daemon is stopping")
    engine = engine_of(view)
    refusals = engine.refusals(view)
    if refusals:
        return Decision(effects=(ResignController(refusals[0]),))
    if not engine.holds_role:
        return Decision()
    if _owes_a_yield(view):
        if view.in_flight or has_undecided(view):
            return Decision()
        yielded = YieldedRecord(view.deletions or frozenset())
        return _hand_over(view, "topic deletion is pending", yielded)
    if view.options.tenure is TenurePolicy.PERMANENT:
        return Decision()
    return _linger(view, now)


def _hand_over(view: ClusterView, reason: str, *records: Record) -> Decision:
    """Give the role to a broker in the middle of the work, with nothing left for it to start."""
    written = (*unlisted(view), *records)
    resign = ResignController(reason)
    if not written:
        return Decision(effects=(resign,))
    return Decision(changes=(Change(written, effects=(resign,)),))


def _chosen(view: ClusterView) -> EngineRecord | None:
    """Return the choice of an engine, where there is one to make or another to take."""
    choice = choice_of(view)
    if choice is None or choice[0] is view.engine:
        return None
    return EngineRecord(*choice)


def _claim(view: ClusterView, now: Instant) -> tuple[Effect, ...]:
    if view.stopping:
        return () if view.claiming else (Stop(),)
    engine = engine_of(view)
    if not (view.leading and view.is_warm) or view.claiming or engine.refusals(view):
        return ()
    wanted = (
        not engine.holds_role
        or view.options.tenure is TenurePolicy.PERMANENT
        or has_work(view, now)
        or has_orphans(view, now)
    )
    if not wanted:
        # Nothing may happen in a quiet cluster: the time to try orphans again is asked for.
        waits = view.orphans and now < view.orphans_after
        return (SetTimer(ORPHAN_TIMER, view.orphans_after),) if waits else ()
    if _owes_a_yield(view) and view.deletions_since is not None:
        until = Instant(view.deletions_since + DELETION_PATIENCE_S)
        if now < until:
            return (SetTimer(DELETION_TIMER, until),)
    if now < view.retry_claim_at:
        return (SetTimer(CLAIM_TIMER, view.retry_claim_at),)
    return engine.begin(view, now)


def _linger(view: ClusterView, now: Instant) -> Decision:
    if has_work(view, now) or has_orphans(view, now):
        if view.idle_since is None:
            return Decision()
        return Decision(changes=(Change((IdleRecord(None),)),))
    if view.idle_since is None:
        until = Instant(now + view.options.tenure_linger_s)
        return Decision(
            changes=(Change((IdleRecord(now),)),), effects=(SetTimer(LINGER_TIMER, until),)
        )
    # Computed as the timer was, or a rounding step would make it fire just too early.
    if now >= view.idle_since + view.options.tenure_linger_s:
        why = "what is left is held back" if view.reassignments else "nothing left to do"
        return _hand_over(view, why)
    until = Instant(view.idle_since + view.options.tenure_linger_s)
    return Decision(effects=(SetTimer(LINGER_TIMER, until),))
