"""
Replication throttles: which Kafka settings the open reassignments need, and which to lift.

Level-triggered: the open reassignments define what is wanted, the applied throttles what we set,
the settings what is in force; the difference is written, settings and record in one multi. A
request's partitions are listed as long as one of them is open in the topic, so that nothing is
rewritten as they end one by one. No step that copies begins before its throttle is in force.

Invariants: a setting is changed only at the version it was read at; settings of others are left
alone (``throttle_settings``); a throttle that is not needed any more is lifted by the leading
daemon, in a tenure or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller.core import effects, model
from controller.core.model import (
    START,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    Replicas,
    TopicPartition,
)
from controller.core.pacing import records
from controller.core.pacing.governed_rates import knows_throttles, rate_of
from controller.core.pacing.limits_in_force import move_throttle_of, throttle_of
from controller.core.pacing.throttle_settings import (
    COPY_RATES,
    EVERY_REPLICA,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LISTS,
    MOVE_RATE,
    RATES,
    AppliedThrottle,
    Entity,
    EntityConfig,
    Setting,
    as_settings,
    broker_entity,
    list_with,
    rate_to_set,
    settings_without_ours,
)
from controller.core.records import Change, Decision
from controller.core.requests.submissions import AUTO, Throttle
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from controller.errors import InvariantError

THROTTLE_TIMER: Final = "throttles"
RETRY_S: Final = 5.0
"""The time after which a rejected write, or an unreadable setting, is tried again, in seconds."""
CHANGES_MAX: Final = 200
"""Entities written per cycle: notifications for thousands of topics take seconds."""
READS_MAX: Final = 1000
KEPT_SHOWN_MAX: Final = 60
"""Characters of a value of others that are shown: a list may be very long."""


def follow_throttles(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Return the reads, and the writes that set and lift throttles."""
    unsettled = view.pacing_process.participants.unsettled
    if not (unsettled or due.throttles or due.timer) or not knows_throttles(view):
        return Decision()
    changes: list[Change] = []
    settled: list[records.Settled] = []
    reads = _stale_throttles(view, now) if due.timer else []
    for entity, note in unsettled.items():
        if len(changes) >= CHANGES_MAX or len(reads) >= READS_MAX:
            break
        answer = _look_at(view, entity, note, now)
        if isinstance(answer, Change):
            changes.append(answer)
        elif isinstance(answer, records.Settled):
            settled.append(answer)
        elif _may_read(view, entity, now):
            reads.append(entity)
    if settled:
        changes.append(Change((records.ThrottlesSettledRecord(tuple(settled)),)))
    following: list[effects.Effect] = [effects.ReadEntityConfigs(tuple(reads))] if reads else []
    if unsettled or view.pacing_process.applied_throttles:
        again_s = RETRY_S if unsettled else view.options.config_refresh_s
        following.append(effects.SetTimer(THROTTLE_TIMER, Instant(now + again_s)))
    return Decision(tuple(changes), tuple(following))


def _stale_throttles(view: ClusterView, now: Instant) -> list[Entity]:
    """Return entities whose settings were read long ago: others may have cleared the throttle."""
    refresh_s, requested = view.options.config_refresh_s, view.pacing_leadership.requested_entities
    applied = view.pacing_process.applied_throttles
    return [e for e in applied if now - requested.get(e, START) >= refresh_s]


def _may_read(view: ClusterView, entity: Entity, now: Instant) -> bool:
    """Return whether an entity's settings are unknown and not being read."""
    leadership = view.pacing_leadership
    requested = leadership.requested_entities.get(entity)
    is_known = isinstance(leadership.entity_configs.get(entity), EntityConfig)
    return not is_known and (requested is None or now - requested >= RETRY_S)


# --- one topic or broker -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted settings of an entity; empty: none."""

    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)
    lifted: frozenset[str] = frozenset()
    """Open partitions of a topic, by number, that have no throttle: our entries are removed."""

    def __bool__(self) -> bool:
        return bool(self.lists) or bool(self.rates)


def wanted_of(view: ClusterView, entity: Entity) -> Wanted:
    """
    Return what the open reassignments of throttled requests want of a topic or a broker.

    A topic lists their replicas. A broker has the lowest rates of the requests that concern it:
    fixed ones, and the governed one.
    """
    known = view.pacing_process.participants
    requests = known.requests.get(entity, ())
    rates = {r: rate for r in requests if (rate := throttle_of(view, r)) is not None}
    kind, _, name = entity.partition("/")
    if kind == "brokers":
        broker = BrokerId(int(name))
        wanted = dict.fromkeys(COPY_RATES, _lowest(view, broker, rates.values())) if rates else {}
        movers = known.movers.get(entity, ())
        moves = [rate for r in movers if (rate := move_throttle_of(view, r)) is not None]
        return Wanted(rates=wanted | ({MOVE_RATE: _lowest(view, broker, moves)} if moves else {}))
    if not rates:
        return Wanted()
    participants = sorted(known.topics.get(name, {}).items())
    throttled = [(n, p) for n, p in participants if p.spec.request in rates]
    return Wanted(
        lists={
            LEADER_REPLICAS: _throttled_replicas((n, p.sources) for n, p in throttled),
            FOLLOWER_REPLICAS: _throttled_replicas((n, p.receivers) for n, p in throttled),
        },
        lifted=frozenset(str(n) for n, p in participants if p.spec.request not in rates),
    )


def _lowest(view: ClusterView, broker: BrokerId, throttles: Iterable[Throttle]) -> int:
    return min(rate_of(view, broker) if t == AUTO else t for t in throttles)


def _throttled_replicas(replicas: Iterable[tuple[int, Replicas]]) -> tuple[str, ...]:
    return tuple(f"{partition}:{broker}" for partition, ids in replicas for broker in sorted(ids))


def _look_at(
    view: ClusterView, entity: Entity, note: int, now: Instant
) -> Change | records.Settled | None:
    """Return the write an entity needs, that it is settled, or None while a read is awaited."""
    refusal = view.pacing_leadership.throttle_refusals.get(entity)
    if refusal is not None and now - refusal.at < RETRY_S:
        return None
    known, wanted = view.pacing_process.applied_throttles.get(entity), wanted_of(view, entity)
    # A dead broker gets the rate when it is back, and copies nothing before.
    is_dead = bool(wanted) and not _is_live(view, entity)
    if is_dead or (not wanted and known is None):
        return records.Settled(entity, note)
    config = view.pacing_leadership.entity_configs.get(entity)
    if not isinstance(config, EntityConfig):
        return None
    applied = known or AppliedThrottle(entity, {}, {})
    if not wanted:
        return _lift(applied, config)
    settings = dict(_settings_to_write(wanted, applied, config))
    if settings:
        return _write_settings(applied, config, settings)
    return records.Settled(entity, note, _settings_of_others(wanted, applied, config))


def _is_live(view: ClusterView, entity: Entity) -> bool:
    kind, _, name = entity.partition("/")
    return kind != "brokers" or BrokerId(int(name)) in view.cluster.brokers


def _settings_to_write(
    wanted: Wanted, applied: AppliedThrottle, config: EntityConfig
) -> Iterator[tuple[str, Setting]]:
    ours, before = applied.ours, applied.before
    for key, listed in wanted.lists.items():
        have = config.values.get(key)
        setting = list_with(listed, have, ours.get(key), before.get(key), wanted.lifted)
        if setting is not None:
            yield key, setting
    for key, rate in wanted.rates.items():
        setting = rate_to_set(rate, config.values.get(key), ours.get(key))
        if setting is not None:
            yield key, setting
    for key in RATES:
        # A broker may have only one of the two throttles any longer.
        have = config.values.get(key)
        if wanted.rates and key not in wanted.rates and key in ours:
            before_it = before.get(key) if have == ours[key] else have
            yield key, Setting("", "", before_it)


def _write_settings(
    applied: AppliedThrottle, config: EntityConfig, settings: Mapping[str, Setting]
) -> Change:
    """Write settings together with the record of their former values."""
    values, ours, before = dict(config.values), dict(applied.ours), dict(applied.before)
    for key, setting in settings.items():
        if setting.ours:
            values[key], ours[key], before[key] = setting.value, setting.ours, setting.before
            continue
        ours.pop(key, None)
        before.pop(key, None)
        if setting.before is None:
            values.pop(key, None)
        else:
            values[key] = setting.before
    throttle = replace(applied, ours=ours, before=before)
    written = records.AppliedThrottleRecord(throttle, as_settings(values), config.version)
    return Change((written,))


def _lift(applied: AppliedThrottle, config: EntityConfig) -> Change:
    if applied.version is None:
        raise InvariantError(f"the throttle of {applied.entity} was never written")
    ended = records.AppliedThrottleEndedRecord(
        applied.entity, applied.version, settings_without_ours(applied, config), config.version
    )
    return Change((ended,))


def _settings_of_others(
    wanted: Wanted, applied: AppliedThrottle, config: EntityConfig
) -> tuple[str, ...]:
    """Return the settings of others that replace a wanted one, as ``key=value``."""
    ours, kept = applied.ours, []
    for key in (*(k for k in LISTS if wanted.lists.get(k)), *wanted.rates):
        have = config.values.get(key)
        is_whole = key in RATES or key not in ours or (have or "").strip() == EVERY_REPLICA
        if have is not None and is_whole and have != ours.get(key):
            kept.append(f"{key}={have[:KEPT_SHOWN_MAX]}")
    return tuple(kept)


# --- the gate ----------------------------------------------------------------------------------


def throttle_gate(
    view: ClusterView, partition: TopicPartition, spec: model.ReassignmentSpec
) -> Blocked | None:
    """Return what keeps a step that copies from beginning: its throttle is not in force yet."""
    participants = view.pacing_process.participants
    if spec.route is model.Route.FOREIGN or throttle_of(view, spec.request) is None:
        return None
    if not view.pacing_leadership.applied_throttles_read or not participants.holds(partition, spec):
        return Blocked(BlockedBy.THROTTLE, "the applied throttles are being read")
    for entity in participants.entities(partition):
        if entity in participants.unsettled or (
            _is_live(view, entity) and not _is_applied(view, entity)
        ):
            return Blocked(BlockedBy.THROTTLE, _why(view, entity))
    return None


def move_throttle_gate(
    view: ClusterView, broker: BrokerId, spec: model.ReassignmentSpec
) -> Blocked | None:
    """Return what keeps a broker from moving a replica: its throttle is not in force yet."""
    entity = broker_entity(broker)
    is_in_force = (
        view.pacing_leadership.applied_throttles_read
        and _is_applied(view, entity)
        and entity not in view.pacing_process.participants.unsettled
    )
    if move_throttle_of(view, spec.request) is None or is_in_force:
        return None
    return Blocked(BlockedBy.THROTTLE, _why(view, entity))


def _is_applied(view: ClusterView, entity: Entity) -> bool:
    """Return whether we set a throttle of an entity, or settings of others stand in its place."""
    applied, kept = view.pacing_process.applied_throttles, view.pacing_leadership.kept_throttles
    return entity in applied or entity in kept


def _why(view: ClusterView, entity: Entity) -> str:
    refusal = view.pacing_leadership.throttle_refusals.get(entity)
    if refusal is not None:
        return f"the throttle of {entity} cannot be written: {refusal.why}"
    config = view.pacing_leadership.entity_configs.get(entity)
    if isinstance(config, str):
        return f"the settings of {entity} cannot be read: {config}"
    return f"the throttle of {entity} is being set"
