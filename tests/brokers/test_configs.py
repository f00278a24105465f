"""Effective settings: what is made of an answer, and what is told when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import ConfigEntry  # type: ignore[attr-defined]

from controller.brokers.configs import DescribedTopicConfigs, client_settings, topic_config_of
from controller.brokers.endpoints import ListenerChoice, Security
from controller.core.events import TopicConfigsRead
from controller.core.model import BrokerEpoch, BrokerId, Endpoint, LiveBroker, TopicConfig
from controller.errors import BrokerUnreachableError
from tests.brokers.fakes import CollectingInbox


class Token:
    """A source of one token."""

    def token(self) -> str:
        """Return it."""
        return "t0k3n"


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


def entries(**values: str | None) -> dict[str, ConfigEntry]:
    """Return an answer; underscores stand for dots."""
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {name: ConfigEntry(name, value) for name, value in named.items()}


def test_settings_that_decide_about_a_step_are_read() -> None:
    """Of all settings of a topic two matter."""
    answer = entries(
        min_insync_replicas="2", unclean_leader_election_enable="true", retention_ms="1"
    )
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


def test_topic_name_that_makes_no_sense_is_answered(
    configs: DescribedTopicConfigs, inbox: CollectingInbox
) -> None:
    """Garbage is answered with a reason and leaves the thread alive."""
    configs.update_brokers([broker()])
    configs.describe([""])
    event = inbox.next()
    assert isinstance(event, TopicConfigsRead)
    assert isinstance(event.configs[""], str)
    assert configs.is_alive


def test_settings_a_client_cannot_be_made_with_are_answered(inbox: CollectingInbox) -> None:
    """A wrong certificate path is a reason, not an error that escapes."""
    security = Security("SSL", ssl_cafile="/nowhere/ca.pem")
    configs = DescribedTopicConfigs(inbox, security, ListenerChoice("SSL"), ["localhost:1"])
    configs.start()
    configs.describe(["orders"])
    event = inbox.next()
    configs.stop()
    assert isinstance(event, TopicConfigsRead)
    assert "ssl.ca.location" in str(event.configs["orders"])


def test_protocol_of_brokers_is_unknown_when_nobody_can_be_asked(
    configs: DescribedTopicConfigs,
) -> None:
    """Each broker asked about is in the answer."""
    answers = configs.inter_broker_protocol([BrokerId(1), BrokerId(2)])
    assert [str(answers[BrokerId(n)]) for n in (1, 2)] == ["no broker is known yet"] * 2
    assert isinstance(answers[BrokerId(1)], BrokerUnreachableError)


def test_client_settings_leave_out_what_is_not_set() -> None:
    """The plain case needs next to nothing, and never a secret."""
    settings = client_settings(Security(), ["a:1", "b:2"])
    assert settings["bootstrap.servers"] == "a:1,b:2"
    assert not [name for name in settings if name.startswith("ssl") or "password" in name]


def test_client_settings_carry_tls_and_sasl() -> None:
    """What channels use, the admin client uses too, under its own names."""
    security = Security(
        "SASL_SSL",
        ssl_cafile="ca.pem",
        ssl_certfile="cert.pem",
        ssl_keyfile="key.pem",
        ssl_check_hostname=False,
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="reassigner",
        sasl_plain_password="secret",  # noqa: S106
    )
    settings = client_settings(security, ["a:1"])
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["ssl.ca.location"] == "ca.pem"
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert settings["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings["sasl.password"] == "secret"


def test_client_asks_the_token_provider() -> None:
    """A bearer token comes with the time until which it may be used."""
    security = Security(sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Token())
    token, expiry = client_settings(security, ["a:1"])["oauth_cb"]("")
    assert token == "t0k3n"  # noqa: S105
    assert expiry > 0


def broker(host: str = "127.0.0.1", port: int = 1) -> LiveBroker:
    """Return a registration."""
    return LiveBroker(
        BrokerId(1), BrokerEpoch(1), (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)
    )
