"""
The summary of a plan: loads before and after, and the lower bounds of bytes and moves.

Everything is computed from the rows of the plan, independently of the planner's ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import ensure
from controller.pipeline.cluster_frame import (
    RATE_COLUMNS,
    exploded,
    racks_used,
    traffic_columns,
)
from controller.pipeline.goal_summary import LOADS, GoalSummary, goal_bounds, summarize_goals
from controller.pipeline.placement_ledger import UNLIMITED, BrokerIndex
from controller.pipeline.planner import Planned
from controller.pipeline.volume_table import LISTED, DirectoryFill, listed_brokers
from controller.planning.load_goals import DISK, LED, REPLICAS
from controller.planning.quotas import Band

RATES_AT: Final = 3
"""The first load of rates."""


@dataclass(frozen=True, slots=True)
class LoadSpread:
    """One load of all brokers."""

    before: tuple[float, float]
    """Deviation of the least and the most loaded broker, as a fraction of its target."""
    after: tuple[float, float]
    outside: tuple[int, ...]
    """Ids of the brokers that end outside the band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """The figures of a plan."""

    partitions: int
    changed: int
    tolerance: float
    seed: int
    bytes_moved: int
    bytes_bound: int
    """No plan with the same goal copies less."""
    moves: int
    moves_bound: int
    leader_changes: int
    rack_violations_before: int
    rack_violations_after: int
    racks_lost: int
    """Partitions spread over fewer racks than before."""
    concentration_before: int
    """Largest number of replicas of one topic on one broker."""
    concentration_after: int
    concentration_rises: int
    """Topics with a larger maximum on one broker than before."""
    sizes: LoadSpread
    counts: LoadSpread
    leaders: LoadSpread
    bytes_in_per_s: tuple[tuple[int, int], tuple[int, int]] | None
    """Produce rate of the brokers with the lowest and the highest one, before and after; None:
    unknown."""
    notes: tuple[str, ...]
    goals: tuple[GoalSummary, ...] = ()
    """Each load, with its bound."""
    log_dirs: tuple[DirectoryFill, ...] = ()
    """The fill of log directories, if the plan names those of new replicas."""

    @property
    def bytes_ratio(self) -> float:
        """Return the bytes moved divided by their bound."""
        return self.bytes_moved / self.bytes_bound if self.bytes_bound else 1.0

    @property
    def moves_ratio(self) -> float:
        """Return the moves divided by their bound."""
        return self.moves / self.moves_bound if self.moves_bound else 1.0

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return asdict(self) | {"bytes_ratio": self.bytes_ratio, "moves_ratio": self.moves_ratio}


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads of every broker, before and after."""

    loads: tuple[tuple[Any, Any], ...]
    """Bytes, replicas and leaders; with rates also bytes in, bytes out and leader bytes in."""

    @property
    def rates(self) -> tuple[Any, Any] | None:
        """Bytes in per second, if the snapshot has rates."""
        return self.loads[RATES_AT] if len(self.loads) > RATES_AT else None

    def by_broker(self) -> Iterator[tuple[Any, ...]]:
        """Yield the loads of each broker, each of them before and after; unknown ones are None."""
        loads = [held.tolist() for both in self.loads for held in both]
        nothing = [None] * len(loads[0])
        loads += [nothing] * (2 * len(LOADS) - len(loads))
        loads[2 * RATES_AT :] = [
            [None if rate is None else float(rate) for rate in held]
            for held in loads[2 * RATES_AT :]
        ]
        yield from zip(*loads, strict=True)


def summarize(planned: Planned) -> tuple[PlanSummary, Loads]:
    """Compute the summary and the loads of a plan."""
    rows, brokers, options = planned.rows, planned.cluster.brokers, planned.options
    loads, concentration = _loads(planned)
    keeps = F.array(*(F.lit(bool(k)) for k in brokers.keeps))
    used, used_after = racks_used(brokers, "replicas"), racks_used(brokers, "after")
    racks = F.lit(brokers.racks)
    copied = F.size(F.array_except("after", "replicas"))
    staying = F.size(F.filter("replicas", lambda b: F.get(keeps, b)))
    needed = F.greatest(F.lit(0), F.size("after") - staying)
    sums = {
        "bytes": F.col("size") * copied,
        "moves": copied,
        "needed_bytes": F.col("size") * needed,
        "needed_moves": needed,
    }
    counts = {
        "changed": F.col("after") != F.col("replicas"),
        "leaders": F.get("after", F.lit(0)) != F.get("replicas", F.lit(0)),
        "bad": used < F.least(F.size("replicas"), racks),
        "still_bad": used_after < F.least(F.size("after"), racks),
        "racks_lost": used_after < F.least(used, F.size("after")),
        "twice": F.size("after") != F.size(F.array_distinct("after")),
        "empty": F.size("after") < 1,
    }
    total = rows.agg(
        F.count("*").alias("partitions"),
        *(F.sum(amount).alias(name) for name, amount in sums.items()),
        *(F.count(F.when(holds, 1)).alias(name) for name, holds in counts.items()),
    ).first()
    ensure(not total.twice and not total.empty, "a plan names a broker twice, or none")
    # Each rack has one replica per partition only if the plan repairs every rack violation and
    # empties every drained broker.
    is_balanced = not (options.only_needed or options.only_leaders)
    goal_bytes, all_bytes = goal_bounds(planned, is_balanced=is_balanced)
    is_settled = not total.still_bad and not loads.loads[1][1][~brokers.keeps].any()
    size_bound, move_bound = _bounds(planned, planned.settled if is_settled else [])
    sizes, counted, leaders = (
        _spread(brokers, load, within)
        for load, within in zip(loads.loads[:RATES_AT], planned.bands, strict=False)
    )
    goals = summarize_goals(planned, loads.loads, {**goal_bytes, DISK: size_bound})
    return PlanSummary(
        partitions=total.partitions,
        changed=total.changed,
        tolerance=options.tolerance,
        seed=options.seed,
        bytes_moved=total.bytes or 0,
        bytes_bound=int(max(size_bound, all_bytes, total.needed_bytes or 0)),
        moves=total.moves or 0,
        moves_bound=int(max(np.ceil(move_bound), total.needed_moves or 0)),
        leader_changes=total.leaders,
        rack_violations_before=total.bad,
        rack_violations_after=total.still_bad,
        racks_lost=total.racks_lost,
        concentration_before=int(planned.cap.max(initial=0)),
        concentration_after=int(concentration.max(initial=0)),
        concentration_rises=int(np.count_nonzero(concentration > planned.cap)),
        sizes=sizes,
        counts=counted,
        leaders=leaders,
        bytes_in_per_s=None if loads.rates is None else _extremes(brokers, loads.rates),
        notes=(*planned.notes, *_reasons(planned, loads), *_broken(goals)),
        goals=goals,
    ), loads


def _loads(planned: Planned) -> tuple[Loads, Any]:
    brokers = len(planned.cluster.brokers.ids)
    size, count, led = (np.zeros(brokers, dtype=np.int64) for _ in range(3))
    concentration = np.zeros(len(planned.cluster.topics), dtype=np.int64)
    traffic = np.zeros((3, brokers), dtype=np.int64)
    rates = traffic_columns() if planned.cluster.is_rated else {}
    single = planned.rows.select(
        "topic", "size", F.size("after").alias("factor"), *RATE_COLUMNS, exploded("after")
    )
    held = (
        single.groupBy("topic", "b")
        .agg(
            F.count("*").alias("n"),
            F.sum("size").alias("held"),
            F.count(F.when(F.col("position") == 0, 1)).alias("led"),
            *(F.sum(rate).alias(name) for name, rate in rates.items()),
        )
        .persist()
    )
    sums = ("n", "held", "led", *rates)
    for row in held.groupBy("b").agg(*map(F.sum, sums)).collect():
        count[row[0]], size[row[0]], led[row[0]] = row[1], row[2], row[3]
        for load, amount in zip(traffic, row[4:], strict=False):
            load[row[0]] = amount or 0
    for row in held.groupBy("topic").agg(F.max("n")).collect():
        concentration[row[0]] = row[1]
    held.unpersist()
    after = (size, count, led, *(traffic if rates else ()))
    return Loads(tuple(zip(planned.before, after, strict=True))), concentration


def _extremes(
    brokers: BrokerIndex, rates: tuple[Any, Any]
) -> tuple[tuple[int, int], tuple[int, int]]:
    before, after = (rate[brokers.keeps] for rate in rates)
    return (
        (round(float(before.min())), round(float(before.max()))),
        (round(float(after.min())), round(float(after.max()))),
    )


def _bounds(planned: Planned, settled: list[tuple[int, ...]]) -> tuple[float, float]:
    """Return the lower bounds of balance; zero if the plan does not balance."""
    options, (in_sizes, in_counts, *_) = planned.options, planned.bands
    if options.only_needed or options.only_leaders:
        return 0.0, 0.0
    sizes, counts = (load.tolist() for load in planned.before[:2])
    if options.replication_factor is not None:
        # A smaller replication factor removes an excess without a copy.
        return in_sizes.lack(sizes), in_counts.lack(counts)
    return in_sizes.bound(sizes, settled), in_counts.bound(counts, settled)


def _spread(brokers: BrokerIndex, load: tuple[Any, Any], within: Band) -> LoadSpread:
    target = np.array(within.target)
    kept = brokers.keeps & (target > 0)

    def spread(held: Any) -> tuple[float, float]:
        if not kept.any():
            return 0.0, 0.0
        share = held[kept] / target[kept] - 1
        return round(float(share.min()), 5), round(float(share.max()), 5)

    outside = tuple(brokers.ids[n] for n in within.outside(load[1].tolist()))
    return LoadSpread(spread(load[0]), spread(load[1]), outside)


def _reasons(planned: Planned, loads: Loads) -> list[str]:
    """Return the reasons why the cluster does not become even."""
    brokers, options = planned.cluster.brokers, planned.options
    sizes, counts, *_ = planned.bands
    found = []
    even = np.array(counts.target)[brokers.keeps]
    fair = np.array(brokers.shares(REPLICAS, round(sum(counts.target))))[brokers.keeps]
    balances = not (options.only_needed or options.only_leaders)
    if balances and len(even) and np.ptp(even - fair) > 1:
        racks = Counter(brokers.rack[brokers.keeps].tolist())
        found.append(
            "racks have unequal sizes, and no rack may hold two replicas of a partition while "
            f"another has none: with {sorted(racks.values())} brokers per rack, the most even "
            f"distribution is {even.min():.0f} to {even.max():.0f} replicas per broker; the bands "
            f"are around it"
        )
    limited = [
        f"broker {brokers.ids[n]} has a capacity of only {brokers.room[n]:.0f} bytes"
        for n in np.flatnonzero(brokers.keeps & (brokers.room < UNLIMITED))
        if brokers.room[n] <= sizes.target[n] * 1.0001
    ]
    found += limited[:LISTED]
    is_full = brokers.keeps & (loads.loads[0][1] > brokers.room)
    full = [brokers.ids[n] for n in np.flatnonzero(is_full)]
    if full:
        found.append(f"no room: brokers {listed_brokers(full)} would exceed their capacity")
    chosen = options.chooses(planned.cluster.topics)
    names = "bytes", "replicas", "leaders", "bytes in", "bytes out", "leader bytes in"
    for what, goal, (_, load), within in zip(
        names, LOADS, loads.loads, planned.bands, strict=False
    ):
        if not planned.cluster.goals[goal].is_on:
            continue
        of_leaders = goal in LED
        outside = [brokers.ids[n] for n in within.outside(load.tolist())]
        is_requested = not options.only_needed and (of_leaders or not options.only_leaders)
        if outside and is_requested:
            why = "no single move that is allowed brings them closer to it"
            if not all(chosen):
                why = f"{count_text(chosen.count(False), 'topic')} may not change"
            elif of_leaders:
                why = "no other follower of their partitions can take or give leadership"
            found.append(
                f"brokers {listed_brokers(outside)} stay outside the band of {what}: {why}"
            )
    return found


def _broken(goals: Iterable[GoalSummary]) -> Iterator[str]:
    """Yield the hard bounds that the plan breaks."""
    for goal in goals:
        if goal.broken:
            yield (
                f"brokers {listed_brokers(list(goal.broken))} end above the hard bound of "
                f"{goal.goal}, {goal.hard:.0%} of their capacity: required changes left no choice"
            )
