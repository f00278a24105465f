"""
The list of partitions that several znodes of Kafka share.

All or nothing: whoever writes these lists is a broker or a tool, never a person's plan.
"""

from __future__ import annotations

from controller.core.model import TopicPartition
from controller.znodes.json_documents import (
    excerpt,
    is_int,
    is_list,
    is_object,
    is_text,
    read_document,
    version_problem,
)
from controller.znodes.paths import valid_topic


def decode_partition_list(data: bytes) -> frozenset[TopicPartition] | str:
    """Decode such a list; a text says what is wrong with it."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    problem = version_problem(document, (1,), absent=1)
    if problem is not None:
        return problem
    listed = document.get("partitions")
    if not is_list(listed):
        return f"partitions is not a list but {excerpt(listed)}"
    partitions: set[TopicPartition] = set()
    for item in listed:
        partition = (
            read_partition(item.get("topic"), item.get("partition")) if is_object(item) else None
        )
        if partition is None:
            return f"{excerpt(item)} is not a partition"
        partitions.add(partition)
    return frozenset(partitions)


def read_partition(topic: object, partition: object) -> TopicPartition | None:
    """Read a partition from its two members; None where one is wrong."""
    if not is_text(topic) or not valid_topic(topic) or not is_int(partition):
        return None
    return TopicPartition(topic, partition)
