"""Tests of ``controller.doctor.migration_checks``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.model import BrokerId, TopicAssignment, TopicPartition
from controller.core.pacing.controls import Quiesce
from controller.doctor.broker_answers import Protocol
from controller.doctor.checks import MIGRATION, examine
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder

READY = Protocol("3.9-IV0", is_bridge=True)


def prepared(**parts: object) -> SnapshotBuilder:
    """Return a cluster that can be migrated."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1, 2)).min_isr("t", 2)
    built.disk(1, [tp()]).disk(2, [tp()])
    with_id = {n: replace(t, topic_id="an-id") for n, t in built.znodes.topics.items()}
    built.with_znodes(topics=with_id, quiesce=Quiesce("KRaft"))
    return built.with_parts(protocols={BrokerId(1): READY, BrokerId(2): READY} | parts)


def missing(built: SnapshotBuilder) -> list[tuple[str, str]]:
    """Return check and subject of each finding."""
    return [(f.check, f.subject) for f in examine(built.build(), checks=MIGRATION)]


def test_a_cluster_that_is_prepared_has_no_findings() -> None:
    """With a quiesced daemon, or without any."""
    assert missing(prepared()) == []
    assert missing(prepared().with_znodes(daemons=(), quiesce=None)) == []


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        (Protocol("3.8", is_bridge=True), "protocol_too_low"),
        (Protocol("2.6", is_bridge=False), "protocol_too_low"),
        (Protocol("3.9", is_bridge=True), None),
        ("not allowed", "protocol_unknown"),
    ],
)
def test_every_broker_has_to_speak_the_protocol_of_the_bridge(
    answer: Protocol | str, finding: str | None
) -> None:
    """A broker that does not say what it speaks may not start in migration mode either."""
    built = prepared().with_parts(protocols={BrokerId(1): READY, BrokerId(2): answer})
    assert missing(built) == ([] if finding is None else [(finding, "broker 2")])


def test_a_release_that_is_too_old_is_told_from_a_protocol_that_is_only_set_lower() -> None:
    """The remedies differ."""
    old, low = Protocol("2.6", is_bridge=False), Protocol("2.6", is_bridge=True)
    built = prepared().with_parts(protocols={BrokerId(1): old, BrokerId(2): low})
    first, second = examine(built.build(), checks=MIGRATION)
    assert first.advice.startswith("upgrade all brokers to Kafka 3.9")
    assert second.advice.startswith("set inter.broker.protocol.version=3.9")


def test_a_migration_that_has_begun_is_found() -> None:
    """Whatever sign there is of it."""
    guards = prepared().znodes.guards
    assert guards is not None
    for sign in (
        replace(guards, kraft_controller_epoch=1),
        replace(guards, controller_is_ephemeral=False),
        replace(guards, migration="KRaft controller 3000 is in charge of a migration"),
    ):
        built = prepared().with_znodes(guards=sign)
        assert missing(built) == [("migration_begun", "/migration")]


def test_what_the_kraft_controller_would_not_take_over_is_found() -> None:
    """Topics in deletion, without an id, and partitions without a state."""
    built = prepared()
    topic = built.znodes.topics["t"]
    nameless: TopicAssignment = replace(topic, topic_id=None)
    stateless = {p: s for p, s in built.znodes.states.items() if p != tp()}
    assert missing(prepared().with_znodes(topics={"t": nameless})) == [
        ("no_topic_id", "/brokers/topics/t")
    ]
    assert missing(prepared().with_znodes(states=stateless)) == [("no_state", "t-0")]
    gone = prepared().with_znodes(deletions=frozenset({"t"}), topics={"t": nameless}, states={})
    assert missing(gone) == [("topic_deletion", "t")]


def test_what_hurts_in_a_migration_is_found() -> None:
    """Work, throttles of anyone, replicas out of sync, and a daemon that may begin new work."""
    lagging = {TopicPartition("t", 0): prepared().znodes.states[tp()]}
    lagging[tp()] = replace(lagging[tp()], isr=(BrokerId(1),))
    throttle = {"follower.replication.throttled.rate": "5"}
    built = prepared().with_znodes(
        states=lagging, quiesce=None, broker_throttles={"<default>": throttle}
    )
    assert missing(built.min_isr("t", 1)) == [
        ("not_quiesced", "/reassigner/control/pauses"),
        ("out_of_sync", "t-0"),
        ("idle_broker_throttle", "broker <default>"),
    ]
    assert ("reassignment", "t-0") in missing(prepared().spec(tp(), (2, 1)))
