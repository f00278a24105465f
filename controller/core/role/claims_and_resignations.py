"""
Decide when to claim the controller role, and when to resign.

Unless the endpoint serves clients, holding ``/controller`` stops topic administration through
Kafka's API. So under ``on_demand`` the daemon holds it only while it has work, and yields once to
each topic deletion that only Kafka's controller decides. The topic znodes are truthful at every
instant, so the role can be given up with steps in flight: a Kafka controller carries out exactly
those. No step that cannot end keeps the role from a pending deletion or from an operator who paused
everything. A quiesce ends the tenure under either policy, as soon as nothing is left. With the
delegated engine the tenure lasts as long as the daemon leads.
"""

from __future__ import annotations

from controller.core import core_settings, effects
from controller.core.calls import client_calls
from controller.core.cluster import protocols
from controller.core.deletions import pending_deletions
from controller.core.model import START, Blocked, BlockedBy, Instant, Route
from controller.core.pacing.operator_holds import next_opening, request_hold
from controller.core.records import Change, Decision, Record
from controller.core.requests import (
    cancellation,
    drains,
    legacy_plan_and_queue,
    quiescence,
    submitted,
)
from controller.core.requests.quiescence import deadline_of
from controller.core.role import eligibility, engines, records
from controller.core.view import ClusterView

CLAIM_TIMER = "claim"
LINGER_TIMER = "linger"
DEADLINE_TIMER = "quiesce"
WINDOW_TIMER = "window"
DELETION_TIMER = "deletion_patience"
ORPHAN_TIMER = "orphans"
PROGRESS_TIMER = "progress"
CEDE_TIMER = "cede"
ACCEPTANCE_TIMER = "broker_acceptance"
ORPHAN_PATIENCE_S = 60.0
"""How long orphans alone keep the role, in seconds."""
REPAIR_RETRY_S = 1.0
"""How long the role is kept at least while a repair awaits a read, in seconds."""
PROGRESS_PATIENCE_S = 30.0
"""
How long steps in flight keep the role without progress, in seconds, if all else is held.

Progress is another phase, a replica that enters the ISR, or bytes that a new replica copied.
"""


def has_work(view: ClusterView, now: Instant) -> bool:
    """
    Return whether anything needs the controller role now.

    Held work does not, except its steps in flight while they make progress. Foreign reassignments
    do not: a Kafka controller carries them out as well.
    """
    requests = view.requests
    if _has_cancellation(view) or _has_submissions(view) or _has_queue(view):
        return True
    if (
        quiescence.has_work_to_end(view, now)
        or drains.needs_the_role(view, now)
        or pending_deletions.is_underway(view)
        or client_calls.is_underway(view)
    ):
        return True
    if view.tenure.held is not None and legacy_plan_and_queue.would_be_started(view):
        return True
    held = {
        name: request_hold(view, name, now) is not None
        for name, request in requests.by_id.items()
        if request.open and request.route is not Route.FOREIGN
    }
    if not all(held.values()) or _leads_back(view):
        return True
    if view.requests.legacy is not None and (
        legacy_plan_and_queue.has_undecided(view)
        or not any(requests.by_id[name].route is Route.LEGACY for name in held)
    ):
        return True
    return view.tenure.held is not None and (_has_elections(view) or now < _progress_ends(view))


def _leads_back(view: ClusterView) -> bool:
    """Return whether a rollback is due: only a pause of everything holds it."""
    return (
        bool(view.reassignments.rolling_back)
        and view.pacing_process.controls.pauses.everything is None
    )


def _has_cancellation(view: ClusterView) -> bool:
    """Return whether a cancellation needs the role; a pause of everything holds its rollbacks."""
    if view.pacing_process.controls.pauses.everything is not None and not view.requests.is_choosing:
        return False
    return cancellation.needs_the_role(view)


def _has_elections(view: ClusterView) -> bool:
    """
    Return whether preferred leaders can be elected now, or their request can be ended.

    Partitions with a reassignment are elected afterwards. Outside a tenure a Kafka controller does
    all of it.
    """
    if not view.leadership.preferred:
        return view.leadership.preferred_version is not None
    return any(p not in view.reassignments.by_partition for p in view.leadership.preferred)


def _progress_ends(view: ClusterView) -> Instant:
    """Return until when a step of ours in flight is expected to make progress."""
    if not view.is_moving_ours:
        return START
    return Instant(view.reassignments_tenure.progress_at + PROGRESS_PATIENCE_S)


def _has_submissions(view: ClusterView) -> bool:
    """Return whether a request can be accepted or refused; refusing it as a whole needs no role."""
    if view.disabled_because is not None:
        return False
    is_choosing = view.requests.is_choosing
    return any(
        submitted.is_due(view, s) and (is_choosing or submitted.refused_as_whole(view, s) is None)
        for s in view.requests_session.submissions.values()
    )


def _has_queue(view: ClusterView) -> bool:
    queue = view.requests.queue
    if queue is None or view.quiesce is not None:
        # It is refused while quiesced: that needs no role.
        return False
    if queue.unreadable is not None or queue.refused or not queue.entries:
        return True
    return not legacy_plan_and_queue.is_standing_still(view)


def has_orphans(view: ClusterView, now: Instant) -> bool:
    """Return whether an orphan's broker is back, and it is time to try, or to await the answer."""
    if view.tenure.held is None:
        if now < view.reassignments.orphans_after:
            return False
    elif now >= view.tenure.held.since + ORPHAN_PATIENCE_S:
        return False
    return any(view.is_in_reach(orphan) for orphan in view.reassignments.orphans.values())


def hold_of(view: ClusterView) -> Blocked | None:
    """Return why no new step may begin now; None if it may."""
    if view.role.stopping or view.tenure.resigning:
        return Blocked(BlockedBy.DRAINING, "the controller role is being given up")
    if view.is_controller and not view.tenure.accepted_by_broker:
        return Blocked(
            BlockedBy.CONTROLLER_ROLE, "no broker has accepted an UpdateMetadata of this tenure yet"
        )
    if _owes_a_yield(view) and not pending_deletions.is_hurried(view):
        topics = ", ".join(sorted(view.deletions_session.markers or ())[:3])
        return Blocked(BlockedBy.TOPIC_DELETION, f"topic deletion is pending: {topics}")
    return None


def _owes_a_yield(view: ClusterView) -> bool:
    return view.is_native and pending_deletions.owes_a_yield(view)


def consider_tenure(view: ClusterView, now: Instant) -> Decision:
    """Return the claim, the resignation, or the timer of the next decision."""
    considered = _consider(view, now)
    times = ((WINDOW_TIMER, next_opening(view, now)), (DEADLINE_TIMER, deadline_of(view, now)))
    again = (effects.SetTimer(name, at) for name, at in times if at is not None)
    return Decision(considered.changes, (*considered.effects, *again))


def _consider(view: ClusterView, now: Instant) -> Decision:  # noqa: PLR0911 - one return per rule
    tenure = view.tenure
    if tenure.resigning:
        return Decision()
    if tenure.fenced is not None:
        return Decision(effects=(effects.ResignController(tenure.fenced),))
    if tenure.held is None:
        chosen = _engine_choice(view)
        return Decision((Change((chosen,)),)) if chosen else Decision(effects=_claim(view, now))
    if view.role.stopping:
        return _resign(view, now, "the daemon is stopping")
    refusals = engines.refusals(view)
    if refusals:
        return Decision(effects=(effects.ResignController(refusals[0]),))
    if not view.is_native:
        return Decision()
    in_vain = eligibility.refusal_by_brokers(view, now)
    if in_vain is not None:
        return _resign(view, now, in_vain, records.UpdateRefusedRecord(in_vain))
    silent = eligibility.silent_leaders(view, now)
    if silent:
        why = eligibility.unreached_reason(view, silent)
        return _resign(view, now, why, records.EndpointUnreachedRecord(silent, why))
    if not tenure.accepted_by_broker:
        until = Instant(tenure.held.since + eligibility.ACCEPTANCE_PATIENCE_S)
        return Decision(effects=(effects.SetTimer(ACCEPTANCE_TIMER, until),))
    return _hold(view, now)


def _hold(view: ClusterView, now: Instant) -> Decision:
    """Keep the role or give it up; brokers accept the requests of this tenure."""
    if _owes_a_yield(view):
        until = pending_deletions.yield_due(view)
        is_at_work = view.is_moving_ours or (
            pending_deletions.is_hurried(view) and (has_work(view, now) or has_orphans(view, now))
        )
        if legacy_plan_and_queue.has_undecided(view) or (is_at_work and now < until):
            return Decision(
                effects=(effects.SetTimer(DELETION_TIMER, until),) if now < until else ()
            )
        yielded = records.YieldedRecord(view.deletions_session.markers or frozenset())
        return _resign(view, now, "topic deletion is pending", yielded)
    wanted = client_calls.is_role_wanted(view)
    if wanted is not None and view.tenure.held is not None:
        until = Instant(view.tenure.held.since + client_calls.CEDE_AFTER_S)
        is_free = not legacy_plan_and_queue.has_undecided(view) and client_calls.is_cede_due(
            view, now
        )
        if now >= until and is_free:
            ceded = records.RoleCededRecord(wanted)
            return _resign(view, now, f"a broker has to carry out {wanted} for a client", ceded)
        return Decision(effects=(effects.SetTimer(CEDE_TIMER, max(until, Instant(now + 0.5))),))
    return Decision() if _is_permanent(view) else _linger(view, now)


def _is_repair_awaited(view: ClusterView) -> bool:
    """
    Return whether a replica restarted, and what its repair depends on is being read again.

    It may have lost its log, and be in the ISR. A Kafka controller that is elected now knows of no
    restart: it would take the replica for in sync, and may elect it. A topic whose znode is
    unreadable is not waited for: nothing says when that ends.
    """
    topics, leadership = view.topics, view.leadership
    return view.tenure.accepted_by_broker and any(
        partition in leadership.distrusted
        or (topics.assignment(partition) is None and topics.known_assignment(partition) is not None)
        for partition in leadership.bounced
        if partition.topic not in topics.unreadable
    )


def _is_permanent(view: ClusterView) -> bool:
    """Return whether the role is held without work, too."""
    return view.options.tenure is core_settings.TenurePolicy.PERMANENT and view.quiesce is None


def _resign(view: ClusterView, now: Instant, reason: str, *last: Record) -> Decision:
    """Give up the role in the middle of the work, leaving nothing for a broker to start."""
    if view.is_native and _is_repair_awaited(view):
        return Decision(effects=(effects.SetTimer(LINGER_TIMER, Instant(now + REPAIR_RETRY_S)),))
    written = (*legacy_plan_and_queue.entries_to_remove(view), *last)
    resign = effects.ResignController(reason)
    if not written:
        return Decision(effects=(resign,))
    return Decision(changes=(Change(written, effects=(resign,)),))


def _engine_choice(view: ClusterView) -> records.EngineRecord | None:
    """Return the choice of an engine to make or change; none while a claim is under way."""
    choice = None if view.role.claiming else eligibility.choice_of(view)
    if choice is None or choice[0] is view.role.engine:
        return None
    return records.EngineRecord(*choice)


def _claim(view: ClusterView, now: Instant) -> tuple[effects.Effect, ...]:
    role = view.role
    if role.stopping:
        return () if view.role.claiming else (effects.Stop(),)
    if not (role.leading and view.is_warm) or view.role.claiming or engines.refusals(view):
        return ()
    wanted = (
        not view.is_native or _is_permanent(view) or has_work(view, now) or has_orphans(view, now)
    )
    if not wanted:
        # A quiet cluster has no events: the next try for orphans needs a timer.
        waits = view.reassignments.orphans and now < view.reassignments.orphans_after
        return (effects.SetTimer(ORPHAN_TIMER, view.reassignments.orphans_after),) if waits else ()
    until = pending_deletions.claim_due(view)
    if view.is_native and now < until:
        return (effects.SetTimer(DELETION_TIMER, until),)
    until = max(role.retry_claim_at, protocols.awaited_until(view) if view.is_native else START)
    if now < until:
        return (effects.SetTimer(CLAIM_TIMER, until),)
    return engines.begin(view, now)


def _linger(view: ClusterView, now: Instant) -> Decision:
    tenure = view.tenure
    if has_work(view, now) or has_orphans(view, now):
        until = _progress_ends(view)
        again = (effects.SetTimer(PROGRESS_TIMER, until),) if now < until else ()
        if tenure.idle_since is None:
            return Decision(effects=again)
        return Decision((Change((records.IdleRecord(None),)),), again)
    if view.quiesce is not None:
        return _resign(view, now, "the reassigner is quiesced")
    if tenure.idle_since is None:
        until = Instant(now + view.options.tenure_linger_s)
        return Decision(
            changes=(Change((records.IdleRecord(now),)),),
            effects=(effects.SetTimer(LINGER_TIMER, until),),
        )
    # Computed as the timer was, or a rounding step would make it fire just too early.
    if now >= tenure.idle_since + view.options.tenure_linger_s:
        why = (
            "what is left is held back" if view.reassignments.by_partition else "nothing left to do"
        )
        return _resign(view, now, why)
    until = Instant(tenure.idle_since + view.options.tenure_linger_s)
    return Decision(effects=(effects.SetTimer(LINGER_TIMER, until),))
