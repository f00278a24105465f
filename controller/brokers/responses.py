"""
Decoding of the responses to controller requests into events.

Pure. Invariant: every partition that was sent has exactly one result, and a partition that is
missing in the response is an error.
"""

from __future__ import annotations

from typing import assert_never

from kafka.protocol.api_message import ApiMessage

from controller.brokers.messages import LeaderAndIsrResponse, StopReplicaResponse, topic_uuid
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.reassignments.records import StopReplicaAnswered, StopReplicaResult
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import UNKNOWN_SERVER_ERROR
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata

Answered = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered


def event_of(
    broker: LiveBroker, request: BrokerRequest, response: ApiMessage, *, resent: bool
) -> Answered:
    """
    Return the event for a broker's answer.

    Args:
        broker: As it was when the channel was opened; the request carries its epoch.
        request: The request.
        response: The decoded response.
        resent: Whether an earlier attempt may have reached the broker.
    """
    error = response.error_code
    match request:
        case LeaderAndIsr():
            return LeaderAndIsrAnswered(
                broker.id, broker.epoch, error, leader_and_isr_results(request, response), resent
            )
        case StopReplica():
            return StopReplicaAnswered(
                broker.id, broker.epoch, error, stop_replica_results(request, response), resent
            )
        case UpdateMetadata():
            return UpdateMetadataAnswered(broker.id, broker.epoch, error)
        case _:
            assert_never(request)


def unsendable(broker: LiveBroker, request: BrokerRequest, error: int) -> Answered:
    """Return the event for a request that could not be sent."""
    match request:
        case LeaderAndIsr():
            return LeaderAndIsrAnswered(broker.id, broker.epoch, error, (), resent=False)
        case StopReplica():
            return StopReplicaAnswered(broker.id, broker.epoch, error, (), resent=False)
        case UpdateMetadata():
            return UpdateMetadataAnswered(broker.id, broker.epoch, error)
        case _:
            assert_never(request)


def leader_and_isr_results(
    request: LeaderAndIsr, response: LeaderAndIsrResponse
) -> tuple[LeaderAndIsrResult, ...]:
    """Decode a LeaderAndIsr response into one result per partition that was sent."""
    by_id = response.version >= 5  # noqa: PLR2004 - KIP-516: keyed by topic id, and by nothing else
    errors: dict[tuple[object, int], int] = {}
    for topic in response.topics or () if by_id else ():
        for row in topic.partition_errors or ():
            _keep_worst(errors, (topic.topic_id, row.partition_index), row.error_code)
    for row in () if by_id else response.partition_errors or ():
        _keep_worst(errors, (row.topic_name, row.partition_index), row.error_code)
    missing = _missing(response.error_code)
    results = []
    for state in request.states:
        topic_key = topic_uuid(state.topic_id) if by_id else state.partition.topic
        error = errors.get((topic_key, state.partition.partition), missing)
        results.append(LeaderAndIsrResult(state.partition, state.leader_epoch, error))
    return tuple(results)


def stop_replica_results(
    request: StopReplica, response: StopReplicaResponse
) -> tuple[StopReplicaResult, ...]:
    """Decode a StopReplica response into one result per partition that was sent."""
    errors: dict[tuple[object, int], int] = {}
    for row in response.partition_errors or ():
        _keep_worst(errors, (row.topic_name, row.partition_index), row.error_code)
    missing = _missing(response.error_code)
    return tuple(
        StopReplicaResult(
            state.partition,
            state.leader_epoch,
            state.delete,
            errors.get((state.partition.topic, state.partition.partition), missing),
        )
        for state in request.states
    )


def _keep_worst(errors: dict[tuple[object, int], int], key: tuple[object, int], error: int) -> None:
    """Record an error; it replaces a success if the response names a partition twice."""
    if not errors.get(key):
        errors[key] = error


def _missing(error: int) -> int:
    """Return the error of a partition that is missing in a response."""
    return error or UNKNOWN_SERVER_ERROR
