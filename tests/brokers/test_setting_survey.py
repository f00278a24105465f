"""Brokers validate the settings in ZooKeeper; each set once, and each broker its own."""

from __future__ import annotations

from contextlib import ExitStack

from kafka.protocol.admin import AlterConfigsResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.setting_survey import judge_settings
from controller.core.pacing.throttle_settings import Entity
from controller.doctor.broker_answers import NoVerdict, SettingVerdicts
from tests.brokers.fakes import KAFKA_2_6, Answer, FakeBroker, Received

UNDERSTOOD = {**KAFKA_2_6, ApiKey.AlterConfigs: (0, 1)}
GOOD, BAD = {"retention.ms": "1"}, {"retention.ms": "soon"}


def broker(number: int, requested: list[tuple[int, str]], error: int = 0) -> FakeBroker:
    """Return a broker that rejects BAD, or says this of everything."""

    def script(received: Received) -> Answer:
        assert received.message.validate_only
        rows = []
        for resource in received.message.resources:
            requested.append((number, resource.resource_name))
            is_bad = any(c.value == "soon" for c in resource.configs)
            text = f"Invalid config value for resource ConfigResource(name='{number}'): Bad x"
            code = error or (40 if is_bad else 0)
            rows.append((code, text, resource.resource_type, resource.resource_name))
        return Answer(
            AlterConfigsResponse(version=received.version, throttle_time_ms=0, responses=rows)
        )

    return FakeBroker(number, script, UNDERSTOOD)


def judged(
    *brokers: FakeBroker,
    topics: dict[str, dict[str, str]] | None = None,
    of_brokers: dict[str, dict[str, str]] | None = None,
) -> SettingVerdicts:
    """Return what these brokers say."""
    with ExitStack() as running:
        live = [running.enter_context(b).registration() for b in brokers]
        return judge_settings(
            ConnectionSettings(), live, topics or {}, of_brokers or {}, within_s=10
        )


def test_settings_that_several_topics_have_are_validated_once() -> None:
    """By one broker, on one of the topics."""
    requested: list[tuple[int, str]] = []
    topics = {"a": GOOD, "b": BAD, "c": GOOD, "d": BAD}
    found = judged(broker(1, requested), broker(2, requested), topics=topics)
    assert found.rejected == {Entity("topics/b"): "Bad x", Entity("topics/d"): "Bad x"}
    assert not found.unknown
    assert sorted(requested) == [(1, "a"), (1, "b")]


def test_each_live_broker_validates_its_own_settings_and_any_the_defaults() -> None:
    """Those of other brokers stay unknown, and encrypted ones are not sent."""
    requested: list[tuple[int, str]] = []
    found = judged(
        broker(1, requested),
        broker(2, requested),
        of_brokers={
            "<default>": BAD,
            "1": GOOD,
            "2": BAD,
            "3": {"ssl.key.password": "x"},
            "9": GOOD,
        },
    )
    assert found.rejected == {Entity("brokers/<default>"): "Bad x", Entity("brokers/2"): "Bad x"}
    assert found.unknown == {
        Entity("brokers/3"): NoVerdict.ENCRYPTED,
        Entity("brokers/9"): NoVerdict.NOT_LIVE,
    }
    assert sorted(requested) == [(1, ""), (1, "1"), (2, "2")]


def test_what_no_broker_may_say_is_unknown() -> None:
    """Without the right to alter settings, each broker is asked; without settings, none."""
    requested: list[tuple[int, str]] = []
    brokers = (broker(1, requested, error=29), broker(2, requested, error=29))
    found = judged(*brokers, topics={"a": BAD})
    assert not found.rejected
    assert found.unknown[Entity("topics/a")].startswith("error 29, ")
    assert requested == [(1, "a"), (2, "a")]
    assert judged(broker(3, requested)) == SettingVerdicts()
    assert len(requested) == 2
