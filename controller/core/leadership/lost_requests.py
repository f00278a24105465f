"""
Leaders that wait for an answer that they will not get, and requests that arrive after their answer.

Up to Kafka 2.8, a leader may get a new leader epoch while a request of the former one is under way.
When that request is answered, the leader drops the next one unsent. It changes no ISR until it gets
another leader epoch (KAFKA-12686). So another one is written a moment after such an answer, unless
the leader requests a change meanwhile. The same where a leader epoch was written just after an
answer, which may arrive later on another connection, and after a claim: another controller may
have answered. In these two cases a live replica has to be outside the ISR.

A leader whose request is not carried out takes back the ISR it requested. A copy of the request may
still arrive, and the replica may be eligible by then. The next leader epoch fences it
(``duties.may_have_requested_before``).
"""

from __future__ import annotations

from typing import Final

from controller.core import wakeups
from controller.core.calls.broker_requests import (
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    RequestFromBroker,
)
from controller.core.leadership.model import LostCause, LostRequest
from controller.core.model import Instant, PartitionState, TopicPartition
from controller.core.view import ClusterView
from controller.kafka_errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    NONE,
    OPERATION_NOT_ATTEMPTED,
)

ANEW_S: Final = 2.0
"""How long the leader has to handle the answer and to send a request by itself."""
LATE_S: Final = 5.0
"""How late an answer may arrive, so that a later leader epoch overtakes it."""
REFUSALS: Final = frozenset({INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED})
"""The errors after which a leader takes back the ISR it requested."""
FORGETTING: Final = 0
"""The version of the request in the releases that forget; others have it as well."""


def due_at(view: ClusterView) -> list[Instant]:
    """Return when leaders will have had their time."""
    return [Instant(lost.since + ANEW_S) for lost in view.leadership.lost_requests.values()]


# --- folding in ----------------------------------------------------------------------------------


def record_answer(
    view: ClusterView, request: RequestFromBroker, answer: BrokerAnswer, now: Instant
) -> None:
    """Note what may follow from the answer to a leader."""
    if not isinstance(request, AlterPartition) or not isinstance(answer, AlterPartitionAnswer):
        return
    leadership = view.leadership
    for result in answer.results:
        name = view.topics.name_of(result.topic, result.topic_id)
        if name is None or result.leader != request.broker:
            continue
        partition = TopicPartition(name, result.partition)
        if result.error in REFUSALS:
            leadership.told_ineligible[partition] = result.leader_epoch
        if request.version > FORGETTING:
            continue
        if result.error == FENCED_LEADER_EPOCH:
            _note(view, partition, LostCause.FENCED, now)
        elif result.error == NONE:
            leadership.isr_changes_confirmed[partition] = now


def _note(view: ClusterView, partition: TopicPartition, cause: LostCause, now: Instant) -> None:
    view.leadership.lost_requests[partition] = LostRequest(now, cause)
    wakeups.wake(view.due, wakeups.Trigger.PENDING_REQUEST_CONCERNED)


def first_read(
    view: ClusterView, partition: TopicPartition, state: PartitionState, now: Instant
) -> None:
    """Note a partition whose leader may have sent another controller requests before the claim."""
    if view.options.endpoint is not None and _lacks_a_replica(view, partition, state):
        _note(view, partition, LostCause.CLAIM, now)


def _lacks_a_replica(view: ClusterView, partition: TopicPartition, state: PartitionState) -> bool:
    """Return whether a live replica is outside the ISR."""
    assignment = view.topics.known_assignment(partition)
    replicas = () if assignment is None else assignment.replicas
    return any(r not in state.isr and view.is_live(r, partition) for r in replicas)


def record_state_write(
    view: ClusterView,
    partition: TopicPartition,
    before: PartitionState | None,
    state: PartitionState,
    now: Instant,
) -> None:
    """
    Note that a state is written: the leader requested it, or hears of its leader epoch.

    A leader may hear of an epoch before the answer to its former request. Then it forgets the
    request of that epoch, too.
    """
    leadership = view.leadership
    leadership.epochs_due.discard(partition)
    lost = leadership.lost_requests.get(partition)
    has_requested = before is not None and before.leader_epoch == state.leader_epoch
    if lost is not None and (has_requested or lost.cause is LostCause.CLAIM):
        del leadership.lost_requests[partition]
    if has_requested:
        return
    answered_at = leadership.isr_changes_confirmed.pop(partition, None)
    if (
        answered_at is not None
        and now < answered_at + LATE_S
        and partition not in leadership.lost_requests
    ):
        _note(view, partition, LostCause.OVERTAKEN, now)


def time_passed(view: ClusterView, now: Instant) -> None:
    """Have the next leader epoch written where the leader had its time."""
    leadership = view.leadership
    for partition, lost in list(leadership.lost_requests.items()):
        if now < lost.since + ANEW_S:
            continue
        del leadership.lost_requests[partition]
        state = leadership.states.get(partition)
        is_owed = lost.cause is LostCause.FENCED or (
            state is not None and _lacks_a_replica(view, partition, state)
        )
        if is_owed:
            leadership.epochs_due.add(partition)
            view.due.add((partition,))
