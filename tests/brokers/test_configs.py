"""Effective settings: what is made of an answer, and what is told when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.brokers.configs import DescribedTopicConfigs, topic_config_of
from controller.brokers.endpoints import ListenerChoice, Security
from controller.core.events import TopicConfigsRead
from controller.core.model import BrokerEpoch, BrokerId, Endpoint, LiveBroker, TopicConfig
from tests.brokers.fakes import CollectingInbox


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def configs(inbox: CollectingInbox) -> Iterator[DescribedTopicConfigs]:
    """Return started configs that know no broker; they are stopped when the test ends."""
    made = DescribedTopicConfigs(inbox, Security(), ListenerChoice())
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
def test_setting_that_makes_no_sense_is_told(
    least: str | None, unclean: str | None, reason: str
) -> None:
    """An unknown setting means that no step is started, so it must say why."""
    answer = entries(min_insync_replicas=least, unclean_leader_election_enable=unclean)
    assert topic_config_of(answer) == reason


def test_setting_missing_from_the_answer_is_told() -> None:
    """An empty answer is no licence."""
    assert topic_config_of({}) == "min.insync.replicas is ''"


def test_every_topic_is_answered_when_no_broker_is_known(
    configs: DescribedTopicConfigs, inbox: CollectingInbox
) -> None:
    """Before the first registration is read there is nobody to ask."""
    configs.describe(["orders", "payments"])
    event = inbox.next()
    assert isinstance(event, TopicConfigsRead)
    assert event.configs == dict.fromkeys(["orders", "payments"], "no broker is known yet")


def test_every_topic_is_answered_when_no_broker_answers(
    configs: DescribedTopicConfigs, inbox: CollectingInbox
) -> None:
    """Each broker costs one attempt; then the reason is told and the thread lives on."""
    configs.update_brokers([unreachable(1), unreachable(2)])
    configs.describe(["orders"])
    event = inbox.next()
    assert isinstance(event, TopicConfigsRead)
    assert "127.0.0.1:1" in str(event.configs["orders"])
    assert configs.is_alive


def test_settings_a_connection_cannot_be_made_with_are_answered(inbox: CollectingInbox) -> None:
    """A wrong certificate path is a reason, not an error that escapes."""
    security = Security("SSL", ssl_cafile="/nowhere/ca.pem")
    endpoint = Endpoint("SSL", "127.0.0.1", 1, "SSL")
    configs = DescribedTopicConfigs(inbox, security, ListenerChoice("SSL"))
    configs.start()
    configs.update_brokers([LiveBroker(BrokerId(1), BrokerEpoch(1), (endpoint,))])
    configs.describe(["orders"])
    event = inbox.next()
    configs.stop()
    assert isinstance(event, TopicConfigsRead)
    assert isinstance(event.configs["orders"], str)
