"""
What a claim, its end and the loss of the session mean for what is known.

The goals are durable and stay; what was only true while a claim or a session lasted is forgotten.
"""

from __future__ import annotations

from typing import Final

from controller.core.apply import first_phase
from controller.core.events import ControllerClaimed, Orphan
from controller.core.model import NO_BROKERS, NO_LEADER, Instant, Replicas, Route, TopicPartition
from controller.core.pace.health import forget_all_health
from controller.core.pace.loads import count_in_flight, drop
from controller.core.phases import Pending, Phase
from controller.core.role.engines import engine_of
from controller.core.role.yields import begin_to_yield, note_yielded
from controller.core.throttling.lease_books import leases_unknown
from controller.core.view import ClusterView, Tenure
from controller.core.works import Reassignment

DEPARTED_S: Final = 60.0
"""What another controller dropped longer before a claim has had its StopReplica."""
UNHEEDED_RETRY_S: Final = 300.0
"""How long after a tenure that brokers did not heed the role is claimed again, in seconds."""
ORPHAN_RETRY_S: Final = 60.0
"""Orphans that a tenure could not delete are no reason for another one before that."""
ORPHAN_RETRY_MOST_S: Final = 600.0
"""
The same at most: it doubles with each tenure that got nowhere with them.

They may be kept for replicas that lag for days, or wait for a leader that is dead.
"""


def begin_tenure(view: ClusterView, event: ControllerClaimed, now: Instant) -> None:
    """Begin with nothing known of states and brokers, and everything that is due at a claim."""
    view.claiming = False
    view.tenure = Tenure(event.epoch, now)
    view.progress_at = now
    # What the controller before us made of them is in the states that are read from now on.
    view.due.forget_brokers()
    view.doubts += 1
    view.claim_doubt = view.doubts
    view.fenced = None
    view.heeded = False
    view.refusers.clear()
    view.idle_since = None
    view.states.clear()
    view.watched.clear()
    forget_all_health(view)
    view.pace = None
    view.distrusted.clear()
    view.bounced.clear()
    view.stateless.clear()
    view.unreadable_states.clear()
    view.leaderless.clear()
    view.acked.clear()
    view.confirmed.clear()
    view.offline.clear()
    view.seeding.clear()
    view.refreshing.clear()
    view.orphans_tried.clear()
    view.unseeded = dict.fromkeys(view.partitions())
    view.being_deleted = view.deletions or frozenset()
    note_yielded(view, now)
    _expect_bounced(view)
    view.departed = {r: seen for r, seen in view.departed.items() if now - seen <= DEPARTED_S}
    _take_up(view, now)
    view.legacy_confirmed = False
    view.preferred.clear()
    view.preferred_version = None
    view.may_have_foreign = True
    _doubt(view)
    view.due.claimed = view.due.plan = view.due.capacity = view.due.tenure = True


def _expect_bounced(view: ClusterView) -> None:
    """Have brokers treated as failed that came or went while the claim was under way."""
    for name, topic in view.topics.items() if view.bounced_ahead else ():
        for number, assignment in topic.partitions.items():
            bounced = view.bounced_ahead.intersection(assignment.replicas)
            if bounced:
                view.bounced[TopicPartition(name, number)] = bounced


def _take_up(view: ClusterView, now: Instant) -> None:
    """Put every known reassignment where the topic znodes say it is."""
    view.in_flight = view.bytes_in_flight = 0
    view.waiting.clear()
    view.resumed.clear()
    for request in view.requests.values():
        request.in_flight = 0
    for partition, reassignment in view.reassignments.items():
        _stand(reassignment, first_phase(view, partition), now)
        reassignment.load = None
        reassignment.inherited = True
        reassignment.is_out = False
        # Whoever told the controller before us may not have lived to hear its answer. A controller
        # role that we take makes void what the one before us still had to make.
        reassignment.in_doubt = not engine_of(view).holds_role
        reassignment.deleted = NO_BROKERS
        reassignment.part_way = _is_part_way(view, partition, reassignment)
        # Steps that we remember may be of an older record: another daemon may have ended that one
        # and begun this one from where it led.
        reassignment.step = int(reassignment.in_flight)
        if reassignment.in_flight:
            count_in_flight(view, reassignment, 1)
        elif reassignment.part_way or reassignment.goal.rolls_back:
            view.resumed[partition] = None
        else:
            view.waiting.add(partition, reassignment.goal.request)
    view.incoming.clear()
    view.outgoing.clear()
    view.due.add(view.reassignments)


def _stand(reassignment: Reassignment, phase: Phase, now: Instant) -> None:
    """Put a reassignment where it stands, since now unless it stood there before."""
    since = reassignment.phase_since if reassignment.phase == phase else now
    reassignment.enter(phase, since)


def _is_part_way(view: ClusterView, partition: TopicPartition, known: Reassignment) -> bool:
    """
    Whether steps of it were made: another controller may have ended the last one.

    Steps lead over replicas of the original and of the targets it had; a partition that has others
    was moved by somebody else.
    """
    assignment, goal = view.known_assignment(partition), known.goal
    if known.in_flight or assignment is None or goal.original is None:
        return False
    replicas = set(assignment.replicas)
    named = goal.abandoned.union(goal.original, goal.target)
    return replicas != set(goal.original) and replicas <= named


def _doubt(view: ClusterView) -> None:
    """
    Distrust what may have been read before the claim, where something depends on it.

    The controller before us may have written after we read; from the claim on nobody else does. A
    read that was under way at the claim does not end the doubt, whatever it says.
    """
    if view.legacy is not None:
        view.legacy.stale = True
    concerned = {p.topic for p in view.reassignments} | {p.topic for p in view.orphaned}
    concerned |= {p.topic for _, p in view.departed}
    concerned |= {p.topic for p in view.legacy.entries} if view.legacy is not None else set()
    for name, topic in view.topics.items():
        if name in concerned or any(a.is_reassigning for a in topic.partitions.values()):
            topic.put_in_doubt(view.claim_doubt)


def end_tenure(view: ClusterView, now: Instant) -> None:
    """Forget everything that was only true while the claim held; the goals are durable and stay."""
    # Who took the role from us, or was given it for a purpose, is left with it for a while. Given
    # back for want of work, it is claimed with the next plan, before a broker begins to move it.
    is_idle = view.resigning and view.idle_since is not None
    view.retry_claim_at = now if is_idle else Instant(now + view.options.claim_retry_s)
    if view.resigning and view.unheeded is not None:
        view.retry_claim_at = Instant(now + UNHEEDED_RETRY_S)
    if view.tenure is not None:
        begin_to_yield(view, now)
        _postpone_orphans(view, now)
    view.tenure = None
    view.heeded = False
    view.refusers.clear()
    view.claiming = view.resigning = view.probing = False
    view.goals_read = view.orphans_read = view.history_read = False
    leases_unknown(view)
    view.fenced = None
    view.idle_since = None
    view.states.clear()
    view.watched.clear()
    forget_all_health(view)
    view.pace = None
    view.distrusted.clear()
    view.bounced.clear()
    view.bounced_ahead.clear()
    view.stateless.clear()
    view.unreadable_states.clear()
    view.leaderless.clear()
    view.acked.clear()
    view.confirmed.clear()
    view.seeding.clear()
    view.refreshing.clear()
    view.unseeded.clear()
    view.orphans_tried.clear()
    view.waiting.clear()
    view.resumed.clear()
    view.preferred.clear()
    view.taken_out.clear()
    for partition, reassignment in list(view.reassignments.items()):
        _stand(reassignment, Pending(), now)
        reassignment.load = None
        reassignment.ordered = None
        if reassignment.goal.route is Route.FOREIGN:
            drop(view, partition)
        else:
            view.waiting.add(partition, reassignment.goal.request)
    view.in_flight = view.bytes_in_flight = view.shards = 0
    for request in view.requests.values():
        request.in_flight = 0
    view.incoming.clear()
    view.outgoing.clear()
    view.leader_moves.clear()
    # A turn that found the claim gone carried nothing out: what it would have read is asked again.
    view.due.tenure = view.due.listed_topics = True


def _postpone_orphans(view: ClusterView, now: Instant) -> None:
    """Set when orphans alone are a reason for another tenure: later where this one got nowhere."""
    left = {o: _in_isr(view, o) for o in view.orphans.values() if view.is_in_reach(o)}
    got_nowhere = left == view.orphans_left
    view.orphans_left = left
    if not left:
        return
    longer = min(2 * view.orphans_retry_s, ORPHAN_RETRY_MOST_S) if got_nowhere else 0.0
    view.orphans_retry_s = max(longer, ORPHAN_RETRY_S)
    view.orphans_after = Instant(now + view.orphans_retry_s)


def _in_isr(view: ClusterView, orphan: Orphan) -> Replicas:
    """
    Return, in order, who was ever seen in the ISR of an orphan's partition while it had a leader.

    One that enters it may be the last that was waited for. Who leaves it and enters it again and
    again is none: nothing would be postponed where replicas come and go.
    """
    state = view.states.get(orphan.partition)
    isr = () if state is None or state.leader == NO_LEADER else state.isr
    return tuple(sorted({*isr, *view.orphans_left.get(orphan, ())}))


def forget_reads(view: ClusterView) -> None:
    """With the session every watch is gone: nothing counts as known before it is read again."""
    view.listed = view.deletions = view.guards = None
    view.missing_topics.clear()
    view.legacy_read = view.queue_read = view.cancellation_read = view.controls_read = False
    view.kill_switch = None
    view.submissions_listed = None
    view.submissions.clear()
    view.asked_submissions.clear()
    view.left_submissions.clear()
    view.asked_accepted.clear()
    view.judged.clear()
    view.found_good.clear()
    view.topics.clear()
    view.asked_topics.clear()
    view.unreadable_topics.clear()
    # A topic may have been deleted and made anew unseen. The end of a tenure alone changes nothing
    # about settings: who holds the role has no part in them.
    view.configs.clear()
    view.config_answers.clear()
    view.asked_configs.clear()
    view.config_errors.clear()
