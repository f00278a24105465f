"""
When to claim the controller role, and when to give it back.

Holding ``/controller`` stops topic administration through Kafka's API, so under ``on_demand`` the
daemon holds it only while it has work, and yields once to each pending topic deletion.
"""

from __future__ import annotations

from controller.core.effects import ClaimController, Effect, ResignController, SetTimer, Stop
from controller.core.eligibility import native_refusals
from controller.core.model import Blocked, BlockedBy, Instant
from controller.core.options import TenurePolicy
from controller.core.records import Change, Decision, IdleRecord, YieldedRecord
from controller.core.view import ClusterView

CLAIM_TIMER = "claim"
LINGER_TIMER = "linger"


def has_work(view: ClusterView) -> bool:
    """Whether anything needs the controller's role."""
    if view.reassignments or view.legacy is not None:
        return True
    if view.preferred or view.preferred_version is not None:
        return True
    return any(
        orphan.broker in view.brokers and orphan not in view.orphans_tried
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
    return (
        view.options.tenure is TenurePolicy.ON_DEMAND
        and bool(view.deletions)
        and not (view.deletions or frozenset()) <= view.yielded
    )


def consider_tenure(view: ClusterView, now: Instant) -> Decision:  # noqa: PLR0911 - one return per rule
    """Return the claim, the hand-back or the time to look again."""
    if view.tenure is None:
        return Decision(effects=_claim(view, now))
    if view.resigning:
        return Decision()
    if view.fenced is not None:
        return Decision(effects=(ResignController(view.fenced),))
    if view.stopping:
        return Decision(effects=(ResignController("the daemon is stopping"),))
    refusals = native_refusals(view)
    if refusals:
        return Decision(effects=(ResignController(refusals[0]),))
    if _owes_a_yield(view):
        if view.in_flight:
            return Decision()
        return Decision(
            changes=(Change((YieldedRecord(view.deletions or frozenset()),)),),
            effects=(ResignController("topic deletion is pending"),),
        )
    if view.options.tenure is TenurePolicy.PERMANENT:
        return Decision()
    return _linger(view, now)


def _claim(view: ClusterView, now: Instant) -> tuple[Effect, ...]:
    if view.stopping:
        return () if view.claiming else (Stop(),)
    wanted = view.options.tenure is TenurePolicy.PERMANENT or has_work(view)
    if not (view.leading and view.is_warm and wanted) or view.claiming:
        return ()
    if native_refusals(view) or _owes_a_yield(view):
        return ()
    if now < view.retry_claim_at:
        return (SetTimer(CLAIM_TIMER, view.retry_claim_at),)
    return (ClaimController(),)


def _linger(view: ClusterView, now: Instant) -> Decision:
    if has_work(view):
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
        return Decision(effects=(ResignController("nothing left to do"),))
    return Decision()
