"""
Even out preferred leaders: integer flows between brokers, and swaps of leaders with followers.

The driver finds the number of swaps of each pair of brokers by augmenting paths; Spark chooses the
partitions. Only the order of replicas changes, so nothing is copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import ensure
from controller.pipeline.cluster_frame import (
    RATE_COLUMNS,
    Cluster,
    CollectedRows,
    dice,
    in_order,
)
from controller.pipeline.goal_tuning import LeaderCandidate, LeaderTuning
from controller.pipeline.placement_ledger import TRAFFIC, PlacementLedger, Traffic
from controller.pipeline.plan_options import PlanOptions
from controller.planning.load_goals import BYTES_OUT, LEADERS, LED
from controller.planning.quotas import Band, flows

ROUNDS_MAX: Final = 4
"""Pools of candidates for the rates of leaders."""
MOST_RATED: Final = 200
"""Candidates of each leader among its partitions with the highest rates."""
PER_CLASS: Final = 8
"""Candidates of each leader and class of rates."""


def even_leaders(  # noqa: PLR0913, PLR0917 - the plan so far
    spark: Any,
    rows: Any,
    topics: Any,
    cluster: Cluster,
    options: PlanOptions,
    ledger: PlacementLedger,
) -> tuple[Band, Any]:
    """
    Even out preferred leaders; return their band, and the rows.

    ``rows`` are those of the plan, ``topics`` the topics that may change. With rates, swaps also
    bring bytes out and leader bytes in into their bands.
    """
    led = ledger.led
    within = ledger.leader_band(LEADERS, int(led.sum()))
    if options.only_needed:
        return within, rows
    balance = LeaderBalance(spark, topics, cluster, options.seed, ledger, within)
    if within.outside(led.tolist()):
        rows, led = balance.even_counts(rows, led)
    if ledger.traffic is not None:
        rows = balance.even_rates(rows, led)
    return within, rows


class LeaderBalance:
    """The swaps of leaders with followers, over the rows of a plan."""

    def __init__(  # noqa: PLR0913, PLR0917 - the plan so far
        self,
        spark: Any,
        topics: Any,
        cluster: Cluster,
        seed: int,
        ledger: PlacementLedger,
        within: Band,
    ) -> None:
        """Swap within the topics that may change, until the leaders are within a band."""
        self._spark: Final = spark
        self._topics: Final = topics
        self._cluster: Final = cluster
        self._seed: Final = seed
        self._ledger: Final = ledger
        self._within: Final = within

    # --- numbers of leaders --------------------------------------------------------------------

    def even_counts(self, rows: Any, led: Any) -> tuple[Any, Any]:
        """Even out the numbers of leaders; return the rows, and the leaders afterwards."""
        brokers, within, size = self._cluster.brokers, self._within, len(led)
        target = within.target
        fullness = F.array(
            *(F.lit(max(0.05, n / max(1.0, target[b]))) for b, n in enumerate(led.tolist()))
        )

        def cost(b: Any, n: Any) -> Any:
            drawn = dice(self._seed + 1, F.col("topic"), F.col("partition"), n)
            return F.struct((drawn * F.get(fullness, b)).alias("cost"), n.alias("n"))

        followers = F.slice(F.transform("after", cost), 2, 1_000)
        swaps = (
            self._movable(rows)
            .select(
                "topic", "partition", "after", *RATE_COLUMNS, F.array_min(followers)["n"].alias("n")
            )
            .select(
                "topic",
                "partition",
                "n",
                F.get("after", F.lit(0)).alias("leader"),
                F.get("after", F.col("n")).alias("follower"),
                F.size("after").alias("factor"),
                *RATE_COLUMNS,
            )
            .persist()
        )
        offered = np.zeros((size, size), dtype=np.int64)
        for leader, follower, count in swaps.groupBy("leader", "follower").count().collect():
            offered[leader, follower] = count
        group = np.flatnonzero(brokers.keeps).tolist()
        flow = leader_flows(led, offered, within, group)
        chosen = self._choose(swaps, flow)
        if self._ledger.traffic is None:
            after = led - flow.sum(axis=1) + flow.sum(axis=0)
            chosen = chosen.select("topic", "partition", "n")
        else:
            chosen, after = self._within_limits(chosen, led)
        return self._swapped(rows, chosen), after

    def _choose(self, swaps: Any, flow: Any) -> Any:
        """Return of each pair the wanted number of swaps, those with the lowest dice."""
        wanted = self._spark.createDataFrame(
            [(int(a), int(b), int(flow[a, b])) for a, b in np.argwhere(flow > 0)],
            "leader INT, follower INT, wanted INT",
        )
        # Sort within each pair instead of sorting all rows: pairs are many and small.
        drawn = dice(self._seed + 2, F.col("topic"), F.col("partition")).alias("d")
        columns = ("topic", "partition", "n", "factor", *RATE_COLUMNS)
        ordered = F.sort_array(F.collect_list(F.struct(drawn, *columns)))
        return (
            swaps.join(F.broadcast(wanted), ["leader", "follower"])
            .groupBy("leader", "follower", "wanted")
            .agg(ordered.alias("all"))
            .select(
                "leader",
                "follower",
                F.explode(F.slice("all", F.lit(1), F.col("wanted"))).alias("one"),
            )
            .select("leader", "follower", "one.d", *(f"one.{name}" for name in columns))
        )

    def _within_limits(self, chosen: Any, led: Any) -> tuple[Any, Any]:
        """Leave out the swaps that would break a hard bound; apply the others to the loads."""
        load, limits = self._loads(led), self._limits()
        kept = CollectedRows(self._spark, "topic INT, partition INT, n INT")
        for row in in_order(chosen, "d", "topic", "partition"):
            placed = (row.leader, *[row.follower] * (row.factor - 1))
            amounts = np.array(_leader_candidate(row, placed).amounts)
            if (load[:, row.follower] + amounts <= limits[:, row.follower]).all():
                load[:, row.leader] -= amounts
                load[:, row.follower] += amounts
                kept.add(row.topic, row.partition, row.n)
        self._store(load)
        return kept.table(), load[0]

    # --- rates of leaders ----------------------------------------------------------------------

    def even_rates(self, rows: Any, led: Any) -> Any:
        """Bring bytes out and leader bytes in into their bands; return the rows."""
        names, goals = list(LED), self._ledger.goals
        bands = [self._within, *(self._band(name) for name in names[1:])]
        for attempt in range(1, ROUNDS_MAX + 1):
            load = self._loads(led)
            outside = [
                name
                for name, held, within in zip(names, load, bands, strict=True)
                if goals[name].is_on and within.outside(held.tolist())
            ]
            if not outside:
                break
            swaps = CollectedRows(self._spark, "topic INT, partition INT, n INT")
            pool = self._candidates(rows, attempt)
            tuning = LeaderTuning(load, bands, self._limits(), goals, pool)
            for swap in tuning.swaps():
                swaps.add(*swap)
            if swaps.is_empty:
                break
            load = np.rint(tuning.load).astype(np.int64)
            self._store(load)
            rows, led = self._swapped(rows, swaps.table()), load[0]
        return rows

    def _candidates(self, rows: Any, attempt: int) -> Iterator[LeaderCandidate]:
        """Yield the partitions of each leader with the highest rates, and some of all others."""
        sent = F.col("bytes_out") if self._ledger.goals[BYTES_OUT].is_on else F.lit(0)
        sent = F.coalesce(sent, F.lit(0)) + (F.size("after") - 1) * F.col("bytes_in")
        classed = self._movable(rows).select(
            "topic",
            "partition",
            "after",
            *RATE_COLUMNS,
            F.get("after", F.lit(0)).alias("leader"),
            F.floor(F.log2(sent + 1.0)).cast("int").alias("class"),
        )
        counted = classed.groupBy("leader", "class").count().collect()
        rates = {(row[0], row[1]): row[2] for row in counted}
        chances: list[tuple[int, int, float]] = []
        left: dict[int, int] = {}
        for leader, rate in sorted(rates, key=lambda key: (key[0], -key[1])):
            most = left.setdefault(leader, MOST_RATED)
            left[leader] = max(0, most - rates[leader, rate])
            wanted = max(PER_CLASS, most)
            chances.append((leader, rate, min(1.0, wanted / rates[leader, rate])))
        if not chances:
            return
        table = self._spark.createDataFrame(chances, "leader INT, class INT, chance DOUBLE")
        drawn = dice(self._seed + 2 + attempt, F.col("topic"), F.col("partition"))
        pool = (
            classed.join(F.broadcast(table), ["leader", "class"])
            .where(drawn < F.col("chance"))
            .select("topic", "partition", "after", *RATE_COLUMNS)
        )
        for row in in_order(pool, "topic", "partition"):
            yield _leader_candidate(row, tuple(row.after))

    # --- loads and rows ------------------------------------------------------------------------

    def _movable(self, rows: Any) -> Any:
        """Return the partitions whose leader may change."""
        found = rows.join(self._topics, "topic", "left_semi").where(F.size("after") > 1)
        return found if self._ledger.traffic is None else found.where(self._cluster.is_known())

    def _swapped(self, rows: Any, chosen: Any) -> Any:
        """Swap the leader with the replica at position ``n`` of the chosen partitions."""
        moved = F.transform(
            "after",
            lambda b, n: (
                F.when(n == 0, F.get("after", F.col("n")))
                .when(n == F.col("n"), F.get("after", F.lit(0)))
                .otherwise(b)
            ),
        )
        after = F.when(F.col("n").isNull(), F.col("after")).otherwise(moved).alias("after")
        others = [name for name in rows.columns if name != "after"]
        final = rows.join(chosen, ["topic", "partition"], "left").select(*others, after)
        return final.persist(StorageLevel.MEMORY_AND_DISK)

    def _traffic(self) -> Traffic:
        traffic = self._ledger.traffic
        ensure(traffic is not None, "rates are needed")
        return cast("Traffic", traffic)

    def _band(self, name: str) -> Band:
        return self._traffic().bands[TRAFFIC.index(name)]

    def _loads(self, led: Any) -> Any:
        """Return the loads of leaders, in the order of ``LED``."""
        load = self._traffic().load
        return np.array([led, *(load[TRAFFIC.index(name)] for name in LED[1:])])

    def _store(self, load: Any) -> None:
        for name, held in zip(LED[1:], load[1:], strict=True):
            self._traffic().load[TRAFFIC.index(name)] = held

    def _limits(self) -> Any:
        """Return the hard bounds; a broker that is to be emptied may lead nothing more."""
        brokers, goals = self._cluster.brokers, self._ledger.goals
        limits = np.array([brokers.limit(name, goals) for name in LED])
        return np.where(brokers.keeps, limits, -1.0)


def _leader_candidate(row: Any, replicas: tuple[int, ...]) -> LeaderCandidate:
    """Return a candidate; an unknown rate counts in no sum of rates."""
    return LeaderCandidate(
        row.topic, row.partition, replicas, row.bytes_in or 0, row.bytes_out or 0
    )


def leader_flows(leaders: Any, offered: Any, within: Band, group: list[int]) -> Any:
    """
    Return the number of leaderships that each broker hands over to each other one.

    Args:
        leaders: Partitions led, by broker.
        offered: Partitions that a leader can hand over to a follower, by leader and follower.
        within: The band to reach.
        group: The brokers that may lead.

    """
    give, take = flows(leaders.tolist(), within, group)
    flow, room = np.zeros_like(offered), offered.copy()
    _augment(flow, room, np.ceil(give).astype(np.int64), np.ceil(take).astype(np.int64))
    # Brokers still outside the band may use the remaining room of all others.
    high, low = np.floor(np.array(within.high)), np.ceil(np.array(within.low))
    allowed = np.zeros(len(leaders), dtype=bool)
    allowed[group] = True

    def beyond(amount: Any) -> Any:
        return np.where(allowed, np.maximum(amount, 0), 0).astype(np.int64)

    after = leaders - flow.sum(axis=1) + flow.sum(axis=0)
    _augment(flow, room, beyond(after - high), beyond(high - after))
    after = leaders - flow.sum(axis=1) + flow.sum(axis=0)
    _augment(flow, room, beyond(after - low), beyond(low - after))
    # Two brokers that hand over to each other keep the smaller number instead.
    return flow - np.minimum(flow, flow.T)


def _augment(flow: Any, room: Any, gives: Any, takes: Any) -> None:
    """Add flow from givers to takers along shortest paths until no path is left."""
    while True:
        path = _path(room, gives, takes)
        if path is None:
            return
        steps = list(pairwise(path))
        amount = min(gives[path[0]], takes[path[-1]], *(room[step] for step in steps))
        for giver, taker in steps:
            flow[giver, taker] += amount
            room[giver, taker] -= amount
            room[taker, giver] += amount
        gives[path[0]] -= amount
        takes[path[-1]] -= amount


def _path(room: Any, gives: Any, takes: Any) -> list[int] | None:
    came_from = np.full(len(gives), -1, dtype=np.int64)
    starts = np.flatnonzero(gives > 0)
    came_from[starts] = starts
    queue = deque(starts.tolist())
    while queue:
        broker = queue.popleft()
        fresh = np.flatnonzero((room[broker] > 0) & (came_from < 0))
        came_from[fresh] = broker
        found = fresh[takes[fresh] > 0]
        if len(found):
            path = [int(found[np.argmax(takes[found])])]
            while came_from[path[-1]] != path[-1]:
                path.append(int(came_from[path[-1]]))
            return path[::-1]
        queue.extend(fresh.tolist())
    return None
