"""Files in the place of a cluster: what they become, and what is said of wrong ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.errors import InvalidInputError
from controller.pipeline.snapshot_files import snapshot_of_files
from controller.pipeline.snapshot_tables import LOG_DIRS, Manifest, check_tables, read_tables
from controller.pipeline.snapshot_writer import (
    PROMETHEUS,
    BrokerRow,
    DirectoryRow,
    RateRow,
    SnapshotSource,
    write_snapshot,
)

pytestmark = pytest.mark.spark

SIZES = "topic,partition,size_bytes\n"
BROKERS = "broker,rack,capacity_bytes\n"


def entry(partition: int, *replicas: int) -> dict[str, Any]:
    """Return an entry of the topic t."""
    return {"topic": "t", "partition": partition, "replicas": list(replicas)}


PLAN = [entry(0, 1, 2), entry(1, 2, 3)]


def snapshot(
    spark: Any,
    directory: Path,
    entries: list[dict[str, Any]] | str,
    *,
    sizes: str | None = None,
    brokers: str | None = None,
    rates: tuple[RateRow, ...] = (),
) -> Path:
    """Write the files and make a snapshot of them; return its directory."""
    current, out = directory / "current.json", directory / "snapshot"
    text = entries if isinstance(entries, str) else json.dumps({"partitions": entries})
    current.write_text(text)
    first, second = (
        written(directory / "sizes.csv", sizes),
        written(directory / "brokers.csv", brokers),
    )
    notes: list[str] = []
    snapshot_of_files(spark, current, first, second, "now", out, progress=notes.append, rates=rates)
    assert len(notes) == ("Current" in text)
    return out


def written(path: Path, content: str | None) -> Path | None:
    """Write a file, if there is something to write."""
    if content is None:
        return None
    path.write_text(content)
    return path


def test_the_current_assignment_is_taken_from_the_output_of_the_tool(
    spark: Any, tmp_path: Path
) -> None:
    """With its headings, as ``--generate`` prints both plans."""
    text = "\n".join(
        (
            "Current partition replica assignment",
            json.dumps({"version": 1, "partitions": PLAN}),
            "",
            "Proposed partition reassignment configuration",
            json.dumps({"version": 1, "partitions": [entry(0, 4, 5)]}),
        )
    )
    tables = read_tables(spark, str(snapshot(spark, tmp_path, text)))
    assert {row.broker for row in tables.replicas.collect()} == {1, 2, 3}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("{", "current.json: not JSON: "),
        ([], "current.json: partitions is empty"),
        ([{"topic": "t"}], "current.json: entry 0 of partitions: KeyError('partition'): {'topic'"),
        (
            [*PLAN, entry(0, 3, 1)],
            (
                "current.json: partition is listed more than once in 2 entries:\n"
                "  topic=t, partition=0, replicas=[1, 2]\n  topic=t, partition=0, replicas=[3, 1]"
            ),
        ),
        ([entry(-1, 1)], "current.json: partition is negative in 1 entry:\n  topic=t, partit"),
        ([entry(0)], "current.json: replicas is empty in 1 entry:\n  topic=t, partition=0"),
        ([entry(0, 4, 4)], "current.json: replicas names a broker twice in 1 entry:\n  topic=t"),
        ([entry(0, -4)], "current.json: replicas names a negative broker in 1 entry:\n  topic"),
    ],
)
def test_wrong_entries_are_named(
    spark: Any, tmp_path: Path, entries: list[dict[str, Any]] | str, words: str
) -> None:
    """File, field and the first of them."""
    with pytest.raises(InvalidInputError) as raised:
        snapshot(spark, tmp_path, entries)
    assert str(raised.value).startswith(f"{tmp_path}/{words}")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("topic,size_bytes\nt,1\n", "column partition is missing; there are topic, size_bytes"),
        (f"{SIZES}t,0,5\nt,1,many\n", "column size_bytes is not bigint in:\n  t,1,many"),
        (f"{SIZES}t,0,5\nt,1,-7\n", "column size_bytes is negative in:\n  t,1,-7"),
        (f"{SIZES}t,0,5\nt,,7\n", "column partition is not int in:\n  t,None,7"),
        (
            f"{SIZES}t,0,5\nt,1,7\nt,1,8\n",
            "columns topic, partition are not unique in:\n  t,1,7\n  t,1,8",
        ),
    ],
)
def test_wrong_sizes_are_named(spark: Any, tmp_path: Path, sizes: str, words: str) -> None:
    """File, column and the first rows."""
    with pytest.raises(InvalidInputError) as raised:
        snapshot(spark, tmp_path, PLAN, sizes=sizes)
    assert str(raised.value) == f"{tmp_path}/sizes.csv: {words}"


def test_a_partition_without_a_size_is_not_taken_for_empty(spark: Any, tmp_path: Path) -> None:
    """Both files are named, and the partition."""
    with pytest.raises(InvalidInputError) as raised:
        snapshot(spark, tmp_path, PLAN, sizes=f"{SIZES}t,0,5\nelsewhere,0,5\n")
    assert str(raised.value) == (
        f"{tmp_path}/sizes.csv: column size_bytes is missing for 1 partition of "
        f"{tmp_path}/current.json:\n  topic=t, partition=1, replicas=[2, 3]"
    )


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (
            f"{BROKERS}1,a,\n2,b,\n",
            (
                "current.json: replicas are on brokers that are not in column broker of "
                "{}/brokers.csv in 1 entry:\n  topic=t, partition=1, replicas=[2, 3]"
            ),
        ),
        (f"{BROKERS}one,a,\n", "brokers.csv: column broker is not int in:\n  one,a,None"),
        (f"{BROKERS}1,a,much\n", "brokers.csv: column capacity_bytes is not bigint in:\n  1,a,mu"),
        (
            f"{BROKERS}1,a,\n2,b,\n3,a,\n3,b,\n",
            "snapshot/brokers: column broker is not unique in 1 row:\n  broker=3",
        ),
        (
            f"{BROKERS}1,a,-5\n2,b,\n3,a,\n",
            (
                "snapshot/brokers: column capacity_bytes is negative in 1 row:\n"
                "  broker=1, rack=a, capacity_bytes=-5"
            ),
        ),
    ],
)
def test_wrong_brokers_are_named(spark: Any, tmp_path: Path, brokers: str, words: str) -> None:
    """Replicas on brokers that do not exist, too, with the file that has them."""
    with pytest.raises(InvalidInputError) as raised:
        snapshot(spark, tmp_path, PLAN, brokers=brokers)
    assert str(raised.value).startswith(f"{tmp_path}/{words.format(tmp_path)}")


def test_rates_are_those_of_partitions_or_shared_by_them(spark: Any, tmp_path: Path) -> None:
    """The rate of a topic is shared evenly; topics outside the cluster are left out."""
    given = (("t", None, 5.0), ("t", 1, 2.0), ("t", 7, 9.0), ("gone", None, 9.0))
    rates = tuple(RateRow(PROMETHEUS, *row) for row in given)
    out = snapshot(spark, tmp_path, PLAN, rates=rates)
    table = read_tables(spark, str(out)).rates
    assert table is not None
    assert {(r.topic, r.partition): r.bytes_in_per_s for r in table.collect()} == {
        ("t", 0): 2.5,
        ("t", 1): 4.5,
    }


def test_a_snapshot_without_rates_has_none(spark: Any, tmp_path: Path) -> None:
    """An unknown rate is not a rate of zero; a table is not required."""
    out = snapshot(spark, tmp_path, PLAN)
    assert read_tables(spark, str(out)).rates is None
    shutil.rmtree(out / "rates")
    assert read_tables(spark, str(out)).rates is None


DIRS: tuple[DirectoryRow, ...] = (
    (1, "/a", "/a", 100, 40, False),
    (1, "/b", "/b", None, None, True),
    (2, "/a", "/a", 100, 90, False),
)


def test_log_directories_are_recorded_and_checked(spark: Any, tmp_path: Path) -> None:
    """They are read after the replicas; a snapshot without them has none."""
    listed = [("t", 0, (1,))]
    source = SnapshotSource([("t", 0, 1, 60, "/a")], [("t", 0, 1, (1,))], listed, [("t", 1, {})])
    brokers: list[BrokerRow] = [(1, None, None, None, True), (2, None, None, None, True)]
    about = Manifest("c", "now", "test")
    tables = write_snapshot(spark, replace(source, log_dirs=DIRS), brokers, about, tmp_path)
    assert tables.log_dirs is not None
    assert sorted(tuple(row) for row in tables.log_dirs.collect()) == sorted(DIRS)
    wrong = (9, "/a", "/a", 100, 101, False)
    changed = replace(tables, log_dirs=spark.createDataFrame([wrong], LOG_DIRS))
    with pytest.raises(InvalidInputError) as raised:
        check_tables(changed, "s")
    assert "s/log_dirs: column broker is not in the table brokers in 1 row" in str(raised.value)
    assert "column usable_bytes is negative or above total_bytes in 1 row" in str(raised.value)
    shutil.rmtree(tmp_path / "log_dirs")
    assert read_tables(spark, str(tmp_path)).log_dirs is None
