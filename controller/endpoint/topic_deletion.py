"""
Answer DeleteTopics as Kafka's controller does (``KafkaApis``, ``ZkAdminManager``).

The loop writes the request to delete a topic; whichever controller comes next carries it out. As
with Kafka, the answer is given when brokers have dropped the topic from their metadata. Where the
role is lost before that, it is given when the topic is gone from ZooKeeper, which is later. Another
one of its name may be there by then: brokers create topics for producers and consumers. The answer
also comes when the client's time is over: then the topic is deleted nevertheless.

Different from Kafka: all live brokers have to have dropped it, not only the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.brokers.broker_follower import BrokerFollower
from controller.core.calls.broker_requests import Permission
from controller.core.calls.client_requests import (
    AwaitDeletions,
    DeleteTopics,
    DeleteTopicsAnswer,
    TopicToDelete,
)
from controller.core.model import Zxid
from controller.core.topics.model import TopicResult
from controller.endpoint.broker_service import Tickets
from controller.endpoint.codec import RequestHeader
from controller.endpoint.relay import Upstream
from controller.endpoint.relayed_frames import SeenController
from controller.endpoint.topic_codec import (
    DELETE,
    DeletionResult,
    NamedTopic,
    TopicsWanted,
    encode_deletion,
)
from controller.kafka_errors import (
    INVALID_REQUEST,
    NONE,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    TOPIC_DELETION_DISABLED,
    UNKNOWN_TOPIC_ID,
)

GRACE_S: Final = 5.0
"""How much longer than its own timeout a request is awaited."""
LOOK_S: Final = 0.05
"""Between two looks at the topics that exist."""
_FIRST_WITH_DISABLED: Final = 3
"""The first version that has an error for ``delete.topic.enable=false``."""


@dataclass(frozen=True, slots=True)
class TopicCall:
    """A request about topics, and what a broker says of its client."""

    header: RequestHeader
    wanted: TopicsWanted
    seen: SeenController
    """What the client may do with the topics that it names."""
    upstream: Upstream
    """The broker that answers in the client's name."""
    permission: Permission
    """For what the broker says that the client may do."""
    until: float
    """When the client's time is over, on the clock of the event loop."""

    @property
    def left_s(self) -> float:
        """The time that the client has left."""
        return max(self.until - asyncio.get_running_loop().time(), 0.0)


class RightsUnknownError(Exception):
    """A broker does not say what the client may do with a topic."""


@dataclass(frozen=True, slots=True)
class TopicDeletionService:
    """Deletes topics for clients whose rights a broker knows."""

    tickets: Tickets
    listed: BrokerFollower
    """Knows the topics that exist."""

    def names(self, wanted: TopicsWanted) -> tuple[str, ...]:
        """Return the topics that a request names, also by their ids."""
        by_id = (self._name(topic) for topic in wanted.deleted)
        return tuple(dict.fromkeys([*wanted.names, *(n for n in by_id if n is not None)]))

    async def answer(self, call: TopicCall, *, is_enabled: bool) -> tuple[bytes, int] | None:
        """
        Return the frame of the answer and its error; None: a broker has to answer.

        ``is_enabled`` says whether brokers delete topics (``delete.topic.enable``).
        """
        header, wanted = call.header, call.wanted
        error = _error_of_all(header, wanted, is_enabled=is_enabled)
        if error is not None:
            return encode_deletion(header, [DeletionResult(t, error) for t in wanted.deleted]), NONE
        try:
            judged = [self._judge(topic, call.seen) for topic in wanted.deleted]
        except RightsUnknownError:
            return None
        found: Mapping[str, TopicResult] = {}
        permitted = _permitted_topics(judged)
        if permitted:
            request = DeleteTopics(permitted, wanted.timeout_s)
            within_s = call.left_s + GRACE_S
            answered = await self.tickets.answer_to(request, call.permission, within_s)
            if not isinstance(answered, DeleteTopicsAnswer):
                return None
            if answered.error:
                refused = [DeletionResult(t, answered.error) for t in wanted.deleted]
                return encode_deletion(header, refused), answered.error
            found = {result.name: result for result in answered.results}
        marked = {name: result.czxid for name, result in found.items() if not result.error}
        is_awaited = marked and wanted.timeout_s > 0
        left = await self._await_end(marked, call) if is_awaited else set(marked)
        return encode_deletion(header, [_result_of(r, found, left) for r in judged]), NONE

    async def _await_end(self, marked: Mapping[str, Zxid], call: TopicCall) -> set[str]:
        """
        Wait for the end of topics, given with their creations; return those that are left.

        The permission to ask the loop is void when the role is lost.
        """
        now = asyncio.get_running_loop().time
        left = set(marked)
        left_s = call.left_s
        request = AwaitDeletions(marked, left_s)
        answered = await self.tickets.answer_to(request, call.permission, left_s + GRACE_S)
        if isinstance(answered, DeleteTopicsAnswer) and not answered.error:
            return {result.name for result in answered.results if result.error}
        while left := {name for name in left if self.listed.exists(name, marked[name])}:
            if now() >= call.until:
                break
            await asyncio.sleep(LOOK_S)
        return left

    def _name(self, topic: NamedTopic) -> str | None:
        if topic.topic_id is None:
            return topic.name
        return self.listed.names_by_id.get(topic.topic_id)

    def _judge(self, topic: NamedTopic, seen: SeenController) -> DeletionResult:
        """
        Return the result for a topic that is not deleted; without an error: the loop decides.

        The order of the checks is Kafka's.
        """
        name = self._name(topic)
        if topic.topic_id is not None:
            if name is None or name not in seen.topics:
                return DeletionResult(topic, UNKNOWN_TOPIC_ID)
            if name in seen.hidden:
                # Who may not see the topic does not learn its name.
                return DeletionResult(topic, TOPIC_AUTHORIZATION_FAILED)
        shown = NamedTopic(name, topic.topic_id)
        if name is None or name in seen.hidden:
            return DeletionResult(shown, TOPIC_AUTHORIZATION_FAILED)
        is_permitted = seen.permits(name, DELETE)
        if is_permitted is None:
            raise RightsUnknownError(name)
        return DeletionResult(shown, NONE if is_permitted else TOPIC_AUTHORIZATION_FAILED)


def _error_of_all(header: RequestHeader, wanted: TopicsWanted, *, is_enabled: bool) -> int | None:
    """Return the error for which no topic is deleted, whatever it is."""
    if not is_enabled:
        has_error = header.version >= _FIRST_WITH_DISABLED
        return TOPIC_DELETION_DISABLED if has_error else INVALID_REQUEST
    if any(None not in topic for topic in wanted.deleted):
        return INVALID_REQUEST  # A topic has both a name and an id.
    return None


def _permitted_topics(judged: list[DeletionResult]) -> tuple[TopicToDelete, ...]:
    """Return the topics to delete, each once; an id that names one has to be its id."""
    ids: dict[str, str | None] = {}
    for topic, error, _ in judged:
        if not error and topic.name is not None:
            ids[topic.name] = ids.get(topic.name) or topic.topic_id
    return tuple(TopicToDelete(name, topic_id) for name, topic_id in ids.items())


def _result_of(
    result: DeletionResult, found: Mapping[str, TopicResult], left: set[str]
) -> DeletionResult:
    """Return the result for a topic after all that was done."""
    name = result.topic.name
    if result.error or name is None or name not in found:
        return result
    error = REQUEST_TIMED_OUT if name in left else found[name].error
    return DeletionResult(result.topic, error, found[name].message)
