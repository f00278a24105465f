"""Frames of what clients ask of the controller, read as strictly as those of brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol import admin
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller.brokers.config_queries import BROKER
from controller.brokers.frames import by_topic
from controller.core.calls import client_requests
from controller.core.calls.client_requests import ClientAnswer, PartitionResult, RequestFromClient
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.endpoint import codec
from controller.endpoint.strict_decoding import Fields, OversizedError
from controller.errors import RemoteProtocolError
from controller.kafka_errors import NONE

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
        message_of=lambda version, answer: admin.ListPartitionReassignmentsResponse(
            version=version,
            error_code=answer.error,
            error_message=None,
            topics=by_topic((topic, (n, *rest)) for (topic, n), *rest in answer.reassignments),
        ),
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
    if not codec.is_served(header, ENTRY_REQUESTS):
        return None
    known = ENTRY_REQUESTS[header.api_key]
    fields: dict[str, object] = {}
    if known.message is not None:
        _, body = codec.read_request(frame, ENTRY_REQUESTS)
        named = [(r["resource_type"], r["resource_name"]) for r in body["resources"]]
        ours = {(kind, str(own_id)) for kind in (BROKER, BROKER_LOGGER)}
        if not named or not ours.issuperset(named):
            return None
        fields = known.without_settings(named)
    # Version 0 of DescribeLogDirs is laid out as version 1.
    is_first = header.api_key == ApiKey.DescribeLogDirs and not header.version
    return codec.respond(
        header, known.response(version=1 if is_first else header.version, **fields)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest(codec.ReadableRequest):
    """
    A kind of request that concerns the daemon as an entry in the list of brokers.

    The answer has no error and, but for what ``without_settings`` returns, nothing in it.
    """

    message: Any = None
    """None: nothing of it is read but the header."""
    response: type[ApiMessage]
    without_settings: Callable[[list[tuple[int, str]]], dict[str, object]] = lambda _: {}
    """Returns fields of the response for resources, given by type and name."""


ENTRY_REQUESTS: Final[Mapping[int, EntryRequest]] = {
    ApiKey.ListGroups: EntryRequest(versions=(0, 5), response=admin.ListGroupsResponse),
    ApiKey.DescribeConfigs: EntryRequest(
        versions=(1, 4),
        message=admin.DescribeConfigsRequest,
        response=admin.DescribeConfigsResponse,
        without_settings=lambda named: {"results": [(NONE, None, *each, []) for each in named]},
    ),
    ApiKey.DescribeLogDirs: EntryRequest(versions=(0, 4), response=admin.DescribeLogDirsResponse),
    ApiKey.IncrementalAlterConfigs: EntryRequest(
        versions=(0, 1),
        message=admin.IncrementalAlterConfigsRequest,
        response=admin.IncrementalAlterConfigsResponse,
        without_settings=lambda named: {"responses": [(NONE, None, *each) for each in named]},
    ),
    ApiKey.ListTransactions: EntryRequest(versions=(0, 1), response=admin.ListTransactionsResponse),
}
"""By API key."""
