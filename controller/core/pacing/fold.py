"""Fold events and records of limits and throttles into the view."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from controller.core import effects, wakeups
from controller.core.model import BrokerId, Instant, ZkVersion
from controller.core.pacing import drained_replicas, records
from controller.core.pacing.controls import (
    DRAINS,
    LIMITS,
    PAUSES,
    THROTTLE,
    Controls,
    Drains,
    Limits,
    Pause,
    RequestLimits,
)
from controller.core.pacing.model import READINGS_KEPT, GovernedRate
from controller.core.pacing.throttle_settings import (
    Entity,
    EntityConfig,
    ThrottleRefusal,
    broker_entity,
)
from controller.core.records import Change
from controller.core.view import ClusterView

_AS_SUBMITTED: Final = RequestLimits()


def fold_event(view: ClusterView, event: records.PacingEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.AppliedThrottlesRead():
            _applied_throttles_read(view, event)
        case records.EntityConfigsRead():
            _entity_configs_read(view, event, now)
        case records.ControlsRead(controls=controls):
            process = view.pacing_process
            before, limits = process.controls.drains, process.controls.limits
            process.controls = _understood(view, controls)
            process.controls_known = process.controls_known or not controls.unreadable
            view.pacing_session.controls_read = True
            view.pacing_session.drains_stale = False
            if process.controls.drains != before:
                drained_replicas.judge_all(view)
            process.participants.note_all(process.applied_throttles)
            _examine_tolerant(view, limits)
        case records.LatencyMeasured():
            _latency_measured(view, event)
        case records.WallClockRead(unix_s=unix_s):
            view.pacing_process.wall = (now, unix_s)
        case _:
            assert_never(event)


def _latency_measured(view: ClusterView, event: records.LatencyMeasured) -> None:
    process = view.pacing_process
    process.expected, process.unmeasured = event.expected, event.problems
    for reading in event.readings:
        kept = process.readings.setdefault(
            (reading.kind, reading.broker), deque(maxlen=READINGS_KEPT)
        )
        kept.append(reading)


def fold_record(view: ClusterView, record: records.PacingRecord, now: Instant) -> None:
    """Fold one record into the view."""
    del now
    leadership = view.leadership
    match record:
        case records.AppliedThrottleRecord():
            _applied_throttle_set(view, record)
        case records.AppliedThrottleEndedRecord():
            _applied_throttle_ended(view, record)
        case records.ThrottlesSettledRecord():
            _throttles_settled(view, record)
        case records.LeaderMovedRecord(brokers=brokers, at=at):
            for broker in brokers:
                since, count = leadership.leader_moves.get(broker, (at, 0))
                fresh = at >= since + 1.0
                leadership.leader_moves[broker] = (at, 1) if fresh else (since, count + 1)
        case records.PaceRecord():
            view.pacing.pace, view.pacing.pace_since = record.in_flight_max, record.at
        case records.RateRecord(broker=broker):
            view.pacing_process.participants.note(broker_entity(broker))
        case records.RatesJudgedRecord(rates=rates, at=at):
            _rates_judged(view, rates, at)
        case records.DrainsEndedRecord():
            process = view.pacing_process
            process.drains_ended = process.controls.drains.czxid
            process.controls = replace(process.controls, drains=Drains())
            drained_replicas.judge_all(view)
        case _:
            assert_never(record)


def _rates_judged(view: ClusterView, rates: Mapping[BrokerId, GovernedRate], at: Instant) -> None:
    """Take rates as judged; those that ended are what later requests begin with."""
    before, former = view.pacing_leadership.rates, view.pacing_process.former_rates
    for broker in before.keys() - rates.keys():
        former[broker] = replace(before[broker], changed_at=at)
    view.pacing_leadership.rates = dict(rates)


def _examine_tolerant(view: ClusterView, before: Limits) -> None:
    """Have partitions examined whose request tolerates other lagging replicas than before."""
    old, new = before.requests, view.pacing_process.controls.limits.requests
    names = {*old, *new}
    changed = {
        name
        for name in names
        if old.get(name, _AS_SUBMITTED).tolerate_lagging
        != new.get(name, _AS_SUBMITTED).tolerate_lagging
    }
    if changed:
        running = view.reassignments.by_partition.items()
        view.due.add(p for p, r in running if r.spec.request in changed)


def _understood(view: ClusterView, read: Controls) -> Controls:
    """
    Return the controls in force: an unreadable one keeps its former value.

    Where the former value is unknown, everything is paused until an operator repairs it.
    """
    pauses, limits, throttle, drains = read.pauses, read.limits, read.throttle, read.drains
    if view.pacing_process.controls_known:
        held, unreadable = view.pacing_process.controls, read.unreadable
        pauses = held.pauses if PAUSES in unreadable else pauses
        limits = held.limits if LIMITS in unreadable else limits
        throttle = held.throttle if THROTTLE in unreadable else throttle
        drains = held.drains if DRAINS in unreadable else drains
    elif read.unreadable and pauses.everything is None:
        why = ", ".join(f"{path} cannot be decoded: {w}" for path, w in read.unreadable.items())
        pauses = replace(pauses, everything=Pause(why))
    if drains.czxid == view.pacing_process.drains_ended:
        drains = Drains()
    evacuated = read.evacuated
    if evacuated is None:
        evacuated = view.pacing_process.controls.evacuated
    return Controls(pauses, limits, throttle, read.unreadable, drains, evacuated)


def _applied_throttles_read(view: ClusterView, event: records.AppliedThrottlesRead) -> None:
    """Take the applied throttles as read; once known, only unconfirmed ones."""
    process, leadership = view.pacing_process, view.pacing_leadership
    read = dict(event.applied_throttles)
    if leadership.applied_throttles_read:
        for entity in leadership.unconfirmed_throttles:
            if entity in read:
                process.applied_throttles[entity] = read[entity]
            else:
                process.applied_throttles.pop(entity, None)
    else:
        process.applied_throttles = read
    leadership.applied_throttles_read = True
    leadership.unconfirmed_throttles.clear()
    process.participants.note_all(process.applied_throttles)


def _entity_configs_read(view: ClusterView, event: records.EntityConfigsRead, now: Instant) -> None:
    """Take settings as read, unless our own are newer; have changed ones examined."""
    leadership = view.pacing_leadership
    for entity, read in event.configs.items():
        known = leadership.entity_configs.get(entity)
        leadership.requested_entities[entity] = now
        if isinstance(known, EntityConfig) and _is_older(read, known):
            continue
        leadership.entity_configs[entity] = read
        if read != known:
            view.pacing_process.participants.note(entity)


def _is_older(read: EntityConfig | str, known: EntityConfig) -> bool:
    if isinstance(read, str):
        # It was readable before: the next compare-and-set decides.
        return True
    if read.version is None or known.version is None:
        return False
    return read.version < known.version


def _applied_throttle_set(view: ClusterView, record: records.AppliedThrottleRecord) -> None:
    process, leadership, applied = view.pacing_process, view.pacing_leadership, record.lease
    entity = applied.entity
    process.applied_throttles[entity] = replace(applied, version=_next(applied.version))
    config = EntityConfig(dict(record.values), _next(record.expected_version))
    leadership.entity_configs[entity] = config
    leadership.unconfirmed_throttles.discard(entity)
    leadership.throttle_refusals.pop(entity, None)
    process.participants.note(entity)


def _applied_throttle_ended(view: ClusterView, record: records.AppliedThrottleEndedRecord) -> None:
    """Fold in the end of an applied throttle; the entity is read and decided again."""
    process, leadership = view.pacing_process, view.pacing_leadership
    process.applied_throttles.pop(record.entity, None)
    leadership.unconfirmed_throttles.discard(record.entity)
    leadership.throttle_refusals.pop(record.entity, None)
    _forget(view, record.entity)
    process.participants.note(record.entity)


def _throttles_settled(view: ClusterView, record: records.ThrottlesSettledRecord) -> None:
    """Fold in settled entities: steps may begin on them."""
    process, leadership = view.pacing_process, view.pacing_leadership
    for settled in record.settled:
        entity = settled.entity
        if not process.participants.settle(entity, settled.note):
            continue
        if settled.kept:
            leadership.kept_throttles[entity] = settled.kept
        else:
            leadership.kept_throttles.pop(entity, None)
        if entity not in process.applied_throttles:
            # It is not refreshed any more: next time it has to be read first.
            _forget(view, entity)


def forget_settings(view: ClusterView, entity: Entity) -> None:
    """Have an entity's settings read again before they are changed, if they are known."""
    if entity in view.pacing_leadership.entity_configs:
        _forget(view, entity)
        _note_invalid(view, entity)


def _forget(view: ClusterView, entity: Entity) -> None:
    view.pacing_leadership.entity_configs.pop(entity, None)
    view.pacing_leadership.requested_entities.pop(entity, None)


_ThrottleRecord = records.AppliedThrottleRecord | records.AppliedThrottleEndedRecord


def applied_throttle_rejected(view: ClusterView, record: _ThrottleRecord) -> effects.Effect:
    """Invalidate an entity whose write was rejected by a race; return the read of its settings."""
    entity = _entity_of(record)
    view.pacing_leadership.unconfirmed_throttles.add(entity)
    _forget(view, entity)
    _note_invalid(view, entity)
    return effects.ReadEntityConfigs((entity,))


def throttles_refused(view: ClusterView, change: Change, why: str, now: Instant) -> None:
    """Note that an applied throttle cannot be written; it is retried later."""
    for record in change.records:
        if isinstance(record, _ThrottleRecord):
            entity = _entity_of(record)
            view.pacing_leadership.throttle_refusals[entity] = ThrottleRefusal(why, now)
            _note_invalid(view, entity)


def _note_invalid(view: ClusterView, entity: Entity) -> None:
    view.pacing_process.participants.note(entity)
    wakeups.wake(view.due, wakeups.Trigger.THROTTLE_INVALIDATED)


def _entity_of(record: _ThrottleRecord) -> Entity:
    if isinstance(record, records.AppliedThrottleEndedRecord):
        return record.entity
    return record.lease.entity


def _next(version: ZkVersion | None) -> ZkVersion:
    return ZkVersion(0) if version is None else ZkVersion(version + 1)
