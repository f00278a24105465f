"""Tests of ``controller.doctor.znode_checks``."""

from __future__ import annotations

import pytest

from controller.core.model import BrokerId, ZkVersion
from controller.core.pacing.throttle_settings import (
    AppliedThrottle,
    Entity,
    broker_entity,
    topic_entity,
)
from controller.doctor.findings import Severity
from controller.doctor.znode_checks import (
    broker_throttles,
    orphan_throttles,
    topic_throttles,
)
from controller.znodes.paths import reassignment_path
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
    assert subjects(topic_throttles, built.spec(tp(), (1,))) == []


def test_rates_are_found_while_nothing_is_reassigned() -> None:
    """While anything is, they may be meant for it."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,))
    built.with_znodes(broker_throttles={"1": {RATE: "1000"}})
    assert found(broker_throttles, built) == [
        ("broker 1", f"{RATE} is 1000 bytes per second, and no partition is being reassigned")
    ]
    built.partition(tp(1), (1, 2), adding=(2,))
    assert found(broker_throttles, built) == []


ON_TOPIC, ON_BROKER, ON_FOUR = topic_entity("t"), broker_entity(BrokerId(1)), Entity("brokers/4")


def leased(built: SnapshotBuilder, *entities: Entity) -> SnapshotBuilder:
    """Let a daemon have set throttles, list or rate, on topics and brokers."""
    keys = {e: LIST if e.startswith("topics/") else RATE for e in entities}
    applied_throttles = {
        e: AppliedThrottle(e, {k: "7"}, {k: None}, ZkVersion(2)) for e, k in keys.items()
    }
    return built.with_znodes(applied_throttles=applied_throttles)


def test_a_throttle_of_ours_without_a_reassignment_is_an_orphan() -> None:
    """A record concerns its topic and the brokers it copies between, and no other."""
    built = SnapshotBuilder(1, 2, 3, 4).partition(tp(), (1, 2))
    leased(built, ON_TOPIC, ON_BROKER, ON_FOUR)
    orphans = {lease.entity for lease in built.build().znodes.unneeded_throttles()}
    assert orphans == {ON_BROKER, ON_FOUR, ON_TOPIC}
    built.spec(tp(), (1, 3))
    assert found(orphan_throttles, built) == [
        (ON_FOUR, f"a daemon set {RATE}, and no recorded reassignment needs it")
    ]


def test_an_orphan_throttle_is_a_remark_where_a_daemon_leads() -> None:
    """It is about to lift it."""
    built = leased(SnapshotBuilder(1), ON_TOPIC)
    for daemons, severity in (((), Severity.WARNING), (("a:1",), Severity.INFO)):
        built.with_znodes(daemons=daemons)
        assert [f.severity for f in orphan_throttles(built.build())] == [severity]


def test_a_record_that_cannot_be_understood_may_need_any_throttle() -> None:
    """So none is taken for an orphan."""
    built = leased(SnapshotBuilder(1), ON_TOPIC, ON_BROKER)
    built.with_znodes(unreadable={reassignment_path(tp()): "nonsense"})
    assert built.build().znodes.unneeded_throttles() == []


def test_a_throttle_with_a_record_is_reported_once() -> None:
    """Advice to delete the setting by hand would leave the lease behind."""
    built = leased(SnapshotBuilder(1).partition(tp(), (1,)), ON_TOPIC, ON_BROKER)
    built.with_znodes(
        topic_throttles={"t": {LIST: "0:1"}}, broker_throttles={"1": {RATE: "7"}, "2": {RATE: "7"}}
    )
    assert subjects(topic_throttles, built) == []
    assert subjects(broker_throttles, built) == ["broker 2"]
