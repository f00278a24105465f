"""
What brokers and tools write for the controller: partitions to elect, ISR changes, failed disks.

``/admin/preferred_replica_election`` (``PreferredReplicaElectionZNode``), and the sequential
children of ``/isr_change_notification`` and ``/log_dir_event_notification``
(``IsrChangeNotificationSequenceZNode``, ``LogDirEventNotificationSequenceZNode``); the controller
deletes each once it is processed. A list is decoded as a whole or refused.
"""

from __future__ import annotations

from controller.core.model import BrokerId, TopicPartition
from controller.znodes import json_documents as documents
from controller.znodes.paths import valid_topic


def decode_partition_list(data: bytes) -> frozenset[TopicPartition] | str:
    """Decode a list of partitions."""
    document = documents.read_versioned(data, absent=1)
    if isinstance(document, str):
        return document
    listed = document.get("partitions")
    if not documents.is_list(listed):
        return f"partitions is not a list but {documents.excerpt(listed)}"
    partitions: set[TopicPartition] = set()
    for item in listed:
        partition = (
            read_partition(item.get("topic"), item.get("partition"))
            if documents.is_object(item)
            else None
        )
        if partition is None:
            return f"{documents.excerpt(item)} is not a partition"
        partitions.add(partition)
    return frozenset(partitions)


def read_partition(topic: object, partition: object) -> TopicPartition | None:
    """Read a partition from its two members; None where one is wrong."""
    if not documents.is_text(topic) or not valid_topic(topic) or not documents.is_int(partition):
        return None
    return TopicPartition(topic, partition)


def decode_log_dir_event(data: bytes) -> BrokerId | str:
    """Decode the broker whose log directory failed."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    broker = document.get("broker")
    return (
        BrokerId(broker)
        if documents.is_int(broker)
        else f"{documents.excerpt(broker)} is not a broker id"
    )
