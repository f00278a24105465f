"""
Count reassignments in progress: begun, changed and dropped ones, and their steps in flight.

The only place where the counts behind the limits change; each equals a recount. Throttles, sizes
and health follow each reassignment that begins, changes or ends here.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from controller.core import wakeups
from controller.core.disks import disk_space
from controller.core.disks import fold as disk_fold
from controller.core.model import BrokerId, Instant, ReassignmentSpec, Route, TopicPartition
from controller.core.pacing import drained_replicas, isr_health
from controller.core.reassignments import foreign_policy, phases
from controller.core.reassignments.model import Load, Reassignment
from controller.core.view import ClusterView

Key = TypeVar("Key")


def begin(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment, now: Instant
) -> None:
    """Begin a reassignment and count it."""
    request = view.requests.request_of(reassignment.spec.request, now)
    request.open += 1
    request.settled.add(partition)
    request.has_ended = False
    if reassignment.spec.route is Route.FOREIGN:
        request.route, request.kind = Route.FOREIGN, "foreign"
        request.total += 1
    view.reassignments.by_partition[partition] = reassignment
    view.reassignments.other_routes += reassignment.spec.route is not Route.REQUEST
    _count(view.reassignments.topics_at_work, partition.topic, 1)
    _count_rolling_back(view, reassignment.spec, 1)
    _reflect_spec(view, partition, now)
    if reassignment.in_flight:
        count_in_flight(view, reassignment, 1)
    elif reassignment.spec.rolls_back:
        view.pacing.resumed[partition] = None
    else:
        view.pacing.waiting.add(partition, reassignment.spec.request)


def change_spec(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    spec: ReassignmentSpec,
    now: Instant,
) -> None:
    """Give a reassignment another spec, of the same request or of another."""
    pacing = view.pacing
    moving = reassignment.in_flight
    if moving:
        count_in_flight(view, reassignment, -1)
    if spec.request != reassignment.spec.request:
        view.requests.request_of(reassignment.spec.request, now).open -= 1
        later = view.requests.request_of(spec.request, now)
        later.open += 1
        later.settled.add(partition)
        wakeups.wake(view.due, wakeups.Trigger.REQUEST_REPLACED)
    view.reassignments.other_routes += {spec.route, reassignment.spec.route} != {Route.REQUEST}
    _count_rolling_back(view, reassignment.spec, -1)
    reassignment.spec = spec
    _count_rolling_back(view, spec, 1)
    _reflect_spec(view, partition, now)
    disk_fold.reflect_spec(view, partition, now)
    if moving:
        count_in_flight(view, reassignment, 1)
    elif spec.rolls_back:
        # A rollback precedes what has not begun.
        pacing.waiting.discard(partition)
        pacing.resumed[partition] = None
    elif partition in pacing.waiting:
        pacing.waiting.add(partition, spec.request)


def _count_rolling_back(view: ClusterView, spec: ReassignmentSpec, change: int) -> None:
    if spec.cancelled_by is not None:
        _count(view.reassignments.rolling_back, spec.cancelled_by, change)


def _count(counts: Counter[Key], key: Key, change: int) -> None:
    """Count by key; a key without a count is removed."""
    counts[key] += change
    if not counts[key]:
        del counts[key]


def count_in_flight(view: ClusterView, reassignment: Reassignment, change: int) -> None:
    """Count a step that begins or ends, in total and for its request."""
    if foreign_policy.is_limited(view, reassignment.spec):
        view.pacing.in_flight += change
    request = view.requests.by_id.get(reassignment.spec.request)
    if request is not None:
        request.in_flight += change


def restart_step(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment, now: Instant
) -> None:
    """Continue a step from the topic znode, whatever this tenure did with a former one."""
    assignment = view.topics.known_assignment(partition)
    view.leadership.acked.pop(partition, None)
    view.leadership.watched.pop(partition, None)
    unload(view, reassignment)
    reassignment.inherited = True
    view.due.add((partition,))
    is_begun = assignment is not None and assignment.is_reassigning
    phase = phases.Expanding() if is_begun else phases.Pending()
    reassignment.enter(phase, now, partition, phases.PhaseCause.RESET)
    disk_space.reserve(view, partition, now)
    disk_fold.reflect_phase(view, partition, now)
    if is_begun:
        return
    count_in_flight(view, reassignment, -1)
    view.pacing.resumed[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.STEP_ENDED)


def drop(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Drop a reassignment that ended, or whose record turned out not to exist."""
    reassignments = view.reassignments
    reassignment = reassignments.by_partition.pop(partition, None)
    view.pacing.waiting.discard(partition)
    view.pacing.resumed.pop(partition, None)
    if reassignment is None:
        return
    disk_space.reserve(view, partition, now)
    disk_fold.reflect_end(view, partition, reassignment)
    reassignments.other_routes += reassignment.spec.route is not Route.REQUEST
    _count(reassignments.topics_at_work, partition.topic, -1)
    _count_rolling_back(view, reassignment.spec, -1)
    if reassignment.in_flight:
        count_in_flight(view, reassignment, -1)
    unload(view, reassignment)
    request = view.requests.by_id.get(reassignment.spec.request)
    if request is not None:
        request.open -= 1
    view.leadership.watched.pop(partition, None)
    view.pacing_process.participants.drop(partition)
    disk_fold.forget_size(view, partition)
    isr_health.judge(view, partition)
    drained_replicas.judge(view, partition)
    wakeups.wake(view.due, wakeups.Trigger.SPEC_CHANGED)


def reload(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment, before: phases.Phase
) -> None:
    """Count the copies of the step that the present phase begins or finds, and no others."""
    match reassignment.phase:
        case phases.Starting() | phases.AwaitingController():
            unload(view, reassignment)
            load(view, partition, reassignment)
        case phases.Syncing() if isinstance(before, phases.Expanding | phases.AwaitingController):
            # Delegated: the topic znode shows the step, which an earlier daemon may have requested.
            unload(view, reassignment)
            if foreign_policy.is_limited(view, reassignment.spec):
                load(view, partition, reassignment)
        case phases.Placing():
            unload(view, reassignment)
        case _:
            pass


def load(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> None:
    """Count what the step in flight copies against the limits."""
    pacing = view.pacing
    assignment = view.topics.assignment(partition)
    state = view.leadership.states.get(partition)
    if assignment is None or state is None:
        return
    incoming = reassignment.receivers(assignment)
    disk_fold.copies_replaced(view, partition, incoming)
    outgoing: BrokerId | None = state.leader if incoming else None
    size = view.disks_process.sizes.get(partition, 0) * len(incoming)
    reassignment.load = Load(incoming, outgoing, size)
    pacing.bytes_in_flight += size
    for broker in incoming:
        pacing.incoming[broker] = pacing.incoming.get(broker, 0) + 1
    if outgoing is not None:
        pacing.outgoing[outgoing] = pacing.outgoing.get(outgoing, 0) + 1


def unload(view: ClusterView, reassignment: Reassignment) -> None:
    """Release what the step in flight of a reassignment counted against the limits."""
    load, reassignment.load = reassignment.load, None
    if load is None:
        return
    wakeups.wake(view.due, wakeups.Trigger.SLOT_FREED)
    view.pacing.bytes_in_flight -= load.size
    for broker in load.incoming:
        view.pacing.incoming[broker] -= 1
    if load.outgoing is not None:
        view.pacing.outgoing[load.outgoing] -= 1


def _reflect_spec(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Update throttles, sizes and health for a reassignment that is new or has another spec."""
    reflect_participants(view, partition)
    disk_fold.size_wanted(view, partition, now)
    disk_space.reserve(view, partition, now)
    isr_health.judge(view, partition)
    drained_replicas.judge(view, partition)
    wakeups.wake(view.due, wakeups.Trigger.SPEC_CHANGED)


def reflect_participants(view: ClusterView, partition: TopicPartition) -> None:
    """Have throttles follow a reassignment; one of a former topic copies nothing."""
    if view.is_of_former_topic(partition):
        view.pacing_process.participants.drop(partition)
        return
    spec = view.reassignments.by_partition[partition].spec
    view.pacing_process.participants.put(partition, spec, view.topics.known_assignment(partition))


def first_phase(view: ClusterView, partition: TopicPartition) -> phases.Phase:
    """Return the initial phase of a reassignment: a step in the topic znode is continued."""
    assignment = view.topics.assignment(partition)
    begun = assignment is not None and assignment.is_reassigning
    return phases.Expanding() if begun else phases.Pending()
