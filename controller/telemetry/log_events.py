"""
Log events of the loop's events and committed changes: each has a kind, a level and fields.

A log event becomes one log line and, unless it is about a committed record, one journal line. A
fact that is read again unchanged makes no second event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from controller.core.deletions import records as deletions
from controller.core.disks import records as disks
from controller.core.leadership import records as leadership
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.pacing import records as pacing
from controller.core.pacing.controls import Controls
from controller.core.pacing.model import SignalKind
from controller.core.reassignments import records as reassignments
from controller.core.records import Change, Event, Record
from controller.core.requests import records as requests
from controller.core.requests.outcomes import Summary
from controller.core.role import records as role
from controller.core.role.eligibility import refusals
from controller.core.topics import records as topics
from controller.core.view import ClusterView
from controller.telemetry.json_values import json_fields, json_value
from controller.telemetry.phase_changes import EnteredPhase
from controller.telemetry.rpc_names import Answer, error_name, is_failure, request_name

LINES_MAX: Final = 20
"""Log events of one kind from one event or change; one more counts the rest."""
SAMPLE: Final = 5
SHOWN_MAX: Final = 200
"""Characters of a text that may be as long as a znode."""


class Level(StrEnum):
    """Severity, as structlog names its methods."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A fact for log, journal and notifications."""

    kind: str
    level: Level
    content: object = field(default_factory=dict)
    """Its fields, or the record that has them: the fields of many events are never needed."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields as JSON values; those of a spec are among those of its record."""
        if isinstance(self.content, Mapping):
            return self.content
        fields = json_fields(self.content)
        if isinstance(self.content, reassignments.SpecRecord):
            return {**fields.pop("spec"), **fields}
        return fields

    @property
    def phase(self) -> str | None:
        """The phase that a partition entered; None for other kinds."""
        if isinstance(self.content, EnteredPhase):
            return self.content.phase
        return self.content.get("phase") if isinstance(self.content, dict) else None


def info(kind: str, **fields: object) -> LogEvent:
    """Return an event about normal operation."""
    return LogEvent(kind, Level.INFO, {k: json_value(v) for k, v in fields.items()})


def warning(kind: str, **fields: object) -> LogEvent:
    """Return an event that an operator should see."""
    return LogEvent(kind, Level.WARNING, {k: json_value(v) for k, v in fields.items()})


PLAIN: Final[Mapping[type, tuple[Level, str, tuple[str, ...]]]] = {
    requests.CancellationEndedRecord: (Level.INFO, "cancellation_ended", ()),
    role.ClaimFailed: (Level.WARNING, "claim_failed", ("reason",)),
    role.ControllerClaimed: (Level.INFO, "claimed", ("epoch",)),
    deletions.DeletionBegunRecord: (Level.INFO, "topic_deletion_begun", ("topic",)),
    deletions.DeletionMarkerEndedRecord: (Level.INFO, "deletion_marker_removed", ("topic",)),
    deletions.StaleMarkerEndedRecord: (Level.WARNING, "stale_deletion_marker_removed", ("topic",)),
    role.Deposed: (Level.INFO, "controller_role_ended", ("reason",)),
    role.EndpointUnreachedRecord: (Level.WARNING, "endpoint_unreached", ("brokers", "why")),
    role.EngineRecord: (Level.INFO, "engine_chosen", ("engine", "why")),
    role.LeadershipGained: (Level.INFO, "leadership_gained", ()),
    role.LeadershipLost: (Level.WARNING, "leadership_lost", ("reason",)),
    requests.LegacyPlanEndedRecord: (Level.INFO, "plan_ended", ()),
    leadership.PreferredElectionEndedRecord: (Level.INFO, "preferred_election_ended", ()),
    role.RoleCededRecord: (Level.INFO, "ceded", ("request",)),
    role.ShutdownRequested: (Level.INFO, "shutdown_requested", ()),
    deletions.TopicDeletedRecord: (Level.INFO, "topic_deleted", ("topic",)),
    role.YieldedRecord: (Level.INFO, "yielded", ("topics",)),
}
"""Level, kind, and the fields that are logged, of events and records of which all are logged."""
WHOLE: Final[Mapping[type, tuple[Level, str, str]]] = {
    reassignments.OrphanEndedRecord: (Level.INFO, "orphan_ended", "orphan"),
    reassignments.OrphanRecord: (Level.WARNING, "orphan", "orphan"),
    requests.PartitionOutcomeRecord: (Level.INFO, "ended_otherwise", "ending"),
    leadership.ShutdownBegunRecord: (Level.INFO, "shutdown_begun", ""),
    reassignments.SpecEndedRecord: (Level.INFO, "reassignment_ended", ""),
    leadership.StateCreatedRecord: (Level.INFO, "partition_created", ""),
}
"""Level and kind of records that are logged with all their fields, or with those of one field."""


def _of_table(source: Event | Record) -> Iterator[LogEvent]:
    if type(source) in PLAIN:
        level, kind, names = PLAIN[type(source)]
        yield LogEvent(kind, level, {name: json_value(getattr(source, name)) for name in names})
    elif type(source) in WHOLE:
        level, kind, name = WHOLE[type(source)]
        yield LogEvent(kind, level, getattr(source, name) if name else source)


# --- changes -----------------------------------------------------------------------------------


def phase_event(change: EnteredPhase) -> LogEvent:
    """Return the event of a phase change."""
    return LogEvent("phase", Level.INFO, change)


def change_events(change: Change) -> Iterator[LogEvent]:
    """Return the events of a durable change, but for phase changes."""
    for record in change.records:
        kind = type(record)
        if kind in PLAIN or kind in WHOLE:
            yield from _of_table(record)
        elif kind in RECORDS:
            yield from RECORDS[kind](record)
        elif kind in ALONE and not any(
            isinstance(r, reassignments.PhaseRecord) for r in change.records
        ):
            yield ALONE[kind](record)


def _refused(record: requests.RefusalRecord) -> Iterator[LogEvent]:
    refusals = record.refusals
    for refusal in refusals[:LINES_MAX]:
        yield LogEvent("refused", Level.WARNING, refusal)
    if len(refusals) > LINES_MAX:
        request = refusals[0].request
        yield warning("refused_more", request=request, entries=len(refusals) - LINES_MAX)


def _part_seen(record: requests.PartRecord) -> Iterator[LogEvent]:
    part = record.part
    yield info("request_seen", request=record.request, part=part.name, entries=part.total)


def _throttle_set(record: pacing.AppliedThrottleRecord) -> Iterator[LogEvent]:
    # The lists of replicas may be very long; the journal has them.
    values = {k: v[:SHOWN_MAX] for k, v in record.lease.ours.items()}
    yield info("throttle_set", entity=record.lease.entity, values=values)


def _throttle_lifted(record: pacing.AppliedThrottleEndedRecord) -> Iterator[LogEvent]:
    yield info("throttle_lifted", entity=record.entity, restored=record.values is not None)


def _pace_changed(record: pacing.PaceRecord) -> Iterator[LogEvent]:
    before, after = record.before, record.in_flight_max
    if before != after:
        yield info("pace_changed", before=before, in_flight_max=after, evidence=record.evidence)


def _rate_changed(record: pacing.RateRecord) -> Iterator[LogEvent]:
    yield LogEvent("rate_changed", Level.DEBUG, record)


def _topic_created(record: topics.TopicCreatedRecord) -> Iterator[LogEvent]:
    result = record.result
    yield info(
        "topic_created",
        topic=result.name,
        partitions=result.num_partitions,
        replication_factor=result.replication_factor,
    )


def _topic_grown(record: topics.TopicGrownRecord) -> Iterator[LogEvent]:
    yield info("topic_grown", topic=record.result.name, partitions=record.result.num_partitions)


def _deletion_waits(record: deletions.DeletionBlockedRecord) -> Iterator[LogEvent]:
    if record.wait is not None:
        yield warning("topic_deletion_waits", topic=record.topic, why=record.wait)


def _deletion_requested(record: deletions.DeletionRequestedRecord) -> Iterator[LogEvent]:
    yield info("topic_deletion_requested", topic=record.result.name)


def _waits(record: reassignments.BlockedRecord) -> Iterator[LogEvent]:
    blocked = record.blocked
    if blocked is not None:
        fields = {**record.partition._asdict(), "by": blocked.by.value}
        yield LogEvent("waits", Level.DEBUG, {**fields, "detail": blocked.detail})


def _outcome(record: requests.RequestOutcomeRecord) -> Iterator[LogEvent]:
    yield _end_event(record.summary)


RECORDS: Final[Mapping[type, Callable[[Any], Iterator[LogEvent]]]] = {
    deletions.DeletionBlockedRecord: _deletion_waits,
    deletions.DeletionRequestedRecord: _deletion_requested,
    pacing.AppliedThrottleEndedRecord: _throttle_lifted,
    pacing.AppliedThrottleRecord: _throttle_set,
    pacing.PaceRecord: _pace_changed,
    pacing.RateRecord: _rate_changed,
    reassignments.BlockedRecord: _waits,
    requests.PartRecord: _part_seen,
    requests.RefusalRecord: _refused,
    requests.RequestOutcomeRecord: _outcome,
    topics.TopicCreatedRecord: _topic_created,
    topics.TopicGrownRecord: _topic_grown,
}
"""The events of records, by their class."""
ALONE: Final[Mapping[type, Callable[[Any], LogEvent]]] = {
    leadership.StateRecord: lambda record: LogEvent("leader_changed", Level.INFO, record),
    reassignments.SpecRecord: lambda record: LogEvent("accepted", Level.INFO, record),
}
"""The events of records whose change moves no phase: the event of the phase says as much."""


def _end_event(summary: Summary) -> LogEvent:
    return info(
        "outcome",
        request=summary.request,
        total=summary.total,
        done=summary.done,
        refused=sum(r.entries for r in summary.refused),
        otherwise={fate.value: count for fate, count in summary.fates.items()},
        reason=summary.reason,
        requested_by=summary.requested_by,
        approved=summary.approved or None,
        approved_by=summary.approved_by or None,
    )


# --- events ------------------------------------------------------------------------------------


class LogEvents:
    """Makes log events; remembers earlier ones, so that each fact is logged once."""

    def __init__(self) -> None:
        self._brokers: dict[BrokerId, BrokerEpoch] | None = None
        self._plan: int | None = None
        self._unreadable: dict[str, str] = {}
        self._native: tuple[str, ...] = ()
        self._silent: set[BrokerId] = set()
        self._disabled = False
        self._controls = Controls()
        self._left: dict[BrokerId, int] = {}
        """The replicas on each drained broker."""
        self._unmeasured_because: dict[SignalKind, str] = {}
        """Why each signal could not be measured last."""

    def _controls_changed(self, controls: Controls) -> Iterator[LogEvent]:
        before, self._controls = self._controls, controls
        if controls.pauses != before.pauses:
            pauses = controls.pauses
            yield info(
                "pauses_changed",
                everything=pauses.everything is not None,
                requests=sorted(pauses.requests),
                brokers=sorted(pauses.brokers),
                quiesce=json_value(pauses.quiesce),
            )
        if controls.limits != before.limits:
            yield info("limits_changed", limits=json_value(controls.limits))
        if controls.throttle != before.throttle:
            yield info("throttle_changed", bytes_per_s=controls.throttle)
        if controls.drains != before.drains:
            drains = controls.drains
            yield info(
                "drains_changed",
                brokers=sorted(drains.brokers),
                request=drains.request if drains.brokers else None,
                throttle=drains.throttle,
                window=None if drains.window is None else str(drains.window),
            )
        if controls.evacuated != before.evacuated:
            found = controls.evacuated or {}
            yield info(
                "evacuations_changed",
                brokers=sorted(found),
                returning=sorted(b for b, about in found.items() if about.returning),
            )

    def of(self, event: Event, view: ClusterView) -> Iterator[LogEvent]:  # noqa: C901, PLR0912 - one arm per event
        """Return the log events of an event."""
        yield from _of_table(event)
        match event:
            case role.BrokersRead():
                yield from self._brokers_changed(view)
            case requests.LegacyPlanRead():
                yield from self._plan_read(event)
            case requests.KillSwitchRead(is_on=is_on) if is_on != self._disabled:
                self._disabled = is_on
                yield warning("disabled") if is_on else info("enabled")
            case requests.CancellationRead(cancellation=read) if read is not None:
                yield info(
                    "cancellation_seen",
                    request=read.request,
                    everything=read.is_everything,
                    scope=read.scope.value,
                    reason=read.reason,
                    requested_by=read.requested_by,
                    unreadable=read.unreadable,
                )
            case pacing.ControlsRead(controls=controls):
                yield from self._unreadable_events("control", controls.unreadable)
                yield from self._controls_changed(view.pacing_process.controls)
            case pacing.LatencyMeasured(problems=problems):
                yield from self._unmeasured(problems)
            case disks.LogDirEventsRead(brokers=brokers) if brokers:
                yield warning("log_directory_failed", brokers=brokers)
            case (
                leadership.LeaderAndIsrAnswered()
                | reassignments.StopReplicaAnswered()
                | role.UpdateMetadataAnswered()
            ):
                yield from _of_answer(event)
            case reassignments.ReassignmentsAltered():
                yield from _of_alter_entries(event)
            case role.ReassignmentsProbed(problem=problem) if problem is not None:
                yield warning("orders_impossible", reason=problem)
            case topics.TopicsRead():
                yield from self._unreadable_events("topic", event.topics)
            case leadership.StatesRead(states=states):
                yield from self._unreadable_events("state", states)
            case topics.TopicConfigsRead(configs=configs):
                yield from self._unreadable_events("topic_config", configs)
            case role.BrokerSettingsRead(deletes_topics=enabled) if (
                not enabled and view.deletions_session.markers
            ):
                yield warning(
                    "deletion_not_enabled",
                    broker=event.broker,
                    setting=enabled,
                    reason=event.problem or None,
                )
            case disks.LogDirsDescribed():
                yield from self._sizes_missing(event)
            case reassignments.SpecsRead(unreadable=unreadable):
                yield from self._unreadable_events("goal", unreadable)
            case _:
                pass

    def emptied(self, drains: Iterable[Mapping[str, Any]]) -> Iterator[LogEvent]:
        """Return which drained brokers have no replica any more, of the ``drains`` of a status."""
        before, self._left = self._left, {d["broker"]: d["replicas"] for d in drains}
        for broker, replicas in self._left.items():
            if not replicas and before.get(broker):
                yield info("broker_emptied", broker=broker)

    def _unmeasured(self, problems: Mapping[SignalKind, str]) -> Iterator[LogEvent]:
        """Warn of a measurement of latency that began to fail, once for each reason."""
        for signal, reason in problems.items():
            if self._unmeasured_because.get(signal) != reason:
                self._unmeasured_because[signal] = reason
                yield warning("latency_unmeasured", signal=signal, reason=reason[:SHOWN_MAX])

    def _plan_read(self, event: requests.LegacyPlanRead) -> Iterator[LogEvent]:
        plan = event.plan
        if plan is None or plan.czxid == self._plan:
            return
        self._plan = plan.czxid
        yield info(
            "plan_seen",
            entries=len(plan.entries),
            malformed=len(plan.refused),
            unreadable=plan.unreadable,
            czxid=plan.czxid,
        )

    def _brokers_changed(self, view: ClusterView) -> Iterator[LogEvent]:
        now = {b.id: b.epoch for b in view.cluster.brokers.values()}
        before, self._brokers = self._brokers, now
        if before is None or before == now:
            return
        for broker in sorted(now.keys() - before.keys()):
            yield info("broker_joined", broker=broker, epoch=now[broker])
        for broker in sorted(before.keys() - now.keys()):
            yield warning("broker_died", broker=broker, epoch=before[broker])
        for broker in sorted(now.keys() & before.keys()):
            if now[broker] != before[broker]:
                yield warning("broker_bounced", broker=broker, epoch=now[broker])

    def _unreadable_events(self, what: str, found: Mapping[Any, object]) -> Iterator[LogEvent]:
        """Return what could not be read, once for each reason."""
        fresh = []
        for name, value in found.items():
            key = f"{what} {name}"
            if not isinstance(value, str):
                self._unreadable.pop(key, None)
            elif self._unreadable.get(key) != value:
                self._unreadable[key] = value
                fresh.append((str(name), value))
        for name, reason in fresh[:LINES_MAX]:
            yield warning(f"{what}_unreadable", name=name, reason=reason)
        if len(fresh) > LINES_MAX:
            yield warning(f"{what}_unreadable_more", count=len(fresh) - LINES_MAX)

    def _sizes_missing(self, event: disks.LogDirsDescribed) -> Iterator[LogEvent]:
        """Warn of a broker that began not to report sizes, unless many do not."""
        if event.problem is None:
            self._silent.discard(event.broker)
            return
        if event.broker not in self._silent and len(self._silent) < LINES_MAX:
            yield warning("sizes_unknown", broker=event.broker, reason=event.problem)
        self._silent.add(event.broker)

    def eligibility(self, view: ClusterView) -> Iterator[LogEvent]:
        """Return whether the native engine is safe here, if that changed."""
        reasons = refusals(view)
        if reasons == self._native:
            return
        self._native = reasons
        if reasons:
            yield warning("native_refused", reasons=reasons)
        else:
            yield info("native_possible")


def _of_answer(event: Answer) -> Iterator[LogEvent]:
    kind = request_name(event)
    if event.error:
        error = error_name(event.error)
        yield warning(
            "request_refused", api=kind, broker=event.broker, error=error, code=event.error
        )
    if isinstance(event, role.UpdateMetadataAnswered):
        return
    failed = [r for r in event.results if is_failure(event, r.error)]
    for code, count in Counter(r.error for r in failed).items():
        sample = islice((str(r.partition) for r in failed if r.error == code), SAMPLE)
        yield warning(
            "partitions_refused",
            api=kind,
            broker=event.broker,
            error=error_name(code),
            code=code,
            count=count,
            sample=tuple(sample),
        )


def _of_alter_entries(event: reassignments.ReassignmentsAltered) -> Iterator[LogEvent]:
    failed = [r for r in event.results if r.error]
    yield info(
        "orders_answered",
        controller=event.controller,
        orders=len(event.results),
        refused=len(failed),
        took_s=round(event.took_s, 3),
    )
    for why, count in Counter(r.why for r in failed).items():
        sample = islice((str(r.partition) for r in failed if r.why == why), SAMPLE)
        yield warning(
            "orders_refused",
            controller=event.controller,
            reason=why,
            count=count,
            sample=tuple(sample),
        )
