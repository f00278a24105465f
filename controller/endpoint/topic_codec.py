"""Frames of CreateTopics, CreatePartitions and DeleteTopics, and answers; see ``client_codec``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from kafka.protocol import admin
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller import kafka_errors
from controller.brokers.messages import topic_id_of, topic_uuid
from controller.core.calls import client_requests
from controller.core.calls.client_requests import (
    EffectiveConfig,
    MorePartitions,
    NewTopic,
    TopicAnswer,
)
from controller.core.model import BrokerId, Replicas
from controller.core.topics.model import BY_DEFAULT, TopicResult
from controller.endpoint.codec import ReadableRequest, RequestHeader, read_request, respond
from controller.endpoint.strict_decoding import Fields
from controller.errors import ProtocolError, RemoteProtocolError

CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
"""Operations (``AclOperation``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableTopicRequest(ReadableRequest):
    """A kind of request about topics."""

    operation: int
    """The operation that it needs on the cluster or on the topic."""


TOPIC_REQUESTS: Final[Mapping[int, ReadableTopicRequest]] = {
    ApiKey.CreateTopics: ReadableTopicRequest(
        versions=(0, 7), message=admin.CreateTopicsRequest, operation=CREATE
    ),
    ApiKey.DeleteTopics: ReadableTopicRequest(
        versions=(0, 6), message=admin.DeleteTopicsRequest, operation=DELETE
    ),
    ApiKey.CreatePartitions: ReadableTopicRequest(
        versions=(0, 3), message=admin.CreatePartitionsRequest, operation=ALTER
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


class NamedTopic(NamedTuple):
    """A topic as a DeleteTopics names it: by its name or by its id."""

    name: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsWanted:
    """A request as a client sent it."""

    new: tuple[NewTopic, ...]
    """The topics of a CreateTopics, without an id."""
    more: tuple[MorePartitions, ...]
    """The topics of a CreatePartitions."""
    deleted: tuple[NamedTopic, ...]
    """The topics of a DeleteTopics, as often as it names them."""
    timeout_s: float
    validate_only: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that it names by their names."""
        deleted = (t.name for t in self.deleted if t.name is not None)
        listed = [*(t.name for t in self.new), *(t.name for t in self.more), *deleted]
        return tuple(dict.fromkeys(listed))


Effective = Mapping[str, tuple[EffectiveConfig, ...] | int]
"""The settings of new topics by name, or the error for which a topic has none."""


def decode(frame: bytes) -> tuple[RequestHeader, TopicsWanted]:
    """Read a request of ``TOPICS_SERVED``, which may not be too long."""
    if len(frame) > TOPICS_FRAME_MAX:
        raise RemoteProtocolError(f"a request for topics of {len(frame)} bytes")
    header, body = read_request(frame, TOPIC_REQUESTS)
    key = header.api_key
    return header, TopicsWanted(
        new=tuple(map(_new, body["topics"])) if key == ApiKey.CreateTopics else (),
        more=tuple(map(_more, body["topics"])) if key == ApiKey.CreatePartitions else (),
        deleted=_topics_to_delete(body) if key == ApiKey.DeleteTopics else (),
        timeout_s=body["timeout_ms"] / 1000,
        validate_only=body.get("validate_only", False),  # CreateTopics has it as of version 1.
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
        return tuple(
            NamedTopic(row["name"], topic_id_of(row["topic_id"])) for row in body["topics"]
        )
    return tuple(NamedTopic(name, None) for name in body["topic_names"])


def _ids(row: Fields) -> Replicas:
    return tuple(map(BrokerId, row["broker_ids"]))


def encode(header: RequestHeader, answer: TopicAnswer, effective: Effective) -> bytes:
    """Return the frame of an answer; to CreateTopics, with the effective settings of the topics."""
    key, version = header.api_key, header.version
    body: ApiMessage
    if key == ApiKey.CreateTopics and isinstance(answer, client_requests.CreateTopicsAnswer):
        rows = [_create_response(version, result, effective) for result in answer.results]
        body = admin.CreateTopicsResponse(version=version, topics=rows)
    elif key == ApiKey.CreatePartitions and isinstance(
        answer, client_requests.CreatePartitionsAnswer
    ):
        grown = [(result.name, result.error, result.message) for result in answer.results]
        body = admin.CreatePartitionsResponse(version=version, results=grown)
    else:
        raise ProtocolError(f"{type(answer).__name__} does not answer API key {key}")
    return respond(header, body)


def _create_response(version: int, result: TopicResult, effective: Effective) -> ApiMessage:
    row = admin.CreateTopicsResponse.CreatableTopicResult(
        version=version, name=result.name, error_code=result.error, error_message=result.message
    )
    # The message ignores fields that its version lacks.
    found = () if result.error else effective.get(result.name, kafka_errors.UNKNOWN_SERVER_ERROR)
    is_shown = not result.error and not isinstance(found, int)
    row.topic_config_error_code = found if isinstance(found, int) else 0
    row.num_partitions = result.num_partitions if is_shown else BY_DEFAULT
    row.replication_factor = result.replication_factor if is_shown else BY_DEFAULT
    row.configs = [] if isinstance(found, int) else [tuple(config) for config in found]
    row.topic_id = topic_uuid(result.topic_id) if not result.error else None
    return row


class DeletionResult(NamedTuple):
    """The result for a topic that a DeleteTopics names; it shows the name and the id."""

    topic: NamedTopic
    error: int
    message: str | None = None


def encode_deletion(header: RequestHeader, results: Iterable[DeletionResult]) -> bytes:
    """Return the frame of the answer to a DeleteTopics, with the results in its order."""
    row_of = partial(admin.DeleteTopicsResponse.DeletableTopicResult, version=header.version)
    # The message ignores fields that its version lacks: the id, and the text.
    rows = [
        row_of(name=t.name, topic_id=topic_uuid(t.topic_id), error_code=error, error_message=text)
        for t, error, text in results
    ]
    return respond(header, admin.DeleteTopicsResponse(version=header.version, responses=rows))
