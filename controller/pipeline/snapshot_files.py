"""
Read the files of a snapshot: a stock JSON, CSV files of sizes and brokers, and a file of rates.

Errors name the file, the column and the first rows; nothing is guessed or left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError, errors_about
from controller.pipeline.planner import ReportProgress
from controller.pipeline.snapshot_tables import ROWS_SHOWN, Manifest, Tables
from controller.pipeline.snapshot_writer import (
    FILE,
    Assigned,
    BrokerRow,
    RateRow,
    SnapshotSource,
    write_snapshot,
)
from controller.planning.plan_text import PlanPart, find_plan


def snapshot_of_files(  # noqa: PLR0913, PLR0917 - the files
    spark: Any,
    plan: Path,
    sizes: Path | None,
    brokers: Path | None,
    taken_at: str,
    directory: Path,
    *,
    progress: ReportProgress,
    rates: Iterable[RateRow] = (),
    is_idle: bool = False,
) -> Tables:
    """
    Write a snapshot.

    Args:
        spark: The session.
        plan: The current assignment as Kafka's own tool prints it, alone or with its headings.
        sizes: ``topic,partition,size_bytes`` with a header line; None: all sizes are equal.
        brokers: ``broker,rack,capacity_bytes`` with a header line; None: those of the plan.
        taken_at: The time of the snapshot.
        directory: Its directory.
        progress: Reports which of several plans in the file is taken.
        rates: As in ``SnapshotSource``.
        is_idle: As there.

    Raises:
        InvalidInputError: a file is malformed, or the files contradict each other.

    """
    listed = _stock(plan, progress)
    known_sizes = {} if sizes is None else _sizes(spark, sizes)
    if sizes is not None:
        missing = [row for row in listed if row[:2] not in known_sizes]
        what = f"column size_bytes is missing for {count_text(len(missing), 'partition')} of {plan}"
        _refuse_entries(sizes, what, missing)
    ids = sorted({b for _, _, replicas in listed for b in replicas})
    rows: list[BrokerRow] = [(b, None, None, None, True) for b in ids]
    if brokers is not None:
        rows = _brokers(spark, brokers)
        known = {row[0] for row in rows}
        strange = [row for row in listed if not set(row[2]) <= known]
        what = f"replicas are on brokers that are not in column broker of {brokers}"
        _refuse_entries(plan, f"{what} in {count_text(len(strange), 'entry', 'entries')}", strange)

    def held() -> Iterator[tuple[str, int, int, int, str]]:
        for topic, partition, replicas in listed:
            for broker in replicas:
                size = known_sizes.get((topic, partition), 1)
                yield topic, partition, broker, size, ""

    topics = sorted({topic for topic, _, _ in listed})
    source = SnapshotSource(
        held(),
        ((t, p, replicas[0], replicas) for t, p, replicas in listed),
        listed,
        ((topic, None, {}) for topic in topics),
        rates=rates,
        is_idle=is_idle,
    )
    return write_snapshot(spark, source, rows, Manifest("", taken_at, str(plan)), directory)


def _stock(path: Path, progress: ReportProgress) -> list[Assigned]:
    with errors_about(path):
        text = find_plan(path.read_bytes(), PlanPart.CURRENT)
    if text.note is not None:
        progress(f"{path}: {text.note}")
    listed = text.document.get("partitions")
    if not isinstance(listed, list):
        raise InvalidInputError(f"{path}: partitions is not a list")
    found: list[Assigned] = []
    for n, entry in enumerate(listed):
        try:
            row = str(entry["topic"]), int(entry["partition"]), tuple(map(int, entry["replicas"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{path}: entry {n} of partitions: {error!r}: {entry}"
            ) from error
        found.append(row)
    if not found:
        raise InvalidInputError(f"{path}: partitions is empty")
    often = Counter(row[:2] for row in found)
    for what, rows in (
        ("partition is listed more than once", [r for r in found if often[r[:2]] > 1]),
        ("partition is negative", [r for r in found if r[1] < 0]),
        ("replicas is empty", [r for r in found if not r[2]]),
        ("replicas names a broker twice", [r for r in found if len(set(r[2])) < len(r[2])]),
        ("replicas names a negative broker", [r for r in found if min(r[2], default=0) < 0]),
    ):
        _refuse_entries(path, f"{what} in {count_text(len(rows), 'entry', 'entries')}", rows)
    return found


def _refuse_entries(path: Path, what: str, rows: Sequence[Assigned]) -> None:
    """Refuse entries, if there are any; name the first ones."""
    if rows:
        lines = [f"  topic={t}, partition={n}, replicas={list(r)}" for t, n, r in rows[:ROWS_SHOWN]]
        raise InvalidInputError(f"{path}: {what}:\n" + "\n".join(lines))


def _csv(spark: Any, path: Path, columns: Mapping[str, str]) -> list[Any]:
    """Read a CSV file with a header; refuse missing required columns and invalid values."""
    try:
        table = spark.read.option("header", "true").csv(str(path))
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
    return list(_typed(path, table, columns).collect())


def _typed(path: Path, table: Any, columns: Mapping[str, str]) -> Any:
    """Return the columns with their types; a question mark follows the type of optional ones."""
    missing = [c for c in columns if c not in table.columns and not columns[c].endswith("?")]
    if missing:
        raise InvalidInputError(
            f"{path}: column {missing[0]} is missing; there are {', '.join(table.columns)}"
        )
    for column, kind in columns.items():
        if column not in table.columns:
            table = table.withColumn(column, F.lit(None).cast("string"))
        typed = F.expr(f"try_cast(`{column}` AS {kind.rstrip('?')})")
        needed = not kind.endswith("?")
        bad = typed.isNull() & (F.col(column).isNotNull() | F.lit(1).eqNullSafe(int(needed)))
        what = f"column {column} is not {kind.rstrip('?')}"
        _refuse_rows(path, what, table.where(bad).limit(ROWS_SHOWN).collect())
        table = table.withColumn(column, typed)
    return table.select(*columns)


def _refuse_rows(path: Path, what: str, rows: Sequence[Any]) -> None:
    """Refuse rows, if there are any."""
    if rows:
        shown = "\n".join(f"  {','.join(map(str, row))}" for row in rows[:ROWS_SHOWN])
        raise InvalidInputError(f"{path}: {what} in:\n{shown}")


def _sizes(spark: Any, path: Path) -> dict[tuple[str, int], int]:
    rows = _csv(spark, path, {"topic": "string", "partition": "int", "size_bytes": "bigint"})
    negative = [row for row in rows if row.size_bytes < 0]
    _refuse_rows(path, "column size_bytes is negative", negative)
    often = Counter((row.topic, row.partition) for row in rows)
    twice = [row for row in rows if often[row.topic, row.partition] > 1]
    _refuse_rows(path, "columns topic, partition are not unique", twice)
    return {(row.topic, row.partition): row.size_bytes for row in rows}


def _brokers(spark: Any, path: Path) -> list[BrokerRow]:
    kinds = {"broker": "int", "rack": "string?", "capacity_bytes": "bigint?"}
    return [
        (row.broker, row.rack, None, row.capacity_bytes, True) for row in _csv(spark, path, kinds)
    ]


def read_rate_file(spark: Any, path: Path) -> Iterator[RateRow]:
    """
    Yield the rates of a file: CSV with a header line, or Parquet.

    Its columns are ``topic``, ``partition`` (empty: the sum of the topic), ``bytes_in_per_s`` and
    ``bytes_out_per_s``; a column or cell that is missing is unknown.

    Raises:
        InvalidInputError: the file cannot be read, or a row is wrong.

    """
    try:
        if path.suffix == ".csv":
            table = spark.read.option("header", "true").csv(str(path))
        else:
            table = spark.read.parquet(str(path))
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
    columns = {
        "topic": "string",
        "partition": "int?",
        "bytes_in_per_s": "double?",
        "bytes_out_per_s": "double?",
    }
    table = _typed(path, table, columns)
    rates = [column for column in columns if column.endswith("_per_s")]
    for column in rates:
        bad = (F.col(column) < 0) | F.isnan(column)
        rows = table.where(bad).limit(ROWS_SHOWN).collect()
        _refuse_rows(path, f"column {column} is negative or not a number", rows)
    twice = table.groupBy("topic", "partition").count().where("count > 1").limit(ROWS_SHOWN)
    _refuse_rows(path, "columns topic, partition are not unique", twice.collect())
    if not table.where(F.coalesce(*rates).isNotNull()).limit(1).collect():
        raise InvalidInputError(f"{path}: there is no rate in the columns {', '.join(rates)}")
    for row in table.toLocalIterator():
        yield RateRow(FILE, *row)
