"""
Create and delete topics, and add partitions, for clients whose rights a broker knows.

A broker answers these requests NOT_CONTROLLER before it looks at rights. So the rights come from
Metadata, which a broker answers in the client's name, and so do the settings of a new topic in the
answer. What brokers only know is asked of them in the daemon's own name (``BrokerTopicFacts``), on
threads that serve nothing else: the default ones of asyncio resolve the host names of the relay.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, TypeVar

from kafka.protocol.api_key import ApiKey

from controller.core.calls.broker_requests import Permission
from controller.core.calls.client_requests import (
    CreatePartitions,
    CreateTopics,
    CreateTopicsAnswer,
    EffectiveConfig,
    RequestOnTopics,
    TopicAnswer,
    TopicDefaults,
    TopicResult,
    TopicSettings,
    topic_answer,
)
from controller.endpoint import relayed_frames, topic_codec
from controller.endpoint.client_codec import TIMEOUT_MAX_S
from controller.endpoint.codec import RequestHeader
from controller.endpoint.decoding_thread import DecodingThread
from controller.endpoint.relay import Upstream
from controller.endpoint.tickets import Tickets
from controller.endpoint.topic_codec import DeletionResult, Effective, TopicsWanted
from controller.endpoint.topic_deletion import (
    GRACE_S,
    LOOK_S,
    ListedTopics,
    TopicDeletionService,
)
from controller.kafka_errors import (
    NONE,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)

THREADS: Final = 4
"""Questions to brokers at once; other requests wait until their time is over."""
PATIENCE_S: Final = 6.0
"""
How long brokers are asked for a client that waits less: its topics are created nevertheless.

Longer than one question to a silent broker lasts, after which the role is given back.
"""
SETTINGS_S: Final = 3.0
"""How long a broker may take to know a new topic, whose settings the answer has."""
_CREATION_FORBIDDEN: Final = "Authorization failed."
_GROWTH_FORBIDDEN: Final = "The topic authorization is failed."
"""Kafka's texts."""

Given = TypeVar("Given")


class BrokerTopicFacts(Protocol):
    """What only brokers know; each call may block for seconds."""

    def defaults(self) -> TopicDefaults | None:
        """Return what new topics depend on; None: only Kafka's controller can create topics."""
        ...

    def config_problems(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, str] | None:
        """Return why settings of topics are invalid, for those that are; None: unknown."""
        ...

    def described(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, tuple[EffectiveConfig, ...]] | None:
        """Return all settings that topics with these valid ones would have; None: unknown."""
        ...

    def is_deletion_enabled(self) -> bool | None:
        """Return ``delete.topic.enable``; None: only Kafka's controller can delete topics."""
        ...


class TopicService:
    """Serves requests of ``topic_codec.TOPICS_SERVED``."""

    def __init__(
        self,
        tickets: Tickets,
        validation: BrokerTopicFacts,
        listed: ListedTopics,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """
        Prepare.

        Args:
            tickets: The way to the loop.
            validation: Asks brokers.
            listed: The topics that exist.
            patience_s: How long brokers are asked for a client that waits less.

        """
        self._tickets = tickets
        self._validation = validation
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="topic-validation")
        self._deletion = TopicDeletionService(tickets, listed)
        self._thread = DecodingThread()

    async def decode(self, header: RequestHeader, frame: bytes) -> TopicsWanted | None:
        """
        Read a request; None: a broker has to answer.

        Raises:
            RemoteProtocolError: it is malformed.

        """
        lowest, highest = topic_codec.TOPICS_SERVED.get(header.api_key, (0, -1))
        if not lowest <= header.version <= highest:
            return None
        _, wanted = await self._thread.run(len(frame), partial(topic_codec.decode, frame))
        return wanted

    def names(self, wanted: TopicsWanted) -> tuple[str, ...]:
        """Return the topics that a request names, as far as known."""
        return self._deletion.names(wanted)

    async def answer(
        self,
        header: RequestHeader,
        wanted: TopicsWanted,
        seen: relayed_frames.SeenController,
        upstream: Upstream,
        permission: Permission,
    ) -> tuple[bytes, int] | None:
        """
        Return the frame of the answer and its error; None: a broker has to answer.

        Args:
            header: The header of the request.
            wanted: The request.
            seen: What the client may do with the topics that it names.
            upstream: The broker that answers in the client's name.
            permission: For what the broker says that the client may do.

        """
        now = asyncio.get_running_loop().time()
        until = now + min(max(wanted.timeout_s, 0.0), TIMEOUT_MAX_S)
        if header.api_key == ApiKey.DeleteTopics:
            return await self._serve_deletions(header, wanted, seen, until, permission)
        return await self._serve_additions(header, wanted, seen, upstream, until, permission)

    async def _query_brokers(self, question: Callable[[], Given], until: float) -> Given:
        """
        Return the answer to a question that blocks its thread.

        Args:
            question: Asks brokers.
            until: When the client's time is over, on the clock of the event loop.

        Raises:
            TimeoutError: the client's time is over. A question that waits for a thread is dropped.

        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(max(until - loop.time(), self._patience_s)):
            return await loop.run_in_executor(self._threads, question)

    async def _serve_deletions(
        self,
        header: RequestHeader,
        wanted: TopicsWanted,
        seen: relayed_frames.SeenController,
        until: float,
        permission: Permission,
    ) -> tuple[bytes, int] | None:
        """Answer a DeleteTopics."""
        try:
            is_enabled = await self._query_brokers(self._validation.is_deletion_enabled, until)
        except TimeoutError:
            late = [DeletionResult(topic, REQUEST_TIMED_OUT) for topic in wanted.deleted]
            return topic_codec.encode_deletion(header, late), NONE
        if is_enabled is None:
            return None
        return await self._deletion.answer(
            header, wanted, seen, until, permission, is_enabled=is_enabled
        )

    async def _serve_additions(  # noqa: PLR0913, PLR0917 - a request, and the rights to it
        self,
        header: RequestHeader,
        wanted: TopicsWanted,
        seen: relayed_frames.SeenController,
        upstream: Upstream,
        until: float,
        permission: Permission,
    ) -> tuple[bytes, int] | None:
        """Answer a CreateTopics or CreatePartitions."""
        is_new = header.api_key == ApiKey.CreateTopics
        operation = topic_codec.CREATE if is_new else topic_codec.ALTER
        allowed = {name: seen.permits(name, operation) for name in wanted.names}
        if None in allowed.values() and True not in allowed.values():
            return None
        permitted = {name for name, is_in in allowed.items() if is_in}
        given = await self._carried_out(wanted, permitted, until, permission, is_new=is_new)
        if given is None:
            return None
        text = _CREATION_FORBIDDEN if is_new else _GROWTH_FORBIDDEN
        forbidden = tuple(
            TopicResult(name, TOPIC_AUTHORIZATION_FAILED, text)
            for name, is_in in allowed.items()
            if not is_in
        )
        given = replace(given, results=(*given.results, *forbidden))
        effective: Effective = {}
        if given.error == NONE:
            effective = await self._effective(header, given, upstream, wanted, until)
        return topic_codec.encode(header, given, effective), given.error

    async def _carried_out(
        self,
        wanted: TopicsWanted,
        permitted: Collection[str],
        until: float,
        permission: Permission,
        *,
        is_new: bool,
    ) -> TopicAnswer | None:
        """Return the answer for the permitted topics; None: a broker has to answer."""
        try:
            request = (
                await self._creation(wanted, permitted, until)
                if is_new
                else _growth(wanted, permitted)
            )
        except TimeoutError:
            late = (TopicResult(name, REQUEST_TIMED_OUT) for name in sorted(permitted))
            return CreateTopicsAnswer(NONE, tuple(late))
        if request is None:
            return None
        given = topic_answer(request, ())
        if not request.topics:
            return given
        left_s = max(until - asyncio.get_running_loop().time(), 0.0)
        answered = await self._tickets.answer_to(request, permission, left_s + GRACE_S)
        return answered if isinstance(answered, type(given)) else None

    async def _creation(
        self, wanted: TopicsWanted, allowed: Collection[str], until: float
    ) -> RequestOnTopics | None:
        """
        Return what the loop is asked; None: only Kafka's controller can carry it out.

        Raises:
            TimeoutError: brokers did not answer before the client's time was over.

        """
        defaults = await self._query_brokers(self._validation.defaults, until)
        if defaults is None:
            return None
        new = tuple(topic for topic in wanted.new if topic.name in allowed)
        settings = {topic.settings for topic in new} - {()}
        problems: Mapping[TopicSettings, str] = {}
        if settings:
            question = partial(self._validation.config_problems, settings)
            found = await self._query_brokers(question, until)
            if found is None:
                return None
            problems = found
        return CreateTopics(
            tuple(
                replace(topic, topic_id=random_id(), config_problem=problems.get(topic.settings))
                for topic in new
            ),
            defaults,
            max(until - asyncio.get_running_loop().time(), 0.0),
            wanted.validate_only,
        )

    async def _effective(
        self,
        header: RequestHeader,
        given: TopicAnswer,
        upstream: Upstream,
        wanted: TopicsWanted,
        until: float,
    ) -> Effective:
        """
        Return the settings of the new topics, as a broker describes them to the client.

        Of a topic that was only validated, it says whether the client may see them.
        """
        names = [r.name for r in given.results if r.error == NONE]
        is_shown = header.version >= topic_codec.FIRST_WITH_CONFIGS
        if not names or not is_shown or not isinstance(given, CreateTopicsAnswer):
            return {}
        now = asyncio.get_running_loop().time
        shown_until = now() + SETTINGS_S
        request = relayed_frames.topic_settings_request(names)
        try:
            while True:
                answer = await upstream.exchange(request)
                found = await self._thread.run(
                    len(answer), partial(relayed_frames.topic_settings_of, answer)
                )
                if wanted.validate_only:
                    return {**found, **await self._unwritten(wanted, found, until)}
                if UNKNOWN_TOPIC_OR_PARTITION not in found.values() or now() >= shown_until:
                    return found
                await asyncio.sleep(LOOK_S)
        except OSError:
            return {}  # The result stands, whatever became of the broker or of its connection.

    async def _unwritten(self, wanted: TopicsWanted, seen: Effective, until: float) -> Effective:
        """
        Return the settings of topics that were only validated, of those the client may see.

        Where brokers do not say what the rest would be, these are the client's own.
        """
        settings = {
            topic.name: topic.settings
            for topic in wanted.new
            if seen.get(topic.name) == UNKNOWN_TOPIC_OR_PARTITION
        }
        question = partial(self._validation.described, frozenset(settings.values()))
        try:
            found = await self._query_brokers(question, until) or {}
        except TimeoutError:
            found = {}
        return {
            name: found.get(own) or tuple(EffectiveConfig(*pair) for pair in own)
            for name, own in settings.items()
        }


def _growth(wanted: TopicsWanted, allowed: Collection[str]) -> RequestOnTopics:
    more = tuple(topic for topic in wanted.more if topic.name in allowed)
    return CreatePartitions(more, wanted.timeout_s, wanted.validate_only)


def random_id() -> str:
    """Return a new topic id (``Uuid.randomUuid``: none begins with a dash)."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found
