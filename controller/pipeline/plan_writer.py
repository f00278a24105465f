"""
Write a plan as files: Parquet tables, Kafka's JSON for the stock tool, and requests.

Only here the driver collects rows by wave, as text for ``reassigner execute``. Every entry names
the replicas it was planned from, so that ``execute`` detects a cluster that changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import CollectedRows, dice, in_order
from controller.pipeline.plan_summary import Loads, PlanSummary
from controller.pipeline.planner import Planned, Progress
from controller.pipeline.tables import Manifest
from controller.pipeline.waves import Wave, WaveLimits, Waves, wanting

ASSIGNED: Final = "topic INT, partition INT, wave INT"
PASSES_MAX: Final = 50
_TAIL: Final = "]}\n"


class Cutter:
    """Cut a plan into waves."""

    def __init__(
        self, spark: Any, planned: Planned, limits: WaveLimits, progress: Progress
    ) -> None:
        """Start without waves."""
        self._planned: Final = planned
        self._progress: Final = progress
        self._waves: Final = Waves(planned.sizes_before, planned.cluster.brokers.room, limits)
        self._assigned: Final = CollectedRows(spark, ASSIGNED)
        self._lengths: Final = [len(name) + 60 for name in planned.cluster.topics]

    def cut(self) -> tuple[Any, list[Wave]]:
        """
        Return topic, partition and wave of every change, and the waves.

        Raises:
            InvalidInputError: no tried order of the changes fits on the disks.

        """
        changed = self._planned.rows.where(F.col("after") != F.col("replicas")).select(
            "topic",
            "partition",
            "size",
            F.size("after").alias("replicas"),
            F.array_except("after", "replicas").alias("adding"),
            F.array_except("replicas", "after").alias("removing"),
        )
        # Changes that drop replicas from the fullest disks come first: they make room. Changes of
        # leaders alone come last.
        room = self._planned.cluster.brokers.room
        held = [float(f) for f in self._planned.sizes_before / np.maximum(room, 1.0)]
        fullness = F.array(*(F.lit(round(f, 2)) for f in held))
        relief = F.coalesce(
            F.array_max(F.transform("removing", lambda b: F.get(fullness, b))), F.lit(-1.0)
        )
        changed = (
            changed.withColumn("relief", relief)
            .withColumn(
                "drawn", dice(self._planned.options.seed + 3, F.col("topic"), F.col("partition"))
            )
            .persist()
        )
        left = changed
        for attempt in range(1, PASSES_MAX + 1):
            self._progress("cutting waves" if attempt == 1 else f"cutting waves, pass {attempt}")
            placed, deferred = self._pass(left)
            if not deferred:
                break
            if not placed:
                self._refuse(left)
            left = changed.join(self._assigned.table(), ["topic", "partition"], "left_anti")
        else:
            self._refuse(left)
        return self._assigned.table(), self._waves.result()

    def _pass(self, left: Any) -> tuple[int, int]:
        placed = deferred = 0
        for row in in_order(left, F.col("relief").desc(), "drawn", "topic", "partition"):
            text = self._lengths[row.topic] + 14 * row.replicas
            wave = self._waves.add(row.size, row.adding, row.removing, text)
            if wave is None:
                deferred += 1
                continue
            placed += 1
            self._assigned.add(row.topic, row.partition, wave)
        return placed, deferred

    def _refuse(self, left: Any) -> None:
        planned, waves = self._planned, self._waves.result()
        missing = wanting(
            waves,
            planned.sizes_before,
            planned.cluster.brokers.room,
            ((row.size, row.adding) for row in left.toLocalIterator()),
        )
        ids = planned.cluster.brokers.ids
        needs = ", ".join(
            f"broker {ids[n]}: {size} bytes" for n, size in sorted(missing.items())[:10]
        )
        raise InvalidInputError(
            f"the disks have no room for this plan in any order: {left.count()} partitions fit "
            f"into no wave. Free or add space ({needs}), allow a higher fill, or move less"
        )


def write_plan(  # noqa: PLR0913, PLR0917 - the parts of a plan
    planned: Planned,
    summary: PlanSummary,
    loads: Loads,
    waves: tuple[Any, Sequence[Wave]],
    manifest: Manifest,
    directory: str,
) -> list[Path]:
    """
    Write a plan into a directory; return the files of the requests.

    Raises:
        InvalidInputError: the directory cannot be written.

    """
    assigned, found = waves
    ids = planned.cluster.brokers.ids
    brokers = F.array(*(F.lit(broker) for broker in ids))

    def named(column: str) -> Any:
        return F.transform(column, lambda b: F.get(brokers, b))

    changes = (
        planned.rows.join(assigned, ["topic", "partition"])
        .join(F.broadcast(planned.cluster.names), "topic")
        .select(
            F.col("name").alias("topic"),
            "partition",
            F.col("size").alias("size_bytes"),
            named("replicas").alias("before"),
            named("after").alias("after"),
            (F.col("wave") + 1).alias("wave"),
        )
        .persist()
    )
    changes.coalesce(4).write.mode("overwrite").parquet(f"{directory}/changes")
    spark = changes.sparkSession
    _write_loads(spark, planned, loads, directory)
    _write_waves(spark, ids, found, directory)
    try:
        return _write_files(changes, summary, found, manifest, ids, Path(directory))
    except OSError as error:
        raise InvalidInputError(f"{directory}: {error.strerror or error}") from error


def _write_loads(spark: Any, planned: Planned, loads: Loads, directory: str) -> None:
    rows = [
        (
            broker,
            planned.cluster.racks[n],
            *(
                int(load[which][n])
                for load in (loads.sizes, loads.counts, loads.leaders)
                for which in (0, 1)
            ),
            *(None if loads.rates is None else float(loads.rates[which][n]) for which in (0, 1)),
        )
        for n, broker in enumerate(planned.cluster.brokers.ids)
    ]
    kind = (
        "broker INT, rack STRING, bytes_before BIGINT, bytes_after BIGINT, replicas_before BIGINT, "
        "replicas_after BIGINT, leaders_before BIGINT, leaders_after BIGINT, "
        "bytes_in_per_s_before DOUBLE, bytes_in_per_s_after DOUBLE"
    )
    spark.createDataFrame(rows, kind).coalesce(1).write.mode("overwrite").parquet(
        f"{directory}/brokers"
    )


def _write_waves(spark: Any, ids: Sequence[int], waves: Sequence[Wave], directory: str) -> None:
    rows = [
        (n, ids[b], int(wave.size_in[b]), int(wave.size_out[b]), int(wave.peak[b]))
        for n, wave in enumerate(waves, start=1)
        for b in range(len(ids))
    ]
    kind = "wave INT, broker INT, bytes_in BIGINT, bytes_out BIGINT, peak_bytes BIGINT"
    spark.createDataFrame(rows, kind).coalesce(1).write.mode("overwrite").parquet(
        f"{directory}/waves"
    )


def _write_files(  # noqa: PLR0913, PLR0917 - as above
    changes: Any,
    summary: PlanSummary,
    waves: Sequence[Wave],
    manifest: Manifest,
    ids: Sequence[int],
    directory: Path,
) -> list[Path]:
    requests = directory / "requests"
    requests.mkdir(parents=True, exist_ok=True)
    for old in requests.glob("wave-*.json"):
        old.unlink()
    paths = [requests / f"wave-{n:04d}.json" for n in range(1, len(waves) + 1)]
    by_wave: list[list[str]] = [[] for _ in waves]
    with (
        (directory / "plan.json").open("w", encoding="utf-8") as there,
        (directory / "rollback.json").open("w", encoding="utf-8") as back,
    ):
        between = _head()
        for row in in_order(changes, "topic", "partition"):
            there.write(between + _text(_entry(row, row.after)))
            back.write(between + _text(_entry(row, row.before)))
            known = _entry(row, row.after) | {"original_replicas": list(row.before)}
            by_wave[row.wave - 1].append(_text(known))
            between = ","
        end = _TAIL if between == "," else _head() + _TAIL
        there.write(end)
        back.write(end)
    head = _head(manifest.cluster_id)
    for path, entries in zip(paths, by_wave, strict=True):
        path.write_text(head + ",".join(entries) + _TAIL, encoding="utf-8")
    _write_json(
        directory / "summary.json",
        {
            "v": 1,
            "snapshot": {"cluster_id": manifest.cluster_id, "taken_at": manifest.taken_at},
            "plan": summary.document(),
            "waves": [_wave_document(n, wave, ids) for n, wave in enumerate(waves, start=1)],
        },
    )
    return paths


def _head(cluster_id: str = "") -> str:
    """Return the head of a file; only requests name their cluster, unlike Kafka's own format."""
    cluster = f'"cluster_id":{_text(cluster_id)},' if cluster_id else ""
    return f'{{"version":1,{cluster}"partitions":['


def _entry(row: Any, replicas: Sequence[int]) -> dict[str, Any]:
    return {"topic": row.topic, "partition": row.partition, "replicas": list(replicas)}


def _wave_document(number: int, wave: Wave, ids: Sequence[int]) -> Mapping[str, Any]:
    fullest = int(np.argmax(wave.peak))
    return {
        "wave": number,
        "partitions": wave.partitions,
        "bytes": int(wave.size_in.sum()),
        "most_in": int(wave.size_in.max(initial=0)),
        "most_out": int(wave.size_out.max(initial=0)),
        "peak_broker": ids[fullest],
        "peak_bytes": int(wave.peak[fullest]),
    }


def _text(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _write_json(path: Path, document: object) -> None:
    path.write_text(_text(document) + "\n", encoding="utf-8")
