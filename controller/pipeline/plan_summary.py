"""
The summary of a plan: loads before and after, and the lower bounds of bytes and moves.

Everything is computed from the rows of the plan, independently of the planner's ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import ensure
from controller.pipeline.cluster_frame import racks_used
from controller.pipeline.placement_ledger import UNLIMITED, BrokerIndex
from controller.pipeline.planner import Planned
from controller.pipeline.volume_table import LISTED, DirectoryFill, listed_brokers
from controller.planning.quotas import Band


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
    """Bytes, replicas and leaders."""
    rates: tuple[Any, Any] | None = None
    """Bytes per second, if the snapshot has rates."""

    def by_broker(self) -> Iterator[tuple[Any, ...]]:
        """Yield the loads and the rate of each broker, each of them before and after."""
        loads = [held.tolist() for both in self.loads for held in both]
        nothing = [None] * len(loads[0])
        rates = [nothing, nothing] if self.rates is None else [r.tolist() for r in self.rates]
        yield from zip(*loads, *rates, strict=True)


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
    is_settled = not total.still_bad and not loads.loads[1][1][~brokers.keeps].any()
    size_bound, move_bound = _bounds(planned, planned.settled if is_settled else [])
    sizes, counted, leaders = (
        _spread(brokers, load, within)
        for load, within in zip(loads.loads, planned.bands, strict=True)
    )
    return PlanSummary(
        partitions=total.partitions,
        changed=total.changed,
        tolerance=options.tolerance,
        seed=options.seed,
        bytes_moved=total.bytes or 0,
        bytes_bound=int(max(size_bound, total.needed_bytes or 0)),
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
        notes=(*planned.notes, *_reasons(planned, loads)),
    ), loads


def _loads(planned: Planned) -> tuple[Loads, Any]:
    brokers = len(planned.cluster.brokers.ids)
    size, count, led = (np.zeros(brokers, dtype=np.int64) for _ in range(3))
    concentration = np.zeros(len(planned.cluster.topics), dtype=np.int64)
    single = planned.rows.select("topic", "size", F.posexplode("after").alias("position", "b"))
    held = (
        single.groupBy("topic", "b")
        .agg(
            F.count("*").alias("n"),
            F.sum("size").alias("held"),
            F.count(F.when(F.col("position") == 0, 1)).alias("led"),
        )
        .persist()
    )
    for row in held.groupBy("b").agg(F.sum("n"), F.sum("held"), F.sum("led")).collect():
        count[row[0]], size[row[0]], led[row[0]] = row[1], row[2], row[3]
    for row in held.groupBy("topic").agg(F.max("n")).collect():
        concentration[row[0]] = row[1]
    held.unpersist()
    loads = tuple(zip(planned.before, (size, count, led), strict=True))
    rates = planned.cluster.rates
    return Loads(loads, None if rates is None else _rates(planned, rates)), concentration


def _rates(planned: Planned, rates: Any) -> tuple[Any, Any]:
    """Return the produce rate of each broker; every replica receives its partition's writes."""
    rows = planned.rows.join(rates, ["topic", "partition"])
    found = []
    for column in ("replicas", "after"):
        held = np.zeros(len(planned.cluster.brokers.ids))
        single = rows.select("bytes_in_per_s", F.explode(column).alias("b"))
        for row in single.groupBy("b").agg(F.sum("bytes_in_per_s")).collect():
            held[row[0]] = row[1]
        found.append(held)
    return found[0], found[1]


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
    options, (in_sizes, in_counts, _) = planned.options, planned.bands
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
    sizes, counts, _ = planned.bands
    found = []
    even = np.array(counts.target)[brokers.keeps]
    balances = not (options.only_needed or options.only_leaders)
    if balances and len(even) and even.max() - even.min() > 1:
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
    names = "bytes", "replicas", "leaders"
    for what, (_, load), within in zip(names, loads.loads, planned.bands, strict=True):
        outside = [brokers.ids[n] for n in within.outside(load.tolist())]
        is_requested = not options.only_needed and (what == "leaders" or not options.only_leaders)
        if outside and is_requested:
            why = "no single move that is allowed brings them closer to it"
            if not all(chosen):
                why = f"{count_text(chosen.count(False), 'topic')} may not change"
            elif what == "leaders":
                why = "no other follower of their partitions can take or give leadership"
            found.append(
                f"brokers {listed_brokers(outside)} stay outside the band of {what}: {why}"
            )
    return found
