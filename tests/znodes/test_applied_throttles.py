"""Throttles we set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import (
    AppliedThrottle,
    Entity,
    broker_entity,
    topic_entity,
)
from controller.znodes.entity_configs import decode_applied_throttle, encode_applied_throttle
from controller.znodes.paths import APPLIED_THROTTLES, applied_throttle_path
from tests.znodes.strategies import ANY_BYTES, BROKERS, TOPICS, WORDS, document

ENTITIES = TOPICS.map(topic_entity) | BROKERS.map(broker_entity)
SETTINGS = st.dictionaries(WORDS, st.tuples(WORDS, st.none() | WORDS), max_size=4)


@given(ENTITIES, SETTINGS)
def test_what_is_encoded_is_decoded(
    entity: Entity, settings: dict[str, tuple[str, str | None]]
) -> None:
    """Path and content together say everything."""
    lease = AppliedThrottle(
        entity,
        {key: ours for key, (ours, _) in settings.items()},
        {key: before for key, (_, before) in settings.items()},
        ZkVersion(4),
    )
    path = applied_throttle_path(entity)
    assert path.startswith(f"{APPLIED_THROTTLES}/")
    assert (
        decode_applied_throttle(
            path.rpartition("/")[2], encode_applied_throttle(lease), ZkVersion(4)
        )
        == lease
    )


@given(st.text(max_size=20), ANY_BYTES)
def test_any_bytes_give_a_lease_or_a_reason(name: str, data: bytes) -> None:
    """Nothing whatever raises."""
    assert isinstance(decode_applied_throttle(name, data, ZkVersion(0)), str | AppliedThrottle)
    assert isinstance(
        decode_applied_throttle("topics:t", data, ZkVersion(0)), str | AppliedThrottle
    )


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("topics", {"ours": {}, "before": {}}),
        ("topics:..", {"ours": {}, "before": {}}),
        ("brokers:x", {"ours": {}, "before": {}}),
        ("topics/t", {"ours": {}, "before": {}}),
        ("users:t", {"ours": {}, "before": {}}),
        ("topics:t", {"ours": {"k": None}, "before": {"k": None}}),
        ("topics:t", {"ours": {"k": "v"}, "before": {}}),
        ("topics:t", {"ours": {"k": "v"}}),
        ("topics:t", {"ours": {"k": 5}, "before": {"k": None}}),
    ],
)
def test_what_is_no_lease_is_refused(name: str, members: dict[str, object]) -> None:
    """An operator's setting is never replaced on a guess."""
    assert isinstance(
        decode_applied_throttle(name, document(version=1, **members), ZkVersion(0)), str
    )
