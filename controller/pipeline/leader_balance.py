"""
Even out preferred leaders: integer flows between brokers, and swaps of leaders with followers.

The driver finds the number of swaps of each pair of brokers by augmenting paths; Spark chooses the
partitions. Only the order of replicas changes, so nothing is copied.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.pipeline.cluster_frame import Cluster, dice
from controller.pipeline.plan_options import PlanOptions
from controller.planning.quotas import Band, band, flows


def even_leaders(
    spark: Any, rows: Any, topics: Any, cluster: Cluster, options: PlanOptions
) -> tuple[Any, Band, Any]:
    """
    Even out preferred leaders; return the leaders before, their band, and the rows.

    ``rows`` are those of the plan, ``topics`` the topics that may change.
    """
    brokers = cluster.brokers
    size = len(brokers.ids)
    before, led = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    pairs = rows.groupBy(F.get("replicas", F.lit(0)), F.get("after", F.lit(0))).count()
    for old, new, count in pairs.collect():
        before[old] += count
        led[new] += count
    group = np.flatnonzero(brokers.keeps).tolist()
    target = [led.sum() / len(group) if brokers.keeps[b] else 0.0 for b in range(size)]
    within = band(target, [float(led.sum()) + 1.0] * size, options.tolerance)
    if options.only_needed or not within.outside(led.tolist()):
        return before, within, rows
    fullness = F.array(
        *(F.lit(max(0.05, n / max(1.0, target[b]))) for b, n in enumerate(led.tolist()))
    )

    def cost(b: Any, n: Any) -> Any:
        drawn = dice(options.seed + 1, F.col("topic"), F.col("partition"), n)
        return F.struct((drawn * F.get(fullness, b)).alias("cost"), n.alias("n"))

    followers = F.slice(F.transform("after", cost), 2, 1_000)
    swaps = (
        rows.join(topics, "topic", "left_semi")
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
    offered = np.zeros((size, size), dtype=np.int64)
    for leader, follower, count in swaps.groupBy("leader", "follower").count().collect():
        offered[leader, follower] = count
    swapped = leader_flows(led, offered, within, group)
    chosen = _choose(spark, swaps, swapped, options.seed + 2)
    moved = F.transform(
        "after",
        lambda b, n: (
            F.when(n == 0, F.get("after", F.col("n")))
            .when(n == F.col("n"), F.get("after", F.lit(0)))
            .otherwise(b)
        ),
    )
    after = F.when(F.col("n").isNull(), F.col("after")).otherwise(moved).alias("after")
    final = rows.join(chosen, ["topic", "partition"], "left").select(
        "topic", "partition", "size", "replicas", after
    )
    return before, within, final.persist(StorageLevel.MEMORY_AND_DISK)


def _choose(spark: Any, swaps: Any, flow: Any, seed: int) -> Any:
    """Return of each pair the wanted number of swaps, those with the lowest dice."""
    wanted = spark.createDataFrame(
        [(int(a), int(b), int(flow[a, b])) for a, b in np.argwhere(flow > 0)],
        "leader INT, follower INT, wanted INT",
    )
    # Sort within each pair instead of sorting all rows: pairs are many and small.
    drawn = dice(seed, F.col("topic"), F.col("partition")).alias("d")
    ordered = F.sort_array(F.collect_list(F.struct(drawn, "topic", "partition", "n")))
    return (
        swaps.join(F.broadcast(wanted), ["leader", "follower"])
        .groupBy("leader", "follower", "wanted")
        .agg(ordered.alias("all"))
        .select(F.explode(F.slice("all", F.lit(1), F.col("wanted"))).alias("one"))
        .select("one.topic", "one.partition", "one.n")
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
