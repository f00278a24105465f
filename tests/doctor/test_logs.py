"""Tests of ``controller.doctor.partition_checks``."""

from __future__ import annotations

import pytest

from controller.core.model import Zxid
from controller.doctor.partition_checks import orphans, stray_logs
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found, subjects


@pytest.mark.parametrize(
    ("built", "state"),
    [
        (SnapshotBuilder(1).partition(tp(), (1,)).orphan(2, tp()), "that broker is not live"),
        (
            SnapshotBuilder(1, 2).partition(tp(), (1, 2)).orphan(2, tp()),
            "that broker is assigned the partition again",
        ),
        (
            SnapshotBuilder(1, 2).partition(tp(), (1,)).orphan(2, tp(), Zxid(8)),
            "the topic was deleted and created again since",
        ),
        (
            SnapshotBuilder(1, 2).partition(tp(), (1,)).orphan(2, tp()).disk(2, [tp()]),
            "that broker is live and still has a directory of it",
        ),
        (
            SnapshotBuilder(1, 2).orphan(2, tp()).disk(2, []),
            "that broker is live and no longer has a directory of it",
        ),
        (SnapshotBuilder(1, 2).orphan(2, tp()).silent(2, "no"), "that broker is live"),
    ],
)
def test_an_orphan_says_how_its_broker_stands(built: SnapshotBuilder, state: str) -> None:
    """It decides whether anybody can do something about it now."""
    assert found(orphans, built) == [("t-0 on broker 2", f"recorded because not live; {state}")]


def test_without_orphan_records_nothing_is_found() -> None:
    """Assigned replicas are none."""
    assert found(orphans, SnapshotBuilder(1).partition(tp(), (1,))) == []


def test_a_directory_outside_every_assignment_is_stray() -> None:
    """Of a topic that exists, and of one that does not."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,)).disk(1, [tp()])
    assert found(stray_logs, built) == []
    built.disk(2, [tp(), tp(3, "ghost")])
    assert subjects(stray_logs, built) == ["ghost-3 on broker 2", "t-0 on broker 2"]


def test_what_is_explained_is_not_stray() -> None:
    """An orphan record, a topic deletion, a znode that cannot be read, a move while we looked."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,)).silent(1, "no answer")
    built.disk(2, [tp(), tp(1, "recorded"), tp(0, "going"), tp(0, "garbled")])
    built.orphan(2, tp(1, "recorded"))
    built.with_znodes(
        deletions=frozenset({"going"}), unreadable={"/brokers/topics/garbled": "not JSON"}
    )
    assert subjects(stray_logs, built) == ["t-0 on broker 2"]
    built.before(SnapshotBuilder(1, 2).partition(tp(), (1, 2)))
    assert subjects(stray_logs, built) == []
