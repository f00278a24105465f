"""
Create and delete topics, and add partitions, for clients whose rights a broker knows.

A broker answers these requests NOT_CONTROLLER before it looks at rights. So the rights come from
Metadata, which a broker answers in the client's name, and so do the settings of a new topic in the
answer. What brokers only know is asked of them in the daemon's own name (``TopicValidation``), on
threads that serve nothing else: the default ones of asyncio resolve the host names of the relay.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_follower import BrokerFollower
from controller.brokers.messages import topic_id_of
from controller.brokers.topic_validation import TopicValidation
from controller.core.calls.broker_requests import Permission
from controller.core.calls.client_requests import (
    CreatePartitions,
    CreateTopics,
    CreateTopicsAnswer,
    EffectiveConfig,
    RequestOnTopics,
    TopicAnswer,
    topic_answer,
)
from controller.core.topics.model import TopicResult, TopicSettings
from controller.endpoint import relayed_frames, topic_codec
from controller.endpoint.broker_service import Tickets
from controller.endpoint.client_codec import TIMEOUT_MAX_S
from controller.endpoint.codec import RequestHeader, is_served
from controller.endpoint.relay import Upstream
from controller.endpoint.strict_decoding import DecodingThread
from controller.endpoint.topic_codec import DeletionResult, Effective, TopicsWanted
from controller.endpoint.topic_deletion import GRACE_S, LOOK_S, TopicCall, TopicDeletionService
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


class TopicService:
    """Serves requests of ``topic_codec.TOPICS_SERVED``."""

    def __init__(
        self,
        tickets: Tickets,
        validation: TopicValidation,
        listed: BrokerFollower,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare; ``validation`` asks brokers, and ``listed`` knows the topics that exist."""
        self._tickets = tickets
        self._validation = validation
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="topic-validation")
        self._deletion = TopicDeletionService(tickets, listed)
        self._thread = DecodingThread()

    async def decode(self, header: RequestHeader, frame: bytes) -> TopicsWanted | None:
        """Read a request; None: a broker has to answer."""
        if not is_served(header, topic_codec.TOPIC_REQUESTS):
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
        """Return the frame of the answer and its error; None: a broker has to answer."""
        now = asyncio.get_running_loop().time()
        until = now + min(max(wanted.timeout_s, 0.0), TIMEOUT_MAX_S)
        call = TopicCall(header, wanted, seen, upstream, permission, until)
        if header.api_key == ApiKey.DeleteTopics:
            return await self._serve_deletions(call)
        return await self._serve_additions(call)

    async def _query_brokers(self, question: Callable[[], Given], until: float) -> Given:
        """
        Return the answer to a question that blocks its thread.

        TimeoutError: the client's time is over. A question that waits for a thread is dropped.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(max(until - loop.time(), self._patience_s)):
            return await loop.run_in_executor(self._threads, question)

    async def _serve_deletions(self, call: TopicCall) -> tuple[bytes, int] | None:
        try:
            is_enabled = await self._query_brokers(self._validation.is_deletion_enabled, call.until)
        except TimeoutError:
            late = [DeletionResult(topic, REQUEST_TIMED_OUT) for topic in call.wanted.deleted]
            return topic_codec.encode_deletion(call.header, late), NONE
        if is_enabled is None:
            return None
        return await self._deletion.answer(call, is_enabled=is_enabled)

    async def _serve_additions(self, call: TopicCall) -> tuple[bytes, int] | None:
        """Answer a CreateTopics or CreatePartitions."""
        is_new = call.header.api_key == ApiKey.CreateTopics
        operation = topic_codec.CREATE if is_new else topic_codec.ALTER
        allowed = {name: call.seen.permits(name, operation) for name in call.wanted.names}
        if None in allowed.values() and True not in allowed.values():
            return None
        permitted = {name for name, is_in in allowed.items() if is_in}
        given = await self._carried_out(call, permitted, is_new=is_new)
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
            effective = await self._effective(call, given)
        return topic_codec.encode(call.header, given, effective), given.error

    async def _carried_out(
        self, call: TopicCall, permitted: Collection[str], *, is_new: bool
    ) -> TopicAnswer | None:
        """Return the answer for the permitted topics; None: a broker has to answer."""
        more = tuple(topic for topic in call.wanted.more if topic.name in permitted)
        request: RequestOnTopics | None
        request = CreatePartitions(more, call.wanted.timeout_s, call.wanted.validate_only)
        if is_new:
            try:
                request = await self._creation(call, permitted)
            except TimeoutError:
                late = (TopicResult(name, REQUEST_TIMED_OUT) for name in sorted(permitted))
                return CreateTopicsAnswer(NONE, tuple(late))
        if request is None:
            return None
        given = topic_answer(request, ())
        if not request.topics:
            return given
        within_s = call.left_s + GRACE_S
        answered = await self._tickets.answer_to(request, call.permission, within_s)
        return answered if isinstance(answered, type(given)) else None

    async def _creation(self, call: TopicCall, permitted: Collection[str]) -> CreateTopics | None:
        """Return what the loop is asked; None: only Kafka's controller can carry it out."""
        defaults = await self._query_brokers(self._validation.defaults, call.until)
        if defaults is None:
            return None
        new = tuple(topic for topic in call.wanted.new if topic.name in permitted)
        settings = {topic.settings for topic in new} - {()}
        problems: Mapping[TopicSettings, str] = {}
        if settings:
            question = partial(self._validation.config_problems, settings)
            found = await self._query_brokers(question, call.until)
            if found is None:
                return None
            problems = found
        return CreateTopics(
            tuple(
                replace(topic, topic_id=random_id(), config_problem=problems.get(topic.settings))
                for topic in new
            ),
            defaults,
            call.left_s,
            call.wanted.validate_only,
        )

    async def _effective(self, call: TopicCall, given: TopicAnswer) -> Effective:
        """
        Return the settings of the new topics, as a broker describes them to the client.

        Of a topic that was only validated, it says whether the client may see them.
        """
        names = [r.name for r in given.results if r.error == NONE]
        is_shown = call.header.version >= topic_codec.FIRST_WITH_CONFIGS
        if not names or not is_shown or not isinstance(given, CreateTopicsAnswer):
            return {}
        now = asyncio.get_running_loop().time
        shown_until = now() + SETTINGS_S
        request = relayed_frames.topic_settings_request(names)
        try:
            while True:
                answer = await call.upstream.exchange(request)
                found = await self._thread.run(
                    len(answer), partial(relayed_frames.topic_settings_of, answer)
                )
                if call.wanted.validate_only:
                    return {**found, **await self._unwritten(call, found)}
                if UNKNOWN_TOPIC_OR_PARTITION not in found.values() or now() >= shown_until:
                    return found
                await asyncio.sleep(LOOK_S)
        except OSError:
            return {}  # The result stands, whatever became of the broker or of its connection.

    async def _unwritten(self, call: TopicCall, seen: Effective) -> Effective:
        """
        Return the settings of topics that were only validated, of those the client may see.

        Where brokers do not say what the rest would be, these are the client's own.
        """
        settings = {
            topic.name: topic.settings
            for topic in call.wanted.new
            if seen.get(topic.name) == UNKNOWN_TOPIC_OR_PARTITION
        }
        question = partial(self._validation.described, frozenset(settings.values()))
        try:
            found = await self._query_brokers(question, call.until) or {}
        except TimeoutError:
            found = {}
        return {
            name: found.get(own) or tuple(EffectiveConfig(*pair) for pair in own)
            for name, own in settings.items()
        }


def random_id() -> str:
    """Return a new topic id (``Uuid.randomUuid``: none begins with a dash)."""
    while True:
        found = topic_id_of(uuid.uuid4())
        if found is not None and not found.startswith("-"):
            return found
