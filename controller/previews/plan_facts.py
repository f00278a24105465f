"""
What a plan would do: the content of ``execute --dry-run`` and of the preview on a page.

A forecast depends on ZooKeeper, log directories, and the daemon's status.
Whatever cannot be read is left out of the forecast and named in a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controller.core import model
from controller.core.core_settings import Options
from controller.core.model import BlockedBy, BrokerId, Route, TopicPartition, count_text
from controller.core.pacing.controls import UNTHROTTLED, Controls
from controller.core.requests.submissions import (
    AUTO,
    NO_DIRS,
    Cancellation,
    NamedDirs,
    RequestOptions,
)
from controller.doctor.broker_answers import Disks
from controller.planning.copy_schedule import ForecastLimits, ForecastMove
from controller.planning.forecast import Forecast, ForecastPlan, Rates, Wait, forecast
from controller.previews.cancel_preview import CancelPreview, entries_back
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import Entry
from controller.previews.holds import closed_windows
from controller.previews.plan_changes import (
    Conflict,
    PlanValidation,
    changes_of,
    conflicts_of,
    factor_lines,
)
from controller.previews.proposal import sizes_of
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

GROWTH_AFTER_S: Final = 3.0
"""The time between two looks at the sizes of logs, which show what producers add."""

DisksRead = Mapping[BrokerId, Disks | str]


@dataclass(frozen=True, slots=True)
class Preview:
    """The forecast of a plan, and what stands beside it."""

    forecast: Forecast
    notes: tuple[str, ...]
    """Changes of replication factors, and what is unknown."""
    relocated: Mapping[TopicPartition, model.Replicas] = field(default_factory=dict)
    """The replicas that move to other log directories of their brokers."""

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {**self.forecast.document(), "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a plan would do."""

    entries: Sequence[Entry]
    validation: PlanValidation
    conflicts: Sequence[Conflict]
    refused: frozenset[TopicPartition]
    """The partitions whose entries would be refused."""
    preview: Preview

    @property
    def changes(self) -> list[str]:
        """The changes of the plan in words."""
        return list(changes_of(self.entries, self.preview.relocated))


def dry_run(  # noqa: PLR0913, PLR0917 - as below
    operator: OperatorClient,
    entries: Sequence[Entry],
    route: Route | None,
    options: RequestOptions,
    queries: ClusterQueries,
    log_dirs: NamedDirs,
) -> DryRun:
    """Find what a plan would do that is submitted by a route; None: through the queue."""
    from controller.previews.validation import validate  # noqa: PLC0415 - for the decisions of the core

    conflicts = conflicts_of(entries, route)
    validation = validate(operator, entries, queries)
    clashing = {e.partition for c in conflicts if c.is_refused for e in c.entries}
    refused = frozenset(clashing | {e.partition for e, _ in validation.problems})
    preview = forecast_of(operator, entries, queries, options, refused, log_dirs)
    return DryRun(entries, validation, conflicts, refused, preview)


def undo_dry_run(
    operator: OperatorClient, wanted: Cancellation, selected: CancelPreview, queries: ClusterQueries
) -> DryRun:
    """Find what an undo would do with what is done: it is moved back as by a plan."""
    entries = entries_back(operator, wanted, selected)
    options = RequestOptions(throttle=wanted.throttle, window=wanted.window)
    preview = forecast_of(operator, entries, queries, options)
    return DryRun(entries, PlanValidation(), (), frozenset(), preview)


def forecast_of(  # noqa: PLR0913, PLR0917 - the plan, and whom to ask
    operator: OperatorClient,
    entries: Sequence[Entry],
    queries: ClusterQueries,
    wanted: RequestOptions,
    refused: Collection[TopicPartition] = (),
    log_dirs: NamedDirs = NO_DIRS,
) -> Preview:
    """Forecast what a plan does, without the partitions whose entries would be refused."""
    accepted = [e for e in entries if e.partition not in refused and e.assignment is not None]
    changing = [e for e in accepted if _changes(e) or e.partition in log_dirs]
    brokers = operator.cluster.brokers()
    status = queries.status(operator) or {}
    controls = operator.requests.controls()
    states = operator.partitions.states(e.partition for e in changing)
    concerned = {b for e in changing for b in (*e.target, *_present(e))}
    requested = [brokers[b] for b in sorted(concerned & brokers.keys())]
    read = queries.log_dirs(requested) if requested else {}
    began = queries.now()
    sizes = sizes_of(read)
    growth: dict[TopicPartition, float] = {}
    if any(sizes.get(e.partition) for e in changing):
        queries.sleep(max(0.0, GROWTH_AFTER_S - (queries.now() - began)))
        later = sizes_of(queries.log_dirs(requested))
        elapsed = max(GROWTH_AFTER_S, queries.now() - began)
        growth = {p: max(0, later.get(p, s) - s) / elapsed for p, s in sizes.items()}
    found = (
        _move(e, states.get(e.partition), read, sizes, growth, dict(log_dirs.get(e.partition, ())))
        for e in changing
    )
    moves = [m for m in found if m.steps(None) or m.relocations]
    sizeless = [
        m.partition for m in moves if m.partition not in sizes and (m.copies or m.relocations)
    ]
    throttle, relocation = _throttles(status, controls, wanted)
    plan = ForecastPlan(
        moves=moves,
        sizeless=sizeless,
        disks=known_dirs(read, status),
        live=brokers,
        limits=_limits(status, controls, wanted),
        throttle=throttle.most,
        throttle_least=throttle.least,
        relocation_throttle=relocation.most,
        relocation_least=relocation.least,
        measured=_rates(status),
        holds=tuple(_holds(controls, wanted, moves, queries.unix_s())),
        tolerated=wanted.tolerate_lagging,
    )
    relocated = {m.partition: m.relocations for m in moves if m.relocations}
    notes = (*factor_lines(changing), *_notes(plan, read, status))
    return Preview(forecast(plan), notes, relocated)


def present_dirs(
    operator: OperatorClient, entries: Sequence[Entry], queries: ClusterQueries, log_dirs: NamedDirs
) -> NamedDirs:
    """
    Return the log directories that replicas have now, of the entries that name any.

    A replica whose broker does not answer is left out: any directory does for it.
    """
    placed = [e for e in entries if e.original and e.partition in log_dirs]
    if not placed:
        return NO_DIRS
    brokers = operator.cluster.brokers()
    holders = {b for e in placed for b in e.original or ()}
    read = queries.log_dirs([brokers[b] for b in sorted(holders & brokers.keys())])
    return {e.partition: tuple(_places(e.partition, e.original or (), read)) for e in placed}


def _places(
    partition: TopicPartition, replicas: model.Replicas, read: DisksRead
) -> Iterator[tuple[BrokerId, str]]:
    """Yield the broker and the directory of the replicas whose broker answers."""
    for broker in replicas:
        disks = read.get(broker)
        if isinstance(disks, Disks) and partition in disks.placed:
            yield broker, disks.placed[partition]


def _changes(entry: Entry) -> bool:
    now = entry.assignment
    return now is not None and (now.replicas != entry.target or now.is_reassigning)


def _present(entry: Entry) -> model.Replicas:
    """Return the replicas from which an entry begins: a copy in progress is none yet."""
    return () if entry.assignment is None else entry.assignment.origin_replicas


def known_dirs(
    read: DisksRead, status: Mapping[str, Any]
) -> dict[BrokerId, tuple[model.LogDir, ...]]:
    """Return log directories; the daemon may know the capacities that old brokers do not report."""
    rows = (status.get("disks") or {}).get("log_dirs") or ()
    known = {(row["broker"], row["path"]): row for row in rows}

    def sized(broker: BrokerId, found: model.LogDir) -> model.LogDir:
        row = known.get((broker, found.path))
        if row is None or found.total is not None:
            return found
        return replace(found, total=row["total_bytes"], usable=row["usable_bytes"])

    return {
        broker: tuple(sized(broker, d) for d in disks.dirs)
        for broker, disks in read.items()
        if isinstance(disks, Disks)
    }


def _move(  # noqa: PLR0913, PLR0917 - what is known of an entry
    entry: Entry,
    state: model.PartitionState | str | None,
    read: DisksRead,
    sizes: Mapping[TopicPartition, int],
    growth: Mapping[TopicPartition, float],
    wanted: Mapping[BrokerId, str],
) -> ForecastMove:
    partition, present = entry.partition, _present(entry)
    isr, leader = None, present[0]
    if isinstance(state, model.PartitionState):
        isr, leader = state.isr, state.leader
    return ForecastMove(
        partition=partition,
        before=present,
        target=entry.target,
        leader=leader,
        size=sizes.get(partition, 0),
        growth=growth.get(partition, 0.0),
        isr=isr,
        directories=dict(_places(partition, present, read)),
        wanted=wanted,
    )


class _ThrottleRange(NamedTuple):
    """What a throttle may be, in bytes per second and broker."""

    most: int | None
    """None: there is no throttle."""
    least: int | None = None
    """None: the throttle is fixed."""


def _throttles(
    status: Mapping[str, Any], controls: Controls, wanted: RequestOptions
) -> tuple[_ThrottleRange, _ThrottleRange]:
    """Return the throttles in force, of copies between brokers and between directories."""
    found, defaults = status.get("limits") or {}, Options()
    throttle = controls.throttle if wanted.throttle is None else wanted.throttle
    if throttle is None:
        throttle = found.get("throttle")
    if throttle == AUTO:
        least = found.get("throttle_min", defaults.throttle_min)
        governed = _ThrottleRange(found.get("throttle_max", defaults.throttle_max), least)
        own = wanted.log_dirs_throttle
        return governed, governed if own is None else _ThrottleRange(own)
    fixed = None if throttle == UNTHROTTLED else throttle
    return _ThrottleRange(fixed), _ThrottleRange(wanted.log_dirs_throttle)


def _limits(
    status: Mapping[str, Any], controls: Controls, wanted: RequestOptions
) -> ForecastLimits:
    """Return the limits in force: the daemon's, or the live ones and the defaults."""
    found, defaults, live = status.get("limits") or {}, Options(), controls.limits

    def limit(name: str) -> int:
        own = getattr(live, name)
        return int(found.get(name, getattr(defaults, name)) if own is None else own)

    size = wanted.step_size or live.step_size or found.get("step_size", defaults.step_size)
    most = limit("max_partitions_in_flight")
    bytes_max = found.get("max_bytes_in_flight")
    return ForecastLimits(
        step_size=None if size == "all" else size,
        partitions=min(most, wanted.max_partitions_in_flight or most),
        incoming=limit("max_incoming_per_broker"),
        outgoing=limit("max_outgoing_per_broker"),
        bytes=bytes_max if live.max_bytes_in_flight is None else live.max_bytes_in_flight,
        min_free=min_free_of(status),
    )


def min_free_of(status: Mapping[str, Any]) -> model.MinFree | None:
    """Return the space that the daemon's copies leave free; None: any, or no daemon answers."""
    disks = status.get("disks") or {}
    if disks.get("min_free") is None:
        return None
    return model.MinFree(disks.get("min_free_bytes", 0), disks.get("min_free_share", 0.0))


def _rates(status: Mapping[str, Any]) -> dict[BrokerId, Rates]:
    return {
        BrokerId(row["broker"]): Rates(row["low_bytes_per_s"], row["high_bytes_per_s"])
        for row in status.get("copy_rates") or ()
    }


def _holds(
    controls: Controls, wanted: RequestOptions, moves: Sequence[ForecastMove], unix_s: float
) -> Iterator[Wait]:
    """Yield what keeps steps from beginning although nothing is wrong."""
    if controls.pauses.everything is not None:
        yield Wait(BlockedBy.PAUSED, "everything is paused")
    for closed in closed_windows(controls, wanted.window, unix_s):
        yield Wait(BlockedBy.WINDOW, closed)
    for broker in controls.pauses.brokers:
        concerned = tuple(m.partition for m in moves if _copies_with(m, broker))
        if concerned:
            yield Wait(BlockedBy.PAUSED, f"broker {broker} is paused", concerned)


def _copies_with(move: ForecastMove, broker: BrokerId) -> bool:
    return bool(move.copies) and broker in (*move.copies, move.leader)


def _notes(plan: ForecastPlan, read: DisksRead, status: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the forecast does not know."""
    for broker, why in sorted(read.items()):
        if isinstance(why, str):
            yield f"the log directories of broker {broker} are unknown: {why}"
    if plan.sizeless:
        unknown = count_text(len(plan.sizeless), "partition")
        yield f"the sizes of {unknown} are unknown and not counted"
    blind = [b for b, dirs in sorted(plan.disks.items()) if any(d.total is None for d in dirs)]
    if blind:
        yield f"broker {ids(blind)} does not report the size of its volumes (before Kafka 3.3)"
    if not status:
        yield "no daemon answers: its settings and the rates of past copies are unknown"
    counts = status.get("partitions") or {}
    others = counts.get("in_flight", 0) + counts.get("waiting", 0)
    if others:
        yield f"the time does not count {count_text(others, 'partition')} of other requests"
