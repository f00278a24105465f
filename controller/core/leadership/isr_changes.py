"""
ISR changes that leaders request (AlterPartition; KIP-497, KIP-704, KIP-841).

From inter-broker protocol 2.7-IV2 on, a leader sends ISR changes to the controller; below that it
writes the partition state itself. Either way it decides, so leader, leader epoch and controller
epoch stay. A dropped replica is deleted only after the leader acknowledged the epoch that excluded
it: a request that the leader sent before is fenced, and one that it sends by a fetch it was
handling then is refused, as the replica is excluded. Where the leader writes the state itself, the
engine relies on the state as well (``native``). The controller epoch says who decided the leader
epoch: an acknowledgement of an earlier controller's epoch is never taken for one of ours.

The leader waits for the next LeaderAndIsr after most errors, with an ISR that cannot change. So an
error is returned only where the view proves it: leader epoch and version of a state only grow.
Everything else is read first. The order of the checks is that of KafkaController.alterPartitions
(3.9).

Up to Kafka 2.8, a leader may get a new leader epoch while a request of the former one is under way.
When that request is answered, the leader drops the next one unsent, and changes no ISR until it
gets another leader epoch (KAFKA-12686). So one is written a moment after such an answer, unless the
leader requests a change meanwhile. The same where a leader epoch was written just after an answer,
which may arrive later on another connection, and after a claim, as another controller may have
answered: in these cases, if a live replica is outside the ISR.

A leader whose request is not carried out takes back the ISR it requested. A copy of the request may
still arrive when the replica is eligible: the next leader epoch fences it
(``duties.may_have_requested_before``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller import kafka_errors
from controller.core import effects, model, wakeups
from controller.core.calls.broker_requests import (
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    IsrChange,
    IsrResult,
    RequestFromBroker,
)
from controller.core.leadership import duties
from controller.core.leadership.model import RECOVERED, LostCause, LostRequest
from controller.core.leadership.records import IsrRecord
from controller.core.model import (
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.core.records import Change
from controller.core.view import ClusterView

NO_STATE: Final = PartitionState(
    BrokerId(-1), LeaderEpoch(-1), (), model.ControllerEpoch(-1), ZkVersion(-1)
)
"""What an error about an unknown partition carries."""
FIRST_TO_JUDGE_REPLICAS: Final = 1
"""Before this version, leaders know no error for a member that cannot be in sync."""
ANEW_S: Final = 2.0
"""How long the leader has to handle the answer and to send a request by itself."""
LATE_S: Final = 5.0
"""How late an answer may arrive, so that a later leader epoch overtakes it."""
REFUSALS: Final = frozenset({kafka_errors.INELIGIBLE_REPLICA, kafka_errors.OPERATION_NOT_ATTEMPTED})
"""The errors after which a leader takes back the ISR it requested."""
FORGETTING: Final = 0
"""The version of the request in the releases that forget one; others have it as well."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A change is judged after a read of its state or topic, or fenced by the next leader epoch."""

    partition: TopicPartition | None
    """None where the topic is not known."""
    otherwise: IsrResult | None = None
    """The answer if a read that began after the request shows the same; None: there is none."""


def judge(  # noqa: PLR0911 - one return per case
    view: ClusterView, request: AlterPartition, change: IsrChange, name: str | None
) -> IsrResult | Change | Unknown:
    """
    Return the answer for a partition, the write that precedes it, or the reads that do.

    The write is that of the ISR, or of the next leader epoch, which fences the request. Without a
    ``name``, no known topic has the id in the request.
    """
    if name is None or name not in view.topics.by_name:
        by_id, by_name = kafka_errors.UNKNOWN_TOPIC_ID, kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
        missing = _result(change, by_id if name is None else by_name, NO_STATE)
        return missing if _is_gone(view, name) else Unknown(None)
    partition = TopicPartition(name, change.partition)
    state, is_invalid = view.leadership.states.get(partition), view.topics.by_name[name].stale
    if state is None or is_invalid:
        # A leader of a deleted topic that was created again with fewer partitions.
        unknown = _result(change, kafka_errors.UNKNOWN_TOPIC_OR_PARTITION, NO_STATE)
        is_missing = partition in view.leadership.stateless and not is_invalid
        return Unknown(partition, unknown if is_missing else None)
    is_behind = change.leader_epoch > state.leader_epoch or change.partition_epoch > state.version
    error = None if is_behind else _error_of(view, request, change, partition, state)
    if error is not None:
        return _result(change, error, state)
    if is_behind:
        # Below version 2, which has topic ids, a leader may name a topic of the same name that
        # was deleted since.
        invalid = _result(change, kafka_errors.INVALID_UPDATE_VERSION, state)
        return Unknown(partition, invalid)
    if view.awaits_repair(partition) or duties.may_have_requested_before(view, partition, state):
        return Unknown(partition)
    if request.version < FIRST_TO_JUDGE_REPLICAS and _is_to_be_fenced(
        view, partition, change.isr, state
    ):
        return duties.next_epoch(view, partition, state) or Unknown(partition)
    record = IsrRecord(partition, state, change.isr, change.leader_recovery_state)
    # Clients and the other brokers hear of it.
    return Change((record,), (effects.SendUpdateMetadata((partition,)),), partition=partition)


def _error_of(  # noqa: PLR0911 - one return per case
    view: ClusterView,
    request: AlterPartition,
    change: IsrChange,
    partition: TopicPartition,
    state: PartitionState,
) -> int | None:
    """Return the error of a change, NONE where it is durable already; None: it is to be written."""
    if change.leader_epoch < state.leader_epoch or request.broker != state.leader:
        return kafka_errors.FENCED_LEADER_EPOCH
    recovery = change.leader_recovery_state
    if set(change.isr) == set(state.isr) and recovery == state.leader_recovery_state:
        return kafka_errors.NONE
    if change.partition_epoch < state.version:
        return kafka_errors.INVALID_UPDATE_VERSION
    if request.version < FIRST_TO_JUDGE_REPLICAS:
        return None
    is_recovering = recovery != RECOVERED
    if is_recovering and (len(change.isr) > 1 or state.leader_recovery_state == RECOVERED):
        return kafka_errors.INVALID_REQUEST
    others = (broker for broker in change.isr if broker != state.leader)
    if not all(_is_eligible(view, partition, broker) for broker in others):
        if request.version == FIRST_TO_JUDGE_REPLICAS:
            return kafka_errors.OPERATION_NOT_ATTEMPTED
        return kafka_errors.INELIGIBLE_REPLICA
    return None


def _is_to_be_fenced(
    view: ClusterView, partition: TopicPartition, isr: Replicas, state: PartitionState
) -> bool:
    """
    Return whether an ISR adds a member that cannot be in sync, and the leader knows no such error.

    Kafka's controller writes it, and removes the member later; another controller would take one
    that is back without its log for one in sync.
    """
    added = (broker for broker in isr if broker not in state.isr)
    return not duties.is_epoch_withheld(view, partition, state) and not all(
        _is_eligible(view, partition, broker) for broker in added
    )


def _is_eligible(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> bool:
    """
    Return whether a follower may be in the ISR.

    A leader that shuts down may, unlike in Kafka: it hands over only to a member of the ISR.
    """
    is_staying = broker in view.cluster.brokers and broker not in view.leadership.shutting_down
    return is_staying and broker in view.serving_replicas(partition)


def _is_gone(view: ClusterView, name: str | None) -> bool:
    """Return whether a topic is known not to exist; None: a topic of which only the id is known."""
    topics = view.topics
    if topics.listed is None:
        return False
    if name is not None:
        return name not in topics.listed
    return all(
        listed in topics.by_name and not topics.by_name[listed].stale for listed in topics.listed
    )


def _result(change: IsrChange, error: int, state: PartitionState) -> IsrResult:
    """Return the answer for a partition with its durable state."""
    return IsrResult(
        topic=change.topic,
        topic_id=change.topic_id,
        partition=change.partition,
        error=error,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.version,
    )


# --- requests that leaders may have forgotten ---------------------------------------------------


def due_at(view: ClusterView) -> list[Instant]:
    """Return when leaders will have had their time."""
    return [Instant(lost.since + ANEW_S) for lost in view.leadership.lost_requests.values()]


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
        if result.error == kafka_errors.FENCED_LEADER_EPOCH:
            _note(view, partition, LostCause.FENCED, now)
        elif result.error == kafka_errors.NONE:
            leadership.isr_changes_confirmed[partition] = now


def _note(view: ClusterView, partition: TopicPartition, cause: LostCause, now: Instant) -> None:
    view.leadership.lost_requests[partition] = LostRequest(now, cause)
    wakeups.wake(view.due, wakeups.Trigger.PENDING_REQUEST_CONCERNED)


def note_first_read(
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

    If it hears of that before the answer to its former request, it forgets the next one, too.
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
