"""Answers of brokers, from bytes Kafka's own classes wrote."""

from __future__ import annotations

import pytest

from controller.brokers.controller_requests import event_of
from controller.brokers.messages import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION
from tests.brokers.builders import assigned, leader_and_isr, no_metadata, stop_replica
from tests.brokers.test_controller_requests import LEADER_AND_ISR, STOP_REPLICA, golden

BROKER = LiveBroker(BrokerId(1), BrokerEpoch(100), ())


@pytest.mark.parametrize("version", range(1, 8))
def test_leader_and_isr_results_carry_what_was_sent(version: int) -> None:
    """Also where the answer names topics by id only, each result has its partition and epoch."""
    response = LeaderAndIsrResponse.decode(
        golden("leader_and_isr_response", version), version=version
    )
    event = event_of(BROKER, LEADER_AND_ISR, response.error_code, response, resent=True)
    assert event == LeaderAndIsrAnswered(
        BrokerId(1),
        BrokerEpoch(100),
        0,
        (
            LeaderAndIsrResult(TopicPartition("orders", 0), LeaderEpoch(5), 0),
            LeaderAndIsrResult(TopicPartition("orders", 7), LeaderEpoch(12), 56),
            LeaderAndIsrResult(TopicPartition("payments", 2), LeaderEpoch(7), 11),
        ),
        resent=True,
    )


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_results_carry_what_was_sent(version: int) -> None:
    """The delete flag and the epoch come from the request, the error from the answer."""
    response = StopReplicaResponse.decode(golden("stop_replica_response", version), version=version)
    event = event_of(BROKER, STOP_REPLICA, response.error_code, response, resent=False)
    assert isinstance(event, StopReplicaAnswered)
    assert [(str(r.partition), r.leader_epoch, r.delete, r.error) for r in event.results] == [
        ("orders-0", 5, True, 0),
        ("orders-7", 12, True, 74),
        ("payments-2", 7, True, 0),
    ]


@pytest.mark.parametrize("version", range(4, 9))
def test_update_metadata_answer_is_an_error_code(version: int) -> None:
    """A broker answers UpdateMetadata as a whole."""
    response = UpdateMetadataResponse.decode(
        golden("update_metadata_response", version), version=version
    )
    event = event_of(BROKER, no_metadata(), response.error_code, response, resent=False)
    assert event == UpdateMetadataAnswered(BrokerId(1), BrokerEpoch(100), 77)


def test_partition_missing_from_an_answer_did_not_succeed() -> None:
    """A broker that says nothing about a partition has not acknowledged it."""
    response = LeaderAndIsrResponse(version=4, error_code=0, partition_errors=[])
    event = event_of(BROKER, leader_and_isr(), response.error_code, response, resent=False)
    assert isinstance(event, LeaderAndIsrAnswered)
    assert [r.error for r in event.results] == [UNKNOWN_SERVER_ERROR]


def test_partitions_share_the_error_of_a_request_refused_as_a_whole() -> None:
    """STALE_CONTROLLER_EPOCH at the top is the error of each partition."""
    response = StopReplicaResponse(version=3, error_code=11, partition_errors=[])
    event = event_of(BROKER, stop_replica(), response.error_code, response, resent=False)
    assert isinstance(event, StopReplicaAnswered)
    assert event.error == 11
    assert [r.error for r in event.results] == [11]


def test_error_outweighs_success_for_a_partition_named_twice() -> None:
    """Of two results for one partition the failure is believed."""
    rows = [("orders", 0, 0), ("orders", 0, 56), ("orders", 0, 0)]
    encoded = LeaderAndIsrResponse(version=4, error_code=0, partition_errors=rows).encode()
    response = LeaderAndIsrResponse.decode(encoded, version=4)
    event = event_of(BROKER, leader_and_isr(), response.error_code, response, resent=False)
    assert isinstance(event, LeaderAndIsrAnswered)
    assert [r.error for r in event.results] == [56]


def test_an_unrequested_partition_in_a_response_is_ignored() -> None:
    """An answer cannot invent partitions."""
    encoded = LeaderAndIsrResponse(
        version=4, error_code=0, partition_errors=[("else", 3, 0), ("orders", 0, 0)]
    ).encode()
    response = LeaderAndIsrResponse.decode(encoded, version=4)
    event = event_of(
        BROKER, leader_and_isr(assigned()), response.error_code, response, resent=False
    )
    assert isinstance(event, LeaderAndIsrAnswered)
    assert [str(r.partition) for r in event.results] == ["orders-0"]


def test_unsendable_request_is_answered_with_an_error_and_no_results() -> None:
    """A request that was never sent is answered too, so that the loop does not wait for it."""
    requests = (leader_and_isr(), stop_replica(), no_metadata())
    events = [event_of(BROKER, request, UNSUPPORTED_VERSION, None) for request in requests]
    assert [event.error for event in events] == [35, 35, 35]
