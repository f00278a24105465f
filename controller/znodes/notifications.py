"""
What brokers tell the controller through ZooKeeper: ISR changes and failed log directories.

Sequential children of two directories (``IsrChangeNotificationSequenceZNode``,
``LogDirEventNotificationSequenceZNode``), deleted by the controller once processed.
"""

from __future__ import annotations

from controller.core.model import BrokerId, TopicPartition
from controller.znodes.json_documents import excerpt, is_int, read_document
from controller.znodes.partition_lists import decode_partition_list


def decode_isr_notification(data: bytes) -> frozenset[TopicPartition] | str:
    """Decode which partitions' ISR a leader changed."""
    return decode_partition_list(data)


def decode_log_dir_event(data: bytes) -> BrokerId | str:
    """Decode which broker lost a log directory."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    broker = document.get("broker")
    return BrokerId(broker) if is_int(broker) else f"{excerpt(broker)} is not a broker id"
