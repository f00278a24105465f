"""
Plan a whole cluster: required moves, bulk moves, fine tuning, preferred leaders.

The driver decides one change after the other from its sums by broker and topic. Spark selects,
orders, joins and writes the rows, and passes them to the driver one at a time. The same snapshot,
options and seed give the same plan, however the rows are partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline import cluster_frame as frames
from controller.pipeline.bulk_moves import BulkMoves
from controller.pipeline.candidates import candidates_above, candidates_by_size
from controller.pipeline.fine_tuning import FineTuning
from controller.pipeline.leadership_flows import leader_flows
from controller.pipeline.placement_ledger import PlacementChange, PlacementLedger
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.required_moves import RequiredMove, RequiredMoves
from controller.planning.quotas import Band, band

ROUNDS_MAX: Final = 4
"""Pools of candidates for fine tuning."""
CHANGES: Final = "topic INT, partition INT, after ARRAY<INT>"
ROUND_SALT: Final = 1_000

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands of the three loads."""

    sizes: Band
    counts: Band
    leaders: Band


@dataclass(slots=True)
class Planned:
    """A plan, before it is written."""

    cluster: frames.Cluster
    options: PlanOptions
    rows: Any
    """topic, partition, size, replicas (before), after; one row for each partition."""
    bands: Bands
    sizes_before: Any
    counts_before: Any
    leaders_before: Any
    cap: Any
    """Largest number of replicas on one broker before, by topic."""
    settled: list[tuple[int, ...]]
    """The brokers of each rack if every rack ends with one replica per partition."""
    notes: list[str] = field(default_factory=list)


class Planner:
    """Make one plan."""

    def __init__(
        self, spark: Any, cluster: frames.Cluster, options: PlanOptions, progress: Progress
    ) -> None:
        """Select the topics of a loaded cluster that may change."""
        self._spark: Final = spark
        self._cluster: Final = cluster
        self._options: Final = options
        self._progress: Final = progress
        self._index: Final = cluster.brokers.index()
        chosen = options.chooses(cluster.topics)
        movable = spark.createDataFrame(
            [(n,) for n, is_chosen in enumerate(chosen) if is_chosen], "topic INT"
        )
        self._movable: Final = cluster.parts.join(F.broadcast(movable), "topic", "left_semi")
        self._changes: Final = frames.CollectedRows(spark, CHANGES)
        self._bytes = self._moves = 0
        self._is_capped = False
        self._notes: list[str] = []

    def plan(self) -> Planned:
        """
        Make the plan.

        Raises:
            InvalidInputError: an option names a broker or topic that does not exist.

        """
        options, cluster = self._options, self._cluster
        self._progress("summing up the loads of brokers")
        ledger = frames.ledger_of(cluster, cluster.parts)
        required = self._required_move()
        if options.replication_factor:
            ledger = self._with_factor(ledger, options.replication_factor)
        sizes, counts = ledger.bands(options.tolerance)
        before = ledger.size.copy(), ledger.count.copy(), ledger.cap.copy()
        if not options.only_leaders:
            self._place(ledger, sizes, counts, required)
            if not options.only_needed:
                self._move_bulk(ledger, sizes, counts)
                self._fine_tune(ledger, sizes, counts)
        rows = self._rows()
        led_before, leaders, rows = self._lead(rows)
        return Planned(
            cluster,
            options,
            rows,
            Bands(sizes, counts, leaders),
            before[0],
            before[1],
            led_before,
            before[2],
            ledger.settled(),
            self._notes,
        )

    # --- required moves ------------------------------------------------------------------------

    def _required_move(self) -> RequiredMove:
        replaced: dict[int, int] = {}
        for broker, other in self._options.replace.items():
            for one in (broker, other):
                if one not in self._index:
                    raise InvalidInputError(f"broker {one} is not in the snapshot")
            replaced[self._index[broker]] = self._index[other]
        factor = self._options.replication_factor
        keeps = int(np.count_nonzero(self._cluster.brokers.keeps))
        if factor is not None and factor > keeps:
            raise InvalidInputError(f"replication factor {factor} needs more than {keeps} brokers")
        return RequiredMove(replaced=replaced, replication_factor=factor)

    def _with_factor(self, ledger: PlacementLedger, factor: int) -> PlacementLedger:
        """Return the ledger with the shares of another replication factor."""
        changed = {
            found.replication_factor: (found.partitions, found.size)
            for found in frames.factors_of(self._movable)
        }
        factors: dict[int, tuple[int, int]] = {}
        for found in ledger.factors:
            n, held = changed.get(found.replication_factor, (0, 0))
            factors[found.replication_factor] = (found.partitions - n, found.size - held)
        n, held = factors.get(factor, (0, 0))
        factors[factor] = (
            n + sum(v[0] for v in changed.values()),
            held + sum(v[1] for v in changed.values()),
        )
        return ledger.with_factors(factors)

    def _place(
        self, ledger: PlacementLedger, sizes: Band, counts: Band, required: RequiredMove
    ) -> None:
        self._progress("placing replicas that cannot stay")
        brokers = self._cluster.brokers
        racks = F.array(*(F.lit(int(r)) for r in brokers.rack))
        moves = F.array(*(F.lit(bool(k)) for k in self._leaving(required)))
        used = F.size(F.array_distinct(F.transform("replicas", lambda b: F.get(racks, b))))
        bad = used < F.least(F.size("replicas"), F.lit(ledger.racks))
        bad |= F.exists("replicas", lambda b: F.get(moves, b))
        if required.replication_factor is not None:
            bad |= F.size("replicas") != required.replication_factor
        rows = self._movable.where(bad).select(
            frames.dice(self._options.seed, F.col("topic"), F.col("partition")).alias("rank"),
            "topic",
            "partition",
            "size",
            "replicas",
        )
        placer = RequiredMoves(ledger, sizes, counts, required)
        for row in frames.in_order(rows, "rank", "topic", "partition"):
            if self._is_capped:
                self._notes.append("a cap ended the plan before all required moves")
                break
            change = placer.place(row[1], row[2], row[3], tuple(row[4]))
            if change is not None:
                self._take(change)
        self._notes += [f"{why} ({n} times)" for why, n in sorted(placer.problems.items())]

    def _leaving(self, required: RequiredMove) -> Iterator[bool]:
        for n, keeps in enumerate(self._cluster.brokers.keeps.tolist()):
            yield not keeps or n in required.replaced

    # --- balance -------------------------------------------------------------------------------

    def _move_bulk(self, ledger: PlacementLedger, sizes: Band, counts: Band) -> None:
        bulk = BulkMoves(ledger, sizes, counts)
        if bulk.is_done():
            return
        self._progress("planning bulk moves")
        candidates = candidates_above(
            self._spark,
            self._untouched(),
            held=ledger.by_topic,
            fair=bulk.fair,
            levels=bulk.levels(),
            seed=self._options.seed,
        )
        for candidate in candidates:
            if bulk.is_done() or self._is_capped:
                break
            change = bulk.judge(candidate)
            if change is not None:
                self._take(change)

    def _fine_tune(self, ledger: PlacementLedger, sizes: Band, counts: Band) -> None:
        for attempt in range(1, ROUNDS_MAX + 1):
            outside = len(sizes.outside(ledger.size.tolist()))
            if not outside and not counts.outside(ledger.count.tolist()):
                return
            if self._is_capped:
                return
            self._progress(f"fine tuning, round {attempt}")
            seed = self._options.seed + ROUND_SALT * attempt
            surplus = np.maximum(ledger.count - np.floor(counts.high), 0)
            candidates = candidates_by_size(
                self._spark, self._untouched(), surplus=surplus, seed=seed
            )
            tuning = FineTuning(ledger, sizes, counts, candidates)
            moved = self._moves
            for stage in (tuning.shed_counts, tuning.even_sizes, tuning.even_counts):
                self._take_all(stage())
            if self._moves == moved:
                return

    # --- changes -------------------------------------------------------------------------------

    def _take_all(self, changes: Iterable[PlacementChange]) -> None:
        for change in changes:
            self._take(change)
            if self._is_capped:
                return

    def _take(self, change: PlacementChange) -> None:
        copied = len(set(change.after) - set(change.before))
        self._bytes += change.size * copied
        self._moves += copied
        self._changes.add(change.topic, change.partition, list(change.after))
        options = self._options
        for what, cap, used in (
            ("bytes", options.bytes_max, self._bytes),
            ("moves", options.moves_max, self._moves),
        ):
            if cap is not None and used >= cap and not self._is_capped:
                self._is_capped = True
                self._notes.append(f"the cap of {cap} {what} ended the plan early")

    def _untouched(self) -> Any:
        if self._changes.is_empty:
            return self._movable
        return self._movable.join(self._changes.table(), ["topic", "partition"], "left_anti")

    def _rows(self) -> Any:
        joined = self._cluster.parts.join(self._changes.table(), ["topic", "partition"], "left")
        after = F.coalesce("after", "replicas").alias("after")
        return joined.select("topic", "partition", "size", "replicas", after).persist(
            StorageLevel.MEMORY_AND_DISK
        )

    # --- leaders -------------------------------------------------------------------------------

    def _lead(self, rows: Any) -> tuple[Any, Band, Any]:
        """Even out preferred leaders; return the leaders before, their band, and the rows."""
        self._progress("choosing leaders")
        brokers = self._cluster.brokers
        size = len(brokers.ids)
        before, led = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        pairs = (
            rows.groupBy(F.get("replicas", F.lit(0)), F.get("after", F.lit(0))).count().collect()
        )
        for old, new, count in pairs:
            before[old] += count
            led[new] += count
        group = np.flatnonzero(brokers.keeps).tolist()
        target = [led.sum() / len(group) if brokers.keeps[b] else 0.0 for b in range(size)]
        within = band(target, [float(led.sum()) + 1.0] * size, self._options.tolerance)
        if self._options.only_needed or not within.outside(led.tolist()):
            return before, within, rows
        offered = np.zeros((size, size), dtype=np.int64)
        fullness = F.array(
            *(F.lit(max(0.05, n / max(1.0, target[b]))) for b, n in enumerate(led.tolist()))
        )

        def cost(b: Any, n: Any) -> Any:
            drawn = frames.dice(self._options.seed + 1, F.col("topic"), F.col("partition"), n)
            return F.struct((drawn * F.get(fullness, b)).alias("cost"), n.alias("n"))

        followers = F.slice(F.transform("after", cost), 2, 1_000)
        swaps = (
            self._only_movable(rows)
            .where(F.size("after") > 1)
            .select("topic", "partition", "after", F.array_min(followers)["n"].alias("n"))
            .select(
                "topic",
                "partition",
                "n",
                F.get("after", F.lit(0)).alias("leader"),
                F.get("after", F.col("n")).alias("follower"),
            )
            .persist()
        )
        for leader, follower, count in swaps.groupBy("leader", "follower").count().collect():
            offered[leader, follower] = count
        swapped = leader_flows(led, offered, within, group)
        chosen = self._swaps(swaps, swapped)
        joined = rows.join(chosen, ["topic", "partition"], "left")
        moved = F.transform(
            "after",
            lambda b, n: (
                F.when(n == 0, F.get("after", F.col("n")))
                .when(n == F.col("n"), F.get("after", F.lit(0)))
                .otherwise(b)
            ),
        )
        after = F.when(F.col("n").isNull(), F.col("after")).otherwise(moved).alias("after")
        final = joined.select("topic", "partition", "size", "replicas", after)
        return before, within, final.persist(StorageLevel.MEMORY_AND_DISK)

    def _only_movable(self, rows: Any) -> Any:
        movable = self._movable.select("topic").distinct()
        return rows.join(F.broadcast(movable), "topic", "left_semi")

    def _swaps(self, swaps: Any, flow: Any) -> Any:
        """Return of each pair the wanted number of swaps, those with the lowest dice."""
        wanted = self._spark.createDataFrame(
            [(int(a), int(b), int(flow[a, b])) for a, b in np.argwhere(flow > 0)],
            "leader INT, follower INT, wanted INT",
        )
        # Sort within each pair instead of sorting all rows: pairs are many and small.
        drawn = frames.dice(self._options.seed + 2, F.col("topic"), F.col("partition"))
        lined = (
            swaps.join(F.broadcast(wanted), ["leader", "follower"])
            .groupBy("leader", "follower", "wanted")
            .agg(
                F.sort_array(
                    F.collect_list(F.struct(drawn.alias("d"), "topic", "partition", "n"))
                ).alias("all")
            )
        )
        return lined.select(
            F.explode(F.slice("all", F.lit(1), F.col("wanted"))).alias("one")
        ).select("one.topic", "one.partition", "one.n")
