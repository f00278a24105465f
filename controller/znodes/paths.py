"""
The path of every znode, relative to the cluster's chroot.

Names from outside become path components only after ``valid_topic`` or ``valid_request``, which
``read_topic`` and ``read_request`` apply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.core.pacing.throttle_settings import Entity, broker_entity, topic_entity
from controller.znodes.json_documents import INT_MAX, UnreadableError, excerpt, is_int, is_text

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
CLUSTER_ID: Final = "/cluster/id"
TOPICS: Final = "/brokers/topics"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"

LEGACY_PLAN: Final = "/admin/reassign_partitions"
REQUESTS: Final = "/admin/reassignment_requests"
REASSIGNMENTS: Final = "/admin/reassignments"
CANCEL: Final = "/admin/cancel_reassignment_in_progress"
KILL_SWITCH: Final = "/admin/reassign_cancel"
QUEUE: Final = "/admin/reassign_partitions_queue"
DELETIONS: Final = "/admin/delete_topics"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
PRODUCER_IDS: Final = "/latest_producer_id_block"
ISR_NOTIFICATIONS: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"

ROOT: Final = "/reassigner"
LEADER: Final = "/reassigner/leader"
EPOCH: Final = "/reassigner/epoch"
ORPHANS: Final = "/reassigner/orphans"
OUTCOMES: Final = "/reassigner/outcomes"
CONTROLS: Final = "/reassigner/control"
PAUSES: Final = "/reassigner/control/pauses"
LIMITS: Final = "/reassigner/control/limits"
THROTTLE: Final = "/reassigner/control/throttle"
DRAINS: Final = "/reassigner/control/drains"
EVACUATIONS: Final = "/reassigner/control/evacuations"
APPLIED_THROTTLES: Final = "/reassigner/throttles"
CONFIGS: Final = "/config/"
CONFIG_CHANGES: Final = "/config/changes"

_SUBMISSION: Final = "request_"
NEW_SUBMISSION: Final = f"{REQUESTS}/{_SUBMISSION}"
"""The prefix under which a client creates a request, sequentially."""
NEW_ANNOUNCEMENT: Final = f"{CONFIG_CHANGES}/config_change_"
"""The prefix of notifications that make brokers read changed settings."""

KAFKA_ROOTS: Final = (TOPICS, "/admin")
"""The first of these that is not open to everyone sets the permissions of the daemon's znodes."""

CLUSTER_ROOTS: Final = (BROKER_IDS, *KAFKA_ROOTS, "/config")
"""What the first broker of a cluster creates: without one of these there is no cluster yet."""

OUR_ROOTS: Final = (ROOT, LEADER, EPOCH, ORPHANS, OUTCOMES, REASSIGNMENTS, LEGACY_PLAN)
"""The roots of the reassigner's znodes, and the znode of legacy plans."""

NOTIFICATION_DIRECTORIES: Final[Mapping[str, str]] = MappingProxyType(
    {"isr_notifications": ISR_NOTIFICATIONS, "log_dir_events": LOG_DIR_EVENTS}
)
"""Directories of nodes to delete once processed, by the name of their ``ZnodeFamily``."""

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_REQUEST: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_DOTS: Final = frozenset({".", ".."})
_RESERVED: Final = re.compile(r"foreign|(legacy|queue|cancel|quiesce|drain)-.*")
"""Requests without a submitted znode."""
_SHARD: Final = re.compile(r"(accepted|ended)-([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,10})")
_BROKER_ENTITY: Final = "brokers/"
_TOPIC_ENTITY: Final = "topics/"


def valid_topic(name: str) -> bool:
    """Whether Kafka accepts the topic name (``Topic.validate``)."""
    return name not in _DOTS and _TOPIC.fullmatch(name) is not None


def valid_request(name: str) -> bool:
    """Whether a request id may stand in a path."""
    return name not in _DOTS and _REQUEST.fullmatch(name) is not None


def is_submission(name: str) -> bool:
    """Whether a child of ``REQUESTS`` is a request."""
    return name.startswith(_SUBMISSION) and valid_request(name)


def is_reserved(request: RequestId) -> bool:
    """Whether only the daemon gives the id; no submitted request may have it."""
    return _RESERVED.fullmatch(request) is not None


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


def read_request(value: object, where: str = "") -> RequestId:
    """Read a request id; ``where`` precedes the text of an error."""
    if not is_text(value) or not valid_request(value):
        raise UnreadableError(f"{where}{excerpt(value)} is not a request id")
    return RequestId(value)


def read_topic(value: object) -> str:
    """Read the name of a topic."""
    if not is_text(value) or not valid_topic(value):
        raise UnreadableError(f"{excerpt(value)} is not a topic name")
    return value


def read_partition(topic: object, partition: object) -> TopicPartition:
    """Read a partition from its two members."""
    name = read_topic(topic)
    if not is_int(partition):
        raise UnreadableError(f"{excerpt(partition)} is not a partition number")
    return TopicPartition(name, partition)


def broker_path(broker: BrokerId) -> str:
    """Return a broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Return the topic znode: the assignment of all its partitions."""
    return f"{TOPICS}/{topic}"


def parse_topic(path: str) -> str | None:
    """Read the path of a topic znode."""
    return _topic_below(TOPICS, path)


def _topic_below(parent: str, path: str) -> str | None:
    name = path.removeprefix(f"{parent}/")
    return name if name != path and valid_topic(name) else None


def deletion_path(topic: str) -> str:
    """Return the marker of a topic that is to be deleted."""
    return f"{DELETIONS}/{topic}"


def parse_deletion(path: str) -> str | None:
    """Read the path of such a marker."""
    return _topic_below(DELETIONS, path)


def topic_config_path(topic: str) -> str:
    """Return the settings of a topic."""
    return f"{TOPIC_CONFIGS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the parent of the topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def state_path(partition: TopicPartition) -> str:
    """Return the partition's state: leader, ISR, epochs."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def reassignment_topic_path(topic: str) -> str:
    """Return the parent of the records of a topic's reassignments."""
    return f"{REASSIGNMENTS}/{topic}"


def reassignment_path(partition: TopicPartition) -> str:
    """Return the record of a partition's reassignment."""
    return f"{REASSIGNMENTS}/{partition.topic}/{partition.partition}"


def orphan_path(broker: BrokerId, partition: TopicPartition) -> str:
    """Return the record of a replica that could not be deleted."""
    return f"{ORPHANS}/{broker}/{partition}"


def submission_path(name: str) -> str:
    """Return a request as submitted."""
    return f"{REQUESTS}/{name}"


# --- what is kept of requests --------------------------------------------------------------------

SUMMARY: Final = "summary"
PART: Final = "part-"


class Shard(NamedTuple):
    """
    The name of a znode with many rows of a request, below its history.

    The number of rows is in the name, so that rows can be counted without reading them.
    """

    kind: Literal["accepted", "ended"]
    epoch: int
    """The controller epoch of its write; 0: outside a tenure."""
    number: int
    """Shards of one epoch count up."""
    rows: int
    """The number of its rows."""

    def __str__(self) -> str:
        return f"{self.kind}-{self.epoch}-{self.number}-{self.rows}"


def parse_shard(name: str) -> Shard | None:
    """Read the name of a shard."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    epoch, number, rows = (int(match[group]) for group in (2, 3, 4))
    return Shard("accepted" if match[1] == "accepted" else "ended", epoch, number, rows)


def history_path(request: RequestId) -> str:
    """Return the parent of all that is kept of a request."""
    return f"{OUTCOMES}/{request}"


def outcome_path(request: RequestId) -> str:
    """Return the summary of a request."""
    return f"{OUTCOMES}/{request}/{SUMMARY}"


def part_path(request: RequestId, name: str) -> str:
    """Return the part of a request for one submitted znode."""
    return f"{OUTCOMES}/{request}/{PART}{name}"


def shard_path(request: RequestId, shard: Shard) -> str:
    """Return a shard."""
    return f"{OUTCOMES}/{request}/{shard}"


# --- what the leading daemon may write without being the controller ------------------------------

_PAPERWORK: Final = (
    f"{ROOT}/",
    f"{REQUESTS}/",
    f"{REASSIGNMENTS}/",
    f"{CONFIG_CHANGES}/",
    f"{CONFIGS}{_TOPIC_ENTITY}",
    f"{CONFIGS}{_BROKER_ENTITY}",
)
_PAPERWORK_NODES: Final = frozenset({CANCEL, QUEUE})
_NOT_PAPERWORK: Final = (LEADER, EPOCH)
"""Paperwork never changes what entitles to write."""


def is_paperwork(path: str) -> bool:
    """
    Whether the leading daemon may write the znode without the controller role.

    Those are our own records, the submissions of operators, which no Kafka controller reads, and
    dynamic settings, which Kafka's own tools write without any fence.
    """
    if path.startswith(_NOT_PAPERWORK):
        return False
    return path in _PAPERWORK_NODES or path.startswith(_PAPERWORK)


# --- dynamic settings ----------------------------------------------------------------------------


def parse_entity(text: str) -> Entity | None:
    """Read ``topics/<name>`` or ``brokers/<id>``."""
    topic, broker = text.removeprefix(_TOPIC_ENTITY), text.removeprefix(_BROKER_ENTITY)
    if topic != text:
        return topic_entity(topic) if valid_topic(topic) else None
    number = parse_number(broker)
    return None if broker == text or number is None else broker_entity(BrokerId(number))


def entity_config_path(entity: Entity) -> str:
    """Return the dynamic settings of a topic or a broker."""
    return f"{CONFIGS}{entity}"


def applied_throttle_path(entity: Entity) -> str:
    """Return the record of a throttle; no topic's name has a colon."""
    return f"{APPLIED_THROTTLES}/{entity.replace('/', ':')}"


def parse_throttle_name(name: str) -> Entity | None:
    """Read the last component of the path of such a record."""
    return parse_entity(name.replace(":", "/", 1)) if "/" not in name else None
