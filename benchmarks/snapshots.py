"""Made-up clusters written as snapshots, for measurements and tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from benchmarks.clusters import MadeCluster
from controller.pipeline.snapshot_tables import BROKERS, LOG_DIRS, Manifest, Tables, write_tables

ROWS_AT_ONCE: Final = 50_000


def write_cluster(spark: Any, made: MadeCluster, directory: str) -> None:
    """Write a made-up cluster as a snapshot."""
    packed = _packed(spark, made, directory)
    names = spark.createDataFrame(list(enumerate(made.topics)), "t INT, topic STRING")
    replicas = (
        packed.select("t", "partition", "size_bytes", "dirs", F.posexplode("replicas"))
        .join(F.broadcast(names), "t")
        .select(
            "topic",
            "partition",
            F.col("col").alias("broker"),
            F.col("pos").alias("position"),
            "size_bytes",
            F.concat(F.lit("/data"), F.get("dirs", F.col("pos"))).alias("log_dir"),
            (F.col("pos") == 0).alias("is_leader"),
            F.expr("true").alias("in_isr"),
        )
    )
    topics = (
        packed.join(names, "t")
        .groupBy("topic")
        .agg(F.max(F.size("replicas")).alias("replication_factor"))
        .select(
            "topic",
            "replication_factor",
            F.lit(2).alias("min_insync_replicas"),
            F.create_map().cast("map<string,string>").alias("configs"),
        )
    )
    capacity = made.volume.sum(axis=1).tolist() if made.volume.shape[1] > 1 else None
    brokers = [
        (n, rack, f"host-{n}", None if capacity is None else capacity[n - 1], True)
        for n, rack in enumerate(made.racks, start=1)
    ]
    manifest = Manifest(f"made-{len(made.racks)}", "2026-01-01T00:00:00Z", "generator")
    used = np.zeros(made.volume.shape, dtype=np.int64)
    size = np.broadcast_to(made.size[:, None], made.replicas.shape)
    np.add.at(used, (made.replicas - 1, made.directory), size)
    log_dirs = [
        (b + 1, f"/data{n}", f"/data{n}", int(total), int(total - used[b, n]), False)
        for (b, n), total in np.ndenumerate(made.volume)
    ]
    rates = None
    if made.bytes_in is not None:
        rates = packed.join(F.broadcast(names), "t").select(
            "topic",
            "partition",
            *(F.col(c).cast("double").alias(f"{c}_per_s") for c in ("bytes_in", "bytes_out")),
        )
    write_tables(
        Tables(
            spark.createDataFrame(brokers, BROKERS),
            replicas,
            topics,
            manifest,
            rates=rates,
            log_dirs=spark.createDataFrame(log_dirs, LOG_DIRS),
        ),
        directory,
    )
    _spool(directory).unlink()


def _packed(spark: Any, made: MadeCluster, directory: str) -> Any:
    """Return a row for each partition, which pass through a file: they may be millions."""
    nothing = np.zeros_like(made.size)
    rates = (nothing if rate is None else rate for rate in (made.bytes_in, made.bytes_out))
    columns = made.topic, made.partition, made.size, made.replicas, made.directory, *rates
    path = _spool(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii") as file:
        for begin in range(0, len(made.topic), ROWS_AT_ONCE):
            rows = zip(*(c[begin : begin + ROWS_AT_ONCE].tolist() for c in columns), strict=True)
            file.writelines(
                f"{t},{n},{size},{' '.join(map(str, at))},{' '.join(map(str, on))},{came},{went}\n"
                for t, n, size, at, on, came, went in rows
            )
    read = spark.read.schema(
        "t INT, partition INT, size_bytes BIGINT, at STRING, on STRING, "
        "bytes_in BIGINT, bytes_out BIGINT"
    )
    return (
        read.csv(str(path))
        .withColumn("replicas", F.split("at", " ").cast("array<int>"))
        .withColumn("dirs", F.split("on", " ").cast("array<int>"))
        .drop("at", "on")
    )


def _spool(directory: str) -> Path:
    return Path(f"{directory}.csv")


def write_capacities(made: MadeCluster, path: Path) -> Path:
    """Write the capacities of a made-up cluster: twice what an even cluster needs."""
    factor = made.replicas.shape[1]
    share = made.capacity / made.capacity.sum()
    disk = 2 * factor * int(made.size.sum()) * share
    lines = ["broker,disk_bytes,bytes_in_per_s,bytes_out_per_s"]
    received = sent = np.zeros(len(share))
    if made.bytes_in is not None:
        received = 2 * factor * int(made.bytes_in.sum()) * share
        sent = 2 * int(made.bytes_out.sum() + (factor - 1) * made.bytes_in.sum()) * share
    rows = zip(disk.tolist(), received.tolist(), sent.tolist(), strict=True)
    lines += [
        ",".join([str(n), *(str(max(1, int(amount))) for amount in row)])
        for n, row in enumerate(rows, start=1)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
