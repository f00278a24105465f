"""
Forecast what a plan does: bytes by broker and directory, leaders, steps, waits, and its time.

The time is a range. Its low end is a bound: what the busiest broker copies or serves at the highest
known rates, without the bytes that it passes on before its throttle holds. Its high end is the plan
played at the lowest known rates, with the time that steps take besides their copies and what
producers add meanwhile. Both are counted from the moment at which the first step may begin: a pause
or a closed window is not part of them. Without a throttle and without past copies the time is
unknown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from controller.core.model import BlockedBy, BrokerId, LogDir, TopicPartition, ids
from controller.planning.copy_schedule import (
    CopyRole,
    ForecastLimits,
    ForecastMove,
    Pace,
    Place,
    RateOf,
    Schedule,
    play,
)

PLAYED_MAX: Final = 1_000
"""Steps of a plan up to which it is played at its rates; beyond it, its busiest broker counts."""
BURST_S: Final = 10.0
"""Seconds for which Kafka averages a throttle: so much of it passes before it holds."""
STEP_HIGH_S: Final = 1.0
"""What a step takes besides its copies."""
START_LOW_S: Final = 0.1
START_HIGH_S: Final = 5.0
"""From the submission to the first step, and from the last one to the end of the request."""
HELD_SHARE: Final = 0.85
"""The share of a throttle that copies reach at least."""
PAST_FAST: Final = 2.0
PAST_SLOW: Final = 0.6
"""The rates of copies to come, relative to the highest and the lowest of past ones."""
CROWDED: Final = 1.1
"""The time of a large plan, relative to that of its busiest broker."""


class Rates(NamedTuple):
    """Bytes per second that a broker copied, at least and at most."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPlan:
    """A plan, and everything about the cluster that its forecast depends on."""

    moves: Sequence[ForecastMove]
    """The entries that change something, in their order."""
    sizeless: Collection[TopicPartition] = ()
    """Those of unknown size: their bytes are not counted."""
    disks: Mapping[BrokerId, tuple[LogDir, ...]] = field(default_factory=dict)
    live: Collection[BrokerId] = ()
    limits: ForecastLimits = field(default_factory=ForecastLimits)
    throttle: int | None = None
    """Bytes per second and broker; of a governed throttle the most."""
    throttle_least: int | None = None
    """Of a governed throttle the least; None: it is fixed."""
    relocation_throttle: int | None = None
    """As ``throttle``, of copies between two directories of a broker."""
    relocation_least: int | None = None
    measured: Mapping[BrokerId, Rates] = field(default_factory=dict)
    """What brokers received in past copies without a throttle."""
    holds: Sequence[Wait] = ()
    """What keeps all of the plan from beginning."""
    tolerated: Collection[BrokerId] = ()
    """Brokers whose lagging replicas are not awaited where they stay."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Entries that will wait, and for what."""

    by: BlockedBy
    detail: str
    partitions: tuple[TopicPartition, ...] = ()
    """Empty: all of the plan."""
    count: int = 0
    """The number of partitions, where they are not known by name."""


@dataclass(slots=True)
class BrokerShare:
    """What the plan does to one broker."""

    copies_in: int = 0
    bytes_in: int = 0
    copies_served: int = 0
    bytes_served: int = 0
    """Sent to new replicas, as the leader."""
    dropped: int = 0
    bytes_dropped: int = 0
    relocated: int = 0
    bytes_relocated: int = 0
    """Moved to other log directories of the broker."""
    leaders_gained: int = 0
    leaders_lost: int = 0


@dataclass(frozen=True, slots=True)
class DirectoryShare:
    """What the plan does to one log directory; None: its broker does not report it."""

    broker: BrokerId
    path: str
    bytes_in: int
    bytes_dropped: int
    total_bytes: int | None
    used_bytes: int | None
    peak_bytes: int | None
    end_bytes: int | None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Seconds that the plan takes, and what they are computed from."""

    low_s: float
    high_s: float | None
    """
    None: producers are faster than a throttle, something waits until an operator acts, or a size or
    the rate of a move between directories is unknown.
    """
    basis: tuple[str, ...]
    """Of ``throttle`` and ``past_copies``."""
    busiest: BrokerId | None
    """The broker that copies or serves longest."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan does."""

    changes: int
    """Entries that change replicas."""
    steps: int
    brokers: Mapping[BrokerId, BrokerShare]
    directories: Sequence[DirectoryShare]
    leaders_moved: int
    sizes_unknown: int
    waits: Sequence[Wait]
    time: TimeRange | None
    """None: unknown."""

    @property
    def bytes(self) -> int:
        """Return the bytes to copy, as far as sizes are known."""
        return sum(share.bytes_in for share in self.brokers.values())

    @property
    def copies(self) -> int:
        """Return the number of replicas to copy."""
        return sum(share.copies_in for share in self.brokers.values())

    @property
    def relocated(self) -> tuple[int, int]:
        """Return number and bytes of the replicas that change directories within brokers."""
        shares = self.brokers.values()
        return sum(s.relocated for s in shares), sum(s.bytes_relocated for s in shares)

    def document(self) -> dict[str, Any]:
        """Return the forecast for JSON."""
        return {
            "changes": self.changes,
            "steps": self.steps,
            "copies": self.copies,
            "bytes": self.bytes,
            "sizes_unknown": self.sizes_unknown,
            "leaders_moved": self.leaders_moved,
            "seconds": None
            if self.time is None
            else {
                "low": round(self.time.low_s, 1),
                "high": None if self.time.high_s is None else round(self.time.high_s, 1),
                "basis": list(self.time.basis),
                "busiest_broker": self.time.busiest,
            },
            "brokers": [
                {"broker": broker, **asdict(share)}
                for broker, share in sorted(self.brokers.items())
            ],
            "directories": [asdict(directory) for directory in self.directories],
            "waits": [
                {
                    "by": w.by.value,
                    "detail": w.detail,
                    "count": w.count or len(w.partitions) or self.changes,
                    "partitions": [str(p) for p in w.partitions],
                }
                for w in self.waits
            ],
        }


def forecast(plan: ForecastPlan) -> Forecast:
    """Return what a plan does."""
    blocked = tuple(_entry_waits(plan))
    stopped = {p for wait in blocked for p in wait.partitions}
    going = [m for m in plan.moves if m.partition not in stopped]
    shares = _shares(plan.moves)
    rates = _rates(plan, shares)
    steps = sum(len(m.steps(plan.limits.step_size)) for m in plan.moves)
    is_played = rates is not None and steps <= PLAYED_MAX
    # Without disks there is nothing to learn of an unplayed plan.
    some = going if is_played or plan.disks else []
    pace = Pace(rate=rates[1], step_s=STEP_HIGH_S) if rates and is_played else Pace()
    played = play(some, plan.disks, plan.limits, pace)
    time = None
    is_unbounded = plan.relocation_throttle is None and any(m.relocations for m in going)
    has_size = not plan.sizeless or any(m.size for m in plan.moves)
    if rates is not None and has_size:
        time = _time(plan, shares, steps, rates, played.seconds if is_played else None)
        if played.stuck or stopped or plan.sizeless or is_unbounded:
            time = replace(time, high_s=None)
    waits = [*plan.holds, *blocked, *_waits_for_disks(played)]
    if is_played and played.limited:
        detail = "more than the limits permit at a time"
        waits.append(Wait(BlockedBy.LIMIT, detail, count=played.limited))
    return Forecast(
        changes=len(plan.moves),
        steps=steps,
        brokers=shares,
        directories=_directories(plan, played),
        leaders_moved=sum(share.leaders_lost for share in shares.values()),
        sizes_unknown=len(plan.sizeless),
        waits=waits,
        time=time,
    )


def _shares(moves: Iterable[ForecastMove]) -> dict[BrokerId, BrokerShare]:
    """Count what moves do to brokers; all copies of a move come from its present leader."""
    shares: dict[BrokerId, BrokerShare] = {}

    def of(broker: BrokerId) -> BrokerShare:
        return shares.setdefault(broker, BrokerShare())

    for move in moves:
        source = move.source
        for broker in move.target:
            if broker not in move.before:
                of(broker).copies_in += 1
                of(broker).bytes_in += move.size
                of(source).copies_served += 1
                of(source).bytes_served += move.size
        for broker in move.before:
            if broker not in move.target:
                of(broker).dropped += 1
                of(broker).bytes_dropped += move.size
        for broker in move.relocations:
            of(broker).relocated += 1
            of(broker).bytes_relocated += move.size
        # The present leader stays as long as it is a replica.
        if source not in move.target:
            of(source).leaders_lost += 1
            of(move.target[0]).leaders_gained += 1
    return shares


# --- what waits ----------------------------------------------------------------------------------


def _entry_waits(plan: ForecastPlan) -> Iterable[Wait]:
    """Yield what keeps single entries from beginning until an operator acts."""
    found: dict[tuple[BlockedBy, str], list[TopicPartition]] = {}
    for move in plan.moves:
        why = _why_blocked(move, plan.live, plan.tolerated)
        if why is not None:
            found.setdefault(why, []).append(move.partition)
    for (by, detail), partitions in found.items():
        yield Wait(by, detail, tuple(partitions))


def _why_blocked(
    move: ForecastMove, live: Collection[BrokerId], tolerated: Collection[BrokerId]
) -> tuple[BlockedBy, str] | None:
    if move.leader not in live:
        return BlockedBy.NO_LEADER, "no live leader"
    awaited = [b for b in move.target if b not in tolerated or b not in move.before]
    dead = [b for b in awaited if b not in live]
    if dead:
        return BlockedBy.BROKER_DEAD, f"broker {ids(dead)} is not live"
    isr = move.before if move.isr is None else move.isr
    lagging = [b for b in awaited if b in move.before and b not in isr]
    if lagging:
        return BlockedBy.REPLICA_NOT_IN_ISR, f"replica {ids(lagging)}, which stays, is not in ISR"
    return None


def _waits_for_disks(played: Schedule) -> Iterable[Wait]:
    found: dict[str, list[TopicPartition]] = {}
    for partition, where in played.delayed.items():
        until = "for good" if partition in played.stuck else "until dropped logs are deleted"
        found.setdefault(f"{where} has no room above min_free, {until}", []).append(partition)
    for detail, partitions in found.items():
        yield Wait(BlockedBy.DISK_FULL, detail, tuple(partitions))


# --- directories ---------------------------------------------------------------------------------


def _directories(plan: ForecastPlan, played: Schedule) -> list[DirectoryShare]:
    rows = []
    for broker, directories in sorted(plan.disks.items()):
        for directory in directories:
            place = Place(broker, directory.path)
            bytes_in, dropped = played.received.get(place, 0), played.freed.get(place, 0)
            if not bytes_in and not dropped:
                continue
            is_known = directory.total is not None and directory.usable is not None
            used = (directory.total or 0) - (directory.usable or 0) if is_known else None
            peak, end = played.peaks.get(place), played.ends.get(place)
            total = directory.total
            rows.append(DirectoryShare(*place, bytes_in, dropped, total, used, peak, end))
    return rows


# --- the time ------------------------------------------------------------------------------------


def _rates(
    plan: ForecastPlan, shares: Mapping[BrokerId, BrokerShare]
) -> tuple[RateOf, RateOf] | None:
    """Return the highest and the lowest rates of the copies to come; None: nothing is known."""
    measured, throttle = plan.measured, plan.throttle
    if throttle is None and not measured and any(s.copies_in for s in shares.values()):
        return None
    fastest = math.inf if throttle is None else float(throttle)
    anywhere = Rates(
        min((r.low for r in measured.values()), default=math.inf),
        max((r.high for r in measured.values()), default=math.inf),
    )
    relocation = plan.relocation_throttle or math.inf
    slowest = plan.throttle_least or fastest

    def fast(broker: BrokerId, way: CopyRole) -> float:
        if way is CopyRole.RELOCATES:
            return relocation
        # What a broker served at most is not known.
        past = PAST_FAST * measured.get(broker, anywhere).high
        return fastest if way is CopyRole.SERVES else min(fastest, past)

    def slow(broker: BrokerId, way: CopyRole) -> float:
        if way is CopyRole.RELOCATES:
            return HELD_SHARE * (plan.relocation_least or relocation)
        return min(HELD_SHARE * slowest, PAST_SLOW * measured.get(broker, anywhere).low)

    return fast, slow


def _time(
    plan: ForecastPlan,
    shares: Mapping[BrokerId, BrokerShare],
    steps: int,
    rates: tuple[RateOf, RateOf],
    played_s: float | None,
) -> TimeRange:
    """Return the range; ``played_s`` is None for a plan that was not played."""
    fast, slow = rates
    burst_s = 0.0 if plan.throttle is None else BURST_S
    low = max((_needs(b, share, fast) - burst_s for b, share in shares.items()), default=0.0)
    most = {b: _needs(b, share, slow) for b, share in shares.items()}
    high = played_s
    if high is None:
        at_once = max(1, plan.limits.partitions)
        low = max(low, _alone(plan.moves, fast) / at_once)
        high = CROWDED * max(most.values(), default=0.0)
        high += (_alone(plan.moves, slow) + STEP_HIGH_S * steps) / at_once
    return TimeRange(
        START_LOW_S + max(0.0, low),
        None if high == math.inf else START_HIGH_S + high,
        ("throttle",) * (plan.throttle is not None) + ("past_copies",) * bool(plan.measured),
        max((b for b in most if most[b]), key=lambda b: most[b], default=None),
    )


def _alone(moves: Iterable[ForecastMove], rate: RateOf) -> float:
    """Return the seconds that moves take one after the other."""
    return sum(
        sum(m.size / rate(b, CopyRole.RECEIVES) for b in m.copies)
        + sum(m.size / rate(b, CopyRole.RELOCATES) for b in m.relocations)
        for m in moves
    )


def _needs(broker: BrokerId, share: BrokerShare, rate: RateOf) -> float:
    """Return the seconds that a broker copies or serves."""
    return max(
        share.bytes_in / rate(broker, CopyRole.RECEIVES),
        share.bytes_served / rate(broker, CopyRole.SERVES),
        share.bytes_relocated / rate(broker, CopyRole.RELOCATES),
    )
