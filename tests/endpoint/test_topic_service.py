"""Topics are created for clients that may: rights and settings come from brokers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
)
from kafka.protocol.metadata import MetadataResponse

from controller.core.calls.broker_requests import Permission
from controller.core.calls.client_requests import (
    CedeRole,
    CedeRoleAnswer,
    CreatePartitions,
    CreateTopics,
    EffectiveConfig,
    MorePartitions,
    TopicDefaults,
    error_answer,
    topic_answer,
)
from controller.core.calls.records import ClientRequestReceived
from controller.core.records import Event
from controller.core.topics.model import TopicResult, TopicSettings
from controller.endpoint import codec, relayed_frames, topic_codec
from controller.endpoint.broker_service import FIRST, Tickets
from controller.endpoint.topic_service import THREADS, random_id
from tests.core.builders import replicas
from tests.endpoint.requests import frame_of
from tests.endpoint.test_client_service import (
    ALTER,
    CREATE,
    OWN_ID,
    FakeValidation,
    Listed,
    Public,
    RelayedCall,
    answering,
    public,
    seen,
    topic_service,
)

DEFAULTS = TopicDefaults(3, 2, uses_topic_ids=True)
ID = "AQIDBAUGBwgJCgsMDQ4PEA"
Operations = Mapping[str, Iterable[int] | None]


@dataclass
class Broker:
    """A broker that is not the controller."""

    topics: Operations = field(default_factory=dict)
    """What the client may do with each topic; None: it does not say."""
    cluster: Iterable[int] | None = None
    settings_errors: list[int] = field(default_factory=list)
    """Errors that precede the settings of a topic."""

    def __call__(self, header: codec.RequestHeader, frame: bytes) -> bytes:
        """Answer a request."""
        if header.api_key == 3:
            return self._metadata(header)
        if header.api_key == 32:
            return self._settings(header)
        return frame[4:8] + b"not controller"

    def _metadata(self, header: codec.RequestHeader) -> bytes:
        topic = MetadataResponse.MetadataResponseTopic
        version = relayed_frames.METADATA_VERSION
        listed = [
            topic(
                version=version,
                error_code=29 if found is None else 3,
                name=name,
                is_internal=False,
                partitions=[],
                authorized_operations=None if found is None else set(found),
            )
            for name, found in self.topics.items()
        ]
        body = MetadataResponse(
            version=version,
            throttle_time_ms=0,
            brokers=[],
            cluster_id="c",
            controller_id=OWN_ID,
            topics=listed,
            authorized_operations=None if self.cluster is None else set(self.cluster),
        )
        return answering(header, body)

    def _settings(self, header: codec.RequestHeader) -> bytes:
        error = self.settings_errors.pop(0) if self.settings_errors else 0
        shown: list[tuple[object, ...]] = (
            [] if error else [("retention.ms", "9", False, 5, False, [])]
        )
        rows = [(error, None, 2, "new", shown)]
        body = DescribeConfigsResponse(version=header.version, throttle_time_ms=0, results=rows)
        return answering(header, body)


def create(
    *names: str,
    version: int = 7,
    configs: Iterable[tuple[str, str]] = (),
    timeout_ms: int = 1000,
    only: bool = False,
) -> bytes:
    """Return a request to create topics."""
    topics: list[object] = [(name, 2, 1, [], list(configs)) for name in names]
    return frame_of(
        CreateTopicsRequest(
            version=version, topics=topics, timeout_ms=timeout_ms, validate_only=only
        )
    )


def created(event: Event) -> object:
    """Answer as the loop does after it created everything."""
    assert isinstance(event, ClientRequestReceived)
    if isinstance(event.request, CedeRole):
        return CedeRoleAnswer(41)
    assert isinstance(event.request, CreateTopics | CreatePartitions)
    results = (TopicResult(t.name, 0, None, 2, 1, ID) for t in event.request.topics)
    return topic_answer(event.request, tuple(results))


def answer_to(served: Public, frame: bytes, version: int = 7) -> CreateTopicsResponse:
    """Return the decoded answer."""
    (answer,) = served.exchange(frame)
    header = 4 + int(version >= 5)
    return CreateTopicsResponse.decode(answer[header:], version=version)


def test_topic_is_created_with_what_brokers_know_of_it() -> None:
    """The settings in the answer are those that a broker shows the client."""
    broker = Broker({"new": (CREATE,)}, settings_errors=[3, 3])
    validation = FakeValidation(DEFAULTS)
    with public(broker, answer=created, validation=validation) as served:
        body = answer_to(served, create("new", configs=[("b", "2"), ("a", "1")]))
        (row,) = body.topics
        assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 1)
        assert [(c.name, c.value, c.config_source) for c in row.configs] == [
            ("retention.ms", "9", 5)
        ]
        assert row.topic_config_error_code == 0
        (event,) = served.loop.events
        assert isinstance(event.request, CreateTopics)
        assert event.request.defaults == DEFAULTS
        assert len(event.request.topics[0].topic_id) == 22
        assert validation.requested == [(("a", "1"), ("b", "2"))]
        assert served.counts.answered == {("CreateTopics", "answered"): 1}


def test_settings_that_a_broker_does_not_show_are_left_out() -> None:
    """Its reason takes their place; earlier versions have no settings."""
    with public(
        Broker({"new": (CREATE,)}, settings_errors=[29]),
        answer=created,
        validation=FakeValidation(DEFAULTS),
    ) as served:
        (row,) = answer_to(served, create("new")).topics
        assert (row.error_code, row.topic_config_error_code, row.num_partitions) == (0, 29, -1)
        (row,) = answer_to(served, create("new", version=4), 4).topics
        assert row.error_code == 0
        requested = [codec.header_of(f).api_key for f in served.brokers[0].frames]
        assert requested == [3, 32, 3]


@pytest.mark.parametrize(
    ("seen", "known", "code", "shown"),
    [
        (3, (EffectiveConfig("a", "1"), EffectiveConfig("b", "2", config_source=5)), 0, {"a", "b"}),
        (3, None, 0, {"a"}),
        (29, (EffectiveConfig("a", "1"),), 29, set()),
    ],
    ids=["described", "unknown: the client's own", "which the client may not see"],
)
def test_topic_that_is_only_validated_has_settings_in_the_answer(
    seen: int, known: tuple[EffectiveConfig, ...] | None, code: int, shown: set[str]
) -> None:
    """As with Kafka's controller; brokers describe only topics that exist."""
    broker = Broker({"new": (CREATE,)}, settings_errors=[seen])
    validation = FakeValidation(DEFAULTS, shown=known)
    with public(broker, answer=created, validation=validation) as served:
        (row,) = answer_to(served, create("new", configs=[("a", "1")], only=True)).topics
        assert (row.error_code, row.topic_config_error_code) == (0, code)
        assert {c.name for c in row.configs} == shown
        sizes = (row.num_partitions, row.replication_factor)
        assert sizes == ((-1, -1) if code else (2, 1))


@pytest.mark.parametrize(
    ("topics", "cluster", "errors"),
    [
        ({"a": (), "b": ()}, (CREATE,), {"a": 0, "b": 0}),
        ({"a": (CREATE,), "b": (ALTER,)}, (), {"a": 0, "b": 29}),
        ({"a": (CREATE,), "b": None}, None, {"a": 0, "b": 29}),
        ({"a": (), "b": (ALTER,)}, (ALTER,), {"a": 29, "b": 29}),
    ],
    ids=["all by the cluster", "one", "one, the other is unknown", "none"],
)
def test_only_permitted_topics_are_created(
    topics: Operations, cluster: Iterable[int] | None, errors: dict[str, int]
) -> None:
    """The right on the cluster is one on every topic."""
    with public(
        Broker(topics, cluster), answer=created, validation=FakeValidation(DEFAULTS)
    ) as served:
        body = answer_to(served, create("a", "b", version=4), 4)
        assert {t.name: t.error_code for t in body.topics} == errors
        requested = {t.name for e in served.loop.events for t in e.request.topics}  # type: ignore[union-attr]
        assert requested == {name for name, error in errors.items() if not error}


def test_client_whose_rights_are_unknown_gets_the_brokers_answer() -> None:
    """As if the daemon were not there."""
    with public(
        Broker({"new": None}), answer=created, validation=FakeValidation(DEFAULTS)
    ) as served:
        assert served.exchange(create("new"))[0][4:] == b"not controller"
        assert not served.loop.events


@pytest.mark.parametrize(
    ("validation", "configs"),
    [(FakeValidation(None), ()), (FakeValidation(DEFAULTS, None), (("a", "1"),))],
    ids=["a policy", "settings that cannot be validated"],
)
def test_what_brokers_alone_decide_makes_the_daemon_give_the_role_back(
    validation: FakeValidation, configs: Iterable[tuple[str, str]]
) -> None:
    """Kafka's controller carries it out then."""
    before = Broker({"new": (CREATE,)})
    given_back = threading.Event()

    def broker(header: codec.RequestHeader, frame: bytes) -> bytes:
        if not given_back.is_set():
            return before(header, frame)
        return seen(header, 1) if header.api_key == 3 else frame[4:8] + b"created"

    def give_back(event: Event) -> object:
        given_back.set()
        return created(event)

    with public(broker, answer=give_back, validation=validation) as served:
        assert served.exchange(create("new", configs=configs))[0][4:] == b"created"
        assert [e.request for e in served.loop.events] == [CedeRole("CreateTopics")]
        assert served.counts.answered == {("CreateTopics", "ceded"): 1}


def test_settings_that_brokers_reject_are_the_loops_last_objection() -> None:
    """It checks everything else before."""
    problems: dict[TopicSettings, str] = {(("a", "1"),): "Unknown topic config name: a"}
    with public(
        Broker({"new": (CREATE,)}), answer=created, validation=FakeValidation(DEFAULTS, problems)
    ) as served:
        answer_to(served, create("new", configs=[("a", "1")]))
        (event,) = served.loop.events
        assert isinstance(event.request, CreateTopics)
        assert event.request.topics[0].config_problem == "Unknown topic config name: a"


def test_settings_that_are_validated_are_those_that_the_loop_gets() -> None:
    """Brokers put them in a map: of a name that is sent twice, the last counts."""
    validation = FakeValidation(DEFAULTS, {(("a", "2"),): "bad"})
    with public(Broker({"new": (CREATE,)}), answer=created, validation=validation) as served:
        answer_to(served, create("new", configs=[("a", "3"), ("a", "2")]))
        (event,) = served.loop.events
        assert isinstance(event.request, CreateTopics)
        (topic,) = event.request.topics
        assert validation.requested == [topic.settings] == [(("a", "2"),)]
        assert topic.config_problem == "bad"


def test_role_that_is_lost_sends_the_client_to_the_next_controller() -> None:
    """It looks for it in the metadata of brokers."""

    def deposed(event: Event) -> object:
        assert isinstance(event, ClientRequestReceived)
        assert isinstance(event.request, CreateTopics)
        return error_answer(event.request, 41)

    with public(
        Broker({"new": (CREATE,)}), answer=deposed, validation=FakeValidation(DEFAULTS)
    ) as served:
        (row,) = answer_to(served, create("new")).topics
        assert row.error_code == 41
        assert served.counts.answered == {("CreateTopics", "not_controller"): 1}


def test_partitions_are_added_for_who_may_alter_the_topic() -> None:
    """Brokers need not be asked for anything else."""
    topics = [("mine", 5, [([2, 3],)]), ("theirs", 5, None)]
    frame = frame_of(
        CreatePartitionsRequest(version=3, topics=topics, timeout_ms=1000, validate_only=False)
    )
    broker = Broker({"mine": (ALTER,), "theirs": (CREATE,)}, (ALTER, CREATE))
    with public(broker, answer=created) as served:
        (answer,) = served.exchange(frame)
        body = CreatePartitionsResponse.decode(answer[5:], version=3)
        assert {r.name: r.error_code for r in body.results} == {"mine": 0, "theirs": 29}
        (event,) = served.loop.events
        more = MorePartitions("mine", 5, (replicas(2, 3),))
        assert event.request == CreatePartitions((more,), 1.0, validate_only=False)


def test_topic_ids_are_such_as_kafka_draws() -> None:
    """None begins with a dash, which a command line would take for an option."""
    drawn = {random_id() for _ in range(2000)}
    assert len(drawn) == 2000
    assert not any(i.startswith("-") for i in drawn)


@dataclass
class SilentBrokers(FakeValidation):
    """Brokers that do not answer before the test says so."""

    released: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)
    """The threads on which questions began."""

    def defaults(self) -> TopicDefaults | None:
        """Wait."""
        self.begun.append(threading.current_thread().name)
        self.released.wait(10)
        return self.found

    def is_deletion_enabled(self) -> bool | None:
        """Wait."""
        self.defaults()
        return self.deletions


def test_requests_that_wait_for_brokers_delay_no_connection_and_end_in_time() -> None:
    """Host names are still resolved; a question that did not begin is not put any more."""
    silent = SilentBrokers(DEFAULTS)
    deleted = frame_of(DeleteTopicsRequest(version=5, topic_names=["new"], timeout_ms=0))
    frames = [create("new", version=4, timeout_ms=0)] * 40 + [deleted] * 40
    rights = relayed_frames.SeenController(OWN_ID, frozenset({CREATE}), {"new": frozenset()})

    async def answers() -> list[tuple[bytes, int] | None]:
        service = topic_service(Tickets(RelayedCall(created)), silent, Listed(), patience_s=0.3)
        requests = [topic_codec.decode(frame) for frame in frames]
        requesting = [
            asyncio.create_task(
                service.answer(
                    header,
                    wanted,
                    rights,
                    None,  # type: ignore[arg-type] # no broker is asked
                    Permission("a client", None, FIRST),
                )
            )
            for header, wanted in requests
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(2):
            await asyncio.get_running_loop().getaddrinfo("localhost", 1)
        return await asyncio.gather(*requesting)

    try:
        found = asyncio.run(answers())
    finally:
        silent.released.set()
    bodies = [answer[0] for answer in found if answer is not None]
    assert len(bodies) == len(frames)
    late = [CreateTopicsResponse.decode(body[8:], version=4).topics[0] for body in bodies[:40]]
    assert {(row.name, row.error_code) for row in late} == {("new", 7)}
    kept = [DeleteTopicsResponse.decode(body[9:], version=5).responses[0] for body in bodies[40:]]
    assert {(row.name, row.error_code) for row in kept} == {("new", 7)}
    assert len(silent.begun) == THREADS
