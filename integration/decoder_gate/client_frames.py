"""
Answers to clients and requests of clients, each with the fields that it consists of.

Fields have Kafka's names, as its JSON converters write them.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.api_key import ApiKey

from controller.core.calls.client_requests import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    CreatePartitionsAnswer,
    CreateTopicsAnswer,
    EffectiveConfig,
    ElectLeaders,
    ElectLeadersAnswer,
    ListReassignments,
    ListReassignmentsAnswer,
    MorePartitions,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
)
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.core.topics.model import TopicResult
from controller.endpoint import client_codec, codec, topic_codec
from controller.endpoint.topic_codec import (
    DeletionResult,
    NamedTopic,
    TopicsWanted,
)

OWN_ID: Final = 1_000_000
CLIENT: Final = "kafka-reassign"
LONG: Final = "p" * 249
"""The longest name of a topic."""
RESULTS: Final = (
    PartitionResult(TopicPartition("orders", 0), 0),
    PartitionResult(TopicPartition("orders", 2**31 - 1), 39, "broker 9 is not live: é"),
    PartitionResult(TopicPartition(LONG, 2), 85),
)
VERSIONS: Final = {
    **client_codec.SERVED,
    **{key: request.versions for key, request in client_codec.ENTRY_REQUESTS.items()},
    **topic_codec.TOPICS_SERVED,
}
TOPIC_ID: Final = "AQIDBAUGBwgJCgsMDQ4PEA"
SETTINGS: Final = (
    EffectiveConfig("retention.ms", "604800000", False, 5, False),  # noqa: FBT003 - in order
    EffectiveConfig("secret", None, True, 1, True),  # noqa: FBT003 - in order
)


_BY_NAME: Final = (
    DeletionResult(NamedTopic(LONG, None), 3),
    DeletionResult(NamedTopic("orders", None), 73, "Topic deletion is disabled: é"),
)


def answer(  # noqa: PLR0911 - one return per request
    key: int, version: int, *, is_full: bool
) -> tuple[bytes, object]:
    """Return the frame of an answer, and the fields that a client has to read."""
    header = codec.RequestHeader(key, version, -2_000_000_001, "1")
    match key:
        case ApiKey.ElectLeaders:
            given = ElectLeadersAnswer(0, RESULTS) if is_full else ElectLeadersAnswer(41)
            meant: dict[str, object] = {
                "throttleTimeMs": 0,
                **({"errorCode": given.error} if version >= 1 else {}),
                "replicaElectionResults": _results(
                    given.results, "topic", "partitionResult", "partitionId"
                ),
            }
            return client_codec.encode(header, given), meant
        case ApiKey.AlterPartitionReassignments:
            altered = AlterReassignmentsAnswer(0 if is_full else 41, RESULTS * is_full)
            meant = {
                "throttleTimeMs": 0,
                "errorCode": altered.error,
                "errorMessage": None,
                "responses": _results(altered.results, "name", "partitions", "partitionIndex"),
            }
            return client_codec.encode(header, altered), meant
        case ApiKey.ListPartitionReassignments:
            ongoing = OngoingReassignment(
                TopicPartition(LONG, 7), _ids(3, 4, 1), _ids(3, 4), _ids(1)
            )
            listed = ListReassignmentsAnswer(0 if is_full else 41, (ongoing,) * is_full)
            rows = [
                {
                    "partitionIndex": 7,
                    "replicas": [3, 4, 1],
                    "addingReplicas": [3, 4],
                    "removingReplicas": [1],
                }
            ]
            meant = {
                "throttleTimeMs": 0,
                "errorCode": listed.error,
                "errorMessage": None,
                "topics": [{"name": LONG, "partitions": rows}] * is_full,
            }
            return client_codec.encode(header, listed), meant
        case ApiKey.CreateTopics:
            return _created(header, is_full=is_full)
        case ApiKey.CreatePartitions:
            results = (TopicResult("orders", 0, None, 9), TopicResult(LONG, 37, "why: é"))
            grown = CreatePartitionsAnswer(0, results * is_full)
            rows = [
                {"name": r.name, "errorCode": r.error, "errorMessage": r.message}
                for r in grown.results
            ]
            meant = {"throttleTimeMs": 0, "results": rows}
            return topic_codec.encode(header, grown, {}), meant
        case ApiKey.DeleteTopics:
            return _deleted(header, is_full=is_full)
        case _:
            return _local(header), _nothing(key, version)


def _created(header: codec.RequestHeader, *, is_full: bool) -> tuple[bytes, object]:
    """Return the answer about a topic with settings, one without, and one that is refused."""
    results = (
        TopicResult("orders", 0, None, 12, 3, TOPIC_ID),
        TopicResult("hidden", 0, None, 12, 3, TOPIC_ID),
        TopicResult(LONG, 36, "Topic exists: é"),
    )
    given = CreateTopicsAnswer(0, results * is_full)
    frame = topic_codec.encode(header, given, {"orders": SETTINGS, "hidden": 29})
    rows: list[dict[str, object]] = []
    for result in given.results:
        row: dict[str, object] = {
            "name": result.name,
            "errorCode": result.error,
            **({"errorMessage": result.message} if header.version >= 1 else {}),
        }
        is_shown = result.name == "orders"
        if header.version >= 5:
            shown = {
                "numPartitions": 12 if is_shown else -1,
                "replicationFactor": 3 if is_shown else -1,
                "configs": [
                    {
                        "name": c.name,
                        "value": c.value,
                        "readOnly": c.read_only,
                        "configSource": c.config_source,
                        "isSensitive": c.is_sensitive,
                    }
                    for c in (SETTINGS if is_shown else ())
                ],
            }
            row |= shown
            if result.name == "hidden":
                row["topicConfigErrorCode"] = 29
        if header.version >= 7:
            row["topicId"] = "A" * 22 if result.error else TOPIC_ID
        rows.append(row)
    throttle = {"throttleTimeMs": 0} if header.version >= 2 else {}
    return frame, {**throttle, "topics": rows}


def _deleted(header: codec.RequestHeader, *, is_full: bool) -> tuple[bytes, object]:
    """Return the answer about topics that are named by a name, by an id, and not at all."""
    results = [DeletionResult(NamedTopic("orders", None), 0), *_BY_NAME]
    if header.version >= 6:
        results += [
            DeletionResult(NamedTopic("orders", TOPIC_ID), 0),
            DeletionResult(NamedTopic(None, TOPIC_ID), 100, "why: é"),
        ]
    given = results if is_full else []
    rows: list[dict[str, object]] = [
        {
            "name": topic.name,
            "errorCode": error,
            **({"errorMessage": message} if header.version >= 5 else {}),
            **({"topicId": topic.topic_id or "A" * 22} if header.version >= 6 else {}),
        }
        for topic, error, message in given
    ]
    throttle = {"throttleTimeMs": 0} if header.version >= 1 else {}
    return topic_codec.encode_deletion(header, given), {**throttle, "responses": rows}


def _local(header: codec.RequestHeader) -> bytes:
    frame = settings_request(header) if header.api_key in {32, 44} else b""
    local = client_codec.local_answer(header, frame, OWN_ID)
    assert local is not None
    return local


def settings_request(header: codec.RequestHeader, name: str = str(OWN_ID)) -> bytes:
    """Return the frame of a request about the settings of a broker, ours by default."""
    if header.api_key == ApiKey.DescribeConfigs:
        message = DescribeConfigsRequest(version=header.version, resources=[(4, name, None)])
    else:
        message = IncrementalAlterConfigsRequest(
            version=header.version,
            resources=[(4, name, [("leader.replication.throttled.rate", 1, None)])],
            validate_only=False,
        )
    message.with_header(correlation_id=header.correlation_id, client_id=header.client_id)
    return bytes(message.encode(header=True))


def _nothing(key: int, version: int) -> dict[str, object]:
    ours = {
        "errorCode": 0,
        "errorMessage": None,
        "resourceType": 4,
        "resourceName": str(OWN_ID),
    }
    throttle: dict[str, object] = {"throttleTimeMs": 0}
    match key:
        case ApiKey.ListGroups:
            return {**(throttle if version >= 1 else {}), "errorCode": 0, "groups": []}
        case ApiKey.DescribeLogDirs:
            return {**throttle, **({"errorCode": 0} if version >= 3 else {}), "results": []}
        case ApiKey.ListTransactions:
            empty: dict[str, object] = {"unknownStateFilters": [], "transactionStates": []}
            return {**throttle, "errorCode": 0, **empty}
        case ApiKey.DescribeConfigs:
            return {**throttle, "results": [{**ours, "configs": []}]}
        case _:
            return {**throttle, "responses": [ours]}


def _results(
    results: tuple[PartitionResult, ...], name: str, rows: str, number: str
) -> list[dict[str, object]]:
    return [
        {
            name: topic,
            rows: [
                {number: r.partition.partition, "errorCode": r.error, "errorMessage": r.message}
                for r in results
                if r.partition.topic == topic
            ],
        }
        for topic in dict.fromkeys(r.partition.topic for r in results)
    ]


def request(
    key: int, version: int, release: str, *, is_full: bool
) -> tuple[dict[str, Any], object]:
    """Return the fields of a request of a client, and the value that it has to become."""
    one = TopicPartition("orders", 0)
    two = TopicPartition(LONG, 7)
    match key:
        case ApiKey.ElectLeaders:
            numbers = "partitionId" if release in {"2.7.2", "2.8.2"} else "partitions"
            kind = {"electionType": 0} if version >= 1 else {}
            topics = [
                {"topic": "orders", numbers: [0]},
                {"topic": LONG, numbers: [7]},
            ]
            fields = {**kind, "topicPartitions": topics if is_full else None, "timeoutMs": 12_500}
            return fields, ElectLeaders((one, two) if is_full else None, 12.5)
        case ApiKey.AlterPartitionReassignments:
            moved = [{"partitionIndex": 0, "replicas": [3, 4]}]
            cancelled = [{"partitionIndex": 7, "replicas": None}]
            listed = [
                {"name": "orders", "partitions": moved},
                {"name": LONG, "partitions": cancelled},
            ]
            targets: dict[TopicPartition, Replicas | None] = {one: _ids(3, 4), two: None}
            return (
                {"timeoutMs": 60_000, "topics": listed if is_full else []},
                AlterReassignments(targets if is_full else {}, CLIENT),
            )
        case ApiKey.CreateTopics:
            placed = [{"partitionIndex": 1, "brokerIds": [3, 4]}]
            chosen = {"numPartitions": -1, "replicationFactor": -1, "assignments": placed}
            named = [{"name": "a", "value": "é"}, {"name": "b", "value": None}]
            new: dict[str, object] = {"name": LONG, **chosen, "configs": named}
            topic = NewTopic(LONG, -1, -1, ((1, _ids(3, 4)),), (("a", "é"), ("b", None)), "")
            only = is_full and version >= 1
            return (
                {"timeoutMs": 12_500, "validateOnly": only, "topics": [new] * is_full},
                _topics(12.5, new=(topic,) * is_full, validate_only=only),
            )
        case ApiKey.DeleteTopics:
            return _deletion(version, is_full=is_full)
        case ApiKey.CreatePartitions:
            added = [{"brokerIds": [3, 4]}, {"brokerIds": [1]}]
            grown_too: list[dict[str, object]] = [
                {"name": LONG, "count": 2**31 - 1, "assignments": added},
                {"name": "orders", "count": 5, "assignments": None},
            ]
            more = (
                MorePartitions(LONG, 2**31 - 1, (_ids(3, 4), _ids(1))),
                MorePartitions("orders", 5, None),
            )
            wanted = _topics(-0.001, more=more if is_full else (), validate_only=is_full)
            if not is_full:
                grown_too.clear()
            return {"timeoutMs": -1, "validateOnly": is_full, "topics": grown_too}, wanted
        case _:
            named = [{"name": LONG, "partitionIndexes": [7]}]
            return (
                {"timeoutMs": 60_000, "topics": named if is_full else None},
                ListReassignments(frozenset({two}) if is_full else None),
            )


def _deletion(version: int, *, is_full: bool) -> tuple[dict[str, Any], object]:
    """Return a request that names topics by their names, and as of version 6 also by an id."""
    doomed = (NamedTopic(LONG, None), NamedTopic("orders", None)) * is_full
    if version < 6:
        names = [topic.name for topic in doomed]
        return {"topicNames": names, "timeoutMs": 12_500}, _topics(12.5, deleted=doomed)
    doomed += (NamedTopic(None, TOPIC_ID),) * is_full
    rows = [{"name": t.name, "topicId": t.topic_id or "A" * 22} for t in doomed]
    return {"topics": rows, "timeoutMs": -1}, _topics(-0.001, deleted=doomed)


def _topics(
    timeout_s: float,
    *,
    new: tuple[NewTopic, ...] = (),
    more: tuple[MorePartitions, ...] = (),
    deleted: tuple[NamedTopic, ...] = (),
    validate_only: bool = False,
) -> TopicsWanted:
    return TopicsWanted(
        new=new, more=more, deleted=deleted, timeout_s=timeout_s, validate_only=validate_only
    )


def _ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)
