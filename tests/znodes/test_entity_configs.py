"""Kafka's dynamic settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, ZkVersion
from controller.core.pacing.throttle_settings import EntityConfig, broker_entity, topic_entity
from controller.znodes.entity_configs import (
    decode_entity_config,
    encode_announcement,
    encode_entity_config,
)
from tests.znodes.strategies import ANY_BYTES, WORDS, document


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_what_is_encoded_is_decoded(values: dict[str, str]) -> None:
    """A round trip loses no setting, known to us or not."""
    data = encode_entity_config(values.items())
    assert decode_entity_config(data, ZkVersion(3)) == EntityConfig(values, ZkVersion(3))


@given(ANY_BYTES)
def test_any_bytes_give_settings_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_entity_config(data, ZkVersion(0)), str | EntityConfig)


def test_the_bytes_are_kafkas_own() -> None:
    """What Kafka 2.3 to 3.9 write and read."""
    assert encode_entity_config([("a.b", "1")]) == b'{"version":1,"config":{"a.b":"1"}}'
    assert encode_announcement(topic_entity("t")) == b'{"version":2,"entity_path":"topics/t"}'
    assert encode_announcement(broker_entity(BrokerId(5))) == (
        b'{"version":2,"entity_path":"brokers/5"}'
    )


def test_an_empty_node_has_no_settings() -> None:
    """As Kafka reads it."""
    assert decode_entity_config(b"", ZkVersion(0)) == EntityConfig({}, ZkVersion(0))


@pytest.mark.parametrize("config", [[], "x", {"a": 5}, {"a": None}])
def test_settings_that_are_no_texts_are_refused(config: object) -> None:
    """They would be lost when the znode is written."""
    assert isinstance(decode_entity_config(document(version=1, config=config), ZkVersion(0)), str)
