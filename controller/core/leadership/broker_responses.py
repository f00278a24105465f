"""
Responses: fold in what brokers and the cluster's controller answer (kafka-facts, 3.3).

An answer over a channel of an earlier registration of the broker does not concern the present one
and is dropped.
"""

from __future__ import annotations

from typing import Final

from controller.core import wakeups
from controller.core.leadership import leader_selection
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId, PartitionState, TopicPartition
from controller.core.pacing import isr_health
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role import records
from controller.core.view import ClusterView
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_CONTROLLER_EPOCH,
    UNSUPPORTED_VERSION,
)

LASTING: Final = {
    CLUSTER_AUTHORIZATION_FAILED: "CLUSTER_AUTHORIZATION_FAILED (the daemon's principal lacks "
    "ClusterAction on the cluster)",
    UNSUPPORTED_VERSION: "UNSUPPORTED_VERSION",
}
"""Errors of whole requests that a repeated request meets again, with their reason."""


def is_refused(view: ClusterView, error: int, broker: BrokerId) -> bool:
    """Return whether a request failed as a whole; note when the broker knows a newer controller."""
    tenure = view.tenure
    if error == STALE_CONTROLLER_EPOCH and tenure.held is not None:
        tenure.fenced = f"broker {broker} knows a newer controller"
        wakeups.wake(view.due, wakeups.Trigger.ROLE_DISPUTED)
    if error in LASTING and tenure.held is not None and tenure.refusers.get(broker) != error:
        tenure.refusers[broker] = error
        wakeups.wake(view.due, wakeups.Trigger.ROLE_DISPUTED)
    return error != NONE


def is_current(
    view: ClusterView,
    event: LeaderAndIsrAnswered | StopReplicaAnswered | records.UpdateMetadataAnswered,
) -> bool:
    """Return whether a response is of this tenure and of the present registration of its broker."""
    broker = view.cluster.brokers.get(event.broker)
    return (
        view.tenure.held is not None and broker is not None and broker.epoch == event.broker_epoch
    )


def leader_and_isr_answered(view: ClusterView, event: LeaderAndIsrAnswered) -> None:
    """
    Note acknowledgements of leaders and failed log directories.

    An acknowledgement is error NONE, or "already at this leader epoch" where only a request of this
    tenure can be the cause: on a resend, or when this tenure wrote the epoch and an answer was lost
    with its channel.
    """
    leadership, reassignments_tenure, calls = view.leadership, view.reassignments_tenure, view.calls
    reassignments = view.reassignments
    if not is_current(view, event) or is_refused(view, event.error, event.broker):
        return
    for partition, epoch, error in event.results:
        if error == KAFKA_STORAGE_ERROR:
            _replica_offline(view, event.broker, partition)
            continue
        if error == INCONSISTENT_TOPIC_ID:
            _id_refused(view, event.broker, partition)
            continue
        repeated = error == STALE_CONTROLLER_EPOCH
        if error == NONE or repeated:
            _replica_served(view, event.broker, partition)
        state = leadership.states.get(partition)
        if state is None:
            continue
        if (
            (partition in reassignments.orphaned or partition in reassignments.by_partition)
            and state.leader == event.broker
            and (error == NONE or repeated)
        ):
            # It has this epoch, whatever the source: it does not rely on the orphan any more.
            reassignments_tenure.confirmed[partition] = (event.broker, epoch)
            wakeups.orphans_concerned(view, partition)
        known = repeated and (event.resent or _is_ours(view, state))
        awaited = partition in reassignments.by_partition or partition in calls.electing
        if not awaited or not (error == NONE or known):
            continue
        if state.leader == event.broker and state.leader_epoch == epoch:
            leadership.acked[partition] = (event.broker, epoch)
            view.due.add((partition,))
            wakeups.wake_pending_requests(view)


def _replica_offline(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    if (broker, partition) not in view.leadership.offline:
        view.leadership.offline.add((broker, partition))
        isr_health.judge(view, partition)
        view.due.add((partition,))
        wakeups.orphans_concerned(view, partition)


def _id_refused(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    """Note that a broker does not apply what it is sent: its log is of another topic."""
    if (broker, partition) not in view.leadership.id_conflicts:
        view.leadership.id_conflicts.add((broker, partition))
        view.due.add((partition,))


def _replica_served(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    view.leadership.id_conflicts.discard((broker, partition))
    if (broker, partition) in view.leadership.offline:
        view.leadership.offline.discard((broker, partition))
        isr_health.judge(view, partition)
        leader_selection.note_candidate(view, partition)


def _is_ours(view: ClusterView, state: PartitionState) -> bool:
    """Return whether this tenure wrote the leader epoch: then no other controller sent it."""
    return view.tenure.held is not None and state.controller_epoch == view.tenure.held.epoch
