"""Tests of ``controller.doctor.partition_checks``."""

from __future__ import annotations

import pytest

from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, Zxid
from controller.doctor.broker_answers import Disks
from controller.doctor.findings import Severity, why_orphaned
from controller.doctor.partition_checks import old_copies, orphans, stray_logs
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder, found, subjects

RECORDED = "recorded because its broker was not live"


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
    assert found(orphans, built) == [("t-0 on broker 2", f"{RECORDED}; {state}")]


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        (EngineName.NATIVE, "nothing: the deletion follows when no live replica lags"),
        (
            EngineName.DELEGATED,
            "no request of Kafka deletes it: stop the broker, run `rm -r DIRECTORY` on its machine",
        ),
        (None, "a daemon with the native engine has it deleted; without one, stop the broker"),
    ],
)
def test_advice_about_an_orphan_is_true_for_the_engine(
    engine: EngineName | None, advice: str
) -> None:
    """Only a controller may send the request that deletes it; the evidence has the directory."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,)).orphan(2, tp())
    built.disks[BrokerId(2)] = Disks(frozenset({tp()}), placed={tp(): "/data/1"})
    (finding,) = orphans(built.with_parts(engine=engine).build())
    assert finding.advice.startswith(advice)
    assert finding.evidence.endswith("that broker is live and still has the directory /data/1/t-0")


def test_orphan_without_a_log_ends_by_itself() -> None:
    """And one on a dead broker is known when it is back."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,)).orphan(2, tp()).disk(2, [])
    built.with_parts(engine=EngineName.DELEGATED)
    (gone,) = orphans(built.build())
    assert gone.advice == "nothing: the daemon ends the record when the broker reports no log of it"
    dead = SnapshotBuilder(1).partition(tp(), (1,)).orphan(2, tp())
    (away,) = orphans(dead.with_parts(engine=EngineName.DELEGATED).build())
    assert away.advice.startswith("start the broker")


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_what_the_daemon_deletes_is_a_remark_for_each_broker(engine: EngineName) -> None:
    """Nothing has to be done; where something has, each is a warning."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1,)).orphan(2, tp()).silent(2, "no")
    for number in range(11):
        built.partition(tp(number), (1,)).orphan(3, tp(number))
    built.with_parts(engine=engine)
    listed = list(old_copies(built.build()))
    if engine is EngineName.DELEGATED:
        assert [f.severity for f in listed] == [Severity.WARNING] * 11 + [Severity.INFO]
        return
    assert [(f.severity, f.subject, f.advice) for f in listed] == [
        (Severity.INFO, "broker 2", "nothing: the deletion follows when no live replica lags"),
        (Severity.INFO, "broker 3", "nothing: the deletion follows when that broker is back"),
    ]
    assert listed[0].evidence == "may still hold an old copy of t-0"
    assert listed[1].evidence.startswith("may still hold old copies of 11 partitions: t-0, t-1,")
    assert len(list(orphans(built.build()))) == 12


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("not live", "its broker was not live"),
        ("its broker was dead when it was dropped", "its broker was dead when it was dropped"),
    ],
)
def test_the_reason_of_a_record_is_a_sentence(reason: str, words: str) -> None:
    """Some are sentences already."""
    assert why_orphaned(reason) == words


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
