"""
Answers of the endpoint and requests of brokers, each with the fields that it consists of.

Fields have Kafka's names, as its JSON converters write them.
"""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

from kafka.protocol.api_key import ApiKey

from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrChange,
    IsrResult,
    ProducerIdsAnswer,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.endpoint import codec

EPOCH: Final = BrokerEpoch(25769803801)


class _Topic(NamedTuple):
    name: str
    id: str


ORDERS: Final = _Topic("orders", "Tm9wZSBub3RoaW5nIGhlcg")
PAYMENTS: Final = _Topic("p" * 249, "c29tZXRoaW5nIGVsc2UgIQ")
"""With the longest name that Kafka allows."""
BROKER: Final[dict[str, Any]] = {"brokerId": 4, "brokerEpoch": EPOCH}
CLIENT: Final[dict[str, Any]] = {
    "clientSoftwareName": "apache-kafka-java",
    "clientSoftwareVersion": "3.9.1",
}


def answer(key: int, version: int, *, is_full: bool) -> tuple[codec.Answer | None, object]:
    """Return an answer, None for ApiVersions, and the fields that a broker has to read."""
    match key:
        case ApiKey.ControlledShutdown:
            left = (TopicPartition("orders", 7), TopicPartition("payments", 2)) if is_full else ()
            rows = [{"topicName": p.topic, "partitionIndex": p.partition} for p in left]
            error = 0 if is_full else 77
            meant: dict[str, object] = {"errorCode": error, "remainingPartitions": rows}
            return ControlledShutdownAnswer(error, left), meant
        case ApiKey.SaslHandshake:
            enabled = ("PLAIN", "SCRAM-SHA-512") if is_full else ()
            return codec.SaslHandshakeAnswer(enabled), {
                "errorCode": 0,
                "mechanisms": list(enabled),
            }
        case ApiKey.ApiVersions:
            return None, _api_versions(version)
        case ApiKey.SaslAuthenticate:
            proof = b"\x00v=proof\xff" if is_full else b""
            meant = {"errorCode": 0, "errorMessage": None, "authBytes": _base64(proof)}
            return codec.SaslAuthenticate(proof), (
                meant | ({"sessionLifetimeMs": 0} if version >= 1 else {})
            )
        case ApiKey.AlterPartition:
            return _alter_partition_answer(version, is_full=is_full)
        case _:
            first, length, error = (2**40, 1000, 0) if is_full else (0, 0, 41)
            meant = {"throttleTimeMs": 0, "errorCode": error}
            return ProducerIdsAnswer(error, first, length), (
                meant | {"producerIdStart": first, "producerIdLen": length}
            )


def _api_versions(version: int) -> dict[str, object]:
    listed = [
        {"apiKey": key, "minVersion": low, "maxVersion": high}
        for key, (low, high) in sorted(codec.ADVERTISED.items())
    ]
    throttle = {"throttleTimeMs": 0} if version >= 1 else {}
    return {"errorCode": 0, "apiKeys": listed, **throttle}


def _alter_partition_answer(
    version: int, *, is_full: bool
) -> tuple[AlterPartitionAnswer, dict[str, object]]:
    if not is_full:
        return AlterPartitionAnswer(41), {"throttleTimeMs": 0, "errorCode": 41, "topics": []}
    results = (
        _isr_result(ORDERS, 0, isr=(1, 2, 3)),
        _isr_result(ORDERS, 2**31 - 1, isr=(3,), recovery=1),
        _isr_result(PAYMENTS, 2, error=95, isr=()),
    )
    topics = [
        {
            **({"topicId": topic.id} if version >= 2 else {"topicName": topic.name}),
            "partitions": [_isr_fields(version, r) for r in results if r.topic == topic.name],
        }
        for topic in (ORDERS, PAYMENTS)
    ]
    meant = {"throttleTimeMs": 0, "errorCode": 0, "topics": topics}
    return AlterPartitionAnswer(0, results), meant


def _isr_result(
    topic: _Topic,
    partition: int,
    *,
    isr: tuple[int, ...],
    error: int = 0,
    recovery: int = 0,
) -> IsrResult:
    return IsrResult(
        topic=topic.name,
        topic_id=topic.id,
        partition=partition,
        error=error,
        leader=BrokerId(3),
        leader_epoch=LeaderEpoch(12),
        isr=_ids(*isr),
        leader_recovery_state=recovery,
        partition_epoch=ZkVersion(42),
    )


def _isr_fields(version: int, result: IsrResult) -> dict[str, object]:
    recovery = {"leaderRecoveryState": result.leader_recovery_state} if version >= 1 else {}
    return {
        "partitionIndex": result.partition,
        "errorCode": result.error,
        "leaderId": result.leader,
        "leaderEpoch": result.leader_epoch,
        "isr": list(result.isr),
        "partitionEpoch": result.partition_epoch,
        **recovery,
    }


def request(key: int, version: int) -> tuple[dict[str, Any], codec.Request]:
    """Return the fields of a request, and the value that it has to become."""
    match key:
        case ApiKey.ControlledShutdown:
            epoch = EPOCH if version >= 2 else None
            fields = BROKER if version >= 2 else {"brokerId": 4}
            return fields, ControlledShutdown(BrokerId(4), epoch)
        case ApiKey.SaslHandshake:
            return {"mechanism": "SCRAM-SHA-512"}, codec.SaslHandshake("SCRAM-SHA-512")
        case ApiKey.ApiVersions:
            return CLIENT if version >= 3 else {}, codec.ApiVersions()
        case ApiKey.SaslAuthenticate:
            token = b"\x00user\x00s\xc3\xa9cret" * 20
            return {"authBytes": _base64(token)}, codec.SaslAuthenticate(token)
        case ApiKey.AlterPartition:
            return _alter_partition(version)
        case _:
            return BROKER, AllocateProducerIds(BrokerId(4), EPOCH)


def _alter_partition(version: int) -> tuple[dict[str, Any], AlterPartition]:
    changes = (
        _isr_change(version, ORDERS, 0, isr=(1, 2, 3)),
        _isr_change(version, ORDERS, 2**31 - 1, isr=(), recovery=1),
        _isr_change(version, PAYMENTS, 2, isr=tuple(range(200))),
    )
    topics = [
        _changed_topic(version, changes[:2], ORDERS),
        _changed_topic(version, changes[2:], PAYMENTS),
    ]
    value = AlterPartition(BrokerId(4), EPOCH, version, changes)
    return BROKER | {"topics": topics}, value


def _isr_change(
    version: int,
    topic: _Topic,
    partition: int,
    *,
    isr: tuple[int, ...],
    recovery: int = 0,
) -> IsrChange:
    by_id = version >= 2
    return IsrChange(
        topic=None if by_id else topic.name,
        topic_id=topic.id if by_id else None,
        partition=partition,
        leader_epoch=LeaderEpoch(12),
        isr=_ids(*isr),
        leader_recovery_state=recovery if version >= 1 else 0,
        partition_epoch=ZkVersion(41),
    )


def _changed_topic(
    version: int, changes: tuple[IsrChange, ...], topic: _Topic
) -> dict[str, object]:
    named = {"topicId": topic.id} if version >= 2 else {"topicName": topic.name}
    return {**named, "partitions": [_change_fields(version, change) for change in changes]}


def _change_fields(version: int, change: IsrChange) -> dict[str, object]:
    fields: dict[str, object] = {
        "partitionIndex": change.partition,
        "leaderEpoch": change.leader_epoch,
        "partitionEpoch": change.partition_epoch,
    }
    if version >= 1:
        fields["leaderRecoveryState"] = change.leader_recovery_state
    if version >= 3:
        with_epochs = [{"brokerId": b, "brokerEpoch": -1} for b in change.isr]
        return fields | {"newIsrWithEpochs": with_epochs}
    return fields | {"newIsr": list(change.isr)}


# --- names of fields -----------------------------------------------------------------------------

_FORMER: Final = {"currentIsrVersion": "partitionEpoch", "zkVersion": "partitionEpoch"}


def of_today(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return what a release read with the names of 3.9: fields were renamed, bytes were not."""
    if isinstance(value, list):
        return [of_today(v) for v in value]
    if not isinstance(value, dict):
        return value
    named = {_FORMER.get(name, name): of_today(v) for name, v in value.items()}
    if "partitions" in named and "name" in named:
        named["topicName"] = named.pop("name")
    return named


def of_release(value: Any, release: str) -> Any:  # noqa: ANN401 - JSON
    """Return the fields of an AlterPartition with the names that a release has."""
    if isinstance(value, list):
        return [of_release(v, release) for v in value]
    if not isinstance(value, dict):
        return value
    former = {}
    if release < "3.3":
        former["topicName"] = "name"
    if release < "3":
        former["partitionEpoch"] = "currentIsrVersion"
    return {former.get(name, name): of_release(v, release) for name, v in value.items()}


def _ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
