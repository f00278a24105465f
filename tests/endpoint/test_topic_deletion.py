"""Topics are deleted for clients that may, with the errors of Kafka's controller."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable

import pytest
from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

from controller.core.calls.client_requests import (
    AwaitDeletions,
    CedeRole,
    CedeRoleAnswer,
    DeleteTopics,
    TopicToDelete,
    error_answer,
    topic_answer,
)
from controller.core.calls.records import ClientRequestReceived
from controller.core.model import Zxid
from controller.core.records import Event
from controller.core.topics.model import TopicResult
from controller.endpoint import codec
from tests.endpoint.requests import frame_of
from tests.endpoint.test_client_service import (
    FakeValidation,
    Listed,
    Public,
    public,
    seen,
)
from tests.endpoint.test_topic_service import Broker, Operations

DESCRIBE, DELETE = 8, 6
"""Operations (``AclOperation``)."""
ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
ID_TEXT = "AQIDBAUGBwgJCgsMDQ4PEA"
UNKNOWN_ID = uuid.UUID(int=9)
ENABLED = FakeValidation(None, deletions=True)
Row = tuple[str | None, uuid.UUID | None, int]


def deletion(*names: str, version: int = 5, timeout_ms: int = 10_000) -> bytes:
    """Return a request that names topics by their names."""
    named = [(name, None) for name in names]
    return frame_of(
        DeleteTopicsRequest(
            version=version, topics=named, topic_names=list(names), timeout_ms=timeout_ms
        )
    )


def deletion_of(*topics: tuple[str | None, uuid.UUID | None]) -> bytes:
    """Return a request of version 6."""
    return frame_of(DeleteTopicsRequest(version=6, topics=list(topics), timeout_ms=10_000))


def rows(served: Public, frame: bytes) -> list[Row]:
    """Return name, id and error of each row of the answer."""
    header = codec.header_of(frame)
    (answer,) = served.exchange(frame)
    body = DeleteTopicsResponse.decode(
        answer[4 + int(header.version >= 4) :], version=header.version
    )
    return [(r.name, getattr(r, "topic_id", None), r.error_code) for r in body.responses]


def errors(served: Public, frame: bytes) -> list[int]:
    """Return the errors of the answer."""
    return [error for _, _, error in rows(served, frame)]


def marking(listed: Listed, error: int = 0, *, deletes: bool = True) -> Callable[[Event], object]:
    """Return a loop that marks topics and loses the role; they are deleted a moment later."""

    def gone(topics: Iterable[str]) -> None:
        listed.topics -= frozenset(topics)

    def answer(event: Event) -> object:
        assert isinstance(event, ClientRequestReceived)
        if isinstance(event.request, AwaitDeletions):
            return error_answer(event.request, 41)
        assert isinstance(event.request, DeleteTopics)
        names = [topic.name for topic in event.request.topics]
        if deletes:
            threading.Timer(0.2, gone, [names]).start()
        return topic_answer(event.request, tuple(TopicResult(n, error) for n in names))

    return answer


def requested(served: Public) -> list[DeleteTopics]:
    """Return the deletions that the loop was asked for."""
    deletions_of = (event.request for event in served.loop.events)
    return [request for request in deletions_of if isinstance(request, DeleteTopics)]


def test_answer_comes_when_brokers_dropped_the_topics() -> None:
    """As the loop says, though their znodes exist; the time of one is over."""
    listed, created = Listed(frozenset({"a", "b"})), {"a": Zxid(5), "b": Zxid(6)}

    def loop(event: Event) -> object:
        assert isinstance(event, ClientRequestReceived)
        request = event.request
        if isinstance(request, AwaitDeletions):
            assert request.topics == created
            assert 8.0 < request.timeout_s <= 10.0
            return topic_answer(request, (TopicResult("a", 0), TopicResult("b", 7)))
        assert isinstance(request, DeleteTopics)
        return topic_answer(request, tuple(TopicResult(n, 0, czxid=created[n]) for n in created))

    broker = Broker({"a": (DELETE,), "b": (DELETE,)})
    with public(broker, answer=loop, validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a", "b")) == [0, 7]
        assert listed.topics == {"a", "b"}


@pytest.mark.parametrize("version", range(7))
def test_answer_comes_when_the_topics_are_gone(version: int) -> None:
    """In every version; one that is named twice is deleted once."""
    listed = Listed(frozenset({"a", "b", "c"}))
    broker = Broker({"a": (DESCRIBE, DELETE), "b": (DESCRIBE, DELETE)})
    with public(broker, answer=marking(listed), validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a", "b", "a", version=version)) == [0, 0, 0]
        assert listed.topics == {"c"}
        topics = (TopicToDelete("a", None), TopicToDelete("b", None))
        assert requested(served) == [DeleteTopics(topics, 10.0)]
        assert served.counts.answered == {("DeleteTopics", "answered"): 1}


def test_topic_that_is_created_again_at_once_is_deleted() -> None:
    """By a producer, for example: its name is listed all the time."""
    listed = Listed(frozenset({"a"}), created={"a": 5})

    def replace_it() -> None:
        listed.created["a"] = 9

    def loop(event: Event) -> object:
        assert isinstance(event, ClientRequestReceived)
        if isinstance(event.request, AwaitDeletions):
            return error_answer(event.request, 41)
        assert isinstance(event.request, DeleteTopics)
        threading.Timer(0.2, replace_it).start()
        return topic_answer(event.request, (TopicResult("a", 0, czxid=Zxid(5)),))

    with public(Broker({"a": (DELETE,)}), answer=loop, validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a", timeout_ms=3000)) == [0]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 300])
def test_topic_that_is_not_gone_in_time_has_timed_out(timeout_ms: int) -> None:
    """A client that does not wait hears the same, as from Kafka's controller."""
    listed = Listed(frozenset({"a"}))
    loop = marking(listed, deletes=False)
    with public(Broker({"a": (DELETE,)}), answer=loop, validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a", timeout_ms=timeout_ms)) == [7]


def test_error_of_the_loop_is_the_clients() -> None:
    """There is nothing to wait for."""
    listed = Listed(frozenset({"a"}))
    loop = marking(listed, error=3, deletes=False)
    with public(Broker({"a": (DELETE,)}), answer=loop, validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a")) == [3]


@pytest.mark.parametrize(
    ("topics", "wanted"),
    [
        ({"a": (DESCRIBE,), "b": (DESCRIBE, DELETE)}, [29, 0]),
        ({"a": None, "b": (DELETE,)}, [29, 0]),
        ({"a": (), "b": ()}, [29, 29]),
    ],
    ids=["one", "one, the other is hidden", "none"],
)
def test_only_permitted_topics_are_deleted(topics: Operations, wanted: list[int]) -> None:
    """The others are refused at once, whether they exist or not."""
    listed = Listed()
    broker = Broker(topics)
    with public(broker, answer=marking(listed), validation=ENABLED, listed=listed) as served:
        assert errors(served, deletion("a", "b")) == wanted
        deletions_of = [t.name for request in requested(served) for t in request.topics]
        assert deletions_of == [n for n, error in zip("ab", wanted, strict=True) if not error]


def test_topics_are_named_by_their_ids() -> None:
    """The answer shows both; who may not see a topic does not learn its name."""
    listed = Listed(frozenset({"a", "b"}), {ID_TEXT: "a"})
    broker = Broker({"a": (DESCRIBE, DELETE)})
    with public(broker, answer=marking(listed), validation=ENABLED, listed=listed) as served:
        assert rows(served, deletion_of((None, UNKNOWN_ID), (None, ID))) == [
            (None, UNKNOWN_ID, 100),
            ("a", ID, 0),
        ]
        by_id = DeleteTopics((TopicToDelete("a", ID_TEXT),), 10.0)
        assert requested(served) == [by_id]
        listed.topics = frozenset({"a"})
        both = rows(served, deletion_of(("a", None), (None, ID)))
        assert [error for _, _, error in both] == [0, 0]
        assert requested(served) == [by_id, by_id]
    for operations, row in ((None, (None, ID, 29)), ((DESCRIBE,), ("a", ID, 29))):
        with public(
            Broker({"a": operations}), answer=marking(listed), validation=ENABLED, listed=listed
        ) as served:
            assert rows(served, deletion_of((None, ID))) == [row]
            assert not served.loop.events


def test_topic_without_a_name_or_with_two_is_refused() -> None:
    """The latter refuses the whole request."""
    listed = Listed(frozenset({"a"}), {ID_TEXT: "a"})
    broker = Broker({"a": (DESCRIBE, DELETE)})
    with public(broker, answer=marking(listed), validation=ENABLED, listed=listed) as served:
        assert rows(served, deletion_of((None, None))) == [(None, None, 29)]
        assert rows(served, deletion_of(("a", ID), ("a", None))) == [
            ("a", ID, 42),
            ("a", None, 42),
        ]
        assert not served.loop.events


@pytest.mark.parametrize(("version", "error"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_that_brokers_disable_is_refused(version: int, error: int) -> None:
    """Before anything else, as Kafka's controller does."""
    off = FakeValidation(None, deletions=False)
    with public(Broker({"a": (DELETE,)}), answer=marking(Listed()), validation=off) as served:
        assert errors(served, deletion("a", version=version)) == [error]
        assert not served.loop.events


def test_brokers_that_differ_make_the_daemon_give_the_role_back() -> None:
    """Which of them is the controller decides whether topics are deleted."""
    given_back = threading.Event()
    before = Broker({"a": (DELETE,)})

    def broker(header: codec.RequestHeader, frame: bytes) -> bytes:
        if not given_back.is_set():
            return before(header, frame)
        return seen(header, 1) if header.api_key == 3 else frame[4:8] + b"deleted"

    def give_back(_event: Event) -> object:
        given_back.set()
        return CedeRoleAnswer(41)

    with public(broker, answer=give_back) as served:
        assert served.exchange(deletion("a"))[0][4:] == b"deleted"
        assert [e.request for e in served.loop.events] == [CedeRole("DeleteTopics")]
        assert served.counts.answered == {("DeleteTopics", "ceded"): 1}


def test_topic_named_by_its_id_moves_the_role_for_who_may_delete_it() -> None:
    """Where brokers differ."""
    listed = Listed(frozenset({"a"}), {ID_TEXT: "a"})
    broker = Broker({"a": (DESCRIBE,)})
    with public(broker, answer=marking(listed), listed=listed) as served:
        assert served.exchange(deletion_of((None, ID)))[0][4:] == b"not controller"
        assert not served.loop.events


def test_role_that_is_lost_sends_the_client_to_the_next_controller() -> None:
    """Each topic has the error, as the answer has no other place for it."""

    def deposed(event: Event) -> object:
        assert isinstance(event, ClientRequestReceived)
        assert isinstance(event.request, DeleteTopics)
        return error_answer(event.request, 41)

    with public(Broker({"a": (DELETE,), "b": ()}), answer=deposed, validation=ENABLED) as served:
        assert errors(served, deletion("a", "b")) == [41, 41]
        assert served.counts.answered == {("DeleteTopics", "not_controller"): 1}
