"""
``apply``: fold durable records into the view; the only way our own writes become known.

The same records in the same order give the same view; recovery reads them from ZooKeeper as events
(``observe``) and arrives at the same durable part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.core import effects, model, wakeups
from controller.core.calls.records import AskAnsweredRecord, ProducerIdsRecord
from controller.core.deletions import deletion_facts, deletion_yields
from controller.core.deletions.records import (
    DeletionBegunRecord,
    DeletionBlockedRecord,
    DeletionMarkerEndedRecord,
    DeletionRequestedRecord,
    PartitionZnodesDeletedRecord,
    TopicDeletedRecord,
)
from controller.core.disks import disk_reservations, log_directories, partition_sizes
from controller.core.leadership import lost_requests
from controller.core.leadership.records import (
    ElectionsAskedRecord,
    IsrRecord,
    LeadersBalancedRecord,
    NotificationsDeletedRecord,
    PreferredElectionEndedRecord,
    PreferredTriedRecord,
    ShutdownBegunRecord,
    StateCreatedRecord,
    StateRecord,
)
from controller.core.leadership.unclean_election import note_leader
from controller.core.model import Instant, Route, TopicPartition
from controller.core.pacing import adaptive_limit, isr_health, throttle_records
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    LeaderMovedRecord,
    PaceRecord,
    ThrottlesSettledRecord,
)
from controller.core.reassignments import in_flight, phases, start_pending
from controller.core.reassignments.in_flight import first_phase
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import (
    BlockedRecord,
    ForeignAdoptedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PendingSortedRecord,
    PhaseRecord,
    SpecEndedRecord,
    SpecRecord,
    StartSkippedRecord,
)
from controller.core.records import Record
from controller.core.requests import request_records
from controller.core.requests.model import Request
from controller.core.requests.records import LegacyEntryRecord, LegacyPlanEndedRecord
from controller.core.role.records import (
    EndpointUnreachedRecord,
    EngineRecord,
    IdleRecord,
    RoleCededRecord,
    StatesPolledRecord,
    UpdateRefusedRecord,
    YieldedRecord,
)
from controller.core.role.state_polling import missing_again
from controller.core.state.process import Departure
from controller.core.state.tenure import AskRead, ProducerIds
from controller.core.topics.records import (
    AssignmentRecord,
    TopicCreatedRecord,
    TopicGrownRecord,
    TopicIdRecord,
)
from controller.core.topics.topic_creation import note_topic
from controller.core.view import ClusterView


def apply(view: ClusterView, record: Record, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per record
    """
    Fold one durable record into the view.

    Raises:
        InvariantError: an illegal change of phase.

    """
    view.due.wake(record.wakes)
    tenure, work, intake, cluster = view.tenure, view.work, view.intake, view.cluster
    match record:
        case AssignmentRecord(partition=partition, assignment=assignment):
            entries = view.session.topics[partition.topic].partitions
            if partition.partition not in entries:
                # It is new: a state that exists nevertheless is found when ours is rejected.
                tenure.stateless.add(partition)
                view.due.partitions[partition] = None
            entries[partition.partition] = assignment
            wakeups.orphans_concerned(view, partition)
            isr_health.judge(view, partition)
        case TopicIdRecord(topic=topic, topic_id=topic_id):
            view.session.id_written(topic, topic_id)
            # First states wait for it.
            entries = view.session.topics[topic].partitions
            view.due.add(TopicPartition(topic, number) for number in entries)
        case StateRecord():
            written = model.PartitionState(
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=model.ZkVersion(record.expected_version + 1),
                leader_recovery_state=record.leader_recovery_state,
                mzxid=_newest_registration(view),
            )
            _state_written(view, record.partition, written, now)
            if record.partition in work.reassignments:
                work.reassignments[record.partition].rejoined = model.NO_BROKERS
        case IsrRecord(partition=partition, before=before):
            if not set(record.isr) <= set(before.isr):
                view.note_progress(partition, now)
            written = replace(
                before,
                isr=record.isr,
                leader_recovery_state=record.leader_recovery_state,
                version=model.ZkVersion(before.version + 1),
            )
            _state_written(view, partition, written, now)
            dead = set(record.isr) - cluster.brokers.keys()
            if dead:
                # A leader before Kafka 3.2 asked for it. It may be back when the ISR is repaired.
                tenure.bounced.setdefault(partition, set()).update(dead)
            wakeups.orphans_concerned(view, partition)
        case AskAnsweredRecord(ticket=ticket, answer=answer):
            asked = tenure.asks.pop(ticket, None)
            if asked is not None and answer is not None:
                lost_requests.answered(view, asked.request, answer, now)
            if not tenure.asks:
                tenure.asks_read.clear()
            tenure.client_asks.pop(ticket, None)
            if not tenure.client_asks:
                tenure.electing.clear()
                tenure.creations_rejected.clear()
        case ProducerIdsRecord(block=block, expected_version=version):
            following = model.ZkVersion(0 if version is None else version + 1)
            tenure.producer_ids = ProducerIds(block.last + 1, following)
        case ShutdownBegunRecord(broker=broker, epoch=epoch):
            tenure.shutting_down[broker] = epoch
            view.due.add(p for p in tenure.states if broker in view.serving_replicas(p))
        case ElectionsAskedRecord(ticket=ticket, partitions=partitions):
            tenure.client_asks[ticket] = replace(
                tenure.client_asks[ticket],
                results=record.results,
                electing=frozenset(partitions),
            )
            tenure.electing.update(partitions)
            if record.is_unclean:
                view.due.add(partitions)
            else:
                tenure.preferred.update(dict.fromkeys(partitions))
        case (
            TopicCreatedRecord(ticket=ticket, result=result)
            | TopicGrownRecord(ticket=ticket, result=result)
            | DeletionRequestedRecord(ticket=ticket, result=result)
        ):
            note_topic(view, ticket, result)
            tenure.electing.update(result.new_partitions)
        case DeletionBegunRecord(topic=topic):
            deletion_facts.deletion_begun(view, topic)
        case PartitionZnodesDeletedRecord():
            deletion_facts.znodes_deleted(view, record)
        case TopicDeletedRecord(topic=topic):
            deletion_facts.topic_deleted(view, topic)
            deletion_yields.note_deletions(view, view.session.deletions or frozenset(), now)
        case DeletionMarkerEndedRecord(topic=topic):
            deletion_facts.marker_ended(view, topic)
            deletion_yields.note_deletions(view, view.session.deletions or frozenset(), now)
        case DeletionBlockedRecord(topic=topic, wait=wait):
            if wait is None:
                tenure.deletion_waits.pop(topic, None)
            else:
                tenure.deletion_waits[topic] = wait
        case StateCreatedRecord(partition=partition):
            tenure.stateless.discard(partition)
            tenure.states[partition] = model.PartitionState(
                leader=record.leader,
                leader_epoch=model.LeaderEpoch(0),
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=model.ZkVersion(0),
                mzxid=_newest_registration(view),
            )
            isr_health.judge(view, partition)
            view.due.add((partition,))
        case SpecRecord():
            view.own_records.unconfirmed_specs.discard(record.partition)
            _spec(view, record, now)
        case SpecEndedRecord():
            view.own_records.unconfirmed_specs.discard(record.partition)
            _spec_ended(view, record, now)
        case LegacyEntryRecord():
            _legacy_entry(view, record)
        case LegacyPlanEndedRecord():
            if intake.legacy is not None:
                intake.legacy_ended = intake.legacy.czxid
            intake.legacy = None
        case AppliedThrottleRecord():
            throttle_records.applied_throttle_set(view, record)
        case AppliedThrottleEndedRecord():
            throttle_records.applied_throttle_ended(view, record)
        case ThrottlesSettledRecord():
            throttle_records.throttles_settled(view, record)
        case OrphanRecord(orphan=orphan):
            if (orphan.broker, orphan.partition) not in work.orphans:
                work.orphaned[orphan.partition] += 1
            work.orphans[orphan.broker, orphan.partition] = orphan
            cluster.departed.pop(
                Departure(orphan.broker, orphan.partition, orphan.topic_czxid), None
            )
            tenure.orphans_tried.discard(orphan)
            deletion_facts.replica_left(view, orphan)
        case OrphanEndedRecord(orphan=orphan):
            if work.orphans.pop((orphan.broker, orphan.partition), None) is not None:
                work.orphaned[orphan.partition] -= 1
                if not work.orphaned[orphan.partition]:
                    del work.orphaned[orphan.partition]
            if orphan.partition in work.reassignments:
                work.reassignments[orphan.partition].lost -= {orphan.broker}
                view.due.add((orphan.partition,))
        case NotificationsDeletedRecord(kind=kind, names=names):
            gone = set(names)
            cluster.notifications[kind] = tuple(
                n for n in cluster.notifications.get(kind, ()) if n not in gone
            )
        case PreferredElectionEndedRecord():
            tenure.preferred_version = None
        case PhaseRecord():
            _phase(view, record)
        case BlockedRecord(partition=partition, blocked=blocked):
            reassignment = work.reassignments.get(partition)
            if reassignment is not None:
                reassignment.wait(blocked, record.at)
                if blocked is not None and blocked.by is model.BlockedBy.LOG_DIR:
                    log_directories.reflect_blocked(view, partition)
        case PreferredTriedRecord(partitions=partitions, at=at):
            for partition in partitions:
                tenure.preferred.pop(partition, None)
            cluster.preferred_at = at
            wakeups.asks_concerned(view)
        case LeadersBalancedRecord(partitions=partitions, at=at):
            tenure.preferred.update(dict.fromkeys(partitions))
            cluster.balanced_at = at
        case ForeignAdoptedRecord():
            tenure.may_have_foreign = False
        case StartSkippedRecord(partitions=partitions, scans_left=scans_left):
            work.scans_left = scans_left
            for partition in partitions:
                tenure.waiting.pass_over(partition)
                if partition in tenure.resumed:
                    del tenure.resumed[partition]
                    tenure.resumed[partition] = None
        case EngineRecord(engine=engine, why=why):
            view.role.engine, view.role.engine_why = engine, why
            if not view.is_native:
                # A broker that is the controller starts every entry at once: the topic znodes show
                # their progress.
                intake.legacy = None
        case StatesPolledRecord():
            cluster.round_at, cluster.round_from = record.again, record.next_from
        case IdleRecord(since=since):
            tenure.idle_since = since
        case YieldedRecord() | RoleCededRecord():
            pass  # Their time begins when the tenure has ended.
        case UpdateRefusedRecord(why=why):
            view.role.rejected_by_brokers = why
        case EndpointUnreachedRecord(why=why):
            view.role.unreached = why
        case LeaderMovedRecord(brokers=brokers, at=at):
            for broker in brokers:
                since, count = tenure.leader_moves.get(broker, (at, 0))
                fresh = at >= since + 1.0
                tenure.leader_moves[broker] = (at, 1) if fresh else (since, count + 1)
        case PendingSortedRecord():
            start_pending.sort_pending(view)
        case PaceRecord():
            adaptive_limit.limit_adapted(view, record)
        case _:
            request_records.fold_request_record(view, record, now)
            wakeups.asks_concerned(view)


def _newest_registration(view: ClusterView) -> model.Zxid:
    """
    Return a transaction before a write of this cycle: the newest registration of a live broker.

    The write was decided with these brokers. One that is read later counts as registered after it.
    """
    return model.Zxid(max((b.epoch for b in view.cluster.brokers.values()), default=0))


def _state_written(
    view: ClusterView, partition: TopicPartition, state: model.PartitionState, now: Instant
) -> None:
    before = view.tenure.states.get(partition)
    view.tenure.states[partition] = state
    lost_requests.written(view, partition, before, state, now)
    note_leader(view, partition, before)
    isr_health.note_isr(view, partition, before, state, now)
    isr_health.judge(view, partition)
    view.due.add((partition,))
    wakeups.asks_concerned(view)


def _spec(view: ClusterView, record: SpecRecord, now: Instant) -> None:
    spec = record.spec
    version = model.ZkVersion(0) if spec.version is None else model.ZkVersion(spec.version + 1)
    spec = replace(spec, version=None if spec.route is Route.FOREIGN else version)
    known = view.work.reassignments.get(record.partition)
    if known is None:
        phase = first_phase(view, record.partition)
        known = Reassignment(spec=spec, since=now, phase=phase, phase_since=now)
        in_flight.begin(view, record.partition, known, now)
    else:
        in_flight.change_spec(view, record.partition, known, spec, now)
    wakeups.asks_concerned(view)
    view.due.partitions[record.partition] = None
    wakeups.orphans_concerned(view, record.partition)


def _spec_ended(view: ClusterView, record: SpecEndedRecord, now: Instant) -> None:
    reassignment = view.work.reassignments.get(record.partition)
    request = view.work.request_of(record.request, now)
    request.settled.add(record.partition)
    # Without a record it was at its target when it was accepted; another request may have replaced
    # it.
    is_ours = record.version is not None
    if reassignment is not None and (is_ours or reassignment.spec.request == record.request):
        is_of_former = view.is_of_former_topic(record.partition)
        if is_of_former or reassignment.spec.expected is not None:
            # The partition may be reassigned by others, which the record concealed.
            view.tenure.may_have_foreign = True
        _count_bytes(view, record.partition, reassignment, request)
        in_flight.drop(view, record.partition, now)
        if not is_of_former:
            _want_preferred(view, record.partition, reassignment)
    wakeups.asks_concerned(view)
    view.tenure.acked.pop(record.partition, None)
    if record.partition not in view.work.orphaned:
        view.tenure.confirmed.pop(record.partition, None)
    wakeups.submissions_concerned(view)


def _count_bytes(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment, request: Request
) -> None:
    size, original = view.work.sizes.get(partition), reassignment.spec.original
    if original is None or not reassignment.has_moved:
        return
    copies = sum(r not in original for r in reassignment.spec.target)
    if size is not None:
        request.moved_bytes = (request.moved_bytes or 0) + size * copies
    elif copies:
        request.uncounted += 1


def _want_preferred(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> None:
    state = view.tenure.states.get(partition)
    target = reassignment.spec.target
    if (
        view.options.preferred_election
        and state is not None
        and state.leader != target[0]
        and reassignment.spec.route is not Route.FOREIGN
        and not _keeps_leader(view, reassignment.spec)
    ):
        view.tenure.preferred[partition] = None
        wakeups.wake(view.due, wakeups.Finding.ELECTION_WANTED)


def _keeps_leader(view: ClusterView, spec: model.ReassignmentSpec) -> bool:
    """
    Return whether only the order of replicas changed, in a way of Kafka's.

    Its controller elects no leader then: who uses these ways holds an election afterwards.
    """
    if spec.rolls_back or spec.original is None or {*spec.original} != {*spec.target}:
        return False
    request = view.work.requests.get(spec.request)
    return spec.route is Route.LEGACY or (request is not None and request.options.keep_leaders)


def _legacy_entry(view: ClusterView, record: LegacyEntryRecord) -> None:
    intake = view.intake
    if intake.legacy is None:
        return
    intake.legacy.log_dirs.pop(record.partition, None)
    if record.replicas is None:
        intake.legacy.entries.pop(record.partition, None)
    else:
        intake.legacy.entries[record.partition] = record.replicas
        if record.log_dirs:
            intake.legacy.log_dirs[record.partition] = record.log_dirs
    if record.partition in view.work.reassignments:
        view.due.add((record.partition,))


def _phase(view: ClusterView, record: PhaseRecord) -> None:
    reassignment = view.work.reassignments.get(record.partition)
    if reassignment is None:
        return
    before, after = reassignment.phase, record.phase
    was_in_flight = reassignment.in_flight
    reassignment.enter(after, record.at, record.partition)
    if reassignment.in_flight and not was_in_flight:
        in_flight.count_in_flight(view, reassignment, 1)
        view.tenure.waiting.discard(record.partition)
        view.tenure.resumed.pop(record.partition, None)
    elif was_in_flight and not reassignment.in_flight:
        in_flight.count_in_flight(view, reassignment, -1)
        wakeups.wake(view.due, wakeups.Finding.STEP_ENDED)
        in_flight.unload(view, reassignment)
        is_put_off = isinstance(before, phases.Placing) and reassignment.is_put_off
        if is_put_off and not reassignment.spec.rolls_back:
            # What makes room for its moves may be waiting: it goes behind.
            view.tenure.waiting.add(record.partition, reassignment.spec.request)
        elif isinstance(after, phases.Pending):
            # A reassignment with completed steps starts first when capacity is free again.
            view.tenure.resumed[record.partition] = None
    in_flight.reload(view, record.partition, reassignment, before)
    if isinstance(after, phases.Starting | phases.AwaitingController):
        reassignment.step += 1
        if reassignment.load is not None:
            # The brokers create the logs now: what they noted in memory is used up.
            view.tenure.directories.forget(record.partition, reassignment.load.incoming)
    log_directories.reflect_phase(view, record.partition, record.at)
    disk_reservations.reserve(view, record.partition, record.at)
    # StopReplica has until its deadline: until then the step is not without progress.
    view.note_progress(
        record.partition, after.deadline if isinstance(after, phases.Stopping) else record.at
    )
    if isinstance(after, phases.AwaitingController):
        reassignment.requested = after.target
        reassignment.is_requested = True
    view.due.partitions[record.partition] = None


def issued(view: ClusterView, effect: effects.Effect, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per effect
    """Note that an effect was carried out, where the next decision depends on it."""
    session, tenure = view.session, view.tenure
    match effect:
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.WATCH):
            tenure.watched.update(dict.fromkeys(partitions, False))
        case effects.ReadStates(
            partitions=partitions, purpose=effects.ReadPurpose.SEED | effects.ReadPurpose.CONFLICT
        ):
            # The effects of the rejected write were not sent: all brokers are informed again.
            tenure.seeding.update(partitions)
            if tenure.asks:
                # Reads that begin from now on show what is newer than the requests.
                view.cluster.read_generation += 1
                read = AskRead(now, view.cluster.read_generation)
                tenure.asks_read.update(dict.fromkeys(partitions, read))
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.REFRESH):
            tenure.refreshing.update(partitions)
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.MISSING):
            view.cluster.missing_at = missing_again(partitions, now)
        case effects.DescribeTopicConfigs(topics=topics):
            question = model.ConfigQuestion(view.cluster.config_question.number + 1, now)
            view.cluster.config_question = question
            session.asked_configs.update(dict.fromkeys(topics, question))
        case effects.ReadTopics(topics=topics):
            session.asked_topics.update(topics)
            tenure.reading_topics.update(topics)
        case effects.ReadSubmissions(names=names):
            session.asked_submissions.update(names)
        case effects.ReadAccepted(request=request):
            session.asked_accepted.add(request)
        case effects.ReadEntityConfigs(entities=entities):
            view.own_records.asked_entities.update(dict.fromkeys(entities, now))
        case effects.MeasureSizes():
            partition_sizes.sizes_asked(view, effect, now)
        case effects.DescribeLogDirs():
            log_directories.describe_asked(view, effect, now)
        case effects.PlaceReplica():
            log_directories.placement_asked(view, effect, now)
        case effects.ClaimController() | effects.BeginTenure():
            tenure.claiming, tenure.is_void = True, False
            view.role.claimed_at = now
        case effects.ProbeReassignments():
            tenure.probing = True
        case effects.SubmitReassignments(ticket=ticket, results=results):
            pending = tenure.client_asks.get(ticket)
            if pending is not None:
                tenure.client_asks[ticket] = replace(pending, results=results)
        case effects.ResignController():
            tenure.resigning = True
        case effects.DescribeBrokerSettings(brokers=brokers):
            deletion_facts.setting_asked(view, brokers, now)
        case effects.ReadTopicTrees(topics=topics):
            tenure.trees_asked.update(topics)
        case effects.SendStopReplica(partition=partition, broker=broker):
            deletion_facts.requests_issued(view, effect)
            orphan = view.work.orphans.get((broker, partition))
            if orphan is not None:
                tenure.orphans_tried.add(orphan)
        case _:
            pass


def versions_moved(
    view: ClusterView, topics: Iterable[str], *, legacy: bool, queue: bool = False, shards: int = 0
) -> None:
    """
    Count one write of each of these znodes.

    Args:
        view: Everything known.
        topics: The topics whose znodes were written.
        legacy: Whether the legacy znode was written.
        queue: Whether the znode of the queue was written.
        shards: The number of shards of outcomes of this tenure so far.

    """
    session = view.session
    for name in topics:
        topic = session.topics[name]
        topic.version = model.ZkVersion(topic.version + 1)
        if topic.lacks_id and topic.topic_id is not None:
            session.id_written(name, topic.topic_id)
    if legacy and view.intake.legacy is not None:
        view.intake.legacy.version = model.ZkVersion(view.intake.legacy.version + 1)
    if queue and view.intake.queue is not None:
        view.intake.queue.version = model.ZkVersion(view.intake.queue.version + 1)
    view.tenure.shards = max(view.tenure.shards, shards)
