"""Tests of ``controller.doctor.throttles``."""

from __future__ import annotations

import pytest

from controller.doctor.throttles import broker_throttles, topic_throttles
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found, subjects

LIST = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


@pytest.mark.parametrize(
    ("value", "idle"),
    [("1:1,1:2", None), ("0:1,1:1", "partitions 0"), ("*", None), ("0:1,2:1", "partitions 0, 2")],
)
def test_throttled_replicas_of_a_topic_want_a_move(value: str, idle: str | None) -> None:
    """Partition 1 is being reassigned: entries of others are left over."""
    built = SnapshotBuilder(1, 2, 3).partition(tp(0), (1, 2))
    built.partition(tp(1), (1, 2, 3), adding=(3,))
    built.with_znodes(topic_throttles={"t": {LIST: value}})
    expected = f"{LIST} names {idle}, and none of them is being reassigned"
    assert found(topic_throttles, built) == ([("t", expected)] if idle else [])


def test_all_replicas_throttled_without_any_move_are_found() -> None:
    """A record of ours is a move too: it may begin any time."""
    built = SnapshotBuilder(1).partition(tp(), (1,))
    built.with_znodes(topic_throttles={"t": {LIST: "*"}})
    assert subjects(topic_throttles, built) == ["t"]
    assert subjects(topic_throttles, built.goal(tp(), (1,))) == []


def test_rates_are_found_while_nothing_is_reassigned() -> None:
    """While anything is, they may be meant for it."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,))
    built.with_znodes(broker_throttles={"1": {RATE: "1000"}})
    assert found(broker_throttles, built) == [
        ("broker 1", f"{RATE} is 1000 bytes per second, and nothing is being reassigned")
    ]
    built.partition(tp(1), (1, 2), adding=(2,))
    assert found(broker_throttles, built) == []
