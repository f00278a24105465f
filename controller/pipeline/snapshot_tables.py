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
RATES: Final = "topic STRING, partition INT, bytes_in_per_s DOUBLE, bytes_out_per_s DOUBLE"
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
    """What producers write and consumers fetch; None: unknown, as is a null or missing row."""
    log_dirs: Any | None = None
    """Log directories of brokers; None: unknown."""

    def counts(self) -> dict[str, Any]:
        """Return the numbers of rows, and the bytes."""
        total = self.replicas.agg(
            F.count("*").alias("replicas"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.sum("size_bytes").alias("bytes"),
        ).first()
        found: dict[str, Any] = total.asDict()
        return found | {
            "brokers": self.brokers.count(),
            "topics": self.topics.count(),
            "cluster_id": self.manifest.cluster_id,
        }


def read_tables(spark: Any, directory: str) -> Tables:
    """
    Read a snapshot.

    Raises:
        InvalidInputError: the directory is not a snapshot of this schema version.

    """
    manifest = _manifest(spark, directory)
    brokers, replicas, topics, rates, log_dirs = (
        _table(spark, directory, name)
        for name in ("brokers", "replicas", "topics", "rates", "log_dirs")
    )
    return Tables(brokers, replicas, topics, manifest, rates, log_dirs)


def write_tables(tables: Tables, directory: str) -> None:
    """Write a snapshot; replace an existing one."""
    spark = tables.brokers.sparkSession
    for name, schema in _SCHEMAS.items():
        table = getattr(tables, name)
        table = spark.createDataFrame([], schema) if table is None else table
        # Only the replicas are too many for one file.
        table = table if name == "replicas" else table.coalesce(1)
        table.write.mode("overwrite").parquet(f"{directory}/{name}")
    about = tables.manifest
    row = (about.schema_version, about.cluster_id, about.taken_at, about.source)
    # The manifest comes last: a directory without one is an unfinished snapshot.
    spark.createDataFrame([row], MANIFEST).coalesce(1).write.mode("overwrite").json(
        f"{directory}/manifest"
    )


def _manifest(spark: Any, directory: str) -> Manifest:
    path = f"{directory}/manifest"
    try:
        table = spark.read.schema(MANIFEST).json(path)
    except AnalysisException as error:
        raise _unreadable(path, error) from error
    rows = table.collect()
    if len(rows) != 1 or "schema_version" not in table.columns:
        raise InvalidInputError(f"{path}: not the manifest of a snapshot")
    row = rows[0].asDict()
    if row["schema_version"] != SCHEMA_VERSION:
        raise InvalidInputError(
            f"{path}: column schema_version is {row['schema_version']}, this version "
            f"reads {SCHEMA_VERSION}"
        )
    cluster_id, taken_at, source = (
        str(row[key] or "") for key in ("cluster_id", "taken_at", "source")
    )
    return Manifest(cluster_id, taken_at, source)


def _table(spark: Any, directory: str, name: str) -> Any | None:
    """Read a table; an optional one may be missing or empty."""
    path, is_optional = f"{directory}/{name}", name in {"rates", "log_dirs"}
    try:
        table = spark.read.parquet(path)
    except AnalysisException as error:
        if is_optional and error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise _unreadable(path, error) from error
    checked = _check_table(name, path, table)
    return None if is_optional and table.isEmpty() else checked


def _unreadable(path: str, error: AnalysisException) -> InvalidInputError:
    reason = str(error).splitlines()[0]
    return InvalidInputError(f"{path}: cannot be read as a table: {reason}")


def _check_table(name: str, path: str, table: Any) -> Any:
    """Refuse a table without a needed column, or with one of another type; add the other ones."""
    types = dict(table.dtypes)
    for column, kind in re.findall(r"(\w+) (MAP<.*?>|\w+)", _SCHEMAS[name]):
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


Rule = tuple[str, str, Any]
"""A column, a problem, and the condition of the rows that have it."""


def check_tables(tables: Tables, directory: str) -> None:
    """
    Check the content of a snapshot, row by row.

    Raises:
        InvalidInputError: rows are invalid; it names all problems of the first such table.

    """
    brokers, topics = tables.brokers, tables.topics
    known = F.broadcast(brokers.select("broker").distinct().withColumn("is_known", F.expr("true")))
    named = F.broadcast(topics.select("topic").distinct().withColumn("is_named", F.expr("true")))
    of_broker = ("broker", "is not in the table brokers", F.col("is_known").isNull())
    of_topic = ("topic", "is not in the table topics", F.col("is_named").isNull())

    path = f"{directory}/brokers"
    _refuse(path, brokers, [_no_number("broker"), _negative("capacity_bytes")])
    _refuse_twice(path, brokers, ["broker"])

    path, factor = f"{directory}/topics", F.col("replication_factor")
    no_factor = ("replication_factor", "is not positive", ~(factor > 0))
    _refuse(path, topics, [_missing("topic"), no_factor])
    _refuse_twice(path, topics, ["topic"])

    replicas = tables.replicas.join(known, "broker", "left").join(named, "topic", "left")
    rules = [of_topic, _no_number("partition"), of_broker, _no_number("position")]
    rules += [_missing("size_bytes"), _negative("size_bytes")]
    _refuse(f"{directory}/replicas", replicas, rules)

    if tables.rates is not None:
        path = f"{directory}/rates"
        rules = [of_topic, _no_number("partition")]
        for column in ("bytes_in_per_s", "bytes_out_per_s"):
            rules += [(column, "is not a number", F.isnan(column)), _negative(column)]
        _refuse(path, tables.rates.join(named, "topic", "left"), rules)
        _refuse_twice(path, tables.rates, ["topic", "partition"])

    if tables.log_dirs is not None:
        path, total, usable = f"{directory}/log_dirs", F.col("total_bytes"), F.col("usable_bytes")
        wrong = (usable < 0) | (usable > total)
        rules = [of_broker, _missing("log_dir"), _negative("total_bytes")]
        rules += [("usable_bytes", "is negative or above total_bytes", wrong)]
        _refuse(path, tables.log_dirs.join(known, "broker", "left"), rules)
        _refuse_twice(path, tables.log_dirs, ["broker", "log_dir"])


def _missing(column: str) -> Rule:
    return column, "is missing", F.col(column).isNull()


def _negative(column: str) -> Rule:
    return column, "is negative", F.col(column) < 0


def _no_number(column: str) -> Rule:
    bad = ~F.coalesce(F.col(column) >= 0, F.expr("false"))
    return column, "is missing or negative", bad


def _refuse(path: str, table: Any, rules: Sequence[Rule]) -> None:
    """Refuse rows to which a rule's condition applies."""
    counted = table.agg(
        *(F.count(F.when(bad, 1)).alias(f"rule_{n}") for n, (_, _, bad) in enumerate(rules))
    ).first()
    problems = [
        _problem(path, f"column {column} {problem}", counted[n], table.where(bad))
        for n, (column, problem, bad) in enumerate(rules)
        if counted[n]
    ]
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
