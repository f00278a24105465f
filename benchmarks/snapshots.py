"""Made-up clusters written as snapshots, for measurements and tests."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from benchmarks.clusters import MadeCluster
from controller.pipeline.tables import BROKERS, Manifest, Tables, write_tables


def write_cluster(spark: Any, made: MadeCluster, directory: str) -> None:
    """Write a made-up cluster as a snapshot."""
    rows = zip(
        made.topic.tolist(),
        made.partition.tolist(),
        made.size.tolist(),
        made.replicas.tolist(),
        strict=True,
    )
    packed = spark.createDataFrame(
        list(rows), "t INT, partition INT, size_bytes BIGINT, replicas ARRAY<INT>"
    )
    names = spark.createDataFrame(list(enumerate(made.topics)), "t INT, topic STRING")
    replicas = (
        packed.select("t", "partition", "size_bytes", F.posexplode("replicas"))
        .join(F.broadcast(names), "t")
        .select(
            "topic",
            "partition",
            F.col("col").alias("broker"),
            F.col("pos").alias("position"),
            "size_bytes",
            F.lit("/data").alias("log_dir"),
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
    brokers = [(n, rack, f"host-{n}", None, True) for n, rack in enumerate(made.racks, start=1)]
    manifest = Manifest(f"made-{len(made.racks)}", "2026-01-01T00:00:00Z", "generator")
    write_tables(
        Tables(spark.createDataFrame(brokers, BROKERS), replicas, topics, manifest), directory
    )
