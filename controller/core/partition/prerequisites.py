"""
What a partition lacks that nothing goes on without.

That it exists, a state that can be read, a live leader.
"""

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
    """Whether the partition is known not to exist; its topic may have been made anew without it."""
    topic = view.topics.get(partition.topic)
    if topic is None:
        return partition.topic not in (view.listed or ())
    return not topic.stale and partition.partition not in topic.partitions


def state_unknown(view: ClusterView, partition: TopicPartition) -> Blocked:
    """Return that what ZooKeeper says of the partition is not known, and why."""
    why = view.unreadable_topics.get(partition.topic)
    if why is not None:
        return Blocked(BlockedBy.STATE_UNKNOWN, f"its topic znode cannot be understood: {why}")
    if partition in view.stateless:
        return Blocked(
            BlockedBy.STATE_UNKNOWN, "it has no state znode yet: no controller wrote one"
        )
    why = view.unreadable_states.get(partition)
    if why is not None:
        return Blocked(BlockedBy.STATE_UNKNOWN, f"its state znode cannot be understood: {why}")
    return Blocked(BlockedBy.STATE_UNKNOWN, "its state is being read")


def leader_missing(state: PartitionState) -> Blocked:
    """Return that the partition has no live leader, and who could be one."""
    if state.leader != NO_LEADER:
        return Blocked(BlockedBy.NO_LEADER, f"leader {state.leader} is not live")
    return Blocked(
        BlockedBy.NO_LEADER, f"it has no leader: of its ISR ({ids(state.isr)}) nobody is live"
    )


def leader_unassigned(state: PartitionState) -> Blocked:
    """Return that the leader is no replica: no LeaderAndIsr reaches it, so nothing is written."""
    return Blocked(
        BlockedBy.NO_LEADER,
        f"leader {state.leader} is no replica any more, and none of them is live and in the ISR",
    )
