"""
Choose the leader and the ISR of a partition state, and write both.

The algorithms are those of KAFKA-42 (``PartitionLeaderElectionAlgorithms`` in Kafka); they return
None when no choice is safe. Kafka's controller reads ``unclean.leader.election.enable`` in every
offline election: so only an answer to a request for settings counts that is newer than the loss of
the leader, and than the last broker or disk that came back. A client's request for an unclean
election (KIP-460) needs no setting, and counts until it is answered.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core import model
from controller.core.calls.client_requests import ElectLeaders
from controller.core.leadership import records
from controller.core.model import NO_LEADER, BrokerId, PartitionState, Replicas, TopicPartition
from controller.core.view import ClusterView
from controller.errors import InvariantError

IsLive = Callable[[BrokerId], bool]


def offline_leader(
    assigned: Replicas, isr: Replicas, is_live: IsLive, *, unclean: bool
) -> BrokerId | None:
    """
    Select a leader for a partition whose leader is not live.

    The first assigned replica that is live and in the ISR; if there is none, the first live
    assigned one, but only where the topic permits an unclean election.
    """
    for replica in assigned:
        if replica in isr and is_live(replica):
            return replica
    if unclean:
        return next((r for r in assigned if is_live(r)), None)
    return None


def reassigned_leader(target: Replicas, isr: Replicas, is_live: IsLive) -> BrokerId | None:
    """Select the first target replica that is live and in the ISR."""
    return next((r for r in target if r in isr and is_live(r)), None)


def preferred_leader(assigned: Replicas, isr: Replicas, is_live: IsLive) -> BrokerId | None:
    """Select the first assigned replica, if it is live and in the ISR."""
    if assigned and assigned[0] in isr and is_live(assigned[0]):
        return assigned[0]
    return None


def permits_unclean(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether the topic's settings permit an unclean election of the partition now."""
    since = view.leadership.leaderless.get(partition)
    answers = view.topics.config_answers.get(partition.topic)
    if since is None or answers is None or answers.number <= since:
        return False
    return view.topics.configs[partition.topic].unclean_leader_election


def is_unclean_requested(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether a client waits for an unclean election of the partition."""
    return partition in view.calls.electing and any(
        isinstance(pending.request, ElectLeaders)
        and pending.request.is_unclean
        and partition in pending.electing
        for pending in view.calls.pending_client_requests.values()
    )


def note_leader(view: ClusterView, partition: TopicPartition, old: PartitionState | None) -> None:
    """Note the settings request after which an unclean election may be permitted."""
    leaderless = view.leadership.leaderless
    state = view.leadership.states.get(partition)
    if state is None or state.leader != NO_LEADER:
        leaderless.pop(partition, None)
    elif partition not in leaderless or old is None or old.leader != NO_LEADER:
        leaderless[partition] = view.topics_process.config_request.number


def note_candidate(view: ClusterView, partition: TopicPartition) -> None:
    """Have an unclean election wait for a new settings request."""
    if partition in view.leadership.leaderless:
        view.leadership.leaderless[partition] = view.topics_process.config_request.number


def state_record(
    view: ClusterView,
    partition: TopicPartition,
    state: PartitionState,
    leader: BrokerId,
    isr: Replicas,
) -> records.StateRecord:
    """
    Return the compare-and-set of a state, with the epoch bump that makes it deliverable.

    The ISR is written without strangers.

    Raises:
        InvariantError: there is no tenure.

    """
    if view.tenure.held is None:
        raise InvariantError("a state is written outside a tenure")
    return records.StateRecord(
        partition=partition,
        leader=leader,
        leader_epoch=model.LeaderEpoch(state.leader_epoch + 1),
        isr=without_strangers(view, partition, leader, isr),
        controller_epoch=view.tenure.held.epoch,
        expected_version=state.version,
        leader_recovery_state=state.leader_recovery_state,
    )


def without_strangers(
    view: ClusterView, partition: TopicPartition, leader: BrokerId, isr: Replicas
) -> Replicas:
    """
    Return the ISR without strangers; the leader stays in it.

    A Kafka controller whose changes of replicas all fail (KAFKA-12315) ends a reassignment in the
    topic znode only. A removed replica no longer fetches but counts for ``min.insync.replicas``,
    would be in sync at once when it is added again, and keeps leaders of Kafka 2.4 to 2.8 from
    shrinking any ISR. An excluded replica is one, too: a leader that writes the ISR itself may add
    it once more, by a fetch that it began to handle before the exclusion. Without a leader nothing
    is acknowledged: the ISR stays.
    """
    assignment = view.topics.assignment(partition)
    if assignment is None or leader == NO_LEADER:
        return isr
    known, excluded = assignment.replicas, view.reassignments.excluded(partition, assignment)
    return tuple([r for r in isr if r == leader or (r in known and r not in excluded)])
