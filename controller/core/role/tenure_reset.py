"""
The reset of the view at the begin and the end of a tenure, and at the end of a session.

The specs are durable and stay; what was only valid during a tenure or a session is forgotten.
"""

from __future__ import annotations

from typing import Final

from controller.core import core_settings, model
from controller.core.bases import Lifetime
from controller.core.calls import client_calls
from controller.core.deletions.pending_deletions import is_leader_withheld
from controller.core.disks import disk_space
from controller.core.model import BrokerId, Instant, Replicas, Route, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.in_flight import count_in_flight, drop, first_phase
from controller.core.reassignments.model import Orphan, Reassignment
from controller.core.role import records
from controller.core.role.model import Tenure
from controller.core.view import ClusterView

DEPARTED_S: Final = 60.0
"""Replicas that another controller dropped longer before a claim have had their StopReplica."""
REJECTED_RETRY_S: Final = 300.0
"""The back-off before another claim when brokers refused the requests of a tenure, in seconds."""
CEDED_S: Final = 10.0
"""The back-off before another claim when the role was given back for a client's request."""
ORPHAN_RETRY_S: Final = 60.0
"""The back-off before another claim for orphans that a tenure could not delete."""
ORPHAN_RETRY_MOST_S: Final = 86400.0
"""
The upper bound of that back-off, which doubles with each tenure without success: replicas may lag
for days, or a leader be dead.
"""
VOID: Final = "the leadership was lost while the claim was under way"
"""The reason for which the role of a void claim is given back."""


def begin_tenure(view: ClusterView, event: records.ControllerClaimed, now: Instant) -> None:
    """Begin with no known states and brokers, and all due; a void claim begins no tenure."""
    if view.role.is_void:
        view.role.claiming = False
        view.tenure.fenced = VOID
        return
    # The states that are read from now on include what the former controller made of them.
    view.due.forget_brokers()
    view.role.read_generation += 1
    view.deletions_process.note_yielded(now)
    if view.options.engine is core_settings.EngineName.NATIVE:
        view.role.unreached = None
    before = view.requests_tenure
    view.end(Lifetime.TENURE)
    view.role.claiming = False
    tenure = view.tenure
    tenure.held = Tenure(event.epoch, now)
    tenure.claim_generation = view.role.read_generation
    view.reassignments_tenure.progress_at = now
    view.deletions.being_deleted = frozenset(
        t for t in view.deletions_session.markers or () if is_leader_withheld(view, t)
    )
    view.leadership.unseeded = dict.fromkeys(view.topics.partitions())
    view.reassignments_tenure.may_have_foreign = True
    # What came while the claim was under way.
    view.leadership.bounced = _bounced_since_claim(view)
    view.requests_tenure.removed_entries = before.removed_entries
    view.requests_tenure.shards = before.shards
    view.reassignments.departed = {
        d: seen for d, seen in view.reassignments.departed.items() if now - seen <= DEPARTED_S
    }
    # Free space from before the claim says nothing of what was copied until then.
    disk_space.invalidate_disks(view)
    disk_space.miss_deletions(view, now)
    _take_up(view, now)
    _invalidate_topics(view)


def _bounced_since_claim(view: ClusterView) -> dict[TopicPartition, set[BrokerId]]:
    """Return the brokers by partition that registered while the claim was under way."""
    brokers = view.cluster.registered_since(view.role.claimed_at)
    if not brokers:
        return {}
    assigned = ((p, brokers.intersection(a.replicas)) for p, a in view.topics.assignments())
    return {partition: bounced for partition, bounced in assigned if bounced}


def _take_up(view: ClusterView, now: Instant) -> None:
    """Put every known reassignment where the topic znodes say it is."""
    for request in view.requests.by_id.values():
        request.in_flight = 0
    for partition, reassignment in view.reassignments.by_partition.items():
        _reset(partition, reassignment, first_phase(view, partition), now)
        reassignment.load = None
        reassignment.inherited = True
        reassignment.is_requested = False
        # The previous daemon may have died before it had the answer to its request. If we take the
        # controller role, unfinished requests of the former controller are void.
        reassignment.in_doubt = not view.is_native
        reassignment.deleted = reassignment.rejoined = model.NO_BROKERS
        reassignment.part_way = _is_part_way(view, partition, reassignment)
        # Remembered steps may be of an older record: another daemon may have ended that one and
        # begun this one.
        reassignment.step = int(reassignment.in_flight)
        if reassignment.in_flight:
            count_in_flight(view, reassignment, 1)
            disk_space.reserve(view, partition, now)
        elif reassignment.part_way or reassignment.spec.rolls_back:
            view.pacing.resumed[partition] = None
        else:
            view.pacing.waiting.add(partition, reassignment.spec.request)
    view.due.add(view.reassignments.by_partition)


def _reset(
    partition: TopicPartition, reassignment: Reassignment, phase: phases.Phase, now: Instant
) -> None:
    """Put a reassignment into a phase; an unchanged phase keeps its time."""
    since = reassignment.phase_since if reassignment.phase == phase else now
    reassignment.enter(phase, since, partition, phases.PhaseCause.RESET)


def _is_part_way(view: ClusterView, partition: TopicPartition, known: Reassignment) -> bool:
    """
    Return whether steps of it were completed; another controller may have ended the last one.

    With other replicas than its original and targets, another client moved the partition.
    """
    assignment, spec = view.topics.known_assignment(partition), known.spec
    if known.in_flight or assignment is None or spec.original is None:
        return False
    replicas = set(assignment.replicas)
    named = spec.abandoned.union(spec.original, spec.target)
    return replicas != set(spec.original) and replicas <= named


def _invalidate_topics(view: ClusterView) -> None:
    """
    Invalidate what was read before the claim; topics that something depends on are read first.

    The former controller may have written after our read, or deleted a topic that was created again
    with the same version; from the claim on no other controller does. A read that was under way at
    the claim does not make it valid again, whatever its content. Nor does a list from before the
    claim show that a topic with work does not exist.
    """
    if view.requests.legacy is not None:
        view.requests.legacy.stale = True
    for topic in view.topics.by_name.values():
        topic.invalidate(view.tenure.claim_generation)
    needed, topics = _needed_topics(view), view.topics
    if topics.listed is not None:
        topics.missing |= needed - topics.listed
        topics.listed |= needed
    view.due.overtaken_topics |= needed


def _needed_topics(view: ClusterView) -> set[str]:
    """Return the topics with work; those without partitions are not read with their states."""
    requests = view.requests
    named = [*view.reassignments.by_partition, *view.reassignments.orphaned]
    named += view.pacing_session.to_drain
    named += (d.partition for d in view.reassignments.departed)
    for plan in (requests.legacy, requests.queue):
        named += () if plan is None else plan.entries
    for submission in view.requests_session.submissions.values():
        named += submission.entries
    needed = {p.topic for p in named} | (view.deletions_session.markers or frozenset())
    if requests.cancellation is not None:
        needed |= requests.cancellation.topics | {p.topic for p in requests.cancellation.partitions}
    return needed | {
        name
        for name, topic in view.topics.by_name.items()
        if not topic.partitions or any(a.is_reassigning for a in topic.partitions.values())
    }


def end_tenure(view: ClusterView, now: Instant) -> None:
    """
    Forget everything that was only valid in the tenure.

    Its end may be reported again while the next claim is under way. That claim has its own answer.
    """
    ended, role = view.tenure, view.role
    # Back off before reclaiming a role that was taken or yielded. If it was given up for lack of
    # work, it is claimed with the next plan, before a broker begins to carry that out.
    is_idle = ended.resigning and ended.idle_since is not None
    role.retry_claim_at = now if is_idle else Instant(now + view.options.claim_retry_s)
    # With auto, the delegated engine works from now on.
    is_native = view.options.engine is core_settings.EngineName.NATIVE
    is_unreached = is_native and role.unreached is not None
    if ended.resigning and (role.rejected_by_brokers is not None or is_unreached):
        role.retry_claim_at = Instant(now + REJECTED_RETRY_S)
    if ended.resigning and client_calls.is_role_wanted(view) is not None:
        role.retry_claim_at = Instant(now + CEDED_S)
    if ended.held is not None:
        view.deletions_process.begin_to_yield(now)
        _postpone_orphans(view, now)
    view.end(Lifetime.TENURE, Lifetime.LEADERSHIP)
    role.is_void = role.claiming and role.is_void
    _put_back(view, now)


def _put_back(view: ClusterView, now: Instant) -> None:
    """Have every reassignment wait for the next tenure; foreign ones are found again by then."""
    for request in view.requests.by_id.values():
        request.in_flight = 0
    for partition, reassignment in list(view.reassignments.by_partition.items()):
        _reset(partition, reassignment, phases.Pending(), now)
        reassignment.load = None
        reassignment.requested = None
        if reassignment.spec.route is Route.FOREIGN:
            drop(view, partition, now)
        else:
            view.pacing.waiting.add(partition, reassignment.spec.request)


def _postpone_orphans(view: ClusterView, now: Instant) -> None:
    """Set when orphans alone justify another tenure, with back-off."""
    reassignments = view.reassignments
    left = {o: _in_isr(view, o) for o in view.reassignments.orphans.values() if view.is_in_reach(o)}
    got_nowhere = left == reassignments.orphans_left
    reassignments.orphans_left = left
    if not left:
        return
    longer = min(2 * reassignments.orphans_retry_s, ORPHAN_RETRY_MOST_S) if got_nowhere else 0.0
    reassignments.orphans_retry_s = max(longer, ORPHAN_RETRY_S)
    reassignments.orphans_after = Instant(now + reassignments.orphans_retry_s)


def _in_isr(view: ClusterView, orphan: Orphan) -> Replicas:
    """
    Return all brokers ever seen in the ISR of an orphan's partition with a leader, in order.

    A broker that enters the ISR may be the last that was awaited. One that leaves and enters again
    is not news: otherwise flapping replicas would prevent any back-off.
    """
    state = view.leadership.states.get(orphan.partition)
    isr = () if state is None or state.leader == model.NO_LEADER else state.isr
    return tuple(sorted({*isr, *view.reassignments.orphans_left.get(orphan, ())}))


def end_session(view: ClusterView, now: Instant) -> None:
    """
    End the tenure and forget all reads: the watches are lost with the session.

    A claim under way is void: another daemon may change all that it was decided from meanwhile.
    """
    end_tenure(view, now)
    view.role.is_void = view.role.claiming
    view.end(Lifetime.SESSION)


def begin_leadership(view: ClusterView, now: Instant) -> None:
    """Have our own records read first: another daemon led meanwhile and may have changed them."""
    view.role.leading, view.role.leading_since = True, now
    view.end(Lifetime.LEADERSHIP)
