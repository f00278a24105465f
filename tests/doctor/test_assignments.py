"""Tests of ``controller.doctor.partition_checks``."""

from __future__ import annotations

from controller.core.model import BrokerId
from controller.doctor.findings import Severity
from controller.doctor.partition_checks import (
    controller_replicas,
    dead_brokers,
    foreign_reassignments,
    unexplained_replicas,
    unknown_drains,
    waiting_deletions,
)
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found, subjects


def test_a_reassignment_without_a_record_of_ours_is_foreign() -> None:
    """Ours, and what is at rest, are not."""
    built = SnapshotBuilder(1, 2, 3).partition(tp(0), (1, 2))
    built.partition(tp(1), (1, 2, 3), adding=(3,), removing=(1,)).spec(tp(1), (2, 3))
    assert found(foreign_reassignments, built) == []
    built.partition(tp(2), (1, 2, 3), adding=(3,), removing=(1,))
    ((subject, evidence),) = found(foreign_reassignments, built)
    assert subject == "t-2"
    assert evidence.startswith("adding 3, removing 1 of 1,2,3")


def test_a_dead_broker_is_one_finding_however_many_replicas_it_has() -> None:
    """With their number and one of them by name."""
    built = SnapshotBuilder(1).partition(tp(0), (1,))
    assert found(dead_brokers, built) == []
    built.partition(tp(1), (1, 2)).partition(tp(2), (1, 2))
    assert found(dead_brokers, built) == [
        ("broker 2", "not registered, and a replica of 2 partitions, such as t-1")
    ]


def test_a_deletion_that_waits_for_a_broker_is_found() -> None:
    """One finding for each topic; one whose brokers are live ends soon."""
    built = SnapshotBuilder(1, 2).partition(tp(0), (1, 3)).partition(tp(0, "soon"), (1, 2))
    assert found(waiting_deletions, built) == []
    built.partition(tp(1), (4, 1)).with_znodes(deletions=frozenset({"t", "soon"}))
    assert found(waiting_deletions, built) == [
        ("t", "its deletion waits for broker 3,4, which is not live and has a replica")
    ]


def test_a_drain_of_a_broker_that_does_not_exist_is_found() -> None:
    """A live one, or one with replicas, may be drained."""
    built = SnapshotBuilder(1, 2).partition(tp(0), (1, 3))
    drained = frozenset(map(BrokerId, (2, 3)))
    assert found(unknown_drains, built.with_znodes(drained=drained)) == []
    drained |= {BrokerId(4)}
    assert subjects(unknown_drains, built.with_znodes(drained=drained)) == ["broker 4"]


def test_replica_on_the_daemon_is_not_a_dead_broker() -> None:
    """It never was one; without a state the daemon itself repairs it."""
    own = 1_000_000
    built = SnapshotBuilder(1, 2).partition(tp(0), (1, 2)).partition(tp(1), (own, 1), leader=1)
    built.partition(tp(2), (own,), leader=None)
    assert found(dead_brokers, built) == []
    findings = list(controller_replicas(built.build()))
    assert [(f.subject, f.severity) for f in findings] == [
        ("t-1", Severity.WARNING),
        ("t-2", Severity.CRITICAL),
    ]
    assert "submit a plan" in findings[0].advice
    assert subjects(controller_replicas, built.with_parts(controller_id=7)) == []


def test_more_replicas_than_the_topics_others_want_an_explanation() -> None:
    """A reassignment under way or a record of ours is one."""
    built = SnapshotBuilder(1, 2, 3)
    for number in range(3):
        built.partition(tp(number), (1, 2))
    assert found(unexplained_replicas, built) == []
    built.partition(tp(3), (1, 2, 3)).partition(tp(4), (1, 2, 3), adding=(3,))
    built.partition(tp(5), (1, 2, 3)).spec(tp(5), (1, 2))
    assert subjects(unexplained_replicas, built) == ["t-3"]


def test_of_two_replication_factors_that_tie_the_smaller_is_usual() -> None:
    """An expansion is found even in a topic of two partitions."""
    built = SnapshotBuilder(1, 2, 3).partition(tp(0), (1, 2)).partition(tp(1), (1, 2, 3))
    assert subjects(unexplained_replicas, built) == ["t-1"]
