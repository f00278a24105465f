"""What brokers say of new topics, and when it is not enough to create them without Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest
from kafka.protocol.admin import AlterConfigsResponse, DescribeConfigsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers.config_queries import LIMITS
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.topic_validation import SILENT_S, TopicValidation
from controller.core.calls.client_requests import EffectiveConfig, TopicDefaults
from tests.brokers.fakes import KAFKA_2_6, Answer, FakeBroker, Hold, Reaction, Received

UNDERSTOOD = {**KAFKA_2_6, ApiKey.DescribeConfigs: (0, 2), ApiKey.AlterConfigs: (0, 1)}
CONFIGURED: dict[str, str | None] = {
    "num.partitions": "6",
    "default.replication.factor": "3",
    "inter.broker.protocol.version": "2.7-IV2",
    "create.topic.policy.class.name": None,
    "alter.config.policy.class.name": None,
    "delete.topic.enable": "true",
}
Verdicts = dict[str, tuple[int, str | None]]
Start = Callable[..., tuple[TopicValidation, list[FakeBroker]]]


def broker(
    number: int, configured: dict[str, str | None], verdicts: Verdicts | None = None
) -> FakeBroker:
    """Return a broker with this configuration, and its verdict for each topic."""

    def script(received: Received) -> Answer:
        message = received.message
        if ApiKey.DescribeConfigs == message.API_KEY:
            shown: list[tuple[object, ...]] = [
                (name, value, True, 5, False, []) for name, value in configured.items()
            ]
            rows = [(0, None, r.resource_type, r.resource_name, shown) for r in message.resources]
            return Answer(
                DescribeConfigsResponse(version=received.version, throttle_time_ms=0, results=rows)
            )
        assert message.validate_only
        found = verdicts or {}
        judged = [
            (*found.get(r.resource_name, (0, None)), r.resource_type, r.resource_name)
            for r in message.resources
        ]
        return Answer(
            AlterConfigsResponse(version=received.version, throttle_time_ms=0, responses=judged)
        )

    return FakeBroker(number, script, UNDERSTOOD)


@pytest.fixture
def start() -> Iterator[Start]:
    """Give what starts brokers, and the adapter that asks them about topics."""
    with ExitStack() as running:

        def started(
            *brokers: FakeBroker, topics: tuple[str, ...] = ("a", "b")
        ) -> tuple[TopicValidation, list[FakeBroker]]:
            served = [running.enter_context(b) for b in brokers]
            settings = ConnectionSettings()
            validation = TopicValidation(settings, lambda: topics)
            validation.update_brokers(b.registration() for b in served)
            return validation, served

        yield started


@pytest.mark.parametrize(
    ("protocol", "has_ids"), [("2.7-IV2", False), ("2.8-IV0", True), ("3.9-IV0", True)]
)
def test_defaults_are_those_that_all_brokers_have(
    start: Start, protocol: str, *, has_ids: bool
) -> None:
    """They are asked once for each registration: these settings change with a restart only."""
    configured = {**CONFIGURED, "inter.broker.protocol.version": protocol}
    validation, served = start(broker(1, configured), broker(2, configured))
    for _ in range(2):
        assert validation.defaults() == TopicDefaults(6, 3, uses_topic_ids=has_ids)
    assert [b.connections for b in served] == [1, 1]
    validation.update_brokers([served[0].registration(), served[1].registration(epoch=101)])
    assert validation.defaults() is not None
    assert [b.connections for b in served] == [1, 2]


@pytest.mark.parametrize(
    ("protocols", "has_ids"),
    [(("2.6-IV0", "2.7-IV2"), False), (("2.7-IV2", "2.8-IV0"), True), (("2.8", "3.9-IV0"), True)],
)
def test_topic_has_an_id_as_soon_as_the_protocol_of_a_broker_has_them(
    start: Start, protocols: tuple[str, str], *, has_ids: bool
) -> None:
    """The protocol is raised one broker after the other."""
    brokers = (
        broker(n, {**CONFIGURED, "inter.broker.protocol.version": protocol})
        for n, protocol in enumerate(protocols, 1)
    )
    defaults = start(*brokers)[0].defaults()
    assert defaults == TopicDefaults(6, 3, uses_topic_ids=has_ids)


@pytest.mark.parametrize(
    "second",
    [
        {**CONFIGURED, "create.topic.policy.class.name": "org.example.Policy"},
        {**CONFIGURED, "num.partitions": "7"},
        {**CONFIGURED, "num.partitions": "many"},
    ],
)
def test_brokers_that_differ_or_have_a_policy_decide_themselves(
    start: Start, second: dict[str, str | None]
) -> None:
    """Which of them is the controller matters then."""
    assert start(broker(1, CONFIGURED), broker(2, second))[0].defaults() is None
    assert start(broker(3, second))[0].defaults() == (
        None if second["num.partitions"] != "7" else TopicDefaults(7, 3, uses_topic_ids=False)
    )


def test_a_live_broker_that_does_not_answer_may_have_a_policy(start: Start) -> None:
    """It may be the controller next; what the others say does not stand for it."""
    validation, _ = start(broker(1, CONFIGURED), broker(2, {}))
    assert validation.defaults() is None
    assert validation.config_problems({(("retention.ms", "1"),)}) is None


def test_nothing_is_known_without_brokers_or_without_the_right_to_query(start: Start) -> None:
    """A broker does not show its configuration to who may not see it; that may change."""
    assert start()[0].defaults() is None
    validation, served = start(broker(1, {}))
    assert validation.defaults() is None
    assert validation.defaults() is None
    assert served[0].connections == 2


@pytest.mark.parametrize("value", ["true", "false"])
def test_brokers_that_agree_say_whether_topics_are_deleted(start: Start, value: str) -> None:
    """Other settings may differ."""
    first = {**CONFIGURED, "delete.topic.enable": value}
    validation, _ = start(broker(1, first), broker(2, {**first, "num.partitions": "7"}))
    assert validation.is_deletion_enabled() == (value == "true")
    assert validation.defaults() is None


@pytest.mark.parametrize(
    "second",
    [
        {**CONFIGURED, "delete.topic.enable": "false"},
        {**CONFIGURED, "delete.topic.enable": "maybe"},
        {},
    ],
    ids=["differs", "unreadable", "unknown"],
)
def test_deletion_is_unknown_unless_every_broker_says_the_same(
    start: Start, second: dict[str, str | None]
) -> None:
    """One that does not answer may be the next controller."""
    assert start(broker(1, CONFIGURED), broker(2, second))[0].is_deletion_enabled() is None
    assert start(broker(3, {}))[0].is_deletion_enabled() is None
    assert start()[0].is_deletion_enabled() is None


def test_settings_are_validated_on_topics_that_exist(start: Start) -> None:
    """One of them may just have been deleted; a broker's text names the topic it was tried on."""
    text = "Invalid config value for resource ConfigResource(type=TOPIC, name='b'): Bad x: no"
    requested = {(("x", "no"),): "Bad x: no"}
    validation, _ = start(broker(1, CONFIGURED, {"a": (3, "gone"), "b": (42, text)}))
    assert validation.config_problems(requested) == requested
    validation, _ = start(broker(1, CONFIGURED, {"a": (40, "Unknown topic config name: x")}))
    assert validation.config_problems(requested) == {}


@pytest.mark.parametrize("error", [3, 29, -1])
def test_verdict_that_no_broker_gives_is_unknown(start: Start, error: int) -> None:
    """Without the right to alter settings, for example."""
    verdicts: Verdicts = {"a": (error, None), "b": (error, None)}
    validation, _ = start(broker(1, CONFIGURED, verdicts))
    assert validation.config_problems([(("x", "1"),)]) is None


def test_policy_for_settings_decides_itself(start: Start) -> None:
    """It would judge the topic on which they are tried."""
    policy = {**CONFIGURED, "alter.config.policy.class.name": "org.example.Policy"}
    assert start(broker(1, policy))[0].config_problems([(("x", "1"),)]) is None
    assert start(broker(2, CONFIGURED), topics=())[0].config_problems([(("x", "1"),)]) is None


def test_new_topic_is_described_by_a_topic_that_exists(start: Start) -> None:
    """Without one, or with a broker that does not say, nothing is known."""
    validation, _ = start(broker(1, {}), broker(2, {"retention.ms": "7"}))
    assert validation.described([(), (("retention.ms", "9"),)]) == {
        (): (EffectiveConfig("retention.ms", "7", read_only=True, config_source=5),),
        (("retention.ms", "9"),): (EffectiveConfig("retention.ms", "9", read_only=True),),
    }
    assert start(broker(3, {}))[0].described([()]) is None
    assert start(broker(4, {"retention.ms": "7"}), topics=())[0].described([()]) is None


def hold(served: FakeBroker, api_key: int, released: threading.Event) -> None:
    """Let a broker not answer these requests before the test says so."""
    script = served.script

    def held(received: Received) -> Reaction:
        reaction = script(received)
        if received.api_key != api_key:
            return reaction
        assert isinstance(reaction, Answer)
        return Hold(released, reaction)

    served.script = held


def impatient(validation: TopicValidation) -> None:
    """Await brokers for a moment only."""
    validation.limits = replace(LIMITS, request_timeout_s=0.3)


def test_silent_broker_is_queried_once_for_all_requests_and_again_later(start: Start) -> None:
    """Those that come while it is asked, or soon after, do not wait again; unless it restarts."""
    validation, served = start(broker(1, CONFIGURED), broker(2, CONFIGURED))
    impatient(validation)
    released = threading.Event()
    hold(served[1], ApiKey.DescribeConfigs, released)
    validation.silent_s = 0.0
    assert validation.defaults() is None
    validation.silent_s = SILENT_S
    with ThreadPoolExecutor(12) as clients:
        found = [clients.submit(validation.defaults) for _ in range(12)]
        assert [f.result() for f in found] == [None] * 12
    assert validation.is_deletion_enabled() is None
    assert [b.connections for b in served] == [1, 2]
    released.set()
    validation.update_brokers([served[0].registration(), served[1].registration(epoch=101)])
    assert validation.defaults() is not None
    assert [b.connections for b in served] == [1, 3]


def test_settings_are_not_validated_by_a_broker_that_was_just_silent(start: Start) -> None:
    """The next broker answers at once."""
    validation, served = start(broker(1, CONFIGURED), broker(2, CONFIGURED))
    assert validation.defaults() is not None
    impatient(validation)
    released = threading.Event()
    hold(served[0], ApiKey.AlterConfigs, released)
    for _ in range(2):
        assert validation.config_problems([(("x", "1"),)]) == {}
    released.set()
    assert [b.connections for b in served] == [2, 3]
