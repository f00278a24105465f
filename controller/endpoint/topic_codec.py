"""
Frames of CreateTopics, CreatePartitions and DeleteTopics, and of the answers.

See ``client_codec``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller import kafka_errors
from controller.brokers.messages import topic_uuid
from controller.core.calls import client_requests
from controller.core.calls.client_requests import (
    EffectiveConfig,
    MorePartitions,
    NewTopic,
    TopicAnswer,
    TopicResult,
)
from controller.core.model import BrokerId, Replicas
from controller.endpoint.codec import ReadableRequest, RequestHeader, id_of, read_request, respond
from controller.endpoint.strict_decoding import Fields
from controller.errors import ProtocolError, RemoteProtocolError

CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
"""Operations (``AclOperation``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest(ReadableRequest):
    """A kind of request about topics."""

    operation: int
    """The operation that it needs on the cluster or on the topic."""


TOPIC_REQUESTS: Final[Mapping[int, TopicRequest]] = {
    ApiKey.CreateTopics: TopicRequest(
        versions=(0, 7), message=CreateTopicsRequest, operation=CREATE
    ),
    ApiKey.DeleteTopics: TopicRequest(
        versions=(0, 6), message=DeleteTopicsRequest, operation=DELETE
    ),
    ApiKey.CreatePartitions: TopicRequest(
        versions=(0, 3), message=CreatePartitionsRequest, operation=ALTER
    ),
}
"""What the daemon answers, in all versions that brokers of 2.3 to 3.9 have; by API key."""
TOPICS_SERVED: Final[Mapping[int, tuple[int, int]]] = {
    key: request.versions for key, request in TOPIC_REQUESTS.items()
}
"""Lowest and highest version of those."""
FIRST_WITH_CONFIGS: Final = 5
"""The first version of CreateTopics whose answer has the settings of the topic (KIP-525)."""
TOPICS_FRAME_MAX: Final = 1024 * 1024
"""The longest request in bytes; KRaft permits 10,000 topics in one, which are shorter."""
_FIRST_WITH_ID: Final = 7
_FIRST_BY_ID: Final = 6
"""The first version of DeleteTopics that names topics by their ids, too."""
_FIRST_WITH_REASON: Final = 5
"""The first version of DeleteTopics whose answer has texts."""


class NamedTopic(NamedTuple):
    """A topic as a DeleteTopics names it: by its name or by its id."""

    name: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class TopicsWanted:
    """A request as a client sent it."""

    new: tuple[NewTopic, ...]
    """The topics of a CreateTopics, without an id."""
    more: tuple[MorePartitions, ...]
    """The topics of a CreatePartitions."""
    timeout_s: float
    validate_only: bool = False
    deleted: tuple[NamedTopic, ...] = ()
    """The topics of a DeleteTopics, as often as it names them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that it names by their names."""
        deleted = (t.name for t in self.deleted if t.name is not None)
        listed = [*(t.name for t in self.new), *(t.name for t in self.more), *deleted]
        return tuple(dict.fromkeys(listed))


Effective = Mapping[str, tuple[EffectiveConfig, ...] | int]
"""The settings of new topics by name, or the error for which a topic has none."""


def decode(frame: bytes) -> tuple[RequestHeader, TopicsWanted]:
    """
    Read a request of ``TOPICS_SERVED``.

    Args:
        frame: Header and body, without the length in front of them.

    Raises:
        RemoteProtocolError: it is malformed, too long, or not one of ``TOPICS_SERVED``.

    """
    if len(frame) > TOPICS_FRAME_MAX:
        raise RemoteProtocolError(f"a request for topics of {len(frame)} bytes")
    header, body = read_request(frame, TOPIC_REQUESTS)
    if header.api_key == ApiKey.DeleteTopics:
        return header, TopicsWanted(
            (), (), body["timeout_ms"] / 1000, deleted=_topics_to_delete(body)
        )
    is_new = header.api_key == ApiKey.CreateTopics
    return header, TopicsWanted(
        tuple(map(_new, body["topics"])) if is_new else (),
        () if is_new else tuple(map(_more, body["topics"])),
        body["timeout_ms"] / 1000,
        body.get("validate_only", False),  # CreateTopics has it as of version 1.
    )


def _new(topic: Fields) -> NewTopic:
    return NewTopic(
        topic["name"],
        topic["num_partitions"],
        topic["replication_factor"],
        tuple((row["partition_index"], _ids(row)) for row in topic["assignments"]),
        tuple((row["name"], row["value"]) for row in topic["configs"]),
        "",
    )


def _more(topic: Fields) -> MorePartitions:
    assigned = topic["assignments"]
    return MorePartitions(
        topic["name"], topic["count"], None if assigned is None else tuple(map(_ids, assigned))
    )


def _topics_to_delete(body: Fields) -> tuple[NamedTopic, ...]:
    if "topics" in body:
        return tuple(NamedTopic(row["name"], id_of(row["topic_id"])) for row in body["topics"])
    return tuple(NamedTopic(name, None) for name in body["topic_names"])


def _ids(row: Fields) -> Replicas:
    return tuple(map(BrokerId, row["broker_ids"]))


def encode(header: RequestHeader, answer: TopicAnswer, effective: Effective) -> bytes:
    """
    Return the frame of an answer, with the length in front of it.

    Args:
        header: The header of the request.
        answer: The answer to it.
        effective: The settings of the topics without an error; of a CreateTopics.

    Raises:
        ProtocolError: the answer is not one to this request, or a value does not fit its field.

    """
    is_new = isinstance(answer, client_requests.CreateTopicsAnswer)
    is_growth = isinstance(answer, client_requests.CreatePartitionsAnswer)
    if (is_new, is_growth) != (
        header.api_key == ApiKey.CreateTopics,
        header.api_key == ApiKey.CreatePartitions,
    ):
        raise ProtocolError(f"{type(answer).__name__} does not answer API key {header.api_key}")
    if is_new:
        rows = [_create_response(header.version, result, effective) for result in answer.results]
        return respond(
            header, CreateTopicsResponse(version=header.version, throttle_time_ms=0, topics=rows)
        )
    grown = [(result.name, result.error, result.message) for result in answer.results]
    body: ApiMessage = CreatePartitionsResponse(
        version=header.version, throttle_time_ms=0, results=grown
    )
    return respond(header, body)


def _create_response(version: int, result: TopicResult, effective: Effective) -> ApiMessage:
    row = CreateTopicsResponse.CreatableTopicResult(
        version=version, name=result.name, error_code=result.error, error_message=result.message
    )
    if version < FIRST_WITH_CONFIGS:
        return row
    found = () if result.error else effective.get(result.name, kafka_errors.UNKNOWN_SERVER_ERROR)
    is_shown = not result.error and not isinstance(found, int)
    row.topic_config_error_code = found if isinstance(found, int) else 0
    row.num_partitions = result.num_partitions if is_shown else client_requests.BY_DEFAULT
    row.replication_factor = result.replication_factor if is_shown else client_requests.BY_DEFAULT
    row.configs = [] if isinstance(found, int) else [tuple(config) for config in found]
    if version >= _FIRST_WITH_ID:
        row.topic_id = topic_uuid(result.topic_id) if not result.error else None
    return row


class DeletionResult(NamedTuple):
    """The result for a topic that a DeleteTopics names; it shows the name and the id."""

    topic: NamedTopic
    error: int
    message: str | None = None


def encode_deletion(header: RequestHeader, results: Iterable[DeletionResult]) -> bytes:
    """
    Return the frame of the answer to a DeleteTopics, with the length in front of it.

    Args:
        header: The header of the request.
        results: In the order of the request.

    Raises:
        ProtocolError: a value does not fit its field.

    """
    rows = [_deletion(header.version, result) for result in results]
    body = DeleteTopicsResponse(version=header.version, throttle_time_ms=0, responses=rows)
    return respond(header, body)


def _deletion(version: int, result: DeletionResult) -> ApiMessage:
    row = DeleteTopicsResponse.DeletableTopicResult(
        version=version, name=result.topic.name, error_code=result.error
    )
    if version >= _FIRST_BY_ID:
        row.topic_id = topic_uuid(result.topic.topic_id)
    if version >= _FIRST_WITH_REASON:
        row.error_message = result.message
    return row
