"""
``observe``: fold facts into the view and note what has to be examined.

Nothing is decided or requested here. An observation older than the view (a read that a write of
ours overtook) is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from controller.core import wakeups
from controller.core.calls.broker_requests import BrokerAsk, PendingAsk
from controller.core.calls.client_requests import (
    AlterReassignments,
    ClientAsk,
    ElectLeaders,
    PendingClientAsk,
)
from controller.core.calls.producer_id_blocks import note_producer_ids
from controller.core.calls.records import (
    BrokerAsked,
    ClientAsked,
    ProducerIdsRead,
    ReassignmentsSubmitted,
)
from controller.core.calls.topic_requests import CreatePartitions, DeleteTopics
from controller.core.cluster.records import BrokerSettingsRead, BrokersRead
from controller.core.deletions import deletion_facts
from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.disks import disk_space, log_directories, partition_sizes
from controller.core.disks.records import (
    LogDirEventsRead,
    LogDirsAltered,
    LogDirsDescribed,
    SizesRead,
)
from controller.core.events import Event, TimerFired
from controller.core.leadership import lost_requests, state_reads
from controller.core.leadership.records import (
    IsrNotificationsRead,
    LeaderAndIsrAnswered,
    PreferredElectionRead,
    StateChanged,
    StatesRead,
)
from controller.core.leadership.unclean_election import note_candidate
from controller.core.model import (
    NO_LEADER,
    START,
    BlockedBy,
    BrokerId,
    Instant,
    LegacyPlan,
    TopicPartition,
    Zxid,
)
from controller.core.pacing import adaptive_limit, isr_health
from controller.core.pacing.applied_throttles import broker_entity
from controller.core.pacing.records import AppliedThrottlesRead, EntityConfigsRead
from controller.core.pacing.throttle_records import applied_throttles_read, entity_configs_read
from controller.core.reassignments import in_flight, phases
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import (
    AlterationsWithdrawn,
    OrphansRead,
    ReassignmentsAltered,
    SpecsRead,
    StopReplicaAnswered,
)
from controller.core.requests.intake import fold_request_read
from controller.core.requests.model import PlanNode
from controller.core.requests.records import (
    CancellationRead,
    LegacyPlanRead,
    QueueRead,
    SubmissionsRead,
)
from controller.core.requests.submissions import Cancellation
from controller.core.role import broker_responses, tenure_reset
from controller.core.role.invalidation import LEFT_TIMER
from controller.core.role.records import (
    ClaimFailed,
    ClaimGuardsRead,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    LeadershipLost,
    ReassignmentsProbed,
    ShutdownRequested,
    UpdateMetadataAnswered,
)
from controller.core.topics import topic_configs, topic_reads
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from controller.core.view import ClusterView


def observe(view: ClusterView, event: Event, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per event
    """Fold one event into the view."""
    view.due.wake(event.wakes)
    work = view.work
    match event:
        case BrokersRead():
            _brokers(view, event, now)
        case TopicsListed():
            topic_reads.topics_listed(view, event)
        case TopicsRead():
            topic_reads.topics_read(view, event, now)
        case StatesRead():
            state_reads.states_read(view, event, now)
        case StateChanged(partition=partition):
            view.due.changed.add(partition)
            view.tenure.watched.pop(partition, None)
        case LegacyPlanRead():
            _legacy_plan(view, event, now)
        case SpecsRead():
            _specs(view, event, now)
        case DeletionsRead():
            topic_reads.deletions_read(view, event, now)
        case TopicTreesRead():
            deletion_facts.trees_read(view, event)
        case BrokerSettingsRead():
            deletion_facts.setting_read(view, event)
            topic_reads.follow_protocol(view)
        case IsrNotificationsRead():
            view.cluster.notifications["isr_notifications"] = event.names
            view.due.notified.update(dict.fromkeys(sorted(event.partitions)))
        case LogDirEventsRead():
            view.cluster.notifications["log_dir_events"] = event.names
            view.due.log_dir_brokers |= event.brokers
            for broker in event.brokers:
                view.tenure.directories.brokers.pop(broker, None)
        case PreferredElectionRead():
            _preferred_election(view, event)
        case ProducerIdsRead(block=block, version=version):
            note_producer_ids(view, block, version)
        case OrphansRead():
            # In a fixed order, so that a history sends the same requests each time it is played.
            orphans = sorted(event.orphans, key=lambda o: (o.broker, o.partition))
            work.orphans = {(o.broker, o.partition): o for o in orphans}
            work.orphaned = Counter(o.partition for o in event.orphans)
            view.own_records.orphans_read = True
        case ClaimGuardsRead():
            view.session.guards = event
        case AppliedThrottlesRead():
            applied_throttles_read(view, event)
        case EntityConfigsRead():
            entity_configs_read(view, event, now)
        case LogDirsDescribed():
            log_directories.log_dirs_described(view, event, now)
        case LogDirsAltered():
            log_directories.log_dirs_altered(view, event, now)
        case SizesRead():
            partition_sizes.sizes_read(view, event, now)
            disk_space.disks_read(view, event)
        case LeadershipGained():
            tenure_reset.begin_leadership(view, now)
        case LeadershipLost():
            view.role.leading = False
            tenure_reset.end_session(view, now)
        case ControllerClaimed():
            tenure_reset.begin_tenure(view, event, now)
            topic_reads.follow_protocol(view)
        case ClaimFailed():
            view.tenure.claiming = False
            view.role.retry_claim_at = Instant(now + view.options.claim_retry_s)
        case Deposed():
            tenure_reset.end_tenure(view, now)
        case ShutdownRequested():
            view.role.stopping = True
        case LeaderAndIsrAnswered():
            adaptive_limit.note_answer(view, event.broker, event.took_s, now)
            broker_responses.leader_and_isr_answered(view, event)
        case StopReplicaAnswered():
            adaptive_limit.note_answer(view, event.broker, event.took_s, now)
            broker_responses.stop_replica_answered(view, event, now)
        case UpdateMetadataAnswered():
            adaptive_limit.note_answer(view, event.broker, event.took_s, now)
            _update_metadata_answered(view, event)
        case ReassignmentsAltered():
            broker_responses.reassignments_altered(view, event, now)
        case AlterationsWithdrawn():
            broker_responses.alterations_withdrawn(view, event)
        case ReassignmentsProbed():
            broker_responses.reassignments_probed(view, event)
        case BrokerAsked() | ClientAsked():
            _request_arrived(view, event, now)
        case ReassignmentsSubmitted(ticket=ticket, submitted=submitted):
            pending = view.tenure.client_asks.get(ticket)
            if pending is not None:
                view.tenure.client_asks[ticket] = replace(pending, submitted=submitted)
        case TopicConfigsRead():
            topic_configs.topic_configs_read(view, event, now)
        case TimerFired(name=name):
            _timer(view, name, now)
        case _:
            fold_request_read(view, event, now)
            topic_reads.read_requested(view, _requested_topics(event))


def _request_arrived(view: ClusterView, event: BrokerAsked | ClientAsked, now: Instant) -> None:
    """
    Note a request that was permitted in this tenure.

    One of another tenure is dropped: the endpoint answered it NOT_CONTROLLER when that ended.
    """
    held = view.tenure.held
    if held is None or event.permission.controller_epoch != held.epoch:
        return
    if isinstance(event, BrokerAsked):
        request = _of_registration(view, event.request)
        view.tenure.asks[event.ticket] = PendingAsk(request, now)
        view.tenure.heard[request.broker] = now
    else:
        view.tenure.client_asks[event.ticket] = PendingClientAsk(event.request, now)
        topic_reads.read_invalid(view, _named_topics(event.request))


def _of_registration(view: ClusterView, request: BrokerAsk) -> BrokerAsk:
    """
    Return a request with the registration of its broker, also where its version has none.

    So it ends with the registration: a broker that is back does not shut down.
    """
    known = view.cluster.brokers.get(request.broker)
    if known is None or request.broker_epoch is not None:
        return request
    return replace(request, broker_epoch=known.epoch)


def _named_topics(asked: ClientAsk) -> set[str]:
    """Return the topics that a client's request is about."""
    match asked:
        case DeleteTopics(topics=topics):
            return {t.name for t in topics}
        case CreatePartitions(topics=added):
            return {t.name for t in added}
        case AlterReassignments(targets=targets):
            return {p.topic for p in targets}
        case ElectLeaders(partitions=partitions):
            return {p.topic for p in partitions or ()}
        case _:
            return set()


def _requested_topics(event: Event) -> set[str]:
    """Return the topics that an operator's request is about."""
    match event:
        case SubmissionsRead(submissions=read):
            return {p.topic for s in read.values() if s is not None for p in s.entries}
        case QueueRead(plan=LegacyPlan(entries=entries)):
            return {p.topic for p in entries}
        case CancellationRead(cancellation=Cancellation() as named):
            return {*named.topics, *(p.topic for p in named.partitions)}
        case _:
            return set()


def _brokers(view: ClusterView, event: BrokersRead, now: Instant) -> None:
    tenure, work = view.tenure, view.work
    before, after = view.cluster.brokers, dict(event.brokers)
    left = before.keys() - after.keys()
    bounced = {b for b in before.keys() & after.keys() if after[b].epoch != before[b].epoch}
    joined = (after.keys() - before.keys()) | bounced
    changed = {b for b in before.keys() & after.keys() if after[b] != before[b]} - bounced
    view.cluster.brokers = after
    if not (left or joined or changed):
        return
    wakeups.wake(view.due, wakeups.Finding.BROKERS_CHANGED)
    if left and work.orphaned:
        wakeups.wake(view.due, wakeups.Finding.ORPHAN_CONCERNED)
    view.due.left |= left
    # The channel to its former endpoints is useless, and requests lost with it are sent again.
    elsewhere = {b for b in changed if after[b].endpoints != before[b].endpoints}
    view.due.elsewhere |= elsewhere
    # A broker that left and came back before a cycle examined it is both.
    view.due.bounced |= bounced | (view.due.left & joined)
    view.due.joined = (view.due.joined | joined | elsewhere) - left
    for broker in joined:
        # Its throttle was not set while it was dead.
        work.participants.note(broker_entity(broker))
        if before:  # When those of the first read registered is not known.
            view.cluster.registered[broker] = now
    wakeups.asks_concerned(view)
    gone = left | bounced
    broker_responses.requests_lost(view, gone, elsewhere)
    if gone:
        tenure.shutting_down = {b: e for b, e in tenure.shutting_down.items() if b not in gone}
        tenure.refusers = {b: e for b, e in tenure.refusers.items() if b not in gone}
        work.orphans_failed = {o for o in work.orphans_failed if o.broker not in gone}
        tenure.offline = {(b, p) for b, p in tenure.offline if b not in gone}
        tenure.id_conflicts = {(b, p) for b, p in tenure.id_conflicts if b not in gone}
        for partition, reassignment in work.reassignments.items():
            phase = reassignment.phase
            if isinstance(phase, phases.Stopping) and phase.waiting & left:
                given_up = phase.given_up | (phase.waiting & left)
                reassignment.update(
                    phases.Stopping(phase.waiting - left, given_up, phase.deadline), partition
                )
                view.due.add((partition,))
    isr_health.judge_again(view)
    if tenure.held is not None:
        _touch(view, left | joined)
        _note_untreated(view, joined)
        _note_rejoined(view, joined)
    if joined:
        # Its directories may be others now.
        disk_space.invalidate_disks(view)
    view.role.orphans_after = START
    view.role.orphans_left.clear()
    topic_reads.follow_protocol(view)


def _update_metadata_answered(view: ClusterView, event: UpdateMetadataAnswered) -> None:
    tenure = view.tenure
    was_accepted = tenure.accepted_by_broker
    broker_responses.update_metadata_answered(view, event)
    if tenure.accepted_by_broker and not was_accepted:
        # Nothing was decided before.
        wakeups.wake(view.due, wakeups.Finding.TIME_CAME)
        wakeups.wake(view.due, wakeups.Finding.FIRST_ACCEPTED)
        _note_waiting(view)
        view.due.add(view.work.reassignments)
        view.due.add(tenure.states)
        view.due.add(tenure.stateless)


def _touch(view: ClusterView, brokers: set[BrokerId]) -> None:
    """Have every partition with a replica on these brokers examined, with new settings."""
    for name, topic in view.session.topics.items():
        for number, assignment in topic.partitions.items():
            if not brokers.isdisjoint(assignment.replicas):
                partition = TopicPartition(name, number)
                view.due.partitions[partition] = None
                note_candidate(view, partition)


def _note_untreated(view: ClusterView, brokers: set[BrokerId]) -> None:
    """
    Note where these brokers still are in the ISR: no write followed from their death.

    They were dead at the claim, and their registration is read in the same cycle as the state. A
    partition without a leader is left: that was written when all of its ISR had died.
    """
    if not brokers or not view.is_native:
        return
    for partition, state in view.tenure.states.items():
        if state.leader != NO_LEADER and not brokers.isdisjoint(state.isr):
            state_reads.note_untreated(view, partition, state)


def _note_rejoined(view: ClusterView, brokers: set[BrokerId]) -> None:
    """Note these brokers in the steps in flight that add a replica to them."""
    for partition, reassignment in view.work.reassignments.items() if brokers else ():
        assignment = view.session.known_assignment(partition)
        if assignment is not None:
            reassignment.rejoined |= brokers.intersection(assignment.adding_replicas)


def _legacy_plan(view: ClusterView, event: LegacyPlanRead, now: Instant) -> None:
    tenure, intake = view.tenure, view.intake
    view.session.legacy_read = True
    last = Zxid(0) if event.plan is None else event.plan.czxid
    if last != intake.legacy_last:
        intake.legacy_came = None if intake.legacy_last is None or event.plan is None else now
        intake.legacy_last = last
    if _leaves_to_kafka(view):
        return
    plan, known = event.plan, intake.legacy
    if plan is not None and plan.czxid == intake.legacy_ended:
        return
    if (
        plan is not None
        and known is not None
        and plan.czxid == known.czxid
        and topic_reads.is_no_news(plan.version, known.version, stale=known.stale)
    ):
        return
    if known is not None and tenure.held is not None and tenure.legacy_confirmed:
        _edited(view, known, plan)
    tenure.legacy_confirmed = tenure.held is not None
    intake.legacy = None if plan is None else PlanNode.of(plan)
    view.due.add(view.work.legacy_reassignments())
    view.due.add(
        p for p in (known.entries if known is not None else ()) if p in view.work.reassignments
    )
    topic_reads.read_invalid(view, {p.topic for p in plan.entries} if plan is not None else ())
    wakeups.wake(view.due, wakeups.Finding.PLAN_CHANGED)


def _leaves_to_kafka(view: ClusterView) -> bool:
    """Return whether the cluster's own controller handles the znodes for a controller."""
    return not view.is_native


def _preferred_election(view: ClusterView, event: PreferredElectionRead) -> None:
    if _leaves_to_kafka(view):
        return
    view.tenure.preferred_version = event.version
    view.tenure.preferred.update(dict.fromkeys(sorted(event.partitions or ())))
    wakeups.wake(view.due, wakeups.Finding.ELECTION_WANTED)


def _edited(view: ClusterView, known: PlanNode, plan: LegacyPlan | None) -> None:
    """Note removed entries; only operators edit the znode while we are the controller."""
    work = view.work
    if plan is None or plan.czxid != known.czxid:
        again = {} if plan is None else plan.entries
        view.due.dropped.update(
            p
            for p in work.legacy_reassignments()
            if again.get(p) != work.reassignments[p].spec.target
        )
    else:
        view.due.dropped.update(p for p in known.entries if p not in plan.entries)


def _specs(view: ClusterView, event: SpecsRead, now: Instant) -> None:
    own_records = view.own_records
    own_records.specs_read = True
    view.work.unreadable_specs = dict(event.unreadable)
    for partition, spec in event.specs.items():
        if view.tenure.held is not None and partition not in own_records.unconfirmed_specs:
            # In a tenure only this daemon writes these, and may have done so since this read.
            continue
        known = view.work.reassignments.get(partition)
        if known is not None:
            in_flight.change_spec(view, partition, known, spec, now)
        else:
            in_flight.begin(
                view, partition, Reassignment(spec=spec, since=now, phase_since=now), now
            )
    unconfirmed = (
        own_records.unconfirmed_specs
        if view.tenure.held is not None
        else set(view.work.reassignments)
    )
    for partition in [p for p in unconfirmed if p not in event.specs]:
        in_flight.drop(view, partition, now)
    own_records.unconfirmed_specs.clear()
    view.tenure.may_have_foreign = True
    view.due.add(event.specs)


def _timer(view: ClusterView, name: str, now: Instant) -> None:
    """Wake the row of a timer, and note the partitions that wait for it; others wake everything."""
    work = view.work
    wakeups.wake(view.due, name if name in wakeups.WAKEUPS else wakeups.Finding.TIME_CAME)
    if name == wakeups.LEADER_MOVES_TIMER:
        by = (BlockedBy.LEADER_MOVES,)
        view.due.add(p for p, r in work.reassignments.items() if _is_blocked(r, by))
    elif name == wakeups.DIRECTORIES_TIMER:
        log_directories.examine_waiting(view)
    elif name == wakeups.ASKS_TIMER:
        lost_requests.time_passed(view, now)
    elif name in {wakeups.ORDER_TIMER, wakeups.SEEN_TIMER}:
        view.due.add(p for p, r in work.reassignments.items() if _waits_for_time(r))
    elif name not in wakeups.WAKEUPS:
        if name == LEFT_TIMER:
            view.session.left_submissions.clear()
        _note_waiting(view)


def _note_waiting(view: ClusterView) -> None:
    """Have every partition examined that may wait for a time."""
    view.due.add(p for p, r in view.work.reassignments.items() if _waits_for_time(r))
    # Without a leader: the topic's settings may now allow an unclean election.
    view.due.add(view.tenure.leaderless)


def _waits_for_time(reassignment: Reassignment) -> bool:
    return isinstance(
        reassignment.phase, phases.Stopping | phases.AwaitingController
    ) or _is_blocked(reassignment, (BlockedBy.LEADER_MOVES, BlockedBy.CONTROLLER_ANSWER))


def _is_blocked(reassignment: Reassignment, by: Collection[BlockedBy]) -> bool:
    return reassignment.blocked is not None and reassignment.blocked.by in by
