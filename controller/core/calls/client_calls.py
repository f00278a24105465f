"""
Answer the requests of operators' tools and clients to the controller.

As with brokers, a request stays in the view until it can be answered from what is durable. Errors
are those of KafkaController (``alterPartitionReassignments``, ``electLeaders``).

An AlterPartitionReassignments becomes a request or a cancellation of this daemon. It is answered
when every entry is accepted, refused or reversed, so that a tool that lists reassignments
afterwards finds it. ListPartitionReassignments shows every reassignment against its last target,
also a pending one: Kafka's tool takes a partition that is not listed for one that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from controller import kafka_errors
from controller.core import effects, wakeups
from controller.core.calls import client_elections
from controller.core.calls.client_requests import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    AwaitDeletions,
    CedeRole,
    ClientAnswer,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListReassignments,
    ListReassignmentsAnswer,
    OngoingReassignment,
    PartitionResult,
    PendingClientRequest,
    error_answer,
)
from controller.core.calls.records import RequestAnsweredRecord
from controller.core.model import (
    Instant,
    PartitionAssignment,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.records import Change, Decision
from controller.core.requests.entry_checks import PlanEntry, is_undecidable, refusal_of
from controller.core.requests.submissions import APPROVAL_REQUIRED
from controller.core.topics import topic_creation
from controller.core.view import ClusterView

AGAIN_S: Final = 1.0
"""How soon waiting requests are examined again."""
PATIENCE_S: Final = 20.0
"""How long a request waits for reads and writes; clients wait 30 s for an answer by default."""
DROP_S: Final = 5.0
"""How long an answer to a cancellation waits for added replicas to be dropped."""
CEDE_WITHIN_S: Final = 5.0
"""How long others that wait for a write delay the end of a tenure for a client."""
CEDE_AFTER_S: Final = 15.0
"""How long a tenure lasts before it ends for a client: each end and claim is a failover."""

_ERRORS: Final = {
    RefusalReason.UNKNOWN_PARTITION: kafka_errors.UNKNOWN_TOPIC_OR_PARTITION,
    RefusalReason.TOPIC_BEING_DELETED: kafka_errors.UNKNOWN_TOPIC_OR_PARTITION,
    RefusalReason.EMPTY_REPLICAS: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.DUPLICATE_REPLICAS: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.UNKNOWN_BROKER: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.DRAINED_BROKER: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.BELOW_MIN_ISR: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.MALFORMED: kafka_errors.INVALID_REPLICA_ASSIGNMENT,
    RefusalReason.UNREADABLE: kafka_errors.UNKNOWN_SERVER_ERROR,
}
"""Kafka's errors for refusals; the others are rules that Kafka's controller does not have."""


@dataclass(slots=True)
class _Judged:
    """The entries of an AlterPartitionReassignments, as far as they are judged."""

    results: list[PartitionResult] = field(default_factory=list)
    targets: dict[TopicPartition, Replicas] = field(default_factory=dict)
    cancelled: set[TopicPartition] = field(default_factory=set)
    waits: bool = False
    """Whether an entry cannot be judged before a read."""


def answer_clients(view: ClusterView, now: Instant, written: AbstractSet[str]) -> Decision:
    """Return known answers, and what others need first; this cycle writes topics ``written``."""
    if not view.calls.pending_client_requests:
        return Decision()
    changes: list[Change] = []
    following: list[effects.Effect] = []
    is_waiting = False
    names = topic_creation.Names(view, written)
    for ticket, pending in view.calls.pending_client_requests.items():
        context = topic_creation.RequestContext(view, names, ticket, pending)
        found = _refusal(view, pending) or _answer(context, now)
        match found:
            case Change():
                changes.append(found)
            case tuple():
                changes += found
            case effects.SubmitReassignments():
                following.append(found)
            case None:
                pass
            case answer:
                done = RequestAnsweredRecord(ticket)
                changes.append(Change((done,), (effects.Respond(ticket, answer),)))
                continue
        is_waiting = True
    if is_waiting:
        following.append(effects.SetTimer(wakeups.PENDING_REQUESTS_TIMER, Instant(now + AGAIN_S)))
    return Decision(tuple(changes), tuple(following))


def is_role_wanted(view: ClusterView) -> str | None:
    """Return the request of a client for which a broker has to be the controller, if any."""
    for pending in view.calls.pending_client_requests.values():
        if isinstance(pending.request, CedeRole):
            return pending.request.request
    return None


def is_cede_due(view: ClusterView, now: Instant) -> bool:
    """Return whether no client waits for a write, or the CedeRole waited enough."""
    since = min(
        p.since
        for p in view.calls.pending_client_requests.values()
        if isinstance(p.request, CedeRole)
    )
    return not is_underway(view) or now >= since + CEDE_WITHIN_S


def is_underway(view: ClusterView) -> bool:
    """Return whether a client waits for what is written for it: that keeps the role."""
    return any(
        topic_creation.is_underway(pending)
        or (isinstance(pending.request, AlterReassignments) and pending.results is not None)
        for pending in view.calls.pending_client_requests.values()
    )


def _refusal(view: ClusterView, pending: PendingClientRequest) -> ClientAnswer | None:
    """Return NOT_CONTROLLER where the role is not ours."""
    tenure = view.tenure
    is_kept = not tenure.resigning or isinstance(pending.request, CedeRole)
    if view.is_controller and is_kept and tenure.fenced is None:
        return None
    return error_answer(pending.request, kafka_errors.NOT_CONTROLLER)


def _answer(
    context: topic_creation.RequestContext, now: Instant
) -> ClientAnswer | Change | tuple[Change, ...] | effects.SubmitReassignments | None:
    view, ticket, pending = context.view, context.ticket, context.pending
    if not view.tenure.accepted_by_broker:
        return None
    match pending.request:
        case ListReassignments() as request:
            # Foreign reassignments are not known before they are adopted.
            is_early = (
                view.reassignments_tenure.may_have_foreign and now < pending.since + PATIENCE_S
            )
            return None if is_early else _list_answer(view, request)
        case AlterReassignments() as request:
            return _alter_answer(view, ticket, pending, request, now)
        case ElectLeaders() as request:
            return client_elections.answer_elections(view, ticket, pending, request, now)
        case CreateTopics() | CreatePartitions() | DeleteTopics() | AwaitDeletions() as request:
            return topic_creation.answer_topics(context, request, now)
        case CedeRole():
            return None


# --- AlterPartitionReassignments -----------------------------------------------------------------


def _alter_answer(
    view: ClusterView,
    ticket: int,
    pending: PendingClientRequest,
    request: AlterReassignments,
    now: Instant,
) -> AlterReassignmentsAnswer | effects.SubmitReassignments | None:
    if pending.results is not None:
        settled = _settled_results(view, pending, request, now)
        return None if settled is None else AlterReassignmentsAnswer(0, settled)
    judged = _Judged()
    for partition, target in request.targets.items():
        _judge(view, partition, target, judged)
    if judged.waits:
        is_late = now >= pending.since + PATIENCE_S
        return AlterReassignmentsAnswer(kafka_errors.REQUEST_TIMED_OUT) if is_late else None
    if judged.targets or judged.cancelled:
        return effects.SubmitReassignments(
            ticket,
            judged.targets,
            frozenset(judged.cancelled),
            tuple(judged.results),
            request.client,
            Instant(pending.since + PATIENCE_S),
        )
    return AlterReassignmentsAnswer(0, tuple(judged.results))


def _judge(
    view: ClusterView, partition: TopicPartition, target: Replicas | None, judged: _Judged
) -> None:
    """Judge an entry as it would be accepted, or note the facts that are missing."""
    forbidden = None if target is None else _refusal_of_targets(view)
    if forbidden is not None:
        judged.results.append(PartitionResult(partition, kafka_errors.POLICY_VIOLATION, forbidden))
    elif is_undecidable(view, partition):
        judged.waits = True
    elif target is None:
        _judge_cancellation(view, partition, judged)
    else:
        refusal = refusal_of(view, PlanEntry(RequestId(""), partition, target))
        if refusal is None:
            judged.targets[partition] = target
        else:
            judged.results.append(_refusal_result(partition, refusal))


def _refusal_of_targets(view: ClusterView) -> str | None:
    """Return why no new target of a client is accepted; cancellations always are."""
    approval = APPROVAL_REQUIRED if view.options.require_approval else None
    return view.disabled_because or approval


def _judge_cancellation(view: ClusterView, partition: TopicPartition, judged: _Judged) -> None:
    assignment = view.topics.assignment(partition)
    running = view.reassignments.by_partition.get(partition)
    if assignment is None:
        unknown = kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
        result = PartitionResult(partition, unknown, "The partition does not exist.")
        judged.results.append(result)
    elif running is not None:
        if running.spec.rolls_back:
            judged.results.append(PartitionResult(partition, kafka_errors.NONE))
        else:
            judged.cancelled.add(partition)
    elif assignment.is_reassigning or _is_submitted(view, partition):
        judged.waits = True
    else:
        idle = kafka_errors.NO_REASSIGNMENT_IN_PROGRESS
        judged.results.append(PartitionResult(partition, idle))


def _is_submitted(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether a request that is not accepted yet names the partition."""
    return any(partition in s.entries for s in view.requests_session.submissions.values())


def _refusal_result(partition: TopicPartition, refusal: Refusal) -> PartitionResult:
    error = _ERRORS.get(refusal.reason, kafka_errors.POLICY_VIOLATION)
    return PartitionResult(partition, error, refusal.detail)


def _settled_results(
    view: ClusterView, pending: PendingClientRequest, request: AlterReassignments, now: Instant
) -> tuple[PartitionResult, ...] | None:
    """Return the results of all partitions, None while some are still to be accepted."""
    is_late = now >= pending.since + PATIENCE_S
    results = list(pending.results or ())
    if pending.submitted is None and not is_late:
        return None
    judged = {r.partition for r in results}
    for partition, target in request.targets.items():
        if partition in judged:
            continue
        result = _result_of(view, partition, target, pending, now)
        if result is None and is_late:
            late = kafka_errors.REQUEST_TIMED_OUT
            result = PartitionResult(partition, late, "It is not accepted yet.")
        if result is None:
            return None
        results.append(result)
    return tuple(results)


def _result_of(  # noqa: PLR0911 - one return per case
    view: ClusterView,
    partition: TopicPartition,
    target: Replicas | None,
    pending: PendingClientRequest,
    now: Instant,
) -> PartitionResult | None:
    submitted = pending.submitted
    if submitted is None:
        return None
    name = submitted.cancellation if target is None else submitted.request
    if name is None:
        return PartitionResult(partition, kafka_errors.UNKNOWN_SERVER_ERROR, submitted.problem)
    if target is None:
        return _reversal_result(view, partition, name, pending, now)
    request = view.requests.by_id.get(name)
    if request is None:
        # It ended so long ago that only its outcome is left.
        is_known = name in view.requests.ended
        return PartitionResult(partition, kafka_errors.NONE) if is_known else None
    refused = {r.partition: r for r in request.refused if not r.was_accepted}
    # A refusal without a partition is one of all entries that were not decided before.
    common = None if partition in request.settled else refused.get(None)
    refusal = refused.get(partition, common)
    if refusal is not None:
        return _refusal_result(partition, refusal)
    if partition in request.settled or request.has_ended:
        return PartitionResult(partition, kafka_errors.NONE)
    return None


def _reversal_result(
    view: ClusterView,
    partition: TopicPartition,
    cancellation: RequestId,
    pending: PendingClientRequest,
    now: Instant,
) -> PartitionResult | None:
    """
    Return the result of a cancellation, once the partition leads back to its original replicas.

    Where all of these are still replicas, Kafka's controller drops the others before it answers,
    and lists the partition no more. So it is awaited here; a broker that hangs does not delay it
    for long.
    """
    running = view.reassignments.by_partition.get(partition)
    if running is None:
        return PartitionResult(partition, kafka_errors.NONE)
    if running.spec.rolls_back:
        assignment = view.topics.known_assignment(partition)
        drops_only = assignment is not None and {*running.spec.target} <= {*assignment.replicas}
        if drops_only and now < pending.since + DROP_S:
            return None
        return PartitionResult(partition, kafka_errors.NONE)
    known = view.requests.by_id.get(cancellation)
    ending = None if known is None else known.endings.get(partition)
    if ending is None and (known is None or not known.has_ended):
        return None
    # The reasons of an ended cancellation are in its outcome only.
    why = f"see the outcome of {cancellation}" if ending is None else ending.detail
    error = kafka_errors.OPERATION_NOT_ATTEMPTED
    return PartitionResult(partition, error, f"It is not cancelled: {why}")


# --- ListPartitionReassignments ------------------------------------------------------------------


def _list_answer(view: ClusterView, request: ListReassignments) -> ListReassignmentsAnswer:
    ongoing: list[OngoingReassignment] = []
    for partition, reassignment in view.reassignments.by_partition.items():
        if request.partitions is not None and partition not in request.partitions:
            continue
        assignment = view.topics.known_assignment(partition)
        if assignment is not None and not view.is_of_former_topic(partition):
            ongoing.append(_ongoing(partition, assignment, reassignment.spec.target))
    if view.reassignments_tenure.may_have_foreign:
        ongoing += _not_adopted(view, request)
    return ListReassignmentsAnswer(0, tuple(ongoing))


def _not_adopted(view: ClusterView, request: ListReassignments) -> Iterator[OngoingReassignment]:
    """Yield the reassignments in the topic znodes that the daemon has not taken up yet."""
    wanted = view.topics.partitions() if request.partitions is None else request.partitions
    for partition in wanted:
        assignment = view.topics.known_assignment(partition)
        if (
            assignment is not None
            and assignment.is_reassigning
            and partition not in view.reassignments.by_partition
        ):
            yield _ongoing(partition, assignment, assignment.target_replicas)


def _ongoing(
    partition: TopicPartition, assignment: PartitionAssignment, target: Replicas
) -> OngoingReassignment:
    """Return what is left of a reassignment, as Kafka's controller writes one with its target."""
    origin = assignment.origin_replicas
    replicas = tuple(dict.fromkeys((*target, *assignment.replicas)))
    adding = tuple(r for r in target if r not in origin)
    removing = tuple(r for r in replicas if r not in target)
    return OngoingReassignment(partition, replicas, adding, removing)
