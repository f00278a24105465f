"""Fold events and records of limits and throttles into the view."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from controller.core import effects, wakeups
from controller.core.model import Instant, ZkVersion
from controller.core.pacing import adaptive_limit, records, throttle_settings
from controller.core.pacing.controls import LIMITS, PAUSES, THROTTLE, Controls, Pause
from controller.core.records import Change
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.PacingEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.AppliedThrottlesRead():
            applied_throttles_read(view, event)
        case records.EntityConfigsRead():
            entity_configs_read(view, event, now)
        case records.ControlsRead(controls=controls):
            view.pacing_process.controls = _understood(view, controls)
            view.pacing_process.controls_known = (
                view.pacing_process.controls_known or not controls.unreadable
            )
            view.pacing_session.controls_read = True
            note_all_throttles(view)
        case records.WallClockRead(unix_s=unix_s):
            view.pacing_process.wall = (now, unix_s)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.PacingRecord, now: Instant) -> None:
    """Fold one record into the view."""
    del now
    leadership = view.leadership
    match record:
        case records.AppliedThrottleRecord():
            applied_throttle_set(view, record)
        case records.AppliedThrottleEndedRecord():
            applied_throttle_ended(view, record)
        case records.ThrottlesSettledRecord():
            throttles_settled(view, record)
        case records.LeaderMovedRecord(brokers=brokers, at=at):
            for broker in brokers:
                since, count = leadership.leader_moves.get(broker, (at, 0))
                fresh = at >= since + 1.0
                leadership.leader_moves[broker] = (at, 1) if fresh else (since, count + 1)
        case records.PaceRecord():
            adaptive_limit.limit_adapted(view, record)
        case _:
            assert_never(record)


def _understood(view: ClusterView, read: Controls) -> Controls:
    """
    Return the controls in force: an unreadable one keeps its former value.

    Where the former value is unknown, everything is paused until an operator repairs it.
    """
    pauses, limits, throttle = read.pauses, read.limits, read.throttle
    if view.pacing_process.controls_known:
        held, unreadable = view.pacing_process.controls, read.unreadable
        pauses = held.pauses if PAUSES in unreadable else pauses
        limits = held.limits if LIMITS in unreadable else limits
        throttle = held.throttle if THROTTLE in unreadable else throttle
    elif read.unreadable and pauses.everything is None:
        why = ", ".join(f"{path} cannot be decoded: {w}" for path, w in read.unreadable.items())
        pauses = replace(pauses, everything=Pause(why))
    return Controls(pauses, limits, throttle, read.unreadable)


def applied_throttles_read(view: ClusterView, event: records.AppliedThrottlesRead) -> None:
    """Take the applied throttles as read; once known, only unconfirmed ones."""
    pacing_process, pacing_leadership = view.pacing_process, view.pacing_leadership
    read = dict(event.applied_throttles)
    if pacing_leadership.applied_throttles_read:
        for entity in pacing_leadership.unconfirmed_throttles:
            if entity in read:
                pacing_process.applied_throttles[entity] = read[entity]
            else:
                pacing_process.applied_throttles.pop(entity, None)
    else:
        pacing_process.applied_throttles = read
    pacing_leadership.applied_throttles_read = True
    pacing_leadership.unconfirmed_throttles.clear()
    note_all_throttles(view)


def entity_configs_read(view: ClusterView, event: records.EntityConfigsRead, now: Instant) -> None:
    """Take settings as read, unless our own are newer; have changed ones examined."""
    pacing_leadership = view.pacing_leadership
    for entity, read in event.configs.items():
        known = pacing_leadership.entity_configs.get(entity)
        pacing_leadership.requested_entities[entity] = now
        if isinstance(known, throttle_settings.EntityConfig) and _is_older(read, known):
            continue
        pacing_leadership.entity_configs[entity] = read
        if read != known:
            view.pacing_process.participants.note(entity)


def _is_older(
    read: throttle_settings.EntityConfig | str, known: throttle_settings.EntityConfig
) -> bool:
    if isinstance(read, str):
        # It was readable before: the next compare-and-set decides.
        return True
    if read.version is None or known.version is None:
        return False
    return read.version < known.version


def note_all_throttles(view: ClusterView) -> None:
    """Note every throttle: what is wanted, or what is set, may have changed."""
    view.pacing_process.participants.note_all(view.pacing_process.applied_throttles)


def applied_throttle_set(view: ClusterView, record: records.AppliedThrottleRecord) -> None:
    """Fold in an applied throttle and the settings written with it."""
    applied = record.lease
    view.pacing_process.applied_throttles[applied.entity] = replace(
        applied, version=_next(applied.version)
    )
    view.pacing_leadership.unconfirmed_throttles.discard(applied.entity)
    config = throttle_settings.EntityConfig(dict(record.values), _next(record.expected_version))
    view.pacing_leadership.entity_configs[applied.entity] = config
    view.pacing_leadership.throttle_refusals.pop(applied.entity, None)
    view.pacing_process.participants.note(applied.entity)


def applied_throttle_ended(view: ClusterView, record: records.AppliedThrottleEndedRecord) -> None:
    """Fold in the end of an applied throttle; the entity is read and decided again."""
    view.pacing_process.applied_throttles.pop(record.entity, None)
    view.pacing_leadership.unconfirmed_throttles.discard(record.entity)
    _forget(view, record.entity)
    view.pacing_leadership.throttle_refusals.pop(record.entity, None)
    view.pacing_process.participants.note(record.entity)


def throttles_settled(view: ClusterView, record: records.ThrottlesSettledRecord) -> None:
    """Fold in settled entities: steps may begin on them."""
    pacing_process, pacing_leadership = view.pacing_process, view.pacing_leadership
    for settled in record.settled:
        entity = settled.entity
        if not pacing_process.participants.settle(entity, settled.note):
            continue
        if settled.kept:
            pacing_leadership.kept_throttles[entity] = settled.kept
        else:
            pacing_leadership.kept_throttles.pop(entity, None)
        if entity not in pacing_process.applied_throttles:
            # It is not refreshed any more: next time it has to be read first.
            _forget(view, entity)


def forget_settings(view: ClusterView, entity: throttle_settings.Entity) -> None:
    """Have an entity's settings read again before they are changed, if they are known."""
    if entity in view.pacing_leadership.entity_configs:
        _forget(view, entity)
        view.pacing_process.participants.note(entity)
        wakeups.wake(view.due, wakeups.Trigger.THROTTLE_INVALIDATED)


def _forget(view: ClusterView, entity: throttle_settings.Entity) -> None:
    view.pacing_leadership.entity_configs.pop(entity, None)
    view.pacing_leadership.requested_entities.pop(entity, None)


def applied_throttle_rejected(
    view: ClusterView, record: records.AppliedThrottleRecord | records.AppliedThrottleEndedRecord
) -> effects.Effect:
    """Invalidate an entity whose write was rejected by a race; return the read of its settings."""
    entity = _entity_of(record)
    view.pacing_leadership.unconfirmed_throttles.add(entity)
    _forget(view, entity)
    view.pacing_process.participants.note(entity)
    wakeups.wake(view.due, wakeups.Trigger.THROTTLE_INVALIDATED)
    return effects.ReadEntityConfigs((entity,))


def throttles_refused(view: ClusterView, change: Change, why: str, now: Instant) -> None:
    """Note that an applied throttle cannot be written; it is retried later."""
    for record in change.records:
        if isinstance(record, records.AppliedThrottleRecord | records.AppliedThrottleEndedRecord):
            entity = _entity_of(record)
            view.pacing_leadership.throttle_refusals[entity] = throttle_settings.ThrottleRefusal(
                why, now
            )
            view.pacing_process.participants.note(entity)
            wakeups.wake(view.due, wakeups.Trigger.THROTTLE_INVALIDATED)


def _entity_of(
    record: records.AppliedThrottleRecord | records.AppliedThrottleEndedRecord,
) -> throttle_settings.Entity:
    return (
        record.lease.entity if isinstance(record, records.AppliedThrottleRecord) else record.entity
    )


def _next(version: ZkVersion | None) -> ZkVersion:
    return ZkVersion(0) if version is None else ZkVersion(version + 1)
