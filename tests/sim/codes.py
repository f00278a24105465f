"""Error codes of Kafka's protocol that brokers answer a controller or a producer with."""

from __future__ import annotations

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6
REPLICA_NOT_AVAILABLE: Final = 9
STALE_CONTROLLER_EPOCH: Final = 11
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
CLUSTER_AUTHORIZATION_FAILED: Final = 31
KAFKA_STORAGE_ERROR: Final = 56
LOG_DIR_NOT_FOUND: Final = 57
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
INCONSISTENT_TOPIC_ID: Final = 103
