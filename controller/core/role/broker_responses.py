"""
Responses: fold in what brokers and the cluster's controller answer (kafka-facts, 3.3).

An answer over a channel of an earlier registration of the broker does not concern the present one
and is dropped.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from controller.core import wakeups
from controller.core.deletions import deletion_facts
from controller.core.disks.disk_reservations import log_dropped
from controller.core.leadership import unclean_election
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import (
    EPOCH_DURING_DELETE,
    AlterOutcome,
    BrokerId,
    Instant,
    PartitionState,
    TopicPartition,
)
from controller.core.pacing import isr_health
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import (
    AlterationsWithdrawn,
    ReassignmentsAltered,
    StopReplicaAnswered,
)
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
ACCEPTANCE_PATIENCE_S: Final = 30.0
"""How long a tenure may last without a broker that accepts an UpdateMetadata, in seconds."""


def is_refused(view: ClusterView, error: int, broker: BrokerId) -> bool:
    """Return whether a request failed as a whole; note when the broker knows a newer controller."""
    tenure = view.tenure
    if error == STALE_CONTROLLER_EPOCH and tenure.held is not None:
        tenure.fenced = f"broker {broker} knows a newer controller"
        wakeups.wake(view.due, wakeups.Finding.ROLE_DISPUTED)
    if error in LASTING and tenure.held is not None and tenure.refusers.get(broker) != error:
        tenure.refusers[broker] = error
        wakeups.wake(view.due, wakeups.Finding.ROLE_DISPUTED)
    return error != NONE


def update_metadata_answered(view: ClusterView, event: records.UpdateMetadataAnswered) -> None:
    """
    Note whether a broker accepts the requests of this tenure.

    A broker that refused requests before gets all of them again: refused ones are not resent.
    """
    if not _is_current(view, event) or is_refused(view, event.error, event.broker):
        return
    if view.tenure.refusers.pop(event.broker, None) is not None and view.tenure.accepted_by_broker:
        requests_lost(view, set(), {event.broker})
        view.due.joined.add(event.broker)
        view.due.elsewhere.add(event.broker)
    view.tenure.accepted_by_broker = True
    if not _is_refused_by_most(view):
        view.role.rejected_by_brokers = None


def requests_lost(
    view: ClusterView, gone: AbstractSet[BrokerId], elsewhere: AbstractSet[BrokerId]
) -> None:
    """
    Note that what was queued or under way for brokers is lost with their channels.

    Args:
        view: Everything known.
        gone: Brokers whose registration ended.
        elsewhere: Brokers whose channel is opened again.

    """
    deletion_facts.brokers_moved(view, gone, elsewhere)
    tenure, lost = view.tenure, gone | elsewhere
    tenure.orphans_tried = {o for o in tenure.orphans_tried if o.broker not in lost}


def refusal_by_brokers(view: ClusterView, now: Instant) -> str | None:
    """
    Return why a tenure has no effect because brokers refuse its requests, None if it has.

    Most refuse them, or none has accepted any for a while. Holding the role nevertheless would
    leave the cluster without a controller.
    """
    tenure = view.tenure
    if _is_refused_by_most(view):
        refused = sorted(b for b in tenure.refusers if b in view.cluster.brokers)
        reasons = sorted({LASTING[tenure.refusers[b]] for b in refused})
        return (
            f"{len(refused)} of {len(view.cluster.brokers)} live brokers refuse our requests as "
            f"the controller: {', '.join(reasons)}"
        )
    if (
        tenure.held is None
        or tenure.accepted_by_broker
        or now < tenure.held.since + ACCEPTANCE_PATIENCE_S
    ):
        return None
    return (
        f"none of {len(view.cluster.brokers)} live brokers accepted an UpdateMetadata within "
        f"{ACCEPTANCE_PATIENCE_S:.0f} s of the claim"
    )


def _is_refused_by_most(view: ClusterView) -> bool:
    return 2 * sum(b in view.cluster.brokers for b in view.tenure.refusers) > len(
        view.cluster.brokers
    )


def _is_current(
    view: ClusterView,
    event: LeaderAndIsrAnswered | StopReplicaAnswered | records.UpdateMetadataAnswered,
) -> bool:
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
    tenure, work = view.tenure, view.work
    if not _is_current(view, event) or is_refused(view, event.error, event.broker):
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
        state = tenure.states.get(partition)
        if state is None:
            continue
        if (
            (partition in work.orphaned or partition in work.reassignments)
            and state.leader == event.broker
            and (error == NONE or repeated)
        ):
            # It has this epoch, whatever the source: it does not rely on the orphan any more.
            tenure.confirmed[partition] = (event.broker, epoch)
            wakeups.orphans_concerned(view, partition)
        known = repeated and (event.resent or _is_ours(view, state))
        awaited = partition in work.reassignments or partition in tenure.electing
        if not awaited or not (error == NONE or known):
            continue
        if state.leader == event.broker and state.leader_epoch == epoch:
            tenure.acked[partition] = (event.broker, epoch)
            view.due.add((partition,))
            wakeups.asks_concerned(view)


def _replica_offline(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    if (broker, partition) not in view.tenure.offline:
        view.tenure.offline.add((broker, partition))
        isr_health.judge(view, partition)
        view.due.add((partition,))
        wakeups.orphans_concerned(view, partition)


def _id_refused(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    """Note that a broker does not apply what it is sent: its log is of another topic."""
    if (broker, partition) not in view.tenure.id_conflicts:
        view.tenure.id_conflicts.add((broker, partition))
        view.due.add((partition,))


def _replica_served(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    view.tenure.id_conflicts.discard((broker, partition))
    if (broker, partition) in view.tenure.offline:
        view.tenure.offline.discard((broker, partition))
        isr_health.judge(view, partition)
        unclean_election.note_candidate(view, partition)


def _is_ours(view: ClusterView, state: PartitionState) -> bool:
    """Return whether this tenure wrote the leader epoch: then no other controller sent it."""
    return view.tenure.held is not None and state.controller_epoch == view.tenure.held.epoch


def stop_replica_answered(view: ClusterView, event: StopReplicaAnswered, now: Instant) -> None:
    """Note which dropped replicas are deleted, and which cannot be as their disk failed."""
    if not _is_current(view, event):
        return
    if is_refused(view, event.error, event.broker):
        deletion_facts.request_refused(view, event.broker, event.error)
        return
    deletion_facts.broker_informed(view, event)
    for partition, epoch, delete, error in event.results:
        if not delete:
            continue
        if error == NONE:
            log_dropped(view, event.broker, partition, now)
        if epoch == EPOCH_DURING_DELETE:
            # One in a failed log directory stays, whatever the answer.
            is_kept = (event.broker, partition) in view.tenure.offline
            noted = KAFKA_STORAGE_ERROR if is_kept else error
            deletion_facts.replica_deleted(view, event.broker, partition, noted)
        _orphan_answered(view, event.broker, partition, error)
        reassignment = view.work.reassignments.get(partition)
        if reassignment is None or not isinstance(reassignment.phase, phases.Stopping):
            continue
        phase = reassignment.phase
        if event.broker not in phase.waiting or error not in (NONE, KAFKA_STORAGE_ERROR):
            continue
        if error == NONE:
            reassignment.deleted |= {event.broker}
        else:
            view.tenure.offline.add((event.broker, partition))
        given_up = phase.given_up | ({event.broker} if error == KAFKA_STORAGE_ERROR else set())
        waiting = phase.waiting - {event.broker}
        reassignment.update(phases.Stopping(waiting, given_up, phase.deadline), partition)
        view.due.add((partition,))


def _orphan_answered(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, error: int
) -> None:
    orphan = view.work.orphans.get((broker, partition))
    if orphan is None or orphan not in view.tenure.orphans_tried:
        return
    if error != NONE:
        view.work.orphans_failed.add(orphan)
        wakeups.wake(view.due, wakeups.Finding.ORPHAN_FAILED)
    elif not view.is_undeletable(orphan):
        view.due.buried.add(orphan)
        if partition in view.work.reassignments:
            view.due.add((partition,))


def reassignments_altered(view: ClusterView, event: ReassignmentsAltered, now: Instant) -> None:
    """Note the outcome of each alter entry: the controller's answer, or that there was none."""
    if view.tenure.held is None:
        return
    for result in event.results:
        reassignment = view.work.reassignments.get(result.partition)
        if reassignment is None:
            continue
        if result.fate is AlterOutcome.UNKNOWN:
            reassignment.in_doubt = True
        if reassignment.is_requested and reassignment.requested == result.target:
            reassignment.is_requested = False
            if result.fate is AlterOutcome.ANSWERED:
                _all_made(view, result.partition, reassignment)
        phase = reassignment.phase
        if isinstance(phase, phases.AwaitingController) and phase.target == result.target:
            answered = replace(
                phase, since=now, error=result.error, why=result.why, fate=result.fate
            )
            reassignment.update(answered, result.partition)
        view.due.add((result.partition,))
        wakeups.wake(view.due, wakeups.Finding.ALTER_ANSWERED)


def _all_made(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> None:
    """Note that no request is left to be carried out; a late effect has to be read first."""
    topic = view.session.topics.get(partition.topic)
    if reassignment.in_doubt and topic is not None:
        view.cluster.read_generation += 1
        topic.invalidate(view.cluster.read_generation)
        view.due.overtaken_topics.add(partition.topic)
    reassignment.in_doubt = False


def alterations_withdrawn(view: ClusterView, event: AlterationsWithdrawn) -> None:
    """Note which alter entries were not sent; they are decided again."""
    for partition in event.partitions:
        reassignment = view.work.reassignments.get(partition)
        if reassignment is None:
            continue
        reassignment.is_requested = False
        if isinstance(reassignment.phase, phases.AwaitingController):
            withdrawn = replace(reassignment.phase, fate=AlterOutcome.WITHDRAWN)
            reassignment.update(withdrawn, partition)
        view.due.add((partition,))


def reassignments_probed(view: ClusterView, event: records.ReassignmentsProbed) -> None:
    """Note whether the cluster's controller supports AlterPartitionReassignments."""
    view.tenure.probing = False
    view.role.delegable = event.problem is None
    view.role.undelegable = event.problem if event.is_final else None
