"""Effective settings: the decoding of a response, and the reasons when there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers.config_queries import (
    BROKER,
    DELETION,
    LIMITS,
    MIN_INSYNC_REPLICAS,
    PROTOCOL,
    UNCLEAN_LEADER_ELECTION,
    TopicConfigQuery,
    topic_config_of,
)
from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice, Security
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId, Instant, TopicConfig
from controller.core.role.records import BrokerSettingsRead
from controller.core.topics.model import ConfigRequest
from controller.core.topics.records import TopicConfigsRead
from controller.credentials import ClientTls
from tests.brokers.fakes import (
    KAFKA_2_6,
    WAIT_S,
    Answer,
    CollectingInbox,
    FakeBroker,
    Hold,
    Received,
)

FIRST = ConfigRequest(1, Instant(5.0))
SECOND = ConfigRequest(2, Instant(7.0))


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def configs(inbox: CollectingInbox) -> Iterator[TopicConfigQuery]:
    """Return started configs that know no broker; they are stopped when the test ends."""
    made = TopicConfigQuery(inbox, ConnectionSettings())
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def entries(**values: str | None) -> dict[str, str | None]:
    """Return an answer; underscores stand for dots."""
    return {name.replace("_", "."): value for name, value in values.items()}


def unreachable(broker_id: int) -> LiveBroker:
    """Return a broker on a port where nothing listens."""
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
    return LiveBroker(BrokerId(broker_id), BrokerEpoch(1), (endpoint,))


def test_settings_that_decide_about_a_step_are_read() -> None:
    """Of all settings of a topic two matter."""
    answer = entries(min_insync_replicas="2", unclean_leader_election_enable="true")
    assert topic_config_of(answer) == TopicConfig(2, unclean_leader_election=True)


@pytest.mark.parametrize(
    ("least", "unclean", "reason"),
    [
        ("0", "true", "min.insync.replicas is '0'"),
        ("two", "true", "min.insync.replicas is 'two'"),
        (None, "true", "min.insync.replicas is ''"),
        ("1", "perhaps", "unclean.leader.election.enable is 'perhaps'"),
        ("1", None, "unclean.leader.election.enable is ''"),
    ],
)
def test_an_invalid_setting_is_reported(
    least: str | None, unclean: str | None, reason: str
) -> None:
    """An unknown setting means that no step is started, so it must say why."""
    answer = entries(min_insync_replicas=least, unclean_leader_election_enable=unclean)
    assert topic_config_of(answer) == reason


def test_a_setting_missing_from_the_response_is_reported() -> None:
    """An empty answer is no licence."""
    assert topic_config_of({}) == "min.insync.replicas is ''"


def test_every_topic_is_answered_when_no_broker_is_known(
    configs: TopicConfigQuery, inbox: CollectingInbox
) -> None:
    """Before the first registration is read there is no broker to ask."""
    configs.describe(["orders", "payments"], FIRST)
    event = inbox.next()
    assert isinstance(event, TopicConfigsRead)
    assert event.configs == dict.fromkeys(["orders", "payments"], "no broker is known yet")


def test_every_topic_is_answered_when_no_broker_answers(
    configs: TopicConfigQuery, inbox: CollectingInbox
) -> None:
    """Each broker costs one attempt; then the reason is reported and the thread continues."""
    configs.update_brokers([unreachable(1), unreachable(2)])
    configs.describe(["orders"], FIRST)
    event = inbox.next()
    assert isinstance(event, TopicConfigsRead)
    assert "127.0.0.1:1" in str(event.configs["orders"])
    assert configs.is_alive


def test_settings_a_connection_cannot_be_made_with_are_answered(inbox: CollectingInbox) -> None:
    """A wrong certificate path is a reason, not an error that escapes."""
    security = Security("SSL", tls=ClientTls(cafile=Path("/nowhere/ca.pem")))
    endpoint = Endpoint("SSL", "127.0.0.1", 1, "SSL")
    configs = TopicConfigQuery(inbox, ConnectionSettings(security, ListenerChoice("SSL")))
    configs.start()
    configs.update_brokers([LiveBroker(BrokerId(1), BrokerEpoch(1), (endpoint,))])
    configs.describe(["orders"], FIRST)
    event = inbox.next()
    configs.stop()
    assert isinstance(event, TopicConfigsRead)
    assert isinstance(event.configs["orders"], str)


@pytest.mark.parametrize(
    ("value", "says"), [("true", True), ("False", False), (None, None), ("maybe", None)]
)
def test_each_broker_says_whether_topics_may_be_deleted(
    configs: TopicConfigQuery, inbox: CollectingInbox, value: str | None, *, says: bool | None
) -> None:
    """Anything but yes or no is no answer."""

    def answer(received: Received) -> Answer:
        (requested,) = received.message.resources
        assert (requested.resource_type, requested.resource_name) == (BROKER, "3")
        assert list(requested.configuration_keys) == [DELETION, PROTOCOL]
        configs = [(DELETION, value), (PROTOCOL, "3.9-IV0")]
        return Answer(_described(received.version, [(0, None, BROKER, "3", configs)]))

    with FakeBroker(3, answer, {**KAFKA_2_6, ApiKey.DescribeConfigs: (0, 2)}) as fake:
        broker = fake.registration()
        configs.describe_brokers([broker])
        event = inbox.next()
    assert isinstance(event, BrokerSettingsRead)
    assert (event.broker, event.broker_epoch) == (broker.id, broker.epoch)
    assert event.deletes_topics is says
    assert (event.problem == "") is (says is not None)
    assert event.protocol == "3.9-IV0"


@pytest.mark.parametrize("value", [None, "", "latest"])
def test_what_is_no_protocol_is_no_answer(
    configs: TopicConfigQuery, inbox: CollectingInbox, value: str | None
) -> None:
    """The other setting is read nevertheless."""

    def answer(received: Received) -> Answer:
        configs = [(DELETION, "true"), (PROTOCOL, value)]
        return Answer(_described(received.version, [(0, None, BROKER, "3", configs)]))

    with FakeBroker(3, answer, {**KAFKA_2_6, ApiKey.DescribeConfigs: (0, 2)}) as fake:
        configs.describe_brokers([fake.registration()])
        event = inbox.next()
    assert isinstance(event, BrokerSettingsRead)
    assert (event.deletes_topics, event.protocol) == (True, None)


def test_a_broker_that_cannot_be_reached_says_nothing(
    configs: TopicConfigQuery, inbox: CollectingInbox
) -> None:
    """The answer has the reason."""
    configs.describe_brokers([unreachable(1)])
    event = inbox.next()
    assert isinstance(event, BrokerSettingsRead)
    assert event.deletes_topics is None
    assert event.problem


@pytest.fixture
def hung() -> Iterator[threading.Event]:
    """Return what brokers that hang wait for; they are let go when the test ends."""
    released = threading.Event()
    yield released
    released.set()


def describing(broker_id: int, least: str, held_by: threading.Event | None = None) -> FakeBroker:
    """Return a broker that knows this minimum of every topic, or hangs until the event is set."""

    def script(received: Received) -> Answer | Hold:
        rows = [
            (0, None, r.resource_type, r.resource_name, [(name, value) for name, value in settings])
            for r in received.message.resources
        ]
        answer = Answer(_described(received.version, rows))
        return answer if held_by is None else Hold(held_by, answer)

    settings = ((MIN_INSYNC_REPLICAS, least), (UNCLEAN_LEADER_ELECTION, "false"))
    return FakeBroker(broker_id, script, {**KAFKA_2_6, ApiKey.DescribeConfigs: (0, 2)})


def _described(version: int, rows: list[tuple[Any, ...]]) -> DescribeConfigsResponse:
    results = DescribeConfigsResponse.DescribeConfigsResult
    entry = results.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        version=version,
        throttle_time_ms=0,
        results=[
            results(
                error_code=error,
                error_message=message,
                resource_type=kind,
                resource_name=name,
                configs=[
                    entry(
                        name=key,
                        value=value,
                        read_only=False,
                        config_source=5,
                        is_sensitive=False,
                        synonyms=[],
                    )
                    for key, value in configs
                ],
            )
            for error, message, kind, name, configs in rows
        ],
    )


def next_minimum(inbox: CollectingInbox) -> int | str:
    """Return the next minimum that is reported, well before a query would time out."""
    event = inbox.events.get(timeout=LIMITS.request_timeout_s / 2)
    assert isinstance(event, TopicConfigsRead)
    config = event.configs["orders"]
    return config if isinstance(config, str) else config.min_insync_replicas


def test_a_broker_that_hangs_delays_nothing_for_long(
    inbox: CollectingInbox, hung: threading.Event
) -> None:
    """Another is asked beside it, and before it from then on."""
    configs = TopicConfigQuery(inbox, ConnectionSettings(), patience_s=0.05)
    configs.start()
    with describing(1, "1", hung) as first, describing(2, "2") as second:
        configs.update_brokers([first.registration(), second.registration()])
        for _ in range(3):
            configs.describe(["orders"], FIRST)
            assert next_minimum(inbox) == 2
        hung.set()
        configs.stop()
        assert first.received.qsize() == 1
        assert second.received.qsize() == 3


def test_a_broker_that_failed_goes_last(configs: TopicConfigQuery, inbox: CollectingInbox) -> None:
    """Until it registers anew."""
    with describing(2, "2") as second, describing(1, "1") as first:
        configs.update_brokers([unreachable(1), second.registration()])
        for _ in range(2):
            configs.describe(["orders"], FIRST)
            assert next_minimum(inbox) == 2
        configs.update_brokers([first.registration(), second.registration()])
        configs.describe(["orders"], FIRST)
        assert next_minimum(inbox) == 2, "the connection that is open is used"
        second.disconnect()
        configs.describe(["orders"], FIRST)
        assert next_minimum(inbox) == 1


def test_a_broker_that_alone_is_slow_is_waited_for(
    inbox: CollectingInbox, hung: threading.Event
) -> None:
    """There is no other broker to ask."""
    configs = TopicConfigQuery(inbox, ConnectionSettings(), patience_s=0.01)
    configs.start()
    with describing(1, "1", hung) as only:
        configs.update_brokers([only.registration()])
        configs.describe(["orders"], FIRST)
        only.received.get(timeout=WAIT_S)
        hung.set()
        assert next_minimum(inbox) == 1
        configs.stop()


def test_an_answer_carries_the_newest_question_before_its_request(
    configs: TopicConfigQuery, inbox: CollectingInbox, hung: threading.Event
) -> None:
    """What is asked while a request is out is asked anew: that broker may have read before."""
    with describing(1, "1", hung) as only:
        configs.update_brokers([only.registration()])
        configs.describe(["orders"], FIRST)
        only.received.get(timeout=WAIT_S)
        configs.describe(["orders"], SECOND)
        hung.set()
        answers = [inbox.next(), inbox.next()]
    assert [a.request for a in answers if isinstance(a, TopicConfigsRead)] == [FIRST, SECOND]
