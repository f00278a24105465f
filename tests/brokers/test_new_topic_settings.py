"""What a new topic would have follows from what a broker describes of topics that exist."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from controller.brokers.topic_validation import defaults_of, described
from controller.core.calls.client_requests import DYNAMIC_TOPIC_CONFIG, EffectiveConfig

BOOLEAN, INT, LONG, DOUBLE, LIST = 1, 3, 5, 6, 7
STATIC, DEFAULT = 4, 5
Synonym = tuple[str, str | None, int]


def topic(*entries: tuple[str, str | None, int, int, list[Synonym]]) -> object:
    """Return the description of a topic: name, value, source, type and synonyms of settings."""
    rows = [
        (n, v, False, source, False, synonyms, kind, None)
        for n, v, source, kind, synonyms in entries
    ]
    body = DescribeConfigsResponse(version=3, throttle_time_ms=0, results=[(0, None, 2, "t", rows)])
    (row,) = DescribeConfigsResponse.decode(body.encode(), version=3).results
    return row


def test_topic_without_settings_has_what_another_does_not_set() -> None:
    """Whichever of the topics leaves it to the broker."""
    first = topic(
        ("retention.ms", "7", DYNAMIC_TOPIC_CONFIG, LONG, [("retention.ms", "7", 1)]),
        ("cleanup.policy", "delete", DEFAULT, LIST, [("log.cleanup.policy", "delete", DEFAULT)]),
    )
    second = topic(
        ("retention.ms", "604800000", DEFAULT, LONG, [("log.retention.hours", "168", 5)])
    )
    assert set(described(defaults_of([first, second]), ())) == {
        EffectiveConfig("retention.ms", "604800000", config_source=DEFAULT),
        EffectiveConfig("cleanup.policy", "delete", config_source=DEFAULT),
    }


@pytest.mark.parametrize(
    ("synonym", "value"),
    [
        (("log.retention.hours", "2", STATIC), "7200000"),
        (("log.retention.hours", "-1", STATIC), "-1"),
        (("log.retention.minutes", "2", STATIC), "120000"),
        (("log.retention.ms", "2", STATIC), "2"),
    ],
)
def test_what_every_topic_sets_follows_from_the_brokers_setting(
    synonym: Synonym, value: str
) -> None:
    """It may be in another unit."""
    own = ("retention.ms", "7", DYNAMIC_TOPIC_CONFIG)
    row = topic((*own, LONG, [own, synonym]))
    assert described(defaults_of([row]), ()) == (
        EffectiveConfig("retention.ms", value, config_source=STATIC),
    )


def test_what_only_topics_have_is_unknown_where_each_sets_it() -> None:
    """There is no setting of the broker behind it."""
    own = ("leader.replication.throttled.replicas", "*", DYNAMIC_TOPIC_CONFIG)
    assert described(defaults_of([topic((*own, LIST, [own]))]), ()) == ()


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (LIST, " compact , delete", "compact,delete"),
        (LIST, "", ""),
        (INT, " +5 ", "5"),
        (DOUBLE, "1", "1.0"),
        (BOOLEAN, "TRUE", "true"),
        (0, " as it is ", "as it is"),
        (INT, "not a number", "not a number"),
    ],
)
def test_own_value_is_shown_as_a_broker_writes_it(kind: int, value: str, shown: str) -> None:
    """Its source is the topic."""
    row = topic(("x", "0", DEFAULT, kind, []))
    assert described(defaults_of([row]), (("x", value),)) == (EffectiveConfig("x", shown),)
    assert described({}, (("y", "1"),)) == (EffectiveConfig("y", "1"),)
