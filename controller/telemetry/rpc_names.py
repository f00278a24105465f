"""
Names of the error codes of Kafka's protocol, as labels: bounded sets, any other is ``other``.

Says nothing of which of them is a problem.
"""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"
ERROR_NAMES: Final = {
    -1: "unknown_server_error",
    3: "unknown_topic_or_partition",
    6: "not_leader_or_follower",
    11: "stale_controller_epoch",
    31: "cluster_authorization_failed",
    35: "unsupported_version",
    42: "invalid_request",
    56: "kafka_storage_error",
    74: "fenced_leader_epoch",
    77: "stale_broker_epoch",
    103: "inconsistent_topic_id",
}
"""Errors of Kafka's protocol that brokers answer to a controller."""

ORDER_ERRORS: Final = {
    0: "accepted",
    3: "unknown_topic_or_partition",
    7: "request_timed_out",
    31: "cluster_authorization_failed",
    39: "invalid_replica_assignment",
    41: "not_controller",
    60: "reassignment_in_progress",
    85: "no_reassignment_in_progress",
}
"""What the cluster's controller answers to an order."""


def error_name(error: int) -> str:
    """Name the error code of a broker's answer to a controller."""
    return ERROR_NAMES.get(error, OTHER)


def order_result(error: int) -> str:
    """Name what the cluster's controller made of an order."""
    return ORDER_ERRORS.get(error, OTHER)
