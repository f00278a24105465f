"""
The tables of a snapshot: columns, reading, writing and checks.

A snapshot is a directory of Parquet tables (``brokers``, ``replicas``, ``topics``, and ``log_dirs``
and ``rates`` if they are known) and a manifest. Errors name the table, the column and the first
rows; nothing is guessed or left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError

SCHEMA_VERSION: Final = 1
ROWS_SHOWN: Final = 5

BROKERS: Final = "broker INT, rack STRING, host STRING, capacity_bytes BIGINT, is_alive BOOLEAN"
REPLICAS: Final = (
    "topic STRING, partition INT, broker INT, position INT, size_bytes BIGINT, log_dir STRING, "
    "is_leader BOOLEAN, in_isr BOOLEAN"
)
TOPICS: Final = (
    "topic STRING, replication_factor INT, min_insync_replicas INT, configs MAP<STRING, STRING>"
)
LOG_DIRS: Final = (
    "broker INT, log_dir STRING, volume STRING, total_bytes BIGINT, usable_bytes BIGINT, "
    "is_failed BOOLEAN"
)
RATES: Final = "topic STRING, partition INT, bytes_in_per_s DOUBLE"
MANIFEST: Final = "schema_version INT, cluster_id STRING, taken_at STRING, source STRING"

_SCHEMAS: Final = {
    "brokers": BROKERS,
    "replicas": REPLICAS,
    "topics": TOPICS,
    "log_dirs": LOG_DIRS,
    "rates": RATES,
}
_NEEDED: Final = {
    "brokers": ("broker",),
    "replicas": ("topic", "partition", "broker", "position", "size_bytes"),
    "topics": ("topic", "replication_factor"),
    "log_dirs": ("broker", "log_dir"),
    "rates": ("topic", "partition", "bytes_in_per_s"),
}
"""The columns that each table must have; others are null where they are missing."""
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_ALLOWED: Final = {
    "STRING": frozenset({"string"}),
    "INT": _INTEGERS,
    "BIGINT": _INTEGERS,
    "DOUBLE": _INTEGERS | {"float", "double"},
}
"""The types of a column that can be read as the one in the schema."""


def _columns(name: str) -> dict[str, str]:
    """Return the type of each column of a table."""
    return dict(re.findall(r"(\w+) (MAP<.*?>|\w+)", _SCHEMAS[name]))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The origin and time of a snapshot."""

    cluster_id: str
    taken_at: str
    source: str
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a snapshot, as DataFrames."""

    brokers: Any
    replicas: Any
    topics: Any
    manifest: Manifest
    rates: Any | None = None
    """Produce rates of partitions; None: unknown."""
    log_dirs: Any | None = None
    """Log directories of brokers; None: unknown."""


def read_tables(spark: Any, directory: str) -> Tables:
    """
    Read a snapshot.

    Raises:
        InvalidInputError: the directory is not a snapshot of this schema version.

    """
    manifest = _manifest(spark, directory)
    brokers, replicas, topics = (
        _check_table(name, f"{directory}/{name}", _table(spark, f"{directory}/{name}"))
        for name in ("brokers", "replicas", "topics")
    )
    return Tables(
        brokers,
        replicas,
        topics,
        manifest,
        _table_if_any(spark, directory, "rates"),
        _table_if_any(spark, directory, "log_dirs"),
    )


def write_tables(tables: Tables, directory: str) -> None:
    """Write a snapshot; replace an existing one."""
    spark = tables.brokers.sparkSession
    tables.brokers.coalesce(1).write.mode("overwrite").parquet(f"{directory}/brokers")
    tables.replicas.write.mode("overwrite").parquet(f"{directory}/replicas")
    tables.topics.coalesce(1).write.mode("overwrite").parquet(f"{directory}/topics")
    for name, table, schema in (
        ("rates", tables.rates, RATES),
        ("log_dirs", tables.log_dirs, LOG_DIRS),
    ):
        written = spark.createDataFrame([], schema) if table is None else table
        written.coalesce(1).write.mode("overwrite").parquet(f"{directory}/{name}")
    about = tables.manifest
    row = (about.schema_version, about.cluster_id, about.taken_at, about.source)
    # The manifest comes last: a directory without one is an unfinished snapshot.
    spark.createDataFrame([row], MANIFEST).coalesce(1).write.mode("overwrite").json(
        f"{directory}/manifest"
    )


def _manifest(spark: Any, directory: str) -> Manifest:
    table = _table(spark, f"{directory}/manifest", how="json")
    rows = table.collect()
    if len(rows) != 1 or "schema_version" not in table.columns:
        raise InvalidInputError(f"{directory}/manifest: not the manifest of a snapshot")
    row = rows[0].asDict()
    if row["schema_version"] != SCHEMA_VERSION:
        raise InvalidInputError(
            f"{directory}/manifest: column schema_version is {row['schema_version']}, this version "
            f"reads {SCHEMA_VERSION}"
        )
    cluster_id, taken_at, source = (
        str(row.get(key) or "") for key in ("cluster_id", "taken_at", "source")
    )
    return Manifest(cluster_id, taken_at, source)


def _table(spark: Any, path: str, how: str = "parquet") -> Any:
    try:
        if how == "json":
            return spark.read.schema(MANIFEST).json(path)
        return spark.read.parquet(path)
    except AnalysisException as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: AnalysisException) -> InvalidInputError:
    reason = str(error).splitlines()[0]
    return InvalidInputError(f"{path}: cannot be read as a table: {reason}")


def _table_if_any(spark: Any, directory: str, name: str) -> Any | None:
    """Read a table that may be missing or empty."""
    path = f"{directory}/{name}"
    try:
        table = spark.read.parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise _unreadable(path, error) from error
    checked = _check_table(name, path, table)
    return None if table.isEmpty() else checked


def _check_table(name: str, path: str, table: Any) -> Any:
    """Refuse a table without a needed column, or with one of another type; add the other ones."""
    types = dict(table.dtypes)
    for column, kind in _columns(name).items():
        if column not in _NEEDED[name]:
            if column not in types:
                table = table.withColumn(column, F.lit(None).cast(kind))
            continue
        if column not in types:
            raise InvalidInputError(
                f"{path}: column {column} is missing; there are {', '.join(table.columns)}"
            )
        if types[column] not in _ALLOWED[kind]:
            raise InvalidInputError(
                f"{path}: column {column} is {types[column]}, it must be "
                f"{' or '.join(sorted(_ALLOWED[kind]))}"
            )
    return table


def check_tables(tables: Tables, directory: str) -> None:
    """
    Check the content of a snapshot, row by row.

    Raises:
        InvalidInputError: rows are invalid; it names all problems of the first such table.

    """
    brokers, replicas, topics = tables.brokers, tables.replicas, tables.topics
    known = F.broadcast(brokers.select("broker").distinct().withColumn("is_known", F.expr("true")))
    named = F.broadcast(topics.select("topic").distinct().withColumn("is_named", F.expr("true")))
    _refuse(
        f"{directory}/brokers",
        brokers,
        [
            ("broker", "is missing or negative", F.col("broker").isNull() | (F.col("broker") < 0)),
            ("capacity_bytes", "is negative", F.col("capacity_bytes") < 0),
        ],
    )
    _refuse_twice(f"{directory}/brokers", brokers, ["broker"])
    _refuse(
        f"{directory}/topics",
        topics,
        [
            ("topic", "is missing", F.col("topic").isNull()),
            ("replication_factor", "is not positive", ~(F.col("replication_factor") > 0)),
        ],
    )
    _refuse_twice(f"{directory}/topics", topics, ["topic"])
    _refuse(
        f"{directory}/replicas",
        replicas.join(known, "broker", "left").join(named, "topic", "left"),
        [
            ("topic", "is not in the table topics", F.col("is_named").isNull()),
            (
                "partition",
                "is missing or negative",
                ~F.coalesce(F.col("partition") >= 0, F.expr("false")),
            ),
            ("broker", "is not in the table brokers", F.col("is_known").isNull()),
            (
                "position",
                "is missing or negative",
                ~F.coalesce(F.col("position") >= 0, F.expr("false")),
            ),
            ("size_bytes", "is missing", F.col("size_bytes").isNull()),
            ("size_bytes", "is negative", F.col("size_bytes") < 0),
        ],
    )
    if tables.rates is not None:
        _check_rates(f"{directory}/rates", tables.rates, named)
    if tables.log_dirs is not None:
        _check_log_dirs(f"{directory}/log_dirs", tables.log_dirs, known)


def _check_rates(path: str, rates: Any, named: Any) -> None:
    rate = F.col("bytes_in_per_s")
    _refuse(
        path,
        rates.join(named, "topic", "left"),
        [
            ("topic", "is not in the table topics", F.col("is_named").isNull()),
            ("bytes_in_per_s", "is missing", rate.isNull() | F.isnan(rate)),
            ("bytes_in_per_s", "is negative", rate < 0),
        ],
    )
    _refuse_twice(path, rates, ["topic", "partition"])


def _check_log_dirs(path: str, log_dirs: Any, known: Any) -> None:
    total, usable = F.col("total_bytes"), F.col("usable_bytes")
    _refuse(
        path,
        log_dirs.join(known, "broker", "left"),
        [
            ("broker", "is not in the table brokers", F.col("is_known").isNull()),
            ("log_dir", "is missing", F.col("log_dir").isNull()),
            ("total_bytes", "is negative", total < 0),
            ("usable_bytes", "is negative or above total_bytes", (usable < 0) | (usable > total)),
        ],
    )
    _refuse_twice(path, log_dirs, ["broker", "log_dir"])


def _refuse(path: str, table: Any, rules: Sequence[tuple[str, str, Any]]) -> None:
    """Refuse rows to which a rule's condition applies."""
    counted = table.agg(
        *(F.count(F.when(bad, 1)).alias(f"rule_{n}") for n, (_, _, bad) in enumerate(rules))
    ).first()
    problems = []
    for n, (column, problem, bad) in enumerate(rules):
        if counted[n]:
            problems.append(
                _problem(path, f"column {column} {problem}", counted[n], table.where(bad))
            )
    if problems:
        raise InvalidInputError("\n".join(problems))


def _refuse_twice(path: str, table: Any, keys: list[str]) -> None:
    twice = table.groupBy(*keys).count().where("count > 1")
    found = twice.count()
    if found:
        what = f"column {', '.join(keys)} is not unique"
        raise InvalidInputError(_problem(path, what, found, twice))


def _problem(path: str, what: str, count: int, rows: Any) -> str:
    shown = rows.drop("is_known", "is_named", "configs")
    lines = [
        "  "
        + ", ".join(f"{key}={value}" for key, value in row.asDict().items() if value is not None)
        for row in shown.orderBy(*shown.columns).limit(ROWS_SHOWN).collect()
    ]
    more = f"\n  and {count - ROWS_SHOWN} more" if count > ROWS_SHOWN else ""
    return f"{path}: {what} in {count} row{'s' if count != 1 else ''}:\n" + "\n".join(lines) + more
