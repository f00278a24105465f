"""
Frames of what clients ask of the controller, and of the answers.

Requests are read as strictly as those of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

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
from controller.core.calls.client_requests import ClientAnswer, PartitionResult, RequestFromClient
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.endpoint.codec import (
    ReadableRequest,
    RequestHeader,
    ServedRequest,
    encode_by,
    header_of,
    read_request,
    respond,
)
from controller.endpoint.strict_decoding import Fields, OversizedError
from controller.errors import RemoteProtocolError

_FIRST_WITH_ERROR: Final = 1
"""The first version of ElectLeaders with an error of the whole request in the answer."""
UNCLEAN: Final = 1
"""The election type of ElectLeaders that may lose records (KIP-460)."""
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
TIMEOUT_MAX_S: Final = 60.0
"""The longest time that a request is worked on, whatever its own limit."""


# --- requests ------------------------------------------------------------------------------------


def decode(frame: bytes, client: str) -> tuple[RequestHeader, RequestFromClient | None]:
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
        header, body = read_request(frame, REQUESTS)
    except OversizedError:
        return header_of(frame), None
    found: RequestFromClient = REQUESTS[header.api_key].value_of(body, client)
    return header, found


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


def partitions_of(request: RequestFromClient) -> int:
    """Return how many partitions a request of ``SERVED`` names."""
    if isinstance(request, client_requests.AlterReassignments):
        return len(request.targets)
    if isinstance(request, client_requests.ElectLeaders | client_requests.ListReassignments):
        return len(request.partitions or ())
    return 0


# --- answers as the controller -------------------------------------------------------------------


def encode(header: RequestHeader, answer: ClientAnswer) -> bytes:
    """
    Return the frame of an answer, with the length in front of it.

    Raises:
        ProtocolError: the answer is not one to this request, or a value does not fit its field.

    """
    return encode_by(REQUESTS, header, answer)


def refusal(header: RequestHeader, error: int) -> bytes:
    """
    Return the frame of an answer that consists of an error, whatever the request says.

    Raises:
        RemoteProtocolError: the version has no such answer.

    """
    if header.api_key == ApiKey.ElectLeaders and header.version < _FIRST_WITH_ERROR:
        raise RemoteProtocolError("an election of too many partitions")
    return encode(header, REQUESTS[header.api_key].answer(error))


def results_of(answer: ClientAnswer) -> int:
    """Return how many partitions an answer to a request of ``SERVED`` names."""
    if isinstance(answer, client_requests.ListReassignmentsAnswer):
        return len(answer.reassignments)
    return len(getattr(answer, "results", ()))


def _elect_response(version: int, answer: client_requests.ElectLeadersAnswer) -> ApiMessage:
    return ElectLeadersResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        replica_election_results=_results(answer.results),
    )


def _alter_response(version: int, answer: client_requests.AlterReassignmentsAnswer) -> ApiMessage:
    return AlterPartitionReassignmentsResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        error_message=None,
        responses=_results(answer.results),
    )


def _list_response(version: int, answer: client_requests.ListReassignmentsAnswer) -> ApiMessage:
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


REQUESTS: Final[Mapping[int, ServedRequest]] = {
    ApiKey.ElectLeaders: ServedRequest(
        versions=(0, 2),
        message=ElectLeadersRequest,
        value_of=_elect_leaders,
        answer=client_requests.ElectLeadersAnswer,
        message_of=_elect_response,
    ),
    ApiKey.AlterPartitionReassignments: ServedRequest(
        versions=(0, 0),
        message=AlterPartitionReassignmentsRequest,
        folds=(("partitions", _target),),
        value_of=_alter,
        answer=client_requests.AlterReassignmentsAnswer,
        message_of=_alter_response,
    ),
    ApiKey.ListPartitionReassignments: ServedRequest(
        versions=(0, 0),
        message=ListPartitionReassignmentsRequest,
        value_of=_list,
        answer=client_requests.ListReassignmentsAnswer,
        message_of=_list_response,
    ),
}
"""What the daemon answers as the controller, by API key."""
SERVED: Final[Mapping[int, tuple[int, int]]] = {k: r.versions for k, r in REQUESTS.items()}
"""Lowest and highest version of those."""


# --- answers as an entry in the list of brokers --------------------------------------------------


def local_answer(header: RequestHeader, frame: bytes, own_id: int) -> bytes | None:
    """
    Return the answer to a request that concerns the daemon as one of the listed brokers.

    It has no log directory, group, transaction or setting. None: the request is about something
    else, or has a version for which a broker has to answer.

    Raises:
        RemoteProtocolError: it is malformed.

    """
    known = _ENTRY_REQUESTS.get(header.api_key)
    if known is None or not known.versions[0] <= header.version <= known.versions[1]:
        return None
    answer = known.answer_to(header, frame, own_id)
    return None if answer is None else respond(header, answer)


def _no_groups(header: RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    return ListGroupsResponse(version=header.version, throttle_time_ms=0, error_code=0, groups=[])


def _no_log_dirs(header: RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    # Version 0 is laid out as version 1.
    version = max(header.version, 1)
    return DescribeLogDirsResponse(version=version, throttle_time_ms=0, error_code=0, results=[])


def _no_transactions(header: RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    return ListTransactionsResponse(
        version=header.version,
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=[],
        transaction_states=[],
    )


def _own_resources(
    header: RequestHeader, frame: bytes, own_id: int, message: type[ApiMessage]
) -> list[tuple[int, str]]:
    """Return the type and name of the resources, if all are the daemon as a broker."""
    known = _ENTRY_REQUESTS[header.api_key]
    readable = ReadableRequest(versions=known.versions, message=message)
    _, body = read_request(frame, {header.api_key: readable})
    named = [(r["resource_type"], r["resource_name"]) for r in body["resources"]]
    ours = {(kind, str(own_id)) for kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER)}
    return named if ours.issuperset(named) else []


def _no_settings(header: RequestHeader, frame: bytes, own_id: int) -> ApiMessage | None:
    """Answer that the daemon has no settings."""
    named = _own_resources(header, frame, own_id, DescribeConfigsRequest)
    if not named:
        return None
    rows: list[object] = [(0, None, kind, name, []) for kind, name in named]
    return DescribeConfigsResponse(version=header.version, throttle_time_ms=0, results=rows)


def _no_changes(header: RequestHeader, frame: bytes, own_id: int) -> ApiMessage | None:
    """Answer that changing the settings of the daemon succeeds."""
    named = _own_resources(header, frame, own_id, IncrementalAlterConfigsRequest)
    if not named:
        return None
    rows = [(0, None, kind, name) for kind, name in named]
    return IncrementalAlterConfigsResponse(
        version=header.version, throttle_time_ms=0, responses=rows
    )


class _EntryRequest(NamedTuple):
    """A kind of request that concerns the daemon as an entry in the list of brokers."""

    versions: tuple[int, int]
    answer_to: Callable[[RequestHeader, bytes, int], ApiMessage | None]


_ENTRY_REQUESTS: Final[Mapping[int, _EntryRequest]] = {
    ApiKey.ListGroups: _EntryRequest((0, 5), _no_groups),
    ApiKey.DescribeConfigs: _EntryRequest((1, 4), _no_settings),
    ApiKey.DescribeLogDirs: _EntryRequest((0, 4), _no_log_dirs),
    ApiKey.IncrementalAlterConfigs: _EntryRequest((0, 1), _no_changes),
    ApiKey.ListTransactions: _EntryRequest((0, 1), _no_transactions),
}
LOCAL: Final[Mapping[int, tuple[int, int]]] = {k: r.versions for k, r in _ENTRY_REQUESTS.items()}
"""Lowest and highest version of what concerns the daemon as an entry in the list of brokers."""
