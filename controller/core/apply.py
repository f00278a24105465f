"""
Folds durable records into the view: the only way our own writes become known.

The same records, applied in the same order, give the same view; recovery reads them from ZooKeeper
as events instead (``observe``) and arrives at the same durable part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, assert_never

from controller.core.effects import (
    ClaimController,
    DescribeTopicConfigs,
    Effect,
    ReadPurpose,
    ReadStates,
    ReadTopics,
    ResignController,
    SendStopReplica,
)
from controller.core.model import (
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionState,
    Route,
    TopicPartition,
    ZkVersion,
)
from controller.core.phases import LEGAL, Expanding, Pending, Phase, Starting, label_of
from controller.core.records import (
    AssignmentRecord,
    BlockedRecord,
    Change,
    ForeignAdoptedRecord,
    GoalEndedRecord,
    GoalRecord,
    IdleRecord,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    NotificationsDeletedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    OutcomeRecord,
    PassedOverRecord,
    PhaseRecord,
    PreferredElectionEndedRecord,
    PreferredTriedRecord,
    Record,
    RefusalRecord,
    StateCreatedRecord,
    StateRecord,
    YieldedRecord,
)
from controller.core.view import ClusterView, Load, Reassignment, Tally
from controller.errors import ensure

REQUESTS_KEPT: Final = 200


def apply(view: ClusterView, record: Record, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per record
    """
    Fold one durable record into the view.

    Raises:
        InvariantError: a phase was followed by one that may not follow it.

    """
    match record:
        case AssignmentRecord(partition=partition, assignment=assignment):
            view.topics[partition.topic].partitions[partition.partition] = assignment
        case StateRecord():
            view.states[record.partition] = PartitionState(
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=ZkVersion(record.expected_version + 1),
                leader_recovery_state=record.leader_recovery_state,
            )
            view.due.add((record.partition,))
        case StateCreatedRecord(partition=partition):
            view.stateless.discard(partition)
            view.states[partition] = PartitionState(
                leader=record.leader,
                leader_epoch=LeaderEpoch(0),
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=ZkVersion(0),
            )
            view.due.add((partition,))
        case GoalRecord():
            view.doubtful_goals.discard(record.partition)
            _goal(view, record, now)
        case GoalEndedRecord():
            view.doubtful_goals.discard(record.partition)
            _goal_ended(view, record, now)
        case LegacyEntryRecord():
            _legacy_entry(view, record)
        case LegacyPlanEndedRecord():
            if view.legacy is not None:
                view.legacy_ended = view.legacy.czxid
            view.legacy = None
            view.due.tenure = True
        case RefusalRecord(refusals=refusals):
            for refusal in refusals:
                tally = view.requests.setdefault(refusal.request, Tally(Route.LEGACY, now))
                tally.refused.append(refusal)
                tally.total += 1
            view.due.plan = True
        case OutcomeRecord():
            _forget_old_requests(view)
        case OrphanRecord(orphan=orphan):
            view.orphans[orphan.broker, orphan.partition] = orphan
            view.orphans_tried.discard(orphan)
            view.orphaned.add(orphan.partition)
            view.due.orphans = True
        case OrphanEndedRecord(orphan=orphan):
            view.orphans.pop((orphan.broker, orphan.partition), None)
            view.orphaned = {o.partition for o in view.orphans.values()}
            view.due.tenure = True
            if orphan.partition in view.reassignments:
                view.due.add((orphan.partition,))
        case NotificationsDeletedRecord(kind=kind, names=names):
            gone = set(names)
            view.notifications[kind] = tuple(
                n for n in view.notifications.get(kind, ()) if n not in gone
            )
        case PreferredElectionEndedRecord():
            view.preferred_version = None
            view.due.tenure = True
        case PhaseRecord():
            _phase(view, record)
        case BlockedRecord(partition=partition, blocked=blocked):
            reassignment = view.reassignments.get(partition)
            if reassignment is not None:
                if blocked is None or reassignment.blocked is None:
                    reassignment.blocked_since = record.at if blocked else None
                reassignment.blocked = blocked
        case PreferredTriedRecord(partitions=partitions, at=at):
            for partition in partitions:
                view.preferred.pop(partition, None)
            view.preferred_at = at
            view.due.elections = view.due.tenure = True
        case ForeignAdoptedRecord():
            view.may_have_foreign = False
        case PassedOverRecord(partitions=partitions):
            for partition in partitions:
                for queue in (view.resumed, view.waiting):
                    if partition in queue:
                        del queue[partition]
                        queue[partition] = None
        case IdleRecord(since=since):
            view.idle_since = since
        case YieldedRecord(topics=topics):
            view.yielded = topics
        case _:
            assert_never(record)


def _forget_old_requests(view: ClusterView) -> None:
    """Keep the counts of the newest ended requests only; the outcomes are in ZooKeeper."""
    if len(view.requests) <= REQUESTS_KEPT:
        return
    running = {r.goal.request for r in view.reassignments.values()}
    ended = [request for request in view.requests if request not in running]
    for request in ended[: len(view.requests) - REQUESTS_KEPT]:
        del view.requests[request]


def _goal(view: ClusterView, record: GoalRecord, now: Instant) -> None:
    goal = record.goal
    version = ZkVersion(0) if goal.version is None else ZkVersion(goal.version + 1)
    goal = replace(goal, version=None if goal.route is Route.FOREIGN else version)
    known = view.reassignments.get(record.partition)
    if known is None:
        tally = view.requests.setdefault(goal.request, Tally(goal.route, now))
        tally.total += 1
        view.reassignments[record.partition] = Reassignment(
            goal=goal, since=now, phase=_first_phase(view, record.partition), phase_since=now
        )
        if view.reassignments[record.partition].in_flight:
            view.in_flight += 1
        else:
            view.waiting[record.partition] = None
    else:
        known.goal = goal
    view.due.partitions[record.partition] = None
    view.due.capacity = view.due.plan = view.due.tenure = True


def _first_phase(view: ClusterView, partition: TopicPartition) -> Phase:
    """A step that stands in the topic znode already is taken up where the znode says it is."""
    assignment = view.assignment(partition)
    begun = assignment is not None and assignment.is_reassigning
    return Expanding() if begun else Pending()


def take_up(view: ClusterView) -> None:
    """At the begin of a tenure: put every known reassignment where the topic znodes say it is."""
    view.in_flight = 0
    view.waiting.clear()
    view.resumed.clear()
    for partition, reassignment in view.reassignments.items():
        reassignment.phase = _first_phase(view, partition)
        reassignment.load = None
        reassignment.inherited = True
        reassignment.deleted.clear()
        if reassignment.in_flight:
            view.in_flight += 1
            reassignment.step = max(reassignment.step, 1)
        else:
            view.waiting[partition] = None
    view.incoming.clear()
    view.outgoing.clear()
    view.due.add(view.reassignments)


def _goal_ended(view: ClusterView, record: GoalEndedRecord, now: Instant) -> None:
    reassignment = view.reassignments.get(record.partition)
    if record.outcome == "done":
        tally = view.requests.setdefault(record.request, Tally(Route.LEGACY, now))
        tally.done += 1
        tally.total += reassignment is None
    if reassignment is not None:
        if reassignment.in_flight:
            view.in_flight -= 1
        unload(view, reassignment)
        _want_preferred(view, record.partition, reassignment)
    view.reassignments.pop(record.partition, None)
    view.waiting.pop(record.partition, None)
    view.resumed.pop(record.partition, None)
    view.acked.pop(record.partition, None)
    if record.partition not in view.orphaned:
        view.confirmed.pop(record.partition, None)
    view.due.capacity = view.due.plan = view.due.tenure = True


def _want_preferred(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> None:
    state = view.states.get(partition)
    target = reassignment.goal.target
    if (
        view.options.preferred_election
        and state is not None
        and state.leader != target[0]
        and reassignment.goal.route is not Route.FOREIGN
    ):
        view.preferred[partition] = None
        view.due.elections = True


def _legacy_entry(view: ClusterView, record: LegacyEntryRecord) -> None:
    if view.legacy is None:
        return
    if record.replicas is None:
        view.legacy.entries.pop(record.partition, None)
    else:
        view.legacy.entries[record.partition] = record.replicas
    if record.partition in view.reassignments:
        view.due.add((record.partition,))
    view.due.plan = view.due.tenure = True


def _phase(view: ClusterView, record: PhaseRecord) -> None:
    reassignment = view.reassignments.get(record.partition)
    if reassignment is None:
        return
    before, after = reassignment.phase, record.phase
    ensure(
        type(after) in LEGAL[type(before)],
        f"{record.partition}: {label_of(before)} cannot be followed by {label_of(after)}",
    )
    was_in_flight = reassignment.in_flight
    reassignment.phase = after
    reassignment.phase_since = record.at
    reassignment.blocked = None
    reassignment.blocked_since = None
    if reassignment.in_flight and not was_in_flight:
        view.in_flight += 1
        view.waiting.pop(record.partition, None)
        view.resumed.pop(record.partition, None)
    elif was_in_flight and not reassignment.in_flight:
        view.in_flight -= 1
        view.due.tenure = True
        unload(view, reassignment)
        if isinstance(after, Pending):
            # What was begun goes first when there is room again.
            view.resumed[record.partition] = None
    if isinstance(after, Starting):
        reassignment.step += 1
        unload(view, reassignment)
        _load(view, record.partition, reassignment)
    view.due.partitions[record.partition] = None


def _load(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> None:
    assignment = view.assignment(partition)
    state = view.states.get(partition)
    if assignment is None or state is None:
        return
    incoming = assignment.adding_replicas
    outgoing: BrokerId | None = state.leader if incoming else None
    reassignment.load = Load(incoming, outgoing)
    for broker in incoming:
        view.incoming[broker] = view.incoming.get(broker, 0) + 1
    if outgoing is not None:
        view.outgoing[outgoing] = view.outgoing.get(outgoing, 0) + 1


def unload(view: ClusterView, reassignment: Reassignment) -> None:
    """Give back what the step in flight of a reassignment counted against the limits."""
    load, reassignment.load = reassignment.load, None
    if load is None:
        return
    view.due.capacity = True
    for broker in load.incoming:
        view.incoming[broker] -= 1
    if load.outgoing is not None:
        view.outgoing[load.outgoing] -= 1


def issued(view: ClusterView, effect: Effect, now: Instant) -> None:
    """Note that an effect was carried out, where the next decision has to know."""
    match effect:
        case ReadStates(partitions=partitions, purpose=ReadPurpose.SEED | ReadPurpose.CONFLICT):
            # What was to follow the rejected write was not sent: everybody is told anew.
            view.seeding.update(partitions)
        case ReadStates(partitions=partitions, purpose=ReadPurpose.REFRESH):
            view.refreshing.update(partitions)
        case DescribeTopicConfigs(topics=topics):
            view.asked_configs.update(dict.fromkeys(topics, now))
        case ReadTopics(topics=topics):
            view.asked_topics.update(topics)
        case ClaimController():
            view.claiming = True
        case ResignController():
            view.resigning = True
        case SendStopReplica(partition=partition, broker=broker):
            orphan = view.orphans.get((broker, partition))
            if orphan is not None:
                view.orphans_tried.add(orphan)
        case _:
            pass


def versions_moved(view: ClusterView, topics: Iterable[str], *, legacy: bool) -> None:
    """Count one write of each of these topic znodes, and of the legacy znode if it was written."""
    for name in topics:
        view.topics[name].version = ZkVersion(view.topics[name].version + 1)
    if legacy and view.legacy is not None:
        view.legacy.version = ZkVersion(view.legacy.version + 1)


def invalidate(view: ClusterView, change: Change) -> list[Effect]:
    """Distrust what a rejected change was decided on; return the reads that tell the truth."""
    topics: dict[str, None] = {}
    states: dict[TopicPartition, None] = {}
    for record in change.records:
        match record:
            case AssignmentRecord(partition=partition):
                view.topics[partition.topic].stale = True
                topics[partition.topic] = None
            case StateRecord(partition=partition) | StateCreatedRecord(partition=partition):
                known = view.states.pop(partition, None)
                if known is not None:
                    view.distrusted[partition] = known.version
                view.stateless.discard(partition)
                states[partition] = None
            case GoalRecord(partition=partition) | GoalEndedRecord(partition=partition):
                view.doubtful_goals.add(partition)
            case _:
                pass
    effects: list[Effect] = []
    if topics:
        effects.append(ReadTopics(tuple(topics)))
    if states:
        effects.append(ReadStates(tuple(states), ReadPurpose.CONFLICT))
    return effects
