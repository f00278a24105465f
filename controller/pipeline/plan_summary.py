"""
The summary of a plan: loads before and after, and the lower bounds of bytes and moves.

Everything is computed from the rows of the plan, independently of the planner's ledger.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import ensure
from controller.pipeline.placement_ledger import UNLIMITED
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
    """The three loads of every broker, before and after."""

    sizes: tuple[Any, Any]
    counts: tuple[Any, Any]
    leaders: tuple[Any, Any]
    rates: tuple[Any, Any] | None = None
    """Bytes per second, if the snapshot has rates."""


def summarize(planned: Planned) -> tuple[PlanSummary, Loads]:
    """Compute the summary and the loads of a plan."""
    rows, brokers, options = planned.rows, planned.cluster.brokers, planned.options
    loads, concentration = _loads(planned)
    racks = F.array(*(F.lit(int(r)) for r in brokers.rack))
    keeps = F.array(*(F.lit(bool(k)) for k in brokers.keeps))
    used = {
        c: F.size(F.array_distinct(F.transform(c, lambda b: F.get(racks, b))))
        for c in ("replicas", "after")
    }
    copied = F.size(F.array_except("after", "replicas"))
    staying = F.size(F.filter("replicas", lambda b: F.get(keeps, b)))
    needed = F.greatest(F.lit(0), F.size("after") - staying)
    ids = list(range(1, brokers.racks + 1))
    total = rows.agg(
        F.count("*").alias("partitions"),
        F.count(F.when(F.col("after") != F.col("replicas"), 1)).alias("changed"),
        F.sum(F.col("size") * copied).alias("bytes"),
        F.sum(copied).alias("moves"),
        F.sum(F.col("size") * needed).alias("needed_bytes"),
        F.sum(needed).alias("needed_moves"),
        F.count(F.when(F.get("after", F.lit(0)) != F.get("replicas", F.lit(0)), 1)).alias(
            "leaders"
        ),
        F.count(F.when(used["replicas"] < F.least(F.size("replicas"), F.lit(len(ids))), 1)).alias(
            "bad"
        ),
        F.count(F.when(used["after"] < F.least(F.size("after"), F.lit(len(ids))), 1)).alias(
            "still_bad"
        ),
        F.count(F.when(used["after"] < F.least(used["replicas"], F.size("after")), 1)).alias(
            "racks_lost"
        ),
        F.count(F.when(F.size("after") != F.size(F.array_distinct("after")), 1)).alias("twice"),
        F.count(F.when(F.size("after") < 1, 1)).alias("empty"),
    ).first()
    ensure(not total.twice and not total.empty, "a plan names a broker twice, or none")
    # Each rack has one replica per partition only if the plan repairs every rack violation and
    # empties every drained broker.
    is_settled = not total.still_bad and not loads.counts[1][~brokers.keeps].any()
    size_bound, move_bound = _bounds(planned, planned.settled if is_settled else [])
    bands = planned.bands
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
        sizes=_load(planned, loads.sizes, bands.sizes),
        counts=_load(planned, loads.counts, bands.counts),
        leaders=_load(planned, loads.leaders, bands.leaders),
        bytes_in_per_s=None if loads.rates is None else _extremes(planned, loads.rates),
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
    return Loads(
        (planned.sizes_before, size),
        (planned.counts_before, count),
        (planned.leaders_before, led),
        None if planned.cluster.rates is None else _rates(planned, planned.cluster.rates),
    ), concentration


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


def _extremes(planned: Planned, rates: tuple[Any, Any]) -> tuple[tuple[int, int], tuple[int, int]]:
    keeps = planned.cluster.brokers.keeps
    before, after = (
        (round(float(rate[keeps].min())), round(float(rate[keeps].max()))) for rate in rates
    )
    return before, after


def _bounds(planned: Planned, settled: list[tuple[int, ...]]) -> tuple[float, float]:
    """Return the lower bounds of balance; zero if the plan does not balance."""
    options, bands = planned.options, planned.bands
    if options.only_needed or options.only_leaders:
        return 0.0, 0.0
    sizes, counts = planned.sizes_before.tolist(), planned.counts_before.tolist()
    if options.replication_factor is not None:
        # A smaller replication factor removes an excess without a copy.
        return bands.sizes.lack(sizes), bands.counts.lack(counts)
    return bands.sizes.bound_within(sizes, settled), bands.counts.bound_within(counts, settled)


def _load(planned: Planned, load: tuple[Any, Any], within: Band) -> LoadSpread:
    brokers = planned.cluster.brokers
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
    brokers, bands = planned.cluster.brokers, planned.bands
    found = []
    even = np.array(bands.counts.target)[brokers.keeps]
    balances = not (planned.options.only_needed or planned.options.only_leaders)
    if balances and len(even) and even.max() - even.min() > 1:
        racks: dict[int, int] = {}
        for rack in brokers.rack[brokers.keeps].tolist():
            racks[rack] = racks.get(rack, 0) + 1
        found.append(
            "racks have unequal sizes, and no rack may hold two replicas of a partition while "
            f"another has none: with {sorted(racks.values())} brokers per rack, the most even "
            f"distribution is {even.min():.0f} to {even.max():.0f} replicas per broker; the bands "
            f"are around it"
        )
    limited = [
        f"broker {brokers.ids[n]} has a capacity of only {brokers.room[n]:.0f} bytes"
        for n in np.flatnonzero(brokers.keeps & (brokers.room < UNLIMITED))
        if brokers.room[n] <= bands.sizes.target[n] * 1.0001
    ]
    found += limited[:LISTED]
    full = [
        brokers.ids[n] for n in np.flatnonzero(brokers.keeps) if loads.sizes[1][n] > brokers.room[n]
    ]
    if full:
        found.append(f"no room: brokers {listed_brokers(full)} would exceed their capacity")
    options = planned.options
    chosen = options.chooses(planned.cluster.topics)
    for what, load, within in (
        ("bytes", loads.sizes[1], bands.sizes),
        ("replicas", loads.counts[1], bands.counts),
        ("leaders", loads.leaders[1], bands.leaders),
    ):
        outside = [brokers.ids[n] for n in within.outside(load.tolist())]
        is_requested = not options.only_needed and (what == "leaders" or not options.only_leaders)
        if outside and is_requested:
            why = "no single move that is allowed brings them closer to it"
            if not all(chosen):
                why = f"{chosen.count(False)} topics may not change"
            elif what == "leaders":
                why = "no other follower of their partitions can take or give leadership"
            found.append(
                f"brokers {listed_brokers(outside)} stay outside the band of {what}: {why}"
            )
    return found
