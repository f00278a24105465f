"""Prerequisites of any step: the partition exists, its state is readable, its leader is live."""

from __future__ import annotations

from controller.core.model import (
    NO_LEADER,
    Blocked,
    BlockedBy,
    PartitionState,
    TopicPartition,
)
from controller.core.partition.gates import ids
from controller.core.view import ClusterView


def is_gone(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether the partition is known not to exist; its topic may have been recreated."""
    topic = view.topics.get(partition.topic)
    if topic is None:
        return partition.topic not in (view.listed or ())
    return not topic.stale and partition.partition not in topic.partitions


def state_unknown(view: ClusterView, partition: TopicPartition) -> Blocked:
    """Return that the znodes of the partition are not known, and why."""
    why = view.unreadable_topics.get(partition.topic)
    if why is not None:
        return Blocked(BlockedBy.STATE_UNKNOWN, f"its topic znode cannot be decoded: {why}")
    if partition in view.stateless:
        return Blocked(
            BlockedBy.STATE_UNKNOWN, "it has no state znode: no controller wrote one yet"
        )
    why = view.unreadable_states.get(partition)
    if why is not None:
        return Blocked(BlockedBy.STATE_UNKNOWN, f"its state znode cannot be decoded: {why}")
    return Blocked(BlockedBy.STATE_UNKNOWN, "its state znode is being read")


def leader_missing(state: PartitionState) -> Blocked:
    """Return that the partition has no live leader, and which replicas could lead."""
    if state.leader != NO_LEADER:
        return Blocked(BlockedBy.NO_LEADER, f"leader {state.leader} is not live")
    return Blocked(
        BlockedBy.NO_LEADER, f"it has no leader: no member of its ISR ({ids(state.isr)}) is live"
    )


def leader_unassigned(state: PartitionState) -> Blocked:
    """Return that the leader is not a replica: no LeaderAndIsr would reach it."""
    return Blocked(
        BlockedBy.NO_LEADER,
        f"leader {state.leader} is not a replica any more, and no replica is live and in the ISR",
    )
