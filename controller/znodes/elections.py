"""``/admin/preferred_replica_election``: partitions to be led by their first replica again."""

from __future__ import annotations

from controller.core.model import TopicPartition
from controller.znodes.partition_lists import decode_partition_list


def decode_preferred_election(data: bytes) -> frozenset[TopicPartition] | str:
    """Decode which partitions are to be elected (``PreferredReplicaElectionZNode``)."""
    return decode_partition_list(data)
