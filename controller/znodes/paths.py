"""
Where every znode stands, relative to the cluster's chroot.

Names that come from outside become path components only after ``valid_topic`` or ``valid_request``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.znodes.documents import INT_MAX

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"

LEGACY_PLAN: Final = "/admin/reassign_partitions"
REQUESTS: Final = "/admin/reassignment_requests"
GOALS: Final = "/admin/reassignments"
CANCEL: Final = "/admin/cancel_reassignment_in_progress"
KILL_SWITCH: Final = "/admin/reassign_cancel"
QUEUE: Final = "/admin/reassign_partitions_queue"
DELETIONS: Final = "/admin/delete_topics"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
ISR_NOTIFICATIONS: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"

ROOT: Final = "/reassigner"
LEADER: Final = "/reassigner/leader"
EPOCH: Final = "/reassigner/epoch"
ORPHANS: Final = "/reassigner/orphans"
OUTCOMES: Final = "/reassigner/outcomes"

KAFKA_ROOTS: Final = (TOPICS, "/admin")
"""Whose permissions ours follow: the first of these that is not open to everybody."""

OUR_ROOTS: Final = (ROOT, LEADER, EPOCH, ORPHANS, OUTCOMES, GOALS, LEGACY_PLAN)
"""Znodes of ours that others live below, and the one that plans are written to."""

NOTIFICATION_DIRECTORIES: Final[Mapping[str, str]] = MappingProxyType(
    {"isr_notifications": ISR_NOTIFICATIONS, "log_dir_events": LOG_DIR_EVENTS}
)
"""Directories of nodes to delete once processed, by the name of the ``Znode`` that reads them."""

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_REQUEST: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_DOTS: Final = frozenset({".", ".."})


def valid_topic(name: str) -> bool:
    """Whether Kafka accepts the topic name (``Topic.validate``)."""
    return name not in _DOTS and _TOPIC.fullmatch(name) is not None


def valid_request(name: str) -> bool:
    """Whether a request id may stand in a path."""
    return name not in _DOTS and _REQUEST.fullmatch(name) is not None


def parse_number(text: str) -> int | None:
    """Read a partition or broker id as Kafka writes it in a path: no sign, no leading zero."""
    if _NUMBER.fullmatch(text) is None or int(text) > INT_MAX:
        return None
    return int(text)


def parse_topic_partition(text: str) -> TopicPartition | None:
    """Read ``<topic>-<partition>``; the topic's own name may contain dashes."""
    topic, dash, number = text.rpartition("-")
    partition = parse_number(number)
    if not dash or partition is None or not valid_topic(topic):
        return None
    return TopicPartition(topic, partition)


def broker_path(broker: BrokerId) -> str:
    """Return a broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Return the topic znode: the assignment of all its partitions."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the parent of the topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """Return the parent of the partition's state."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    """Return the partition's state: leader, ISR, epochs."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def goal_topic_path(topic: str) -> str:
    """Return the parent of a topic's goals."""
    return f"{GOALS}/{topic}"


def goal_path(partition: TopicPartition) -> str:
    """Return our record of what is to become of the partition."""
    return f"{GOALS}/{partition.topic}/{partition.partition}"


def orphan_path(broker: BrokerId, partition: TopicPartition) -> str:
    """Return our record of a replica that could not be deleted."""
    return f"{ORPHANS}/{broker}/{partition}"


def outcome_path(request: RequestId) -> str:
    """Return how a request ended."""
    return f"{OUTCOMES}/{request}/summary"
