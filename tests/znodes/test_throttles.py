"""Tests of ``controller.znodes.entity_configs``."""

from __future__ import annotations

import json

import pytest

from controller.znodes.entity_configs import EVERYTHING, decode_throttles, throttled_partitions


def test_only_throttles_are_read() -> None:
    """Of all settings of a topic or broker."""
    config = {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.rate": "1000",
        "leader.replication.throttled.rate": "",
        "retention.ms": "5",
    }
    assert decode_throttles(json.dumps({"version": 1, "config": config}).encode()) == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.rate": "1000",
    }


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b'{"config": 7}'])
def test_garbage_is_a_reason(data: bytes) -> None:
    """No exception escapes."""
    assert isinstance(decode_throttles(data), str)


@pytest.mark.parametrize(
    ("value", "partitions"),
    [("0:1,0:2,12:3", {0, 12}), ("", set()), ("x:1, 3:1", {3}), ("*", EVERYTHING)],
)
def test_lists_name_partitions(value: str, partitions: set[int]) -> None:
    """What is no partition is left out."""
    assert throttled_partitions(value) == partitions
