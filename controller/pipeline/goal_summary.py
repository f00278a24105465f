"""
The figures of each goal of a plan: shares before and after, and the bytes that any plan must copy.

A share is a load divided by the capacity of its broker; without capacities, by one. Figures are
relative to the mean share: 1.05 is five percent above it. Everything is computed from the rows of
the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.pipeline.placement_ledger import UNLIMITED, BrokerIndex
from controller.pipeline.planner import Planned
from controller.planning.load_goals import (
    BYTES_IN,
    BYTES_OUT,
    DISK,
    LEADER_BYTES_IN,
    LEADERS,
    LED,
    REPLICAS,
    LoadGoals,
    Offer,
    copy_bound,
)

LOADS: Final = (DISK, REPLICAS, LEADERS, BYTES_IN, BYTES_OUT, LEADER_BYTES_IN)
"""The goals in the order of ``Planned.before``; without rates, the first three."""
EPSILON: Final = 1e-6
CLASSES_PER_DOUBLING: Final = 4
"""Classes of the price of a load, in bytes to copy; each one counts with its lowest price."""
LEAD_AS: Final = {LEADERS: REPLICAS, LEADER_BYTES_IN: BYTES_IN}
"""What a leader has of a load is what any replica has of the other one."""
_AMOUNTS: Final = {REPLICAS: "one", BYTES_IN: "bytes_in", BYTES_OUT: "sent"}
TABLE: Final = (
    "goal STRING, rack STRING, broker INT, capacity DOUBLE, before DOUBLE, after DOUBLE, "
    "target DOUBLE, low DOUBLE, high DOUBLE, hard DOUBLE"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSummary:
    """One goal of a plan."""

    goal: str
    is_on: bool
    soft: float
    hard: float | None
    """Fraction of the capacity; None: there is no hard bound."""
    weight: float
    before: tuple[float, float]
    """The lowest and the highest share of a broker, relative to the mean share."""
    after: tuple[float, float]
    racks_before: tuple[float, float]
    racks_after: tuple[float, float]
    outside: tuple[int, ...]
    """Brokers that end outside the soft bound."""
    broken: tuple[int, ...]
    """Brokers that end above the hard bound and were not above it before."""
    bytes_bound: int
    """Bytes that any plan must copy to bring every broker within the soft bound."""


def summarize_goals(
    planned: Planned, loads: Sequence[tuple[Any, Any]], bounds: Mapping[str, float]
) -> tuple[GoalSummary, ...]:
    """Return the figures of all goals whose loads are known."""
    brokers, goals = planned.cluster.brokers, planned.cluster.goals
    found = []
    for name, (before, after), within in zip(LOADS, loads, planned.bands, strict=False):
        goal, limit = goals[name], _hard(brokers, name, goals)
        over = np.zeros(len(before), dtype=bool)
        if limit is not None:
            over = (after > limit) & (before <= limit)
        found.append(
            GoalSummary(
                goal=name,
                is_on=goal.is_on,
                soft=planned.options.tolerance if goal.soft is None else goal.soft,
                hard=planned.options.fill if name == DISK else goal.hard,
                weight=goal.weight,
                before=_shares(brokers, name, before),
                after=_shares(brokers, name, after),
                racks_before=_rack_shares(brokers, name, before),
                racks_after=_rack_shares(brokers, name, after),
                outside=tuple(brokers.ids[n] for n in within.outside(after.tolist())),
                broken=tuple(brokers.ids[n] for n in np.flatnonzero(over)),
                bytes_bound=int(bounds.get(name, 0.0)),
            )
        )
    return tuple(found)


def load_rows(planned: Planned, loads: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table ``loads``: of each goal and broker, then of each rack."""
    brokers, racks = planned.cluster.brokers, planned.cluster.racks
    for name, (before, after), within in zip(LOADS, loads, planned.bands, strict=False):
        limit, capacity = _hard(brokers, name, planned.cluster.goals), brokers.capacity(name)
        rows: list[tuple[int, list[float | None]]] = []
        for n in range(len(brokers.ids)):
            hard = None if limit is None or limit[n] >= UNLIMITED else float(limit[n])
            amounts = before[n], after[n], within.target[n], within.low[n], within.high[n]
            own = None if capacity is None else capacity[n]
            rows.append((n, [own, *map(float, amounts), hard]))
        for n, values in rows:
            yield (name, racks[n], brokers.ids[n], *values)
        for rack in sorted(set(racks)):
            of_rack = [values for n, values in rows if racks[n] == rack]
            yield (name, rack, None, *(_sum(column) for column in zip(*of_rack, strict=True)))


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _hard(brokers: BrokerIndex, name: str, goals: LoadGoals) -> Any | None:
    limit = brokers.limit(name, goals)
    return None if (limit >= UNLIMITED).all() else limit


def _shares(brokers: BrokerIndex, name: str, load: Any) -> tuple[float, float]:
    capacity = np.array(brokers.capacity(name) or [1.0] * len(load))
    return _extremes(load[brokers.keeps], capacity[brokers.keeps])


def _rack_shares(brokers: BrokerIndex, name: str, load: Any) -> tuple[float, float]:
    capacity = np.array(brokers.capacity(name) or [1.0] * len(load))
    kept = brokers.keeps
    racks = np.unique(brokers.rack[kept], return_inverse=True)[1]
    sums = np.bincount(racks, weights=load[kept]), np.bincount(racks, weights=capacity[kept])
    return _extremes(*sums)


def _extremes(load: Any, capacity: Any) -> tuple[float, float]:
    total = float(load.sum())
    if total <= 0:
        return 1.0, 1.0
    share = load / capacity / (total / float(capacity.sum()))
    return round(float(share.min()), 5), round(float(share.max()), 5)


# --- bounds --------------------------------------------------------------------------------------


def goal_bounds(planned: Planned, *, is_balanced: bool) -> tuple[dict[str, float], float]:
    """
    Return the bytes that any plan must copy for each goal but ``disk``, and for all at once.

    A broker sheds its excess with the replicas that have the most of the load for their bytes, and
    fills its lack with those of the whole cluster. A change of leaders copies nothing: of the loads
    of leaders, a broker lacks only what it does not reach by leading every partition that it has a
    replica of. For all goals at once, each broker counts with the goal that costs it most.
    """
    if not is_balanced:
        return {}, 0.0
    size = len(planned.cluster.brokers.ids)
    gives, takes = np.zeros(size), np.zeros(size)
    by_name: dict[str, float] = {}
    offers = _offers(planned)
    for name, (excess, lack) in _differences(planned, offers).items():
        if name == DISK:
            give, take = excess, lack
        else:
            held = offers[_AMOUNTS[LEAD_AS.get(name, name)]]
            give, take = copy_bound(excess, lack, held.by_broker, held.everywhere)
            by_name[name] = max(sum(give), sum(take))
        if planned.cluster.goals[name].is_on:
            gives, takes = np.maximum(gives, give), np.maximum(takes, take)
    return by_name, max(float(gives.sum()), float(takes.sum()))


@dataclass(frozen=True, slots=True)
class _Offers:
    """One load of all replicas, by class of price."""

    by_broker: list[list[Offer]]
    everywhere: list[Offer]
    """Each partition once."""
    reach: Any
    """The load of each broker if it leads every partition that it has a replica of."""
    forced: Any
    """That of its partitions that have no other replica."""


def _offers(planned: Planned) -> dict[str, _Offers]:
    """Return the offers of each column of ``_AMOUNTS`` that is known, from one pass of the rows."""
    rate, factor = F.coalesce("bytes_in", F.lit(0)), F.size("replicas")
    sent = F.coalesce("bytes_out", F.lit(0)) + (factor - 1) * rate
    amounts = {"one": F.lit(1).cast("bigint")}
    if planned.cluster.is_rated:
        amounts |= {"bytes_in": rate, "sent": sent}
    kinds = [F.struct(F.lit(k).alias("kind"), a.alias("amount")) for k, a in amounts.items()]
    price = F.col("size") / F.col("amount")
    priced = (
        planned.rows.select("size", "replicas", F.explode(F.array(*kinds)).alias("load"))
        .select("size", "replicas", "load.kind", "load.amount")
        .where("amount > 0")
        .select(
            "kind",
            "amount",
            price.alias("price"),
            # An empty replica costs nothing.
            F.floor(F.log2(price + EPSILON) * CLASSES_PER_DOUBLING).cast("int").alias("class"),
            (F.size("replicas") == 1).alias("is_single"),
            F.posexplode("replicas").alias("position", "b"),
        )
    )
    first = F.col("position") == 0
    found = priced.groupBy("kind", "b", "class").agg(
        F.sum("amount"),
        F.min("price"),
        F.sum(F.when(first, F.col("amount"))),
        F.min(F.when(first, F.col("price"))),
        F.sum(F.when(F.col("is_single"), F.col("amount"))),
    )
    size = len(planned.cluster.brokers.ids)
    offers = {
        kind: _Offers([[] for _ in range(size)], [], np.zeros(size), np.zeros(size))
        for kind in amounts
    }
    # In one order, so that sums of fractions do not depend on how rows are distributed.
    for row in sorted(found.collect()):
        kind, b, _, load, least, led, least_led, single = row
        one = offers[kind]
        one.by_broker[b].append((float(load), float(load) * least))
        one.reach[b] += load
        one.forced[b] += single or 0
        if led:
            one.everywhere.append((float(led), float(led) * least_led))
    return offers


def _differences(
    planned: Planned, offers: Mapping[str, _Offers]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return excess and lack of each broker by goal."""
    changes_factor = planned.options.replication_factor is not None
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name, load, within in zip(LOADS, planned.before, planned.bands, strict=False):
        most, least = load, load
        if name in LED:
            if changes_factor:
                # How much a leader sends, and what it can lead, depends on the new replicas.
                continue
            held = offers[_AMOUNTS[LEAD_AS.get(name, name)]]
            most, least = held.reach, held.forced
        excess = np.maximum(least - np.array(within.high), 0.0)
        if changes_factor:
            # A smaller replication factor removes an excess without a copy.
            excess = np.zeros_like(excess)
        lack = np.maximum(np.array(within.low) - most, 0.0)
        if name in {REPLICAS, LEADERS}:
            # Only whole replicas move.
            excess, lack = np.ceil(excess - EPSILON), np.ceil(lack - EPSILON)
        found[name] = excess.tolist(), lack.tolist()
    return found
