"""Frames of what clients ask of the controller, read as strictly as those of brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol import admin
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller.brokers.messages import by_topic
from controller.brokers.topic_configs import BROKER
from controller.core.calls import client_requests
from controller.core.calls.client_requests import ClientAnswer, PartitionResult, RequestFromClient
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.endpoint import codec
from controller.endpoint.strict_decoding import Fields, OversizedError
from controller.errors import RemoteProtocolError

FIRST_WITH_ERROR: Final = 1
"""The first version of ElectLeaders with an error of the whole request in the answer."""
UNCLEAN: Final = 1
"""The election type of ElectLeaders that may lose records (KIP-460)."""
BROKER_LOGGER: Final = 8
"""``ConfigResource.Type.BROKER_LOGGER``."""
TIMEOUT_MAX_S: Final = 60.0
"""The longest time that a request is worked on, whatever its own limit."""


# --- requests ------------------------------------------------------------------------------------


def decode(frame: bytes, client: str) -> tuple[codec.RequestHeader, RequestFromClient | None]:
    """
    Read a request of ``SERVED``, whose record names this client.

    None stands for a request that is about more than a cluster has: ``refusal`` answers it.
    """
    try:
        header, body = codec.read_request(frame, REQUESTS)
    except OversizedError:
        return codec.header_of(frame), None
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


def encode(header: codec.RequestHeader, answer: ClientAnswer) -> bytes:
    """Return the frame of an answer."""
    return codec.encode_by(REQUESTS, header, answer)


def refusal(header: codec.RequestHeader, error: int) -> bytes:
    """Return the frame of an answer that consists of an error; not every version has one."""
    if header.api_key == ApiKey.ElectLeaders and header.version < FIRST_WITH_ERROR:
        raise RemoteProtocolError("an election of too many partitions")
    return encode(header, REQUESTS[header.api_key].answer(error))


def results_of(answer: ClientAnswer) -> int:
    """Return how many partitions an answer to a request of ``SERVED`` names."""
    if isinstance(answer, client_requests.ListReassignmentsAnswer):
        return len(answer.reassignments)
    return len(getattr(answer, "results", ()))


def _list_response(version: int, answer: client_requests.ListReassignmentsAnswer) -> ApiMessage:
    rows = ((topic, (number, *replicas)) for (topic, number), *replicas in answer.reassignments)
    return admin.ListPartitionReassignmentsResponse(
        version=version,
        throttle_time_ms=0,
        error_code=answer.error,
        error_message=None,
        topics=by_topic(rows),
    )


def _results(results: Iterable[PartitionResult]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    return by_topic(
        (topic, (number, error, message)) for (topic, number), error, message in results
    )


REQUESTS: Final[Mapping[int, codec.ServedRequest]] = {
    ApiKey.ElectLeaders: codec.ServedRequest(
        versions=(0, 2),
        message=admin.ElectLeadersRequest,
        value_of=_elect_leaders,
        answer=client_requests.ElectLeadersAnswer,
        message_of=lambda version, answer: admin.ElectLeadersResponse(
            version=version,
            throttle_time_ms=0,
            error_code=answer.error,
            replica_election_results=_results(answer.results),
        ),
    ),
    ApiKey.AlterPartitionReassignments: codec.ServedRequest(
        versions=(0, 0),
        message=admin.AlterPartitionReassignmentsRequest,
        folds=(("partitions", _target),),
        value_of=_alter,
        answer=client_requests.AlterReassignmentsAnswer,
        message_of=lambda version, answer: admin.AlterPartitionReassignmentsResponse(
            version=version,
            throttle_time_ms=0,
            error_code=answer.error,
            error_message=None,
            responses=_results(answer.results),
        ),
    ),
    ApiKey.ListPartitionReassignments: codec.ServedRequest(
        versions=(0, 0),
        message=admin.ListPartitionReassignmentsRequest,
        value_of=_list,
        answer=client_requests.ListReassignmentsAnswer,
        message_of=_list_response,
    ),
}
"""What the daemon answers as the controller, by API key."""
SERVED: Final[Mapping[int, tuple[int, int]]] = {k: r.versions for k, r in REQUESTS.items()}
"""Lowest and highest version of those."""


# --- answers as an entry in the list of brokers --------------------------------------------------


def local_answer(header: codec.RequestHeader, frame: bytes, own_id: int) -> bytes | None:
    """
    Return the answer to a request that concerns the daemon as one of the listed brokers.

    It has no log directory, group, transaction or setting. None: the request is about something
    else, or has a version for which a broker has to answer.
    """
    known = _ENTRY_REQUESTS.get(header.api_key)
    if known is None or not known.versions[0] <= header.version <= known.versions[1]:
        return None
    answer = known.answer_to(header, frame, own_id)
    return None if answer is None else codec.respond(header, answer)


def _no_groups(header: codec.RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    return admin.ListGroupsResponse(
        version=header.version, throttle_time_ms=0, error_code=0, groups=[]
    )


def _no_log_dirs(header: codec.RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    # Version 0 is laid out as version 1.
    version = max(header.version, 1)
    return admin.DescribeLogDirsResponse(
        version=version, throttle_time_ms=0, error_code=0, results=[]
    )


def _no_transactions(header: codec.RequestHeader, _frame: bytes, _own_id: int) -> ApiMessage:
    return admin.ListTransactionsResponse(
        version=header.version,
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=[],
        transaction_states=[],
    )


def _own_resources(
    header: codec.RequestHeader, frame: bytes, own_id: int, message: type[ApiMessage]
) -> list[tuple[int, str]]:
    """Return the type and name of the resources, if all are the daemon as a broker."""
    known = _ENTRY_REQUESTS[header.api_key]
    readable = codec.ReadableRequest(versions=known.versions, message=message)
    _, body = codec.read_request(frame, {header.api_key: readable})
    named = [(r["resource_type"], r["resource_name"]) for r in body["resources"]]
    ours = {(kind, str(own_id)) for kind in (BROKER, BROKER_LOGGER)}
    return named if ours.issuperset(named) else []


def _no_settings(header: codec.RequestHeader, frame: bytes, own_id: int) -> ApiMessage | None:
    """Answer that the daemon has no settings."""
    named = _own_resources(header, frame, own_id, admin.DescribeConfigsRequest)
    if not named:
        return None
    rows: list[object] = [(0, None, kind, name, []) for kind, name in named]
    return admin.DescribeConfigsResponse(version=header.version, throttle_time_ms=0, results=rows)


def _no_changes(header: codec.RequestHeader, frame: bytes, own_id: int) -> ApiMessage | None:
    """Answer that changing the settings of the daemon succeeds."""
    named = _own_resources(header, frame, own_id, admin.IncrementalAlterConfigsRequest)
    if not named:
        return None
    rows = [(0, None, kind, name) for kind, name in named]
    return admin.IncrementalAlterConfigsResponse(
        version=header.version, throttle_time_ms=0, responses=rows
    )


class _EntryRequest(NamedTuple):
    """A kind of request that concerns the daemon as an entry in the list of brokers."""

    versions: tuple[int, int]
    answer_to: Callable[[codec.RequestHeader, bytes, int], ApiMessage | None]


_ENTRY_REQUESTS: Final[Mapping[int, _EntryRequest]] = {
    ApiKey.ListGroups: _EntryRequest((0, 5), _no_groups),
    ApiKey.DescribeConfigs: _EntryRequest((1, 4), _no_settings),
    ApiKey.DescribeLogDirs: _EntryRequest((0, 4), _no_log_dirs),
    ApiKey.IncrementalAlterConfigs: _EntryRequest((0, 1), _no_changes),
    ApiKey.ListTransactions: _EntryRequest((0, 1), _no_transactions),
}
LOCAL: Final[Mapping[int, tuple[int, int]]] = {k: r.versions for k, r in _ENTRY_REQUESTS.items()}
"""Lowest and highest version of what concerns the daemon as an entry in the list of brokers."""
