"""Write partition states: the compare-and-set, and the ISR that it writes."""

from __future__ import annotations

from controller.core import model
from controller.core.leadership import records
from controller.core.model import NO_LEADER, BrokerId, Replicas, TopicPartition
from controller.core.view import ClusterView
from controller.errors import InvariantError


def state_record(
    view: ClusterView,
    partition: TopicPartition,
    state: model.PartitionState,
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
    shrinking any ISR. Without a leader nothing is acknowledged, and the ISR stays as it was.
    """
    assignment = view.topics.assignment(partition)
    if assignment is None or leader == NO_LEADER:
        return isr
    return tuple(r for r in isr if r == leader or r in assignment.replicas)
