"""
Names of controller requests and of Kafka's error codes, as labels and in log events.

Bounded sets: any other error is ``other``.
"""

from __future__ import annotations

from typing import Final, assert_never

from controller import kafka_errors
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import NONE, STALE_CONTROLLER_EPOCH
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata

Answer = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered

OTHER: Final = "other"
ERROR_NAMES: Final = {
    kafka_errors.UNKNOWN_SERVER_ERROR: "unknown_server_error",
    kafka_errors.UNKNOWN_TOPIC_OR_PARTITION: "unknown_topic_or_partition",
    kafka_errors.NOT_LEADER_OR_FOLLOWER: "not_leader_or_follower",
    kafka_errors.STALE_CONTROLLER_EPOCH: "stale_controller_epoch",
    kafka_errors.CLUSTER_AUTHORIZATION_FAILED: "cluster_authorization_failed",
    kafka_errors.UNSUPPORTED_VERSION: "unsupported_version",
    kafka_errors.INVALID_REQUEST: "invalid_request",
    kafka_errors.KAFKA_STORAGE_ERROR: "kafka_storage_error",
    kafka_errors.FENCED_LEADER_EPOCH: "fenced_leader_epoch",
    kafka_errors.STALE_BROKER_EPOCH: "stale_broker_epoch",
    kafka_errors.INCONSISTENT_TOPIC_ID: "inconsistent_topic_id",
}

ALTER_ERRORS: Final = {
    kafka_errors.NONE: "accepted",
    kafka_errors.UNKNOWN_TOPIC_OR_PARTITION: "unknown_topic_or_partition",
    kafka_errors.REQUEST_TIMED_OUT: "request_timed_out",
    kafka_errors.CLUSTER_AUTHORIZATION_FAILED: "cluster_authorization_failed",
    kafka_errors.INVALID_REPLICA_ASSIGNMENT: "invalid_replica_assignment",
    kafka_errors.NOT_CONTROLLER: "not_controller",
    kafka_errors.REASSIGNMENT_IN_PROGRESS: "reassignment_in_progress",
    kafka_errors.NO_REASSIGNMENT_IN_PROGRESS: "no_reassignment_in_progress",
}
"""Results in the controller's responses to AlterPartitionReassignments."""

REQUEST_NAMES: Final = ("leader_and_isr", "stop_replica", "update_metadata")


def error_name(error: int) -> str:
    """Name the error code of a broker's response to a controller request."""
    return ERROR_NAMES.get(error, OTHER)


def alter_result(error: int) -> str:
    """Name the result of one partition of an AlterPartitionReassignments request."""
    return ALTER_ERRORS.get(error, OTHER)


def request_name(message: BrokerRequest | Answer) -> str:
    """Name a controller request by the request or by its response; see ``REQUEST_NAMES``."""
    match message:
        case LeaderAndIsr() | LeaderAndIsrAnswered():
            return "leader_and_isr"
        case UpdateMetadata() | UpdateMetadataAnswered():
            return "update_metadata"
        case StopReplica() | StopReplicaAnswered():
            return "stop_replica"
        case unknown:
            assert_never(unknown)


def is_failure(answer: Answer, error: int) -> bool:
    """
    Return whether the error code of one partition means a failure.

    STALE_CONTROLLER_EPOCH for a partition of LeaderAndIsr means that the broker has this leader
    epoch already, as after a claim that repeats what the broker knows.
    """
    if error == NONE:
        return False
    return error != STALE_CONTROLLER_EPOCH or not isinstance(answer, LeaderAndIsrAnswered)
