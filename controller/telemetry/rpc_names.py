"""
Names of controller requests and of Kafka's error codes, as labels and in log events.

Bounded sets: any other error is ``other``.
"""

from __future__ import annotations

from typing import Final

from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.broker_responses import NONE, STALE_CONTROLLER_EPOCH
from controller.core.role.records import UpdateMetadataAnswered
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata

Answer = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered

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
"""Errors in brokers' responses to controller requests."""

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
"""Results in the controller's responses to AlterPartitionReassignments."""

_REQUESTS: Final = {
    LeaderAndIsr: "leader_and_isr",
    UpdateMetadata: "update_metadata",
    StopReplica: "stop_replica",
    LeaderAndIsrAnswered: "leader_and_isr",
    UpdateMetadataAnswered: "update_metadata",
    StopReplicaAnswered: "stop_replica",
}
REQUEST_NAMES: Final = tuple(sorted(set(_REQUESTS.values())))


def error_name(error: int) -> str:
    """Name the error code of a broker's response to a controller request."""
    return ERROR_NAMES.get(error, OTHER)


def order_result(error: int) -> str:
    """Name the controller's result for one partition of an alter request."""
    return ORDER_ERRORS.get(error, OTHER)


def request_name(message: BrokerRequest | Answer) -> str:
    """Name a controller request by the request or by its response."""
    return _REQUESTS[type(message)]


def is_failure(answer: Answer, error: int) -> bool:
    """
    Return whether the error code of one partition means a failure.

    STALE_CONTROLLER_EPOCH for a partition of LeaderAndIsr means that the broker has this leader
    epoch already, as after a claim that repeats what the broker knows.
    """
    is_known = isinstance(answer, LeaderAndIsrAnswered) and error == STALE_CONTROLLER_EPOCH
    return error != NONE and not is_known
