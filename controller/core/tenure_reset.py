"""
The reset of the view at the begin and the end of a tenure, and at the end of a session.

The specs are durable and stay; what was only valid during a tenure or a session is forgotten.
"""

from __future__ import annotations

from typing import Final

from controller.core.apply import first_phase
from controller.core.controllership.engines import engine_of
from controller.core.controllership.topic_deletions import begin_to_yield, note_yielded
from controller.core.events import ControllerClaimed, Orphan
from controller.core.model import NO_BROKERS, NO_LEADER, Instant, Replicas, Route, TopicPartition
from controller.core.phases import Pending, Phase, PhaseChange
from controller.core.reassignments import Reassignment
from controller.core.scheduling.in_flight import count_in_flight, drop
from controller.core.scheduling.isr_health import forget_all_health
from controller.core.throttling.throttle_records import applied_throttles_unknown
from controller.core.view import ClusterView, Tenure

DEPARTED_S: Final = 60.0
"""What another controller dropped longer before a claim has had its StopReplica."""
UNHEEDED_RETRY_S: Final = 300.0
"""The back-off before another claim when brokers refused the requests of a tenure, in seconds."""
ORPHAN_RETRY_S: Final = 60.0
"""The back-off before another claim for orphans that a tenure could not delete."""
ORPHAN_RETRY_MOST_S: Final = 600.0
"""
The upper bound of that back-off: it doubles with each tenure without success.

Orphans may be kept for replicas that lag for days, or wait for a leader that is dead.
"""


def begin_tenure(view: ClusterView, event: ControllerClaimed, now: Instant) -> None:
    """Begin with no known states and brokers, and with everything due that follows a claim."""
    view.claiming = False
    view.tenure = Tenure(event.epoch, now)
    view.progress_at = now
    # The states that are read from now on include what the former controller made of them.
    view.due.forget_brokers()
    view.read_generation += 1
    view.claim_generation = view.read_generation
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
        _reset(partition, reassignment, first_phase(view, partition), now)
        reassignment.load = None
        reassignment.inherited = True
        reassignment.is_requested = False
        # The previous daemon may have died before it had the answer to its request. If we take the
        # controller role, unfinished requests of the former controller are void.
        reassignment.in_doubt = not engine_of(view).holds_role
        reassignment.deleted = NO_BROKERS
        reassignment.part_way = _is_part_way(view, partition, reassignment)
        # Remembered steps may be of an older record: another daemon may have ended that one and
        # begun this one.
        reassignment.step = int(reassignment.in_flight)
        if reassignment.in_flight:
            count_in_flight(view, reassignment, 1)
        elif reassignment.part_way or reassignment.spec.rolls_back:
            view.resumed[partition] = None
        else:
            view.waiting.add(partition, reassignment.spec.request)
    view.incoming.clear()
    view.outgoing.clear()
    view.due.add(view.reassignments)


def _reset(
    partition: TopicPartition, reassignment: Reassignment, phase: Phase, now: Instant
) -> None:
    """Put a reassignment into a phase; an unchanged phase keeps its time."""
    since = reassignment.phase_since if reassignment.phase == phase else now
    reassignment.enter(phase, since, partition, PhaseChange.RESET)


def _is_part_way(view: ClusterView, partition: TopicPartition, known: Reassignment) -> bool:
    """
    Return whether steps of it were completed; another controller may have ended the last one.

    Steps lead over replicas of the original assignment and of its targets; a partition with other
    replicas was moved by another client.
    """
    assignment, spec = view.known_assignment(partition), known.spec
    if known.in_flight or assignment is None or spec.original is None:
        return False
    replicas = set(assignment.replicas)
    named = spec.abandoned.union(spec.original, spec.target)
    return replicas != set(spec.original) and replicas <= named


def _doubt(view: ClusterView) -> None:
    """
    Invalidate what may have been read before the claim, where something depends on it.

    The former controller may have written after our read; from the claim on no other controller
    does. A read that was under way at the claim does not make it valid again, whatever it says.
    """
    if view.legacy is not None:
        view.legacy.stale = True
    concerned = {p.topic for p in view.reassignments} | {p.topic for p in view.orphaned}
    concerned |= {p.topic for _, p in view.departed}
    concerned |= {p.topic for p in view.legacy.entries} if view.legacy is not None else set()
    for name, topic in view.topics.items():
        if name in concerned or any(a.is_reassigning for a in topic.partitions.values()):
            topic.put_in_doubt(view.claim_generation)


def end_tenure(view: ClusterView, now: Instant) -> None:
    """Forget everything that was only valid while the claim held."""
    # Back off before reclaiming a role that was taken or yielded. If it was given up for lack of
    # work, it is claimed with the next plan, before a broker begins to carry that out.
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
    view.specs_read = view.orphans_read = view.history_read = False
    applied_throttles_unknown(view)
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
        _reset(partition, reassignment, Pending(), now)
        reassignment.load = None
        reassignment.requested = None
        if reassignment.spec.route is Route.FOREIGN:
            drop(view, partition)
        else:
            view.waiting.add(partition, reassignment.spec.request)
    view.in_flight = view.bytes_in_flight = view.shards = 0
    for request in view.requests.values():
        request.in_flight = 0
    view.incoming.clear()
    view.outgoing.clear()
    view.leader_moves.clear()
    # A cycle that found the claim lost carried nothing out: its reads are requested again.
    view.due.tenure = view.due.listed_topics = True


def _postpone_orphans(view: ClusterView, now: Instant) -> None:
    """Set when orphans alone justify another tenure, with back-off."""
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
    Return all brokers ever seen in the ISR of an orphan's partition with a leader, in order.

    A broker that enters the ISR may be the last that was awaited. One that leaves and enters again
    is not news: otherwise flapping replicas would prevent any back-off.
    """
    state = view.states.get(orphan.partition)
    isr = () if state is None or state.leader == NO_LEADER else state.isr
    return tuple(sorted({*isr, *view.orphans_left.get(orphan, ())}))


def forget_reads(view: ClusterView) -> None:
    """Forget all reads: the watches are lost with the session."""
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
    # A topic may have been deleted and created again unnoticed. The end of a tenure alone does not
    # affect settings.
    view.configs.clear()
    view.config_answers.clear()
    view.asked_configs.clear()
    view.config_errors.clear()
