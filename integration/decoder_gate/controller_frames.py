"""Requests of the controller, each with the fields that it consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controller.brokers.connection_settings import ListenerChoice
from controller.brokers.controller_requests import (
    Sender,
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor import ports

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
VERSIONS: Final = {LEADER_AND_ISR: (1, 7), STOP_REPLICA: (0, 4), UPDATE_METADATA: (4, 8)}
"""What ``brokers.controller_requests`` builds."""
ORDERS_ID: Final = "Tm9wZSBub3RoaW5nIGhlcg"
PAYMENTS_ID: Final = "c29tZXRoaW5nIGVsc2UgIQ"
EPOCH: Final = BrokerEpoch(25769803801)
SENDER: Final = Sender(BrokerId(1_000_000), EPOCH)
CONTROLLER_EPOCH: Final = ControllerEpoch(17)
BROKER: Final = LiveBroker(
    BrokerId(1),
    BrokerEpoch(1),
    (
        Endpoint("INTERNAL", "broker-1.example", 9092, "PLAINTEXT"),
        Endpoint("EXTERNAL", "broker-1.example", 9093, "SASL_SSL"),
    ),
    rack="rack-a",
)
STATES: Final = (
    ("orders", 0, ORDERS_ID, 0),
    ("orders", 7, ORDERS_ID, 1),
    ("payments", 2, PAYMENTS_ID, 0),
)
"""Topic, partition, id and recovery state of what the controller sends."""


def _leader_and_isr(version: int) -> Any:  # noqa: ANN401 - a class of kafka-python
    states = tuple(
        ports.LeaderAndIsrState(
            partition=TopicPartition(topic, partition),
            controller_epoch=CONTROLLER_EPOCH,
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(5),
            isr=_ids(1, 2),
            partition_epoch=ZkVersion(41),
            replicas=_ids(1, 2, 3),
            adding_replicas=_ids(3),
            removing_replicas=_ids(2),
            is_new=bool(partition),
            topic_id=topic_id,
            leader_recovery_state=recovery,
        )
        for topic, partition, topic_id, recovery in STATES
    )
    request = ports.LeaderAndIsr(CONTROLLER_EPOCH, states, (BROKER,))
    return leader_and_isr_request(request, version, SENDER, ListenerChoice())


def _leader_and_isr_fields(version: int) -> dict[str, object]:
    rows = [
        {
            "topicName": topic,
            **_partition_fields(partition),
            **({"addingReplicas": [3], "removingReplicas": [2]} if version >= 3 else {}),
            "isNew": bool(partition),
            **({"leaderRecoveryState": recovery} if version >= 6 else {}),
        }
        for topic, partition, _, recovery in STATES
    ]
    leaders = [{"brokerId": 1, "hostName": "broker-1.example", "port": 9092}]
    return {
        **_sender_fields(version, epoch_from=2, kraft_from=7),
        **({"type": 0} if version >= 5 else {}),
        **_grouped(rows, grouped=version >= 2, with_id=version >= 5),
        "liveLeaders": leaders,
    }


def _update_metadata(version: int) -> Any:  # noqa: ANN401 - a class of kafka-python
    states = tuple(
        ports.UpdateMetadataState(
            partition=TopicPartition(topic, partition),
            controller_epoch=CONTROLLER_EPOCH,
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(5),
            isr=_ids(1, 2),
            partition_epoch=ZkVersion(41),
            replicas=_ids(1, 2, 3),
            offline_replicas=_ids(3),
            topic_id=topic_id,
        )
        for topic, partition, topic_id, _ in STATES
    )
    request = ports.UpdateMetadata(CONTROLLER_EPOCH, states, (BROKER,))
    return update_metadata_request(request, version, SENDER)


def _update_metadata_fields(version: int) -> dict[str, object]:
    rows = [
        {"topicName": topic, **_partition_fields(partition), "offlineReplicas": [3]}
        for topic, partition, _, _ in STATES
    ]
    endpoints = [
        {
            "port": e.port,
            "host": e.host,
            "listener": e.listener,
            "securityProtocol": 0 if e.listener == "INTERNAL" else 3,
        }
        for e in BROKER.endpoints
    ]
    return {
        **_sender_fields(version, epoch_from=5, kraft_from=8),
        **_grouped(rows, grouped=version >= 5, with_id=version >= 7),
        "liveBrokers": [{"id": 1, "endpoints": endpoints, "rack": "rack-a"}],
    }


def _stop_replica(version: int) -> Any:  # noqa: ANN401 - a class of kafka-python
    states = tuple(
        ports.StopReplicaState(TopicPartition(topic, partition), LeaderEpoch(5), delete=True)
        for topic, partition, _, _ in STATES
    )
    return stop_replica_request(ports.StopReplica(CONTROLLER_EPOCH, states), version, SENDER)


def _stop_replica_fields(version: int) -> dict[str, object]:
    common = _sender_fields(version, epoch_from=1, kraft_from=4)
    if version >= 3:
        rows = [
            {"topicName": t, "partitionIndex": p, "leaderEpoch": 5, "deletePartition": True}
            for t, p, _, _ in STATES
        ]
        return common | _grouped(rows, grouped=True, with_id=False)
    common["deletePartitions"] = True
    if version == 0:
        ungrouped = [{"topicName": t, "partitionIndex": p} for t, p, _, _ in STATES]
        return common | {"ungroupedPartitions": ungrouped}
    return common | {
        "topics": [
            {"name": name, "partitionIndexes": [p for t, p, _, _ in STATES if t == name]}
            for name in ("orders", "payments")
        ]
    }


def _sender_fields(version: int, *, epoch_from: int, kraft_from: int) -> dict[str, object]:
    return {
        "controllerId": 1_000_000,
        "controllerEpoch": 17,
        **({"brokerEpoch": EPOCH} if version >= epoch_from else {}),
        **({"isKRaftController": False} if version >= kraft_from else {}),
    }


def _partition_fields(partition: int) -> dict[str, object]:
    return {
        "partitionIndex": partition,
        "controllerEpoch": 17,
        "leader": 1,
        "leaderEpoch": 5,
        "isr": [1, 2],
        "partitionEpoch": 41,
        "replicas": [1, 2, 3],
    }


def _grouped(
    rows: list[dict[str, object]], *, grouped: bool, with_id: bool
) -> dict[str, list[dict[str, object]]]:
    """Return the rows of a controller's request as its version lists them."""
    if not grouped:
        return {"ungroupedPartitionStates": rows}
    ids = {topic: topic_id for topic, _, topic_id, _ in STATES}
    return {
        "topicStates": [
            {
                "topicName": topic,
                **({"topicId": ids[topic]} if with_id else {}),
                "partitionStates": [
                    {name: value for name, value in row.items() if name != "topicName"}
                    for row in rows
                    if row["topicName"] == topic
                ],
            }
            for topic in ids
        ]
    }


def _ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)


REQUESTS: Final[dict[int, tuple[Callable[[int], Any], Callable[[int], dict[str, object]]]]] = {
    LEADER_AND_ISR: (_leader_and_isr, _leader_and_isr_fields),
    STOP_REPLICA: (_stop_replica, _stop_replica_fields),
    UPDATE_METADATA: (_update_metadata, _update_metadata_fields),
}
"""By API key: what builds the message of a version, and what its fields are."""
