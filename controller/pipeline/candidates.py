"""
Select candidates, the replicas that the planner may move, in Spark.

Each partition contributes at most one candidate. A stable hash gives the order, so it does not
depend on how the rows are distributed over files or machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.pipeline.cluster_frame import dice, in_order
from controller.pipeline.placement_ledger import Candidate

PER_CLASS: Final = 12
"""Candidates of each broker and size class for fine tuning."""
SMALLEST: Final = 150
"""Candidates among the smallest replicas of each broker; on average at most twice as many in all,
counting those for surplus replicas."""
PER_SURPLUS: Final = 3
"""Small candidates for each surplus replica: a partition is a candidate on one broker only, and
some candidates have no useful target."""
CLASSES_PER_DOUBLING: Final = 2


def candidates_above(  # noqa: PLR0913 - the loads by topic and broker
    spark: Any,
    parts: Any,
    *,
    held: Any,
    fair: Any,
    levels: Any,
    seed: int,
) -> Iterator[Candidate]:
    """
    Yield a sample of the replicas above a level on each broker, topic by topic.

    Args:
        spark: The session.
        parts: The partitions that may change.
        held: Replicas by topic and broker.
        fair: A topic's fair share on a broker, by topic.
        levels: See ``bulk_moves.BulkMoves.levels``.
        seed: Seed of the order.

    """
    chances = 1.0 - levels[None, :] * fair[:, None] / np.maximum(held, 1)
    rows = []
    for topic in range(len(held)):
        brokers = np.flatnonzero((held[topic] > 0) & (chances[topic] > 0))
        if len(brokers):
            rows.append(
                (topic, dict(zip(brokers.tolist(), chances[topic, brokers].tolist(), strict=True)))
            )
    if not rows:
        return iter(())
    chance = spark.createDataFrame(rows, "topic INT, chance MAP<INT, DOUBLE>")
    return _candidates(parts.join(F.broadcast(chance), "topic"), seed)


def candidates_by_size(spark: Any, parts: Any, *, surplus: Any, seed: int) -> Iterator[Candidate]:
    """
    Yield some replicas of each size class from every broker, and more of the smallest ones.

    Args:
        spark: The session.
        parts: The partitions that may change.
        surplus: Surplus replicas of each broker.
        seed: Seed of the order.

    """
    sized = parts.withColumn(
        "class", F.floor(F.log2(F.col("size") + 1.0) * CLASSES_PER_DOUBLING).cast("int")
    )
    counted = (
        sized.select("class", F.explode("replicas").alias("b"))
        .groupBy("b", "class")
        .count()
        .collect()
    )
    chances = chances_by_size({(b, c): n for b, c, n in counted}, surplus)
    if not chances:
        return iter(())
    chance = spark.createDataFrame(list(chances.items()), "class INT, chance MAP<INT, DOUBLE>")
    return _candidates(sized.join(F.broadcast(chance), "class"), seed)


def chances_by_size(
    counted: Mapping[tuple[int, int], int], surplus: Any
) -> dict[int, dict[int, float]]:
    """
    Return the probability that a replica is a candidate, by size class and broker.

    The smallest replicas of a broker reduce its surplus at the lowest cost, so there are additional
    candidates among these. The number of brokers limits the sum of the additional candidates.

    Args:
        counted: Replicas by broker and class.
        surplus: Surplus replicas of each broker.

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


def _candidates(parts: Any, seed: int) -> Iterator[Candidate]:
    """
    Yield of each partition the replica with the lowest rank below 1, in the order of ranks.

    The rank is a dice divided by the ``chance`` of the replica's broker to be a candidate.
    """

    def ranked(broker: Any, position: Any) -> Any:
        drawn = dice(seed, F.col("topic"), F.col("partition"), position)
        rank = drawn / F.try_element_at(F.col("chance"), broker)
        return F.struct(rank.alias("rank"), position.alias("n"))

    best = F.array_min(F.filter(F.transform("replicas", ranked), lambda x: x["rank"] < 1.0))
    pool = parts.select("topic", "partition", "size", "replicas", best.alias("best")).where(
        "best IS NOT NULL"
    )
    pool = pool.select("best.rank", "topic", "partition", "size", "replicas", "best.n")
    for row in in_order(pool, "rank", "topic", "partition"):
        yield Candidate(row[1], row[2], row[3], tuple(row[4]), row[5])
