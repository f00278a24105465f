"""
Standing drains: partitions on drained brokers get a target without them (``drain_targets``).

``/reassigner/control/drains`` names the brokers. As long as it exists, it stands for one request:
each partition that has a replica on a drained broker, or a reassignment that leads to one, becomes
an entry of it, also one of a topic that is created later. An entry replaces the reassignment of its
partition, whatever the route of that, as an entry of the queue does. Nothing is accepted while the
request is held, or reassignments are disabled.

A partition that an operator takes out of the drain, by a cancellation that names it or its topic,
is left alone as long as the drain stands. A cancellation of the request itself ends the drain, and
so does a quiesce. When a broker is drained no longer, what has not begun for it ends, and what has
begun continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.model import (
    Instant,
)
from controller.core.pacing.drained_replicas import (
    drained_brokers,
)
from controller.core.reassignments import gates
from controller.core.records import Change, Decision
from controller.core.requests import acceptance, cancellation, outcomes, records
from controller.core.requests.acceptance import Judgement
from controller.core.requests.completion import unix_ms
from controller.core.requests.drain_targets import DrainTargets, hold_of
from controller.core.requests.legacy_plan_and_queue import take_over
from controller.core.view import ClusterView

DRAIN_CONFIG_TIMER: Final = "drain_topic_configs"
STOPPED: Final = "the drain was stopped before it began"


def open_or_end(view: ClusterView, now: Instant) -> list[Change]:
    """
    Return the record with which the request begins, or has other options from now on.

    A quiesce ends the drains instead: held back, they would begin by surprise when it is over.
    """
    drains = view.pacing_process.controls.drains
    if view.quiesce is not None:
        return cancellation.end_drains(view)
    if not drains.brokers or not view.requests_leadership.history_read or _is_open(view):
        return []
    since = (d.since_ms for d in drains.brokers.values() if d.since_ms)
    created_ms = min(since, default=unix_ms(view, now))
    part = outcomes.Part(str(drains.version), 0, created_ms, drains.options)
    return [Change((records.PartRecord(drains.request, part),))]


def _is_open(view: ClusterView) -> bool:
    """Return whether the request is durable with its present options."""
    drains = view.pacing_process.controls.drains
    known = view.requests.by_id.get(drains.request)
    if known is None or not known.parts:
        return False
    return known.options == drains.options or str(drains.version) in known.parts


def follow_drains(view: ClusterView, now: Instant) -> Decision:
    """Give the next partitions on drained brokers another target, and end what was stopped."""
    if not view.requests_leadership.history_read or view.requests.is_choosing:
        return Decision()
    judged = Judgement([*_end_stopped(view), *open_or_end(view, now)])
    if not view.pacing_session.to_drain or not _may_accept(view, now):
        return Decision(tuple(judged.changes))
    _accept(view, judged)
    return Decision(tuple(judged.changes), tuple(judged.reads(view, now, DRAIN_CONFIG_TIMER)))


def _accept(view: ClusterView, judged: Judgement) -> None:
    """Accept the next entries, or note the facts that are missing."""
    chunk = acceptance.cycle_share(view, view.options.acceptance_chunk)
    for entry in DrainTargets(view).entries():
        if len(judged.changes) >= chunk:
            return
        change = take_over(view, entry) if judged.is_decidable(view, entry) else None
        if change is not None:
            judged.changes.append(change)


def needs_the_role(view: ClusterView, now: Instant) -> bool:
    """Return whether a partition on a drained broker can be given another target."""
    if not view.pacing_session.to_drain or not _may_accept(view, now):
        return False
    return any(True for _ in DrainTargets(view).due())


def _may_accept(view: ClusterView, now: Instant) -> bool:
    return _is_open(view) and hold_of(view, now) is None


def _end_stopped(view: ClusterView) -> Iterator[Change]:
    """End what was accepted for a broker that is drained no longer, and has not begun."""
    requests, legacy = view.requests.by_id.items(), view.requests.legacy
    names = {name for name, r in requests if r.kind == "drain" and r.open}
    if not names or (legacy is not None and legacy.stale):
        return
    drains = view.pacing_process.controls.drains
    for partition, running in view.reassignments.by_partition.items():
        spec, assignment = running.spec, view.topics.assignment(partition)
        if spec.request not in names or spec.rolls_back or assignment is None:
            continue
        # Its partition was on these brokers, or on its way to them.
        led_off = (*(spec.original or ()), *spec.abandoned)
        if spec.request == drains.request and not drained_brokers(view).isdisjoint(led_off):
            continue
        if cancellation.is_unbegun(running, assignment) and not gates.is_deleted(view, partition):
            yield cancellation.end_unbegun(view, None, partition, running, STOPPED)
