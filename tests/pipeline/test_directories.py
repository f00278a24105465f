"""Plans of log directories: where new replicas go, and what evens out the volumes of brokers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clusters import SHAPES, make_cluster
from benchmarks.snapshots import write_cluster
from controller.errors import InvalidInputError
from controller.pipeline import commands
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.snapshot_tables import read_tables, write_tables
from controller.pipeline.volume_table import DirectoryPlacement, VolumeTable
from controller.pipeline.waves import WaveLimits
from controller.planning.volumes import Volume

SMALL = replace(SHAPES["J"], brokers=6, partitions=300, topics=10, empty=1)
FILL = 0.96


def a_table(*used: int, total: int = 100, paths: tuple[str, ...] = ("/d",)) -> VolumeTable:
    """Return the volumes of one broker; each has the paths with its number."""
    volumes = tuple(Volume(f"/v{n}", total, held) for n, held in enumerate(used))
    named = tuple(tuple(f"{path}{n}" for path in paths) for n in range(len(used)))
    owner = (0,) * len(used)
    return VolumeTable((1,), volumes, owner, named, 0.9, frozenset(), np.array(used))


# --- placement of new replicas -------------------------------------------------------------------


def test_a_new_replica_goes_where_most_is_free_after_the_choices_so_far() -> None:
    """The second one goes elsewhere, as the first has taken the room."""
    placement = DirectoryPlacement(a_table(30, 40))
    assert [placement.place("t-0", 20, 0) for _ in range(3)] == [(0, "/d0"), (1, "/d1"), (0, "/d0")]


def test_a_directory_without_room_is_not_taken() -> None:
    """What has no room is refused, with the partition, the directory and the missing bytes."""
    placement = DirectoryPlacement(a_table(30, 80))
    assert placement.place("t-0", 60, 0) == (0, "/d0")
    assert placement.place("t-1", 15, 0) is None
    with pytest.raises(InvalidInputError, match="1 of the new replicas:\n  t-1: broker 1, /d1 lac"):
        placement.check()


def test_a_broker_with_one_directory_chooses_it_itself() -> None:
    """Its volume is counted all the same."""
    table = a_table(30)
    assert DirectoryPlacement(table).place("t-0", 20, 0) == (0, "any")
    assert table.used.tolist() == [50]


def test_directories_of_one_volume_share_what_it_takes() -> None:
    """They could be new volumes of their own, which look the same."""
    placement = DirectoryPlacement(a_table(0, paths=("/a", "/b")))
    found = [placement.place("t-0", 20, 0) for _ in range(4)]
    assert found == [(0, "/a0"), (0, "/b0"), (0, "/a0"), (0, "/b0")]


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=4),
    st.lists(st.integers(1, 60), max_size=20),
)
def test_no_directory_overflows_at_the_end(used: list[int], sizes: list[int]) -> None:
    """What is placed is counted, and stays below the limit."""
    table = a_table(*used)
    placement = DirectoryPlacement(table)
    held = Counter(dict(enumerate(used)))
    for size in sorted(sizes, reverse=True):
        found = placement.place("t-0", size, 0)
        if found is None:
            assert all(held[n] + size > 90 for n in range(len(used)))
        else:
            held[found[0]] += size
    assert table.used.tolist() == [held[n] for n in range(len(used))]
    assert max(held.values()) <= 90


# --- through Spark -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def snapshot(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the directory of a snapshot whose brokers have four directories each."""
    directory = str(tmp_path_factory.mktemp("snapshot"))
    write_cluster(spark, make_cluster(SMALL, 1), directory)
    return directory


def quiet(what: str) -> None:
    """Do nothing."""
    del what


Placed = dict[tuple[str, int, int], tuple[str, int]]


class Disks:
    """The directories of a snapshot while requests are carried out."""

    def __init__(self, spark: Any, snapshot: str) -> None:
        """Read where every replica is."""
        tables = read_tables(spark, snapshot)
        assert tables.log_dirs is not None
        rows = tables.log_dirs.collect()
        self.total = {(r.broker, r.log_dir): r.total_bytes for r in rows}
        self.used = {(r.broker, r.log_dir): r.total_bytes - r.usable_bytes for r in rows}
        self.placed: Placed = {
            (r.topic, r.partition, r.broker): (r.log_dir, r.size_bytes)
            for r in tables.replicas.collect()
        }
        self.copied = 0

    def carry_out(self, request: Path) -> None:
        """Carry out a request: everything arrives before anything leaves."""
        leaves: list[tuple[int, str, int]] = []
        for entry in json.loads(request.read_text(encoding="utf-8"))["partitions"]:
            key = entry["topic"], entry["partition"]
            size = max(self.placed[*key, broker][1] for broker in entry["original_replicas"])
            dropped = set(entry["original_replicas"]) - set(entry["replicas"])
            leaves += [(broker, *self.placed.pop((*key, broker))) for broker in dropped]
            for broker, log_dir in zip(entry["replicas"], entry["log_dirs"], strict=True):
                now = self.placed.get((*key, broker))
                assert now is not None or log_dir != "any"
                if log_dir != "any":
                    if now is not None:
                        assert now[0] != log_dir
                        leaves.append((broker, *now))
                    self.placed[*key, broker] = log_dir, size
                    self.used[broker, log_dir] += size
                    self.copied += size
        for where, used in self.used.items():
            assert used <= FILL * self.total[where], where
        for broker, log_dir, size in leaves:
            self.used[broker, log_dir] -= size


@pytest.mark.spark
def test_brokers_are_evened_out_and_no_directory_overflows(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """Kafka's format: the replicas stay, the others' directory is any; rollback leads back."""
    out = tmp_path / "plan"
    options = PlanOptions(balance_dirs=True, fill=FILL)
    limits = WaveLimits(partitions=20)
    summary, waves, files = commands.balance_directories(
        spark, snapshot, options, limits, str(out), quiet
    )
    assert summary.notes == ()
    assert summary.brokers == SMALL.brokers - SMALL.empty
    assert 1 <= summary.bytes_ratio < 1.05
    assert len(waves) == len(files) > 1
    disks = Disks(spark, snapshot)
    before = dict(disks.used)
    for path in files:
        disks.carry_out(path)
    assert disks.copied == summary.bytes_moved
    for found in summary.log_dirs:
        (log_dir,) = found.log_dirs
        where = found.broker, log_dir
        assert (before[where], disks.used[where]) == (found.bytes_before, found.bytes_after)
        others = [disks.used[b, d] for b, d in disks.used if b == found.broker]
        assert abs(disks.used[where] * len(others) / max(1, sum(others)) - 1) <= 0.05 or not any(
            others
        )
    plan, back = (json.loads((out / f"{name}.json").read_text()) for name in ("plan", "rollback"))
    for there, here in zip(plan["partitions"], back["partitions"], strict=True):
        assert there["replicas"] == here["replicas"]
        assert {"topic", "partition", "replicas", "log_dirs"} == there.keys() == here.keys()
        for broker, new, old in zip(
            there["replicas"], there["log_dirs"], here["log_dirs"], strict=True
        ):
            assert (new == "any") == (old == "any")
            if new != "any":
                assert disks.placed[there["topic"], there["partition"], broker][0] == new != old


@pytest.mark.spark
def test_only_named_brokers_are_evened_out_whichever_others_are_dead(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """A cap ends the plan after the move that reaches it, and is reported."""
    tables = read_tables(spark, snapshot)
    brokers = tables.brokers.withColumn("is_alive", tables.brokers.broker != SMALL.brokers)
    other = str(tmp_path / "other")
    write_tables(replace(tables, brokers=brokers), other)
    options = PlanOptions(
        balance_dirs=True, dir_brokers=frozenset({1}), fill=FILL, tolerance=0.01, moves_max=2
    )
    summary, _, _ = commands.balance_directories(
        spark, other, options, WaveLimits(), str(tmp_path / "plan"), quiet
    )
    assert {found.broker for found in summary.log_dirs} == {1}
    assert (summary.brokers, summary.moves) == (1, 2)
    assert summary.notes == ("the cap of 2 moves ended the plan early",)


@pytest.mark.spark
def test_new_replicas_are_placed_and_no_directory_overflows(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """A drained broker: each replica names its directory, and each request fits as a whole."""
    out = tmp_path / "plan"
    options = PlanOptions(drain=frozenset({2}), only_needed=True, place_dirs=True, fill=FILL)
    limits = WaveLimits(partitions=20)
    summary, _, files = commands.make_plan(spark, snapshot, options, limits, str(out), quiet)
    disks = Disks(spark, snapshot)
    for path in files:
        disks.carry_out(path)
    assert {f.broker: f.bytes_after for f in summary.log_dirs if f.broker == 2} == {2: 0}
    assert {(f.broker, f.log_dirs[0]): f.bytes_after for f in summary.log_dirs} == disks.used
    # The empty broker gets its replicas on all its directories.
    new = [f.bytes_after for f in summary.log_dirs if f.broker == SMALL.brokers]
    assert min(new) > 0.5 * max(new)


@pytest.mark.spark
def test_directories_without_room_are_refused_by_name(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """Nothing is written, and nothing is tried for ever."""
    options = PlanOptions(drain=frozenset({2}), only_needed=True, place_dirs=True, fill=0.05)
    with pytest.raises(InvalidInputError, match=r"no log directory has room"):
        commands.make_plan(spark, snapshot, options, WaveLimits(), str(tmp_path / "p"), quiet)


def test_balancing_directories_is_an_operation_of_its_own() -> None:
    """It excludes what moves replicas between brokers."""
    with pytest.raises(InvalidInputError, match="changes nothing else"):
        PlanOptions(balance_dirs=True, drain=frozenset({1})).check()
    with pytest.raises(InvalidInputError, match="--broker needs --balance-dirs"):
        PlanOptions(dir_brokers=frozenset({1})).check()
