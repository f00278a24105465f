"""
Answer the requests of brokers to their controller.

Level-triggered: a request stays in the view until every part of it can be answered from what is
durable. A change that it requests is written first; then the same check finds nothing left to do,
and the answer follows. So a lost answer, or a request that was sent twice, needs no rule of its
own.

A request that waits for a read too long is answered NOT_CONTROLLER: the broker sends it again. Of
an AlterPartition the other partitions are answered; a leader repeats those left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller import kafka_errors
from controller.core import effects, wakeups
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrResult,
    PendingBrokerRequest,
    ProducerIdBlock,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.calls.records import ProducerIdsRecord, RequestAnsweredRecord
from controller.core.leadership import duties, isr_changes
from controller.core.leadership.cluster_loading import reads_of
from controller.core.leadership.records import ShutdownBegunRecord
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.records import Change, Decision, Record
from controller.core.view import ClusterView

BLOCK_SIZE: Final = 1000
"""The ids of a block; brokers request the next one before they have used all."""
LAST_ID: Final = 2**63 - 1

JUDGED_AFTER_S: Final = 5.0
"""How long an unexpected answer waits: reads may be older than what the leader knows."""
AGAIN_S: Final = 1.0
"""How soon waiting requests are examined again."""
PATIENCE_S: Final = 20.0
"""How long a request waits for reads; brokers wait 30 s for an answer."""


def answer_brokers(view: ClusterView, now: Instant, written: Iterable[TopicPartition]) -> Decision:
    """Return known answers, and what others need first; ``written`` partitions come next time."""
    if not view.calls.pending_broker_requests and not view.leadership.lost_requests:
        return Decision()
    found = _Found(set(written))
    timers: list[Instant] = []
    for ticket, pending in view.calls.pending_broker_requests.items():
        answer = _refusal(view, pending, now)
        if answer is None:
            answer = _answer(view, ticket, pending, now, found)
        if answer is None:
            timers.append(Instant(now + AGAIN_S))
        else:
            done = RequestAnsweredRecord(ticket, answer)
            found.changes.append(Change((done,), (effects.Respond(ticket, answer),)))
    handed_out = hand_out(view, found.producer_ids)
    if handed_out is not None:
        found.changes.append(handed_out)
    timers += isr_changes.due_at(view)
    following: list[effects.Effect] = []
    if found.unknown:
        following += reads_of(view, tuple(found.unknown), effects.ReadPurpose.CONFLICT)
    if timers:
        following.append(effects.SetTimer(wakeups.PENDING_REQUESTS_TIMER, min(timers)))
    return Decision(tuple(found.changes), tuple(following))


@dataclass(slots=True)
class _Found:
    """What a pass over the requests found."""

    taken: set[TopicPartition]
    """Partitions whose state this cycle writes."""
    changes: list[Change] = field(default_factory=list)
    producer_ids: dict[int, AllocateProducerIds] = field(default_factory=dict)
    """Requests for producer ids, by ticket."""
    unknown: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose state has to be read."""


def error_answer(request: RequestFromBroker, error: int) -> BrokerAnswer:
    """Return the answer that consists of an error."""
    match request:
        case AlterPartition():
            return AlterPartitionAnswer(error)
        case AllocateProducerIds():
            return ProducerIdsAnswer(error)
        case ControlledShutdown():
            return ControlledShutdownAnswer(error)


def _answer(
    view: ClusterView, ticket: int, pending: PendingBrokerRequest, now: Instant, found: _Found
) -> BrokerAnswer | None:
    """Return the answer to a request; None: writes or reads precede it."""
    match pending.request:
        case AlterPartition():
            return _isr_answer(view, pending, now, found)
        case ControlledShutdown() as request:
            shutdown = _shutdown_answer(view, request)
            if isinstance(shutdown, Change):
                found.changes.append(shutdown)
                return None
            return shutdown
        case AllocateProducerIds() as request:
            found.producer_ids[ticket] = request
            return None


def _refusal(view: ClusterView, pending: PendingBrokerRequest, now: Instant) -> BrokerAnswer | None:
    """Return the error that concerns the whole request, if there is one."""
    tenure, request = view.tenure, pending.request
    is_given_up = not view.is_controller or tenure.resigning or tenure.fenced is not None
    if is_given_up or now >= pending.since + PATIENCE_S:
        return error_answer(request, kafka_errors.NOT_CONTROLLER)
    if isinstance(request, ControlledShutdown):
        return None
    broker = view.cluster.brokers.get(request.broker)
    if broker is None and isinstance(request, AllocateProducerIds):
        return error_answer(request, kafka_errors.BROKER_ID_NOT_REGISTERED)
    if broker is None or broker.epoch != request.broker_epoch:
        return error_answer(request, kafka_errors.STALE_BROKER_EPOCH)
    return None


def _isr_answer(
    view: ClusterView, pending: PendingBrokerRequest, now: Instant, found: _Found
) -> AlterPartitionAnswer | None:
    """Return the answer to an AlterPartition; None: writes or reads precede it."""
    request = pending.request
    if not isinstance(request, AlterPartition) or not view.tenure.accepted_by_broker:
        return None
    results: list[IsrResult] = []
    is_patient = now < pending.since + JUDGED_AFTER_S
    is_written = is_urgent = False
    for change in request.changes:
        name = view.topics.name_of(change.topic, change.topic_id)
        judged = isr_changes.judge(view, request, change, name)
        match judged:
            case IsrResult():
                is_final = judged.leader_epoch >= 0 or not is_patient
                results += [judged] if is_final else []
                # Not judged again: the replica may be eligible by then, without its log.
                is_urgent = is_urgent or judged.error in isr_changes.REFUSALS
            case Change(partition=TopicPartition() as partition):
                is_written = True
                if partition not in found.taken:
                    found.taken.add(partition)
                    found.changes.append(judged)
            case isr_changes.Unknown(partition=TopicPartition() as partition, otherwise=otherwise):
                if otherwise is not None and not is_patient and _was_read(view, partition, pending):
                    results.append(otherwise)
                elif partition not in found.taken and _is_to_be_read(view, partition, now):
                    found.unknown[partition] = None
            case _:
                pass
    is_whole = len(results) == len(request.changes)
    is_late = not is_patient and not is_written
    return AlterPartitionAnswer(0, tuple(results)) if is_whole or is_urgent or is_late else None


def _was_read(view: ClusterView, partition: TopicPartition, pending: PendingBrokerRequest) -> bool:
    """Return whether a read of a state that began after a request is answered."""
    read = view.leadership.awaited_reads.get(partition)
    return read is not None and read.is_answered and read.at >= pending.since


def _is_to_be_read(view: ClusterView, partition: TopicPartition, now: Instant) -> bool:
    read = view.leadership.awaited_reads.get(partition)
    is_old = read is None or now >= read.at + AGAIN_S
    return is_old and partition not in view.leadership.seeding


# --- ControlledShutdown ---------------------------------------------------------------------------


def _shutdown_answer(
    view: ClusterView, request: ControlledShutdown
) -> ControlledShutdownAnswer | Change | None:
    """
    Return the answer, or the note that the broker is shutting down (KIP-49, KIP-380).

    From its request on the broker counts as not live wherever a controller chooses replicas:
    elections, the ISR, replicas that a step adds. ``duties.repair`` moves its leaderships and takes
    it out of the ISRs, as for a broker that died, except where only this broker can lead: there it
    leads until it stops. The request is answered when nothing is left to move, with the partitions
    that it leads on. None before that, and while it is not known what the broker leads.

    The same rules as KafkaController.doControlledShutdown (3.9): partitions with one replica and
    topics that are to be deleted are left alone and not part of the answer.
    """
    broker = view.cluster.brokers.get(request.broker)
    if broker is None:
        return ControlledShutdownAnswer(kafka_errors.BROKER_NOT_AVAILABLE)
    epoch = broker.epoch if request.broker_epoch is None else request.broker_epoch
    if epoch < broker.epoch:
        return ControlledShutdownAnswer(kafka_errors.STALE_BROKER_EPOCH)
    if epoch != broker.epoch or not view.tenure.accepted_by_broker or view.leadership.unseeded:
        return None  # Its registration, or states that it leads, are being read.
    if view.leadership.shutting_down.get(broker.id) != broker.epoch:
        begun = ShutdownBegunRecord(broker.id, broker.epoch)
        return Change((begun,), tuple(_stops_out_of_sync(view, broker.id)))
    return _leaderships_kept(view, broker.id)


def _leaderships_kept(view: ClusterView, broker: BrokerId) -> ControlledShutdownAnswer | None:
    """Return the partitions that a broker leads on; None: some are not moved or not known yet."""
    remaining: list[TopicPartition] = []
    for partition, assignment in view.topics.assignments():
        is_spared = len(assignment.replicas) == 1 or view.is_to_be_deleted(partition.topic)
        if broker not in assignment.replicas or is_spared:
            continue
        state = view.leadership.states.get(partition)
        if (
            view.topics.assignment(partition) is None
            or partition in view.leadership.distrusted
            or _is_leaving(view, partition, broker)
        ):
            return None
        if state is not None and state.leader == broker:
            remaining.append(partition)
    return ControlledShutdownAnswer(kafka_errors.NONE, tuple(remaining))


def _is_leaving(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> bool:
    """Return whether the broker is still to lose the leadership, or its place in the ISR."""
    state = view.leadership.states.get(partition)
    if state is None:
        return False
    if state.leader == broker:
        return duties.hand_over(view, partition) is not None
    return broker in state.isr and view.is_live(state.leader, partition)


def _stops_out_of_sync(view: ClusterView, broker: BrokerId) -> Iterator[effects.Effect]:
    """Stop followers that must not enter the ISR any more; its change stops those in it."""
    for partition, state in view.leadership.states.items():
        is_follower = broker in view.serving_replicas(partition) and broker not in state.isr
        if is_follower and not view.is_to_be_deleted(partition.topic):
            yield effects.SendStopReplica(partition, broker, state.leader_epoch, delete=False)


# --- AllocateProducerIds --------------------------------------------------------------------------


def hand_out(view: ClusterView, requests: Mapping[int, AllocateProducerIds]) -> Change | None:
    """
    Return the write for these requests, by ticket, with their answers; None: the znode is read.

    When all ids are used up, the answers are errors and nothing is written.
    """
    known = view.calls.producer_ids
    if known is None or not requests:
        return None
    answers: dict[int, BrokerAnswer] = {}
    block: ProducerIdBlock | None = None
    first = known.following
    for ticket, request in requests.items():
        last = first + BLOCK_SIZE - 1
        if last > LAST_ID:
            answers[ticket] = ProducerIdsAnswer(kafka_errors.UNKNOWN_SERVER_ERROR)
            continue
        block = ProducerIdBlock(request.broker, first, last)
        answers[ticket] = ProducerIdsAnswer(kafka_errors.NONE, first, BLOCK_SIZE)
        first = last + 1
    written: tuple[Record, ...] = (
        () if block is None else (ProducerIdsRecord(block, known.version),)
    )
    return Change(
        (*written, *(RequestAnsweredRecord(ticket) for ticket in answers)),
        tuple(effects.Respond(ticket, answer) for ticket, answer in answers.items()),
    )
