"""
Read a stock JSON, with sizes and brokers from CSV files, as the source of a snapshot.

Errors name the file, the column and the first rows; nothing is guessed or left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.planner import Progress
from controller.pipeline.snapshot_writer import Assigned, BrokerRow, SnapshotSource
from controller.pipeline.tables import ROWS_SHOWN
from controller.planning.plan_text import PlanPart, find_plan


def source_of_files(
    spark: Any,
    plan: Path,
    sizes: Path | None,
    brokers: Path | None,
    progress: Progress,
) -> tuple[SnapshotSource, list[BrokerRow]]:
    """
    Return the source of a snapshot and its brokers.

    Args:
        spark: The session.
        plan: The current assignment as Kafka's own tool prints it, alone or with its headings.
        sizes: ``topic,partition,size_bytes`` with a header line; None: all sizes are equal.
        brokers: ``broker,rack,capacity_bytes`` with a header line; None: those of the plan.
        progress: Reports which of several plans in the file is taken.

    Raises:
        InvalidInputError: a file is malformed, or the files contradict each other.

    """
    listed = _stock(plan, progress)
    known_sizes = {} if sizes is None else _sizes(spark, sizes)
    if sizes is not None:
        _refuse_unsized(plan, sizes, listed, known_sizes)
    known = None if brokers is None else _brokers(spark, brokers)
    if brokers is not None and known is not None:
        _refuse_strangers(plan, brokers, listed, {row[0] for row in known})
    ids = sorted({b for _, _, replicas in listed for b in replicas})
    rows: list[BrokerRow] = [(b, None, None, None, True) for b in ids] if known is None else known

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
    )
    return source, rows


def _stock(path: Path, progress: Progress) -> list[Assigned]:
    try:
        text = find_plan(path.read_bytes(), PlanPart.CURRENT)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error
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
    _refuse_wrong(path, found)
    return found


def _refuse_wrong(path: Path, listed: Sequence[Assigned]) -> None:
    """Refuse invalid entries."""
    often = Counter(row[:2] for row in listed)
    for what, rows in (
        ("partition is listed more than once", [r for r in listed if often[r[:2]] > 1]),
        ("partition is negative", [r for r in listed if r[1] < 0]),
        ("replicas is empty", [r for r in listed if not r[2]]),
        ("replicas names a broker twice", [r for r in listed if len(set(r[2])) < len(r[2])]),
        ("replicas names a negative broker", [r for r in listed if min(r[2], default=0) < 0]),
    ):
        if rows:
            raise InvalidInputError(f"{path}: {what} in {len(rows)} entries:\n{_first_lines(rows)}")


def _refuse_unsized(
    plan: Path,
    sizes: Path,
    listed: Sequence[Assigned],
    sized: Mapping[tuple[str, int], int],
) -> None:
    missing = [row for row in listed if row[:2] not in sized]
    if missing:
        raise InvalidInputError(
            f"{sizes}: column size_bytes is missing for {len(missing)} partitions of {plan}:\n"
            + _first_lines(missing)
        )


def _refuse_strangers(
    plan: Path, brokers: Path, listed: Sequence[Assigned], known: Collection[int]
) -> None:
    strange = [row for row in listed if not set(row[2]) <= set(known)]
    if strange:
        raise InvalidInputError(
            f"{plan}: replicas are on brokers that are not in column broker of {brokers} in "
            f"{len(strange)} entries:\n" + _first_lines(strange)
        )


def _first_lines(rows: Sequence[Assigned]) -> str:
    """Return the first partitions, one per line."""
    lines = [f"  topic={t}, partition={n}, replicas={list(r)}" for t, n, r in rows[:ROWS_SHOWN]]
    return "\n".join(lines)


def _csv(spark: Any, path: Path, columns: Mapping[str, str]) -> list[Any]:
    """Read a CSV file with a header; refuse missing required columns and invalid values."""
    try:
        table = spark.read.option("header", "true").csv(str(path))
        missing = [c for c in columns if c not in table.columns and not columns[c].endswith("?")]
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
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
    rows = table.select(*columns).collect()
    return list(rows)


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
