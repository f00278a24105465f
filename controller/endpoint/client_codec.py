"""
Frames of what clients ask of the controller, and of the answers.

Requests are read as strictly as those of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller.core.calls import client_requests
from controller.core.calls.client_requests import ClientAnswer, ClientAsk, PartitionResult
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.endpoint.codec import RequestHeader, header_of, read_request, respond
from controller.endpoint.strict_decoding import Fields, Folds, OversizedError
from controller.errors import ProtocolError, RemoteProtocolError

SERVED: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.ElectLeaders: (0, 2),
    ApiKey.AlterPartitionReassignments: (0, 0),
    ApiKey.ListPartitionReassignments: (0, 0),
}
"""Lowest and highest version of what the daemon answers as the controller."""
LOCAL: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.ListGroups: (0, 5),
    ApiKey.DescribeConfigs: (1, 4),
    ApiKey.DescribeLogDirs: (0, 4),
    ApiKey.IncrementalAlterConfigs: (0, 1),
    ApiKey.ListTransactions: (0, 1),
}
"""The same for what concerns the daemon as an entry in the list of brokers."""

_FIRST_WITH_ERROR: Final = 1
"""The first version of ElectLeaders with an error of the whole request in the answer."""
UNCLEAN: Final = 1
"""The election type of ElectLeaders that may lose records (KIP-460)."""
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
TIMEOUT_MAX_S: Final = 60.0
"""The longest time that a request is worked on, whatever its own limit."""


# --- requests ------------------------------------------------------------------------------------


def decode(frame: bytes, client: str) -> tuple[RequestHeader, ClientAsk | None]:
    """
    Read a request of ``SERVED``.

    Args:
        frame: Header and body, without the length in front of them.
        client: Who asks, for the record of a request.

    Returns:
        None in place of a request that is about more than a cluster has: ``refusal`` answers it.

    Raises:
        RemoteProtocolError: it is malformed, or not one of ``SERVED``.

    """
    try:
        header, body = read_request(frame, _REQUESTS, SERVED, _FOLDS)
    except OversizedError:
        return header_of(frame), None
    return header, _ASKS[header.api_key](body, client)


def _elect_leaders(body: Fields, _client: str) -> client_requests.ElectLeaders:
    kind = body.get("election_type", 0)
    if kind not in (0, UNCLEAN):
        raise RemoteProtocolError(f"election type {kind}")
    return client_requests.ElectLeaders(
        _partitions(body["topic_partitions"], "topic", "partitions"),
        _timeout_s(body),
        is_unclean=kind == UNCLEAN,
    )


def _alter(body: Fields, client: str) -> client_requests.AlterReassignments:
    return client_requests.AlterReassignments(
        {
            TopicPartition(topic["name"], number): replicas
            for topic in body["topics"]
            for number, replicas in topic["partitions"]
        },
        client,
    )


def _target(row: Fields) -> tuple[int, Replicas | None]:
    replicas = row["replicas"]
    return row["partition_index"], None if replicas is None else tuple(map(BrokerId, replicas))


_FOLDS: Final[Mapping[int, Folds]] = {
    ApiKey.AlterPartitionReassignments: (("partitions", _target),)
}


def _list(body: Fields, _client: str) -> client_requests.ListReassignments:
    named = _partitions(body["topics"], "name", "partition_indexes")
    return client_requests.ListReassignments(None if named is None else frozenset(named))


def _partitions(
    topics: list[Fields] | None, name: str, numbers: str
) -> tuple[TopicPartition, ...] | None:
    if topics is None:
        return None
    return tuple(
        dict.fromkeys(TopicPartition(topic[name], n) for topic in topics for n in topic[numbers])
    )


def _timeout_s(body: Fields) -> float:
    timeout_ms: int = body["timeout_ms"]
    return min(max(timeout_ms, 0) / 1000, TIMEOUT_MAX_S)


_REQUESTS: Final[Mapping[int, Any]] = {
    ApiKey.ElectLeaders: ElectLeadersRequest,
    ApiKey.AlterPartitionReassignments: AlterPartitionReassignmentsRequest,
    ApiKey.ListPartitionReassignments: ListPartitionReassignmentsRequest,
}
_ASKS: Final[Mapping[int, Callable[[Fields, str], ClientAsk]]] = {
    ApiKey.ElectLeaders: _elect_leaders,
    ApiKey.AlterPartitionReassignments: _alter,
    ApiKey.ListPartitionReassignments: _list,
}


def partitions_of(asked: ClientAsk) -> int:
    """Return how many partitions a request of ``SERVED`` names."""
    if isinstance(asked, client_requests.AlterReassignments):
        return len(asked.targets)
    if isinstance(asked, client_requests.ElectLeaders | client_requests.ListReassignments):
        return len(asked.partitions or ())
    return 0


# --- answers as the controller -------------------------------------------------------------------


def encode(header: RequestHeader, answer: ClientAnswer) -> bytes:
    """
    Return the frame of an answer, with the length in front of it.

    Raises:
        ProtocolError: the answer is not one to this request, or a value does not fit its field.

    """
    wanted, message_of = _ANSWERS.get(header.api_key, (None, None))
    if message_of is None or type(answer) is not wanted:
        raise ProtocolError(f"{type(answer).__name__} does not answer API key {header.api_key}")
    return respond(header, message_of(header.version, answer))


def refusal(header: RequestHeader, error: int) -> bytes:
    """
    Return the frame of an answer that consists of an error, whatever the request says.

    Raises:
        RemoteProtocolError: the version has no such answer.

    """
    if header.api_key == ApiKey.ElectLeaders and header.version < _FIRST_WITH_ERROR:
        raise RemoteProtocolError("an election of too many partitions")
    wanted, _ = _ANSWERS[header.api_key]
    return encode(header, wanted(error))


def results_of(answer: ClientAnswer) -> int:
    """Return how many partitions an answer to a request of ``SERVED`` names."""
    if isinstance(answer, client_requests.ListReassignmentsResponse):
        return len(answer.reassignments)
    return len(getattr(answer, "results", ()))


def _elected(version: int, answer: client_requests.ElectLeadersResponse) -> ApiMessage:
    return ElectLeadersResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        replica_election_results=_results(answer.results),
    )


def _altered(version: int, answer: client_requests.AlterReassignmentsResponse) -> ApiMessage:
    return AlterPartitionReassignmentsResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        error_message=None,
        responses=_results(answer.results),
    )


def _listed(version: int, answer: client_requests.ListReassignmentsResponse) -> ApiMessage:
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for (topic, number), *replicas in answer.reassignments:
        topics.setdefault(topic, []).append((number, *replicas))
    return ListPartitionReassignmentsResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        error_message=None,
        topics=list(topics.items()),
    )


def _results(results: Iterable[PartitionResult]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for (topic, number), error, message in results:
        topics.setdefault(topic, []).append((number, error, message))
    return list(topics.items())


_ANSWERS: Final[Mapping[int, tuple[type[Any], Callable[[int, Any], ApiMessage]]]] = {
    ApiKey.ElectLeaders: (client_requests.ElectLeadersResponse, _elected),
    ApiKey.AlterPartitionReassignments: (client_requests.AlterReassignmentsResponse, _altered),
    ApiKey.ListPartitionReassignments: (client_requests.ListReassignmentsResponse, _listed),
}


# --- answers as an entry in the list of brokers --------------------------------------------------


def local_answer(header: RequestHeader, frame: bytes, own_id: int) -> bytes | None:
    """
    Return the answer to a request that concerns the daemon as one of the listed brokers.

    It has no log directory, group, transaction or setting. None: the request is about something
    else, or has a version for which a broker has to answer.

    Raises:
        RemoteProtocolError: it is malformed.

    """
    lowest, highest = LOCAL.get(header.api_key, (0, -1))
    if not lowest <= header.version <= highest:
        return None
    version = header.version
    match header.api_key:
        case ApiKey.ListGroups:
            nothing = ListGroupsResponse(
                version=version, throttle_time_ms=0, error_code=0, groups=[]
            )
        case ApiKey.DescribeLogDirs:
            # Version 0 is laid out as version 1.
            nothing = DescribeLogDirsResponse(
                version=max(version, 1), throttle_time_ms=0, error_code=0, results=[]
            )
        case ApiKey.ListTransactions:
            nothing = ListTransactionsResponse(
                version=version,
                throttle_time_ms=0,
                error_code=0,
                unknown_state_filters=[],
                transaction_states=[],
            )
        case _:
            return _own_settings(header, frame, own_id)
    return respond(header, nothing)


def _own_settings(header: RequestHeader, frame: bytes, own_id: int) -> bytes | None:
    """Return that the daemon has no settings, and that changing them succeeds."""
    _, body = read_request(frame, _SETTINGS, LOCAL)
    named = [(r["resource_type"], r["resource_name"]) for r in body["resources"]]
    ours = {(kind, str(own_id)) for kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER)}
    if not named or not ours.issuperset(named):
        return None
    if header.api_key == ApiKey.DescribeConfigs:
        answer: ApiMessage = DescribeConfigsResponse(
            version=header.version,
            throttle_time_ms=0,
            results=[(0, None, kind, name, []) for kind, name in named],
        )
    else:
        answer = IncrementalAlterConfigsResponse(
            version=header.version,
            throttle_time_ms=0,
            responses=[(0, None, kind, name) for kind, name in named],
        )
    return respond(header, answer)


_SETTINGS: Final[Mapping[int, Any]] = {
    ApiKey.DescribeConfigs: DescribeConfigsRequest,
    ApiKey.IncrementalAlterConfigs: IncrementalAlterConfigsRequest,
}
