"""Tests of ``controller.doctor.partition_checks``."""

from __future__ import annotations

from controller.doctor.partition_checks import (
    failed_disks,
    leaderless,
    offline_replicas,
    out_of_sync,
    under_min_isr,
    unknown_min_isr,
)
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found, subjects


def test_a_partition_without_a_live_leader_is_found() -> None:
    """Its leader is dead, or there is none; a topic that is being deleted does not count."""
    built = SnapshotBuilder(1).partition(tp(0), (1,))
    assert found(leaderless, built) == []
    built.partition(tp(1), (2,)).partition(tp(2), (2, 3), leader=-1, isr=(2,))
    built.partition(tp(0, "going"), (2,)).with_znodes(deletions=frozenset({"going"}))
    assert found(leaderless, built) == [
        ("t-1", "leader 2 is not live; its ISR is 2"),
        ("t-2", "leader -1 is not live; its ISR is 2"),
    ]


def test_too_few_live_replicas_in_sync_are_found() -> None:
    """A dead member of the ISR does not count; what is not known is not judged."""
    built = SnapshotBuilder(1, 2).min_isr("t", 2).partition(tp(0), (1, 2))
    built.partition(tp(0, "unread"), (1,))
    assert found(under_min_isr, built) == []
    built.partition(tp(1), (1, 3))
    assert found(under_min_isr, built) == [("t-1", "1 of 1,3 in sync, min.insync.replicas is 2")]


def test_unreadable_settings_are_found() -> None:
    """Nothing of such a topic can begin."""
    built = SnapshotBuilder(1).min_isr("t", 1).min_isr("closed", "error 29: not allowed")
    assert found(unknown_min_isr, built) == [
        ("closed", "min.insync.replicas is not known: error 29: not allowed")
    ]


def test_a_live_replica_out_of_sync_is_found() -> None:
    """Not one that is just being added, nor one on a dead broker: that is said of the broker."""
    built = SnapshotBuilder(1, 2).partition(tp(0), (1, 2, 3), isr=(1, 2))
    built.partition(tp(1), (1, 2), adding=(2,), isr=(1,))
    assert found(out_of_sync, built) == []
    built.partition(tp(2), (1, 2), isr=(1,))
    assert subjects(out_of_sync, built) == ["t-2"]


def test_failed_disks_and_silent_brokers_are_found() -> None:
    """A broker that does not answer may hold anything."""
    built = SnapshotBuilder(1, 2).disk(1, ())
    assert found(failed_disks, built) == []
    built.disk(1, (), "/data/0").silent(2, "no answer in time")
    assert found(failed_disks, built) == [
        ("broker 1", "log directory /data/0 is offline"),
        ("broker 2", "did not describe its log directories: no answer in time"),
    ]


def test_a_replica_without_a_directory_is_found() -> None:
    """Not where the broker is silent, nor what was assigned only while we looked."""
    built = SnapshotBuilder(1, 2).partition(tp(0), (1, 2)).disk(1, [tp(0)]).silent(2, "no")
    assert found(offline_replicas, built) == []
    built.disk(2, ())
    assert found(offline_replicas, built) == [
        ("t-0", "broker 2 is live and has no directory of it")
    ]
    built.before(SnapshotBuilder(1, 2).partition(tp(0), (1,)))
    assert found(offline_replicas, built) == []
