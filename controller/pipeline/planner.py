"""
Plan a whole cluster: required moves, bulk moves, fine tuning, preferred leaders.

The driver decides one change after the other from its sums by broker and topic. Spark selects,
orders, joins and writes the rows, and passes them to the driver one at a time. The same snapshot,
options and seed give the same plan, however the rows are partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline import cluster_frame as frames
from controller.pipeline.goal_tuning import MoveTuning
from controller.pipeline.leader_balance import even_leaders
from controller.pipeline.moves import BulkMoves, FineTuning, RequiredMoves
from controller.pipeline.placement_ledger import Candidate, PlacementChange, PlacementLedger
from controller.pipeline.plan_options import PlanOptions
from controller.planning.quotas import Band

ROUNDS_MAX: Final = 4
"""Pools of candidates for fine tuning."""
CHANGES: Final = "topic INT, partition INT, after ARRAY<INT>"
COLUMNS: Final = ("topic", "partition", "size", "replicas", *frames.RATE_COLUMNS)
"""Of a partition."""
ROUND_SALT: Final = 1_000
PER_CLASS: Final = 12
"""Candidates of each broker and size class for fine tuning."""
SMALLEST: Final = 150
"""Candidates among the smallest replicas of each broker; on average at most twice as many in all,
counting those for surplus replicas."""
PER_SURPLUS: Final = 3
"""Small candidates for each surplus replica: a partition is a candidate on one broker only, and
some candidates have no useful target."""
CLASSES_PER_DOUBLING: Final = 2
RATE_CLASSES: Final = 64
"""Classes of rates, one for each doubling."""
MOST_WORTH: Final = 200
"""Candidates of each broker among those with the highest rate for their size."""
PER_CELL: Final = 4
"""Candidates of each broker and class of size and rate."""

ReportProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, before it is written; loads are bytes, replicas and leaders, in this order."""

    cluster: frames.Cluster
    options: PlanOptions
    rows: Any
    """topic, partition, size, replicas (before), bytes_in, bytes_out, after; one row for each
    partition."""
    bands: tuple[Band, ...]
    """Of each load; with rates also of bytes in, bytes out and leader bytes in."""
    before: tuple[Any, ...]
    """Each load of all brokers."""
    cap: Any
    """Largest number of replicas on one broker before, by topic."""
    settled: list[tuple[int, ...]]
    """The brokers of each rack if every rack ends with one replica per partition."""
    notes: list[str]


class Planner:
    """Make one plan."""

    def __init__(
        self, spark: Any, cluster: frames.Cluster, options: PlanOptions, progress: ReportProgress
    ) -> None:
        """Select the topics of a loaded cluster that may change."""
        self._spark: Final = spark
        self._cluster: Final = cluster
        self._options: Final = options
        self._progress: Final = progress
        self._topics: Final = F.broadcast(frames.movable_topics(spark, cluster, options))
        self._movable: Final = cluster.parts.join(self._topics, "topic", "left_semi")
        self._changes: Final = frames.CollectedRows(spark, CHANGES)
        self._bytes = self._moves = 0
        self._is_capped = False
        self._notes: list[str] = list(cluster.notes)

    def plan(self) -> Planned:
        """
        Make the plan.

        Raises:
            InvalidInputError: an option names a broker or topic that does not exist.

        """
        options, cluster = self._options, self._cluster
        replaced = self._replaced()
        self._progress("summing up the loads of brokers")
        ledger = frames.ledger_of(cluster, self._planned_factors(), options.tolerance)
        sizes, counts, led = ledger.size.copy(), ledger.count.copy(), ledger.led.copy()
        traffic = ledger.traffic
        rates = [] if traffic is None else list(traffic.load.copy())
        if not options.only_leaders:
            self._place(ledger, replaced)
            if not options.only_needed:
                self._move_bulk(ledger)
                if not self._is_capped:
                    self._fine_tune(ledger)
                if not self._is_capped:
                    self._tune_rates(ledger)
        joined = cluster.parts.join(self._changes.table(), ["topic", "partition"], "left")
        after = F.coalesce("after", "replicas").alias("after")
        rows = joined.select(*COLUMNS, after).persist(StorageLevel.MEMORY_AND_DISK)
        self._progress("choosing leaders")
        leaders, rows = even_leaders(self._spark, rows, self._topics, cluster, options, ledger)
        bands = ledger.sizes, ledger.counts, leaders, *(() if traffic is None else traffic.bands)
        before = sizes, counts, led, *rates
        settled = ledger.settled()
        return Planned(cluster, options, rows, bands, before, ledger.cap, settled, self._notes)

    # --- required moves ------------------------------------------------------------------------

    def _replaced(self) -> dict[int, int]:
        """Check the brokers that options name; return the replacements, by index."""
        index, keeps = self._cluster.brokers.index(), self._cluster.brokers.keeps
        for pair in self._options.replace.items():
            for broker in pair:
                if broker not in index:
                    raise InvalidInputError(f"broker {broker} is not in the snapshot")
        factor, most = self._options.replication_factor, int(np.count_nonzero(keeps))
        if factor is not None and factor > most:
            raise InvalidInputError(f"replication factor {factor} needs more than {most} brokers")
        return {index[broker]: index[other] for broker, other in self._options.replace.items()}

    def _planned_factors(self) -> dict[int, frames.PlannedSums]:
        """Return the sums of partitions by their planned replication factor."""
        parts, wanted = self._cluster.parts, self._options.replication_factor
        sums = ("size", *frames.RATE_COLUMNS)
        planned = parts.select(F.size("replicas").alias("factor"), *sums)
        if wanted is not None:
            others = parts.join(self._topics, "topic", "left_anti")
            planned = others.select(F.size("replicas").alias("factor"), *sums).union(
                self._movable.select(F.lit(wanted), *sums)
            )
        found = planned.groupBy("factor").agg(F.count("*").alias("n"), *(F.sum(x) for x in sums))
        rows = found.orderBy("factor").collect()
        return {row[0]: frames.PlannedSums(*(amount or 0 for amount in row[1:])) for row in rows}

    def _place(self, ledger: PlacementLedger, replaced: Mapping[int, int]) -> None:
        self._progress("placing replicas that cannot stay")
        brokers, factor = self._cluster.brokers, self._options.replication_factor
        stays = enumerate(brokers.keeps.tolist())
        leaves = F.array(*(F.lit(not keeps or n in replaced) for n, keeps in stays))
        bad = frames.racks_used(brokers, "replicas") < F.least(
            F.size("replicas"), F.lit(ledger.racks)
        )
        bad |= F.exists("replicas", lambda b: F.get(leaves, b))
        if factor is not None:
            bad |= F.size("replicas") != factor
        rows = self._movable.where(bad).select(
            frames.dice(self._options.seed, F.col("topic"), F.col("partition")).alias("rank"),
            *COLUMNS,
        )
        placer = RequiredMoves(ledger, replaced, factor)
        for row in frames.in_order(rows, "rank", "topic", "partition"):
            if self._is_capped:
                self._notes.append("a cap ended the plan before all required moves")
                break
            change = placer.place(_candidate(row[1:], 0))
            if change is not None:
                self._take(change)
        self._notes += [f"{why} ({n} times)" for why, n in sorted(placer.problems.items())]

    # --- balance -------------------------------------------------------------------------------

    def _move_bulk(self, ledger: PlacementLedger) -> None:
        bulk = BulkMoves(ledger)
        if bulk.is_done():
            return
        self._progress("planning bulk moves")
        chances = np.where(ledger.by_topic > 0, bulk.chances(), 0.0)
        by_topic = {
            topic: {b: float(row[b]) for b in np.flatnonzero(row > 0).tolist()}
            for topic, row in enumerate(chances)
        }
        for candidate in self._candidates(self._untouched(), "topic", by_topic, self._options.seed):
            if bulk.is_done() or self._is_capped:
                break
            change = bulk.judge(candidate)
            if change is not None:
                self._take(change)

    def _fine_tune(self, ledger: PlacementLedger) -> None:
        for attempt in range(1, ROUNDS_MAX + 1):
            if ledger.is_even:
                return
            self._progress(f"fine tuning, round {attempt}")
            size_class = F.floor(F.log2(F.col("size") + 1.0) * CLASSES_PER_DOUBLING).cast("int")
            sized = self._untouched().withColumn("class", size_class)
            single = sized.select("class", F.explode("replicas").alias("b"))
            counted = {(b, c): n for b, c, n in single.groupBy("b", "class").count().collect()}
            surplus = np.maximum(ledger.count - np.floor(ledger.counts.high), 0)
            seed = self._options.seed + ROUND_SALT * attempt
            by_class = chances_by_size(counted, surplus)
            moved = self._moves
            candidates = self._candidates(sized, "class", by_class, seed)
            for change in FineTuning(ledger, candidates).changes():
                self._take(change)
                if self._is_capped:
                    break
            if self._is_capped or self._moves == moved:
                return

    def _tune_rates(self, ledger: PlacementLedger) -> None:
        for attempt in range(1, ROUNDS_MAX + 1):
            if ledger.is_even_in:
                return
            self._progress(f"tuning rates, round {attempt}")
            size_class, rate_class = (
                F.floor(F.log2(F.col(name) + 1.0)).cast("int") for name in ("size", "bytes_in")
            )
            rated = self._untouched().withColumn("class", size_class * RATE_CLASSES + rate_class)
            single = rated.select("class", F.explode("replicas").alias("b"))
            counted = {(b, c): n for b, c, n in single.groupBy("b", "class").count().collect()}
            typical = float(ledger.size.sum()) / max(1, int(ledger.count.sum()))
            seed = self._options.seed + ROUND_SALT * (ROUNDS_MAX + attempt)
            moved = self._moves
            by_class = chances_by_rate(counted, typical)
            candidates = self._candidates(rated, "class", by_class, seed)
            for change in MoveTuning(ledger, candidates).changes():
                self._take(change)
                if self._is_capped:
                    break
            if self._is_capped or self._moves == moved:
                return

    def _candidates(
        self, parts: Any, key: str, chances: Mapping[int, Mapping[int, float]], seed: int
    ) -> Iterator[Candidate]:
        """
        Yield of each partition at most one replica that may move, in the order of ranks.

        The rank is a dice divided by the chance of the replica to be a candidate, by a column and
        the broker; it is below 1, and the lowest of the partition. A stable hash gives the dice, so
        the order does not depend on how the rows are distributed over files or machines.
        """
        rows = [(value, found) for value, found in chances.items() if found]
        if not rows:
            return
        chance = self._spark.createDataFrame(rows, f"{key} INT, chance MAP<INT, DOUBLE>")

        def ranked(broker: Any, position: Any) -> Any:
            drawn = frames.dice(seed, F.col("topic"), F.col("partition"), position)
            rank = drawn / F.try_element_at(F.col("chance"), broker)
            return F.struct(rank.alias("rank"), position.alias("n"))

        best = F.array_min(F.filter(F.transform("replicas", ranked), lambda x: x["rank"] < 1.0))
        pool = (
            parts.join(F.broadcast(chance), key)
            .select(*COLUMNS, best.alias("best"))
            .where("best IS NOT NULL")
            .select("best.rank", *COLUMNS, "best.n")
        )
        for row in frames.in_order(pool, "rank", "topic", "partition"):
            yield _candidate(row[1:], row[-1])

    # --- changes -------------------------------------------------------------------------------

    def _take(self, change: PlacementChange) -> None:
        copied = len(set(change.after) - set(change.before))
        self._bytes += change.size * copied
        self._moves += copied
        self._changes.add(change.topic, change.partition, list(change.after))
        note = self._options.cap_note(self._bytes, self._moves)
        if note is not None and not self._is_capped:
            self._is_capped = True
            self._notes.append(note)

    def _untouched(self) -> Any:
        """Return the partitions that may still move; those of unknown rates stay."""
        movable = self._movable.where(self._cluster.is_known())
        if self._changes.is_empty:
            return movable
        return movable.join(self._changes.table(), ["topic", "partition"], "left_anti")


def _candidate(row: Sequence[Any], position: int) -> Candidate:
    """Return a candidate from ``COLUMNS``; an unknown rate counts in no sum of rates."""
    topic, partition, size, replicas, bytes_in, bytes_out = row[: len(COLUMNS)]
    rates = bytes_in or 0, bytes_out or 0
    return Candidate(topic, partition, size, tuple(replicas), position, *rates)


def chances_by_size(
    counted: Mapping[tuple[int, int], int], surplus: Any
) -> dict[int, dict[int, float]]:
    """
    Return the probability that a replica is a candidate, by size class and broker.

    The smallest replicas of a broker reduce its surplus at the lowest cost, so there are additional
    candidates among these. The number of brokers limits the sum of the additional candidates.
    ``counted`` has the replicas by broker and class.
    """
    extra = PER_SURPLUS * np.asarray(surplus, dtype=float)
    most = SMALLEST * len(extra)
    smallest = SMALLEST + np.floor(extra * min(1.0, most / max(1.0, float(extra.sum()))))
    left = smallest.astype(np.int64).tolist()
    chances: dict[int, dict[int, float]] = {}
    for (broker, size_class), count in sorted(counted.items()):
        wanted = max(PER_CLASS, left[broker])
        left[broker] = max(0, left[broker] - count)
        chances.setdefault(size_class, {})[broker] = min(1.0, wanted / count)
    return chances


def chances_by_rate(
    counted: Mapping[tuple[int, int], int], typical: float
) -> dict[int, dict[int, float]]:
    """
    Return the probability that a replica is a candidate, by class of size and rate, and broker.

    The replicas with the highest rate for their size change a broker's bytes in at the lowest cost,
    so there are more candidates among these. ``counted`` has the replicas by broker and class,
    ``typical`` is the size whose copy costs as much as the move itself.
    """
    by_broker: dict[int, list[tuple[float, int, int]]] = {}
    for (broker, cell), count in counted.items():
        size, rate = divmod(cell, RATE_CLASSES)
        worth = 2.0**rate / (2.0**size + typical)
        by_broker.setdefault(broker, []).append((-worth, cell, count))
    chances: dict[int, dict[int, float]] = {}
    for broker, cells in sorted(by_broker.items()):
        left = MOST_WORTH
        for _, cell, count in sorted(cells):
            wanted = max(PER_CELL, left)
            left = max(0, left - count)
            chances.setdefault(cell, {})[broker] = min(1.0, wanted / count)
    return chances
