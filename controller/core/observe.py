"""
Folds what was read and answered into the view, and notes what has to be looked at.

Nothing is decided here and nothing is asked for. An observation older than what the view holds (a
read that was overtaken by a write of ours) is dropped.
"""

from __future__ import annotations

from typing import assert_never

from controller.core.answers import (
    is_refused,
    leader_and_isr_answered,
    stop_replica_answered,
)
from controller.core.apply import unload
from controller.core.events import (
    BrokersRead,
    ClaimFailed,
    ControllerClaimed,
    DeletionsRead,
    Deposed,
    Event,
    GoalsRead,
    GuardsRead,
    IsrNotificationsRead,
    LeaderAndIsrAnswered,
    LeadershipGained,
    LeadershipLost,
    LegacyPlanRead,
    LogDirEventsRead,
    OrphansRead,
    PreferredElectionRead,
    ShutdownRequested,
    StateChanged,
    StatesRead,
    StopReplicaAnswered,
    TimerFired,
    TopicConfigsRead,
    TopicsListed,
    TopicsRead,
    UpdateMetadataAnswered,
)
from controller.core.handovers import begin_tenure, end_tenure, forget_reads
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    Instant,
    LegacyPlan,
    PartitionState,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.phases import Stopping
from controller.core.view import START, ClusterView, LegacyNode, Reassignment, Tally, Topic


def observe(view: ClusterView, event: Event, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per event
    """Fold one event into the view."""
    match event:
        case BrokersRead():
            _brokers(view, event)
        case TopicsListed():
            _topics_listed(view, event)
        case TopicsRead():
            _topics(view, event)
        case StatesRead():
            _states(view, event)
        case StateChanged():
            view.due.changed.add(event.partition)
        case LegacyPlanRead():
            _legacy_plan(view, event)
        case GoalsRead():
            _goals(view, event, now)
        case DeletionsRead():
            _deletions(view, event, now)
        case IsrNotificationsRead():
            view.notifications["isr_notifications"] = event.names
            view.due.notified.update(dict.fromkeys(sorted(event.partitions)))
        case LogDirEventsRead():
            view.notifications["log_dir_events"] = event.names
            view.due.log_dir_brokers |= event.brokers
        case PreferredElectionRead():
            view.preferred_version = event.version
            view.preferred.update(dict.fromkeys(sorted(event.partitions or ())))
            view.due.elections = True
        case OrphansRead():
            view.orphans = {(o.broker, o.partition): o for o in event.orphans}
            view.orphaned = {o.partition for o in event.orphans}
            view.orphans_read = True
            view.due.tenure = view.due.orphans = True
        case GuardsRead():
            view.guards = event
            view.due.tenure = True
        case LeadershipGained():
            view.leading = True
            # Another daemon led meanwhile: what it recorded has to be read first.
            view.goals_read = view.orphans_read = False
            view.due.tenure = True
        case LeadershipLost():
            view.leading = False
            end_tenure(view, now)
            forget_reads(view)
        case ControllerClaimed():
            begin_tenure(view, event, now)
        case ClaimFailed():
            view.claiming = False
            view.retry_claim_at = Instant(now + view.options.claim_retry_s)
            view.due.tenure = True
        case Deposed():
            end_tenure(view, now)
        case ShutdownRequested():
            view.stopping = True
            view.due.tenure = True
        case LeaderAndIsrAnswered():
            leader_and_isr_answered(view, event)
        case StopReplicaAnswered():
            stop_replica_answered(view, event)
        case UpdateMetadataAnswered():
            is_refused(view, event.error, event.broker)
        case TopicConfigsRead():
            _configs(view, event, now)
        case TimerFired():
            _timer(view)
        case _:
            assert_never(event)


def _brokers(view: ClusterView, event: BrokersRead) -> None:
    before = view.brokers
    now = dict(event.brokers)
    left = before.keys() - now.keys()
    bounced = {b for b in before.keys() & now.keys() if now[b].epoch != before[b].epoch}
    joined = (now.keys() - before.keys()) | bounced
    changed = {b for b in before.keys() & now.keys() if now[b] != before[b]} - bounced
    view.brokers = now
    view.due.tenure = True
    if not (left or joined or changed):
        return
    view.due.brokers_changed = True
    view.due.left |= left
    # A broker that left and came back before anybody looked is both.
    view.due.bounced |= bounced | (view.due.left & joined)
    view.due.joined = (view.due.joined | joined) - left
    gone = left | bounced
    if gone:
        view.orphans_tried = {o for o in view.orphans_tried if o.broker not in gone}
        view.orphans_failed = {o for o in view.orphans_failed if o.broker not in gone}
        view.offline = {(b, p) for b, p in view.offline if b not in gone}
        for partition, reassignment in view.reassignments.items():
            phase = reassignment.phase
            if isinstance(phase, Stopping) and phase.waiting & left:
                reassignment.phase = Stopping(
                    phase.waiting - left, phase.given_up | (phase.waiting & left), phase.deadline
                )
                view.due.add((partition,))
    if view.tenure is not None:
        _touch(view, left | joined)
    view.orphans_after = START
    view.due.capacity = True


def _deletions(view: ClusterView, event: DeletionsRead, now: Instant) -> None:
    if not event.topics:
        view.deletions_since = None
    elif view.deletions_since is None or not event.topics <= (view.deletions or frozenset()):
        view.deletions_since = now
    view.deletions = event.topics
    # A topic of the same name that is deleted later has to be yielded to again.
    view.yielded &= event.topics
    view.due.tenure = view.due.plan = view.due.capacity = True


def _touch(view: ClusterView, brokers: set[BrokerId]) -> None:
    """Have every partition with a replica on these brokers looked at."""
    for name, topic in view.topics.items():
        for number, assignment in topic.partitions.items():
            if not brokers.isdisjoint(assignment.replicas):
                view.due.partitions[TopicPartition(name, number)] = None


def _topics_listed(view: ClusterView, event: TopicsListed) -> None:
    view.listed = event.topics
    view.due.listed_topics = view.due.tenure = True
    for name in [t for t in view.topics if t not in event.topics]:
        _forget_topic(view, name)
    view.asked_topics &= event.topics
    for name in [t for t in view.unreadable_topics if t not in event.topics]:
        del view.unreadable_topics[name]


def _forget_topic(view: ClusterView, name: str) -> None:
    topic = view.topics.pop(name, None)
    view.configs.pop(name, None)
    for number in topic.partitions if topic else ():
        partition = TopicPartition(name, number)
        view.states.pop(partition, None)
        view.distrusted.pop(partition, None)
        view.stateless.discard(partition)
        view.unseeded.pop(partition, None)
        view.acked.pop(partition, None)
        view.preferred.pop(partition, None)
        if partition in view.reassignments:
            view.due.add((partition,))


def _topics(view: ClusterView, event: TopicsRead) -> None:
    for name, read in event.topics.items():
        if isinstance(read, TopicAssignment):
            _topic(view, name, read)
        elif read is None:
            _forget_topic(view, name)
            view.asked_topics.discard(name)
            if view.listed is not None:
                view.listed -= {name}
        else:
            view.unreadable_topics[name] = read
    view.due.tenure = view.due.plan = True


def _is_no_news(read: ZkVersion, known: ZkVersion, *, stale: bool) -> bool:
    """Whether a read was overtaken; what is in doubt is confirmed by no older one."""
    return read < known or (read == known and not stale)


def _topic(view: ClusterView, name: str, read: TopicAssignment) -> None:
    view.unreadable_topics.pop(name, None)
    known = view.topics.get(name)
    if known is not None and known.czxid != read.czxid:
        _forget_topic(view, name)
        known = None
    if known is not None and _is_no_news(read.version, known.version, stale=known.stale):
        return
    before = known.partitions if known is not None else {}
    for number, assignment in read.partitions.items():
        partition = TopicPartition(name, number)
        old = before.get(number)
        if assignment.is_reassigning and old is not None and not old.is_reassigning:
            view.before[partition] = old.replicas
        elif not assignment.is_reassigning:
            view.before.pop(partition, None)
        if view.tenure is not None:
            if old is None:
                view.unseeded[partition] = None
                view.due.listed_topics = True
            if assignment.is_reassigning and partition not in view.reassignments:
                view.may_have_foreign = view.due.plan = True
    view.topics[name] = Topic(dict(read.partitions), read.version, read.czxid, read.topic_id)
    partitions = [TopicPartition(name, n) for n in read.partitions]
    view.due.add(p for p in partitions if p in view.states or p in view.stateless)
    if known is not None and known.stale:
        # While it was in doubt nothing could be decided or was told rightly.
        view.due.seeded.update(dict.fromkeys(p for p in partitions if p in view.states))


def _is_outdated(
    view: ClusterView, partition: TopicPartition, read: PartitionState | str | None
) -> bool:
    """Whether a read was under way when a write of ours was refused; another one follows."""
    oldest = view.distrusted.get(partition)
    if oldest is not None and isinstance(read, PartitionState) and read.version < oldest:
        return True
    view.distrusted.pop(partition, None)
    return False


def _states(view: ClusterView, event: StatesRead) -> None:
    if view.tenure is None:
        return
    for partition, read in event.states.items():
        if _is_outdated(view, partition, read):
            continue
        fresh = partition in view.seeding
        view.seeding.discard(partition)
        view.unseeded.pop(partition, None)
        if partition in view.refreshing:
            view.refreshing.discard(partition)
            view.due.refreshed[partition] = None
        if partition.topic not in view.topics:
            continue
        if fresh:
            view.due.seeded[partition] = None
        if isinstance(read, PartitionState):
            view.stateless.discard(partition)
            known = view.states.get(partition)
            if known is not None and read.version < known.version:
                continue
            view.states[partition] = read
        elif read is None:
            view.stateless.add(partition)
            view.states.pop(partition, None)
        else:
            continue
        view.due.partitions[partition] = None


def _legacy_plan(view: ClusterView, event: LegacyPlanRead) -> None:
    view.legacy_read = True
    plan, known = event.plan, view.legacy
    if plan is not None and plan.czxid == view.legacy_ended:
        return
    if (
        plan is not None
        and known is not None
        and plan.czxid == known.czxid
        and _is_no_news(plan.version, known.version, stale=known.stale)
    ):
        return
    if known is not None and view.tenure is not None and view.legacy_confirmed:
        _edited(view, known, plan)
    view.legacy_confirmed = view.tenure is not None
    view.legacy = None if plan is None else _node(plan)
    view.due.add(view.legacy_reassignments())
    view.due.plan = view.due.tenure = True


def _edited(view: ClusterView, known: LegacyNode, plan: LegacyPlan | None) -> None:
    """Note what an operator took out; nobody else writes the node while we are the controller."""
    if plan is None or plan.czxid != known.czxid:
        again = {} if plan is None else plan.entries
        view.due.dropped.update(
            p
            for p in view.legacy_reassignments()
            if again.get(p) != view.reassignments[p].goal.target
        )
    else:
        view.due.dropped.update(p for p in known.entries if p not in plan.entries)


def _node(plan: LegacyPlan) -> LegacyNode:
    return LegacyNode(
        entries=dict(plan.entries),
        version=plan.version,
        czxid=plan.czxid,
        refused=plan.refused,
        unreadable=plan.unreadable,
        raw=plan.raw,
    )


def _goals(view: ClusterView, event: GoalsRead, now: Instant) -> None:
    view.goals_read = True
    view.unreadable_goals = dict(event.unreadable)
    for partition, goal in event.goals.items():
        if view.tenure is not None and partition not in view.doubtful_goals:
            # Nobody but us writes these now, and we may have since this was read.
            continue
        known = view.reassignments.get(partition)
        if known is not None:
            known.goal = goal
            continue
        view.reassignments[partition] = Reassignment(goal=goal, since=now, phase_since=now)
        view.waiting[partition] = None
        tally = view.requests.setdefault(goal.request, Tally(goal.route, now))
        tally.total += 1
    doubtful = view.doubtful_goals if view.tenure is not None else set(view.reassignments)
    for partition in [p for p in doubtful if p not in event.goals]:
        forgotten = view.reassignments.pop(partition, None)
        if forgotten is not None and forgotten.in_flight:
            view.in_flight -= 1
            unload(view, forgotten)
        view.waiting.pop(partition, None)
        view.resumed.pop(partition, None)
    view.doubtful_goals.clear()
    view.may_have_foreign = True
    view.due.add(event.goals)
    view.due.tenure = True


def _configs(view: ClusterView, event: TopicConfigsRead, now: Instant) -> None:
    for topic, read in event.configs.items():
        view.asked_configs[topic] = now
        if isinstance(read, str):
            view.config_errors[topic] = read
            continue
        view.config_errors.pop(topic, None)
        if view.configs.get(topic) != read:
            view.configs[topic] = read
            view.due.plan = view.due.capacity = True
            if topic in view.topics and view.tenure is not None:
                view.due.add(TopicPartition(topic, n) for n in view.topics[topic].partitions)


def _timer(view: ClusterView) -> None:
    """Look at everything that may wait for a time."""
    view.due.timer = True
    view.due.tenure = view.due.elections = view.due.capacity = view.due.plan = True
    view.due.add(p for p, r in view.reassignments.items() if isinstance(r.phase, Stopping))
    # Without a leader: the topic's settings may allow what they did not allow before.
    view.due.add(p for p, state in view.states.items() if state.leader == NO_LEADER)
