"""The requests, byte for byte against what Kafka's own classes write (see ``golden/``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.protocol.api_message import ApiMessage

from controller.brokers.connection_settings import ListenerChoice
from controller.brokers.controller_requests import (
    Encoder,
    Sender,
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from controller.brokers.frames import frame_of
from controller.brokers.messages import Versions
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)
from controller.errors import ProtocolError
from controller.reactor.ports import LeaderAndIsr, StopReplica, UpdateMetadata, UpdateMetadataState
from tests.brokers.builders import CONTROLLER, EPOCH, assigned, ids, leader_and_isr, stopped

GOLDEN = Path(__file__).parent / "golden"
SENDER = Sender(CONTROLLER, BrokerEpoch(25769803801))
ENCODER = Encoder(CONTROLLER, ListenerChoice())
EPOCH_1 = BrokerEpoch(1)
ORDERS_ID = "Tm9wZSBub3RoaW5nIGhlcg"
PAYMENTS_ID = "c29tZXRoaW5nIGVsc2UgIQ"
BROKER_1 = LiveBroker(
    BrokerId(1),
    BrokerEpoch(1),
    (
        Endpoint("INTERNAL", "broker-1.example", 9092, "PLAINTEXT"),
        Endpoint("EXTERNAL", "broker-1.example", 9093, "SASL_SSL"),
    ),
    rack="rack-a",
)
BROKER_2 = LiveBroker(
    BrokerId(2), BrokerEpoch(2), (Endpoint("INTERNAL", "broker-2.example", 9092, "PLAINTEXT"),)
)


def golden(name: str, version: int) -> bytes:
    """Return what Kafka's classes wrote."""
    return bytes.fromhex((GOLDEN / f"{name}_v{version}.hex").read_text().strip())


def body(message: ApiMessage) -> bytes:
    """Return what our classes write."""
    return frame_of(message).body


def seen(topic: str, partition: int, topic_id: str) -> UpdateMetadataState:
    """Return one partition of an UpdateMetadata."""
    return UpdateMetadataState(
        partition=TopicPartition(topic, partition),
        controller_epoch=EPOCH,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(5 + partition),
        isr=ids(1, 2),
        partition_epoch=ZkVersion(41),
        replicas=ids(1, 2, 3),
        offline_replicas=ids(3),
        topic_id=topic_id,
    )


LEADER_AND_ISR = LeaderAndIsr(
    EPOCH,
    (
        assigned(
            "orders", 0, replicas=ids(1, 2, 3), adding=ids(3), removing=ids(2), topic_id=ORDERS_ID
        ),
        assigned("orders", 7, leader_epoch=12, topic_id=ORDERS_ID),
        assigned("payments", 2, leader_epoch=7, topic_id=PAYMENTS_ID),
    ),
    (BROKER_1,),
)
STOP_REPLICA = StopReplica(
    EPOCH,
    (
        stopped("orders", 0, leader_epoch=5),
        stopped("orders", 7, leader_epoch=12),
        stopped("payments", 2, leader_epoch=7),
    ),
)
UPDATE_METADATA = UpdateMetadata(
    EPOCH,
    (
        seen("orders", 0, ORDERS_ID),
        seen("orders", 7, ORDERS_ID),
        seen("payments", 2, PAYMENTS_ID),
    ),
    (BROKER_1, BROKER_2),
)


@pytest.mark.parametrize("version", range(1, 8))
def test_leader_and_isr_is_written_as_kafka_writes_it(version: int) -> None:
    """Every version we may send equals the bytes of Kafka's own class."""
    message = leader_and_isr_request(LEADER_AND_ISR, version, SENDER, ListenerChoice())
    assert body(message).hex() == golden("leader_and_isr_request", version).hex()


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_is_written_as_kafka_writes_it(version: int) -> None:
    """Every version we may send equals the bytes of Kafka's own class."""
    message = stop_replica_request(STOP_REPLICA, version, SENDER)
    assert body(message).hex() == golden("stop_replica_request", version).hex()


@pytest.mark.parametrize("version", range(4, 9))
def test_update_metadata_is_written_as_kafka_writes_it(version: int) -> None:
    """Every version we may send equals the bytes of Kafka's own class."""
    message = update_metadata_request(UPDATE_METADATA, version, SENDER)
    assert body(message).hex() == golden("update_metadata_request", version).hex()


@pytest.mark.parametrize("version", [5, 6, 7])
def test_recovery_state_is_written_from_version_6_on(version: int) -> None:
    """In the place where a leader that has recovered has 0."""
    request = leader_and_isr(assigned("orders", 0, topic_id=ORDERS_ID, recovery=1))
    message = leader_and_isr_request(request, version, SENDER, ListenerChoice())
    (row,) = message.topic_states[0][2]
    assert row[-1] == (1 if version >= 6 else False)
    assert len(row) == (11 if version >= 6 else 10)


def test_request_without_partitions_is_written() -> None:
    """The UpdateMetadata that fences a predecessor carries brokers and no partitions."""
    message = update_metadata_request(UpdateMetadata(EPOCH, (), (BROKER_1,)), 6, SENDER)
    assert b"broker-1.example" in body(message)


def test_live_leader_is_given_at_the_listener_we_use() -> None:
    """The address of a leader is that of the chosen listener."""
    message = leader_and_isr_request(
        LEADER_AND_ISR, 4, SENDER, ListenerChoice(inter_broker_listener="EXTERNAL")
    )
    assert message.live_leaders == [(1, "broker-1.example", 9093)]


def test_endpoint_of_an_unknown_security_protocol_is_left_out() -> None:
    """A registration with an unknown security protocol does not spoil the request."""
    odd = LiveBroker(BrokerId(3), BrokerEpoch(3), (Endpoint("ODD", "h", 1, "CARRIER_PIGEON"),))
    message = update_metadata_request(UpdateMetadata(EPOCH, (), (odd,)), 6, SENDER)
    assert message.live_brokers == [(3, [], None)]


def test_topic_id_that_is_no_id_travels_as_unknown() -> None:
    """Garbage in a topic znode becomes the zero id, which brokers accept."""
    message = leader_and_isr_request(
        leader_and_isr(assigned(topic_id="?")), 5, SENDER, ListenerChoice()
    )
    assert bytes(16) in body(message)


def test_value_that_does_not_fit_its_field_is_refused() -> None:
    """A leader epoch beyond 32 bits, read from a broken znode, is an error before it is sent."""
    request = leader_and_isr(assigned(leader_epoch=2**40))
    with pytest.raises(ProtocolError, match="LeaderAndIsrRequest cannot be encoded"):
        ENCODER.encode(request, Versions(4, 3, 6), EPOCH_1)


def test_request_goes_out_in_the_version_chosen_for_its_kind() -> None:
    """Each kind of request takes its own version."""
    versions = Versions(leader_and_isr=2, stop_replica=1, update_metadata=5)
    sent = [
        ENCODER.encode(request, versions, EPOCH_1).API_VERSION
        for request in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
    ]
    assert sent == [2, 1, 5]


def test_frame_is_length_header_and_body() -> None:
    """A frame is what the broker's socket server expects, with the flexible header where due."""
    frame = ENCODER.encode(STOP_REPLICA, Versions(4, 3, 6), SENDER.broker_epoch)
    frame.with_header(correlation_id=9, client_id="me")
    sent = frame.encode(framed=True, header=True)
    assert sent[:4] == (len(sent) - 4).to_bytes(4)
    assert sent[4:17] == bytes.fromhex("0005 0003 00000009 0002 6d65 00")
    assert sent[17:] == golden("stop_replica_request", 3)


@pytest.mark.parametrize("version", range(4, 9))
def test_metadata_for_many_brokers_differs_only_in_the_broker_epoch(version: int) -> None:
    """What is encoded once and put together equals what is encoded for each broker."""
    encoder, versions = Encoder(CONTROLLER, ListenerChoice()), Versions(4, 3, version)
    states, live = UPDATE_METADATA.states, UPDATE_METADATA.live_brokers
    others = (
        UpdateMetadata(EPOCH, states[:1], live),
        UpdateMetadata(EPOCH, (), live),
        UpdateMetadata(EPOCH, states, live[:1]),
        UpdateMetadata(EPOCH, states, ()),
        UpdateMetadata(ControllerEpoch(EPOCH + 1), states, live),
    )
    for request in (UPDATE_METADATA, UPDATE_METADATA, *others, UPDATE_METADATA, *others):
        for epoch in (1, 2**62) if version >= 5 else (1,):
            sender = Sender(CONTROLLER, BrokerEpoch(epoch))
            frame = encoder.encode(request, versions, sender.broker_epoch)
            assert frame.body == body(update_metadata_request(request, version, sender))


def test_metadata_is_encoded_anew_for_another_version() -> None:
    """Brokers of two versions in one cluster each get their own bytes."""
    encoder = Encoder(CONTROLLER, ListenerChoice())
    frames = [
        encoder.encode(UPDATE_METADATA, Versions(4, 3, version), SENDER.broker_epoch)
        for version in (5, 6, 5)
    ]
    assert [frame.body for frame in frames] == [
        golden("update_metadata_request", version) for version in (5, 6, 5)
    ]
