"""
What a record means in znodes: the operations it needs of its own.

Records that share a write with others (topic znodes, plans, shards) need none here; that is
``batches``. Volatile records need none at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.applied_throttles import Entity
from controller.core.model import Route, ZkVersion
from controller.core.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    CancellationEndedRecord,
    LegacyPlanEndedRecord,
    NotificationsDeletedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PartRecord,
    PreferredElectionEndedRecord,
    QueueEndedRecord,
    Record,
    RequestOutcomeForgottenRecord,
    RequestOutcomeRecord,
    SpecEndedRecord,
    SpecRecord,
    StateCreatedRecord,
    StateRecord,
    SubmissionEndedRecord,
)
from controller.core.view import ClusterView
from controller.reactor.ports import Check, Create, CreateSequential, Delete, Operation, SetData
from controller.znodes import (
    applied_throttles,
    entity_configs,
    orphans,
    outcome_parts,
    outcomes,
    paths,
    reassignments,
    states,
)


def is_paperwork(multis: Iterable[Iterable[Operation]]) -> bool:
    """Whether all that is written may be written by a leading daemon without the role."""
    return all(
        isinstance(op, Check) or paths.is_paperwork(op.path) for multi in multis for op in multi
    )


def operations_of(  # noqa: C901, PLR0911, PLR0912 - one arm per record
    record: Record, view: ClusterView
) -> list[Operation]:
    """Return the operations a record needs of its own; merged and volatile ones need none."""
    match record:
        case StateRecord(partition=partition):
            return [SetData(paths.state_path(partition), _state(record), record.expected_version)]
        case StateCreatedRecord(partition=partition):
            return [Create(paths.state_path(partition), _first_state(record))]
        case SpecRecord(partition=partition, spec=spec):
            if spec.route is Route.FOREIGN:
                return []
            return [
                _written(
                    paths.reassignment_path(partition),
                    reassignments.encode_spec(spec),
                    spec.version,
                )
            ]
        case SpecEndedRecord(partition=partition, version=version):
            return [] if version is None else [Delete(paths.reassignment_path(partition), version)]
        case LegacyPlanEndedRecord(version=version):
            return [Delete(paths.LEGACY_PLAN, version)]
        case SubmissionEndedRecord(name=name, version=version):
            return [Delete(paths.submission_path(name), version)]
        case CancellationEndedRecord(version=version):
            return [Delete(paths.CANCEL, version)]
        case QueueEndedRecord(version=version):
            return [Delete(paths.QUEUE, version)]
        case PartRecord(request=request, part=part):
            return [Create(paths.part_path(request, part.name), outcome_parts.encode_part(part))]
        case RequestOutcomeRecord(summary=summary):
            path = paths.outcome_path(summary.request)
            return [Create(path, outcomes.encode_outcome(summary))]
        case RequestOutcomeForgottenRecord(request=request, children=children, is_last=is_last):
            parent = paths.history_path(request)
            last = [Delete(parent, None)] if is_last else []
            return [*(Delete(f"{parent}/{child}", None) for child in children), *last]
        case AppliedThrottleRecord(lease=lease):
            return [
                _written(
                    paths.applied_throttle_path(lease.entity),
                    applied_throttles.encode_applied_throttle(lease),
                    lease.version,
                ),
                *_configured(lease.entity, record.values, record.expected_version),
            ]
        case AppliedThrottleEndedRecord():
            return lifting(record)
        case OrphanRecord(orphan=orphan):
            if (orphan.broker, orphan.partition) in view.orphans:
                return []
            path = paths.orphan_path(orphan.broker, orphan.partition)
            return [Create(path, orphans.encode_orphan(orphan))]
        case OrphanEndedRecord(orphan=orphan):
            return [Delete(paths.orphan_path(orphan.broker, orphan.partition), None)]
        case NotificationsDeletedRecord(kind=kind, names=names):
            directory = paths.NOTIFICATION_DIRECTORIES[kind]
            return [Delete(f"{directory}/{name}", None) for name in names]
        case PreferredElectionEndedRecord(version=version):
            return [Delete(paths.PREFERRED_ELECTION, version)]
        case _:
            return []


def lifting(record: AppliedThrottleEndedRecord) -> list[Operation]:
    """Return what ends a lease and, with it, restores the settings and tells the brokers."""
    lifted = Delete(paths.applied_throttle_path(record.entity), record.applied_version)
    if record.values is None:
        return [lifted]
    return [lifted, *_configured(record.entity, record.values, record.expected_version)]


def _written(path: str, data: bytes, version: ZkVersion | None) -> Operation:
    """Replace what is at a version, or create what is at none."""
    return Create(path, data) if version is None else SetData(path, data, version)


def _configured(
    entity: Entity, values: tuple[tuple[str, str], ...], version: ZkVersion | None
) -> list[Operation]:
    """Write an entity's dynamic settings and tell the brokers: they read them when told."""
    data = entity_configs.encode_entity_config(values)
    return [
        _written(paths.entity_config_path(entity), data, version),
        CreateSequential(paths.announcements_path(), entity_configs.encode_announcement(entity)),
    ]


def _state(record: StateRecord) -> bytes:
    return states.encode_state(
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        isr=record.isr,
        controller_epoch=record.controller_epoch,
        leader_recovery_state=record.leader_recovery_state,
    )


def _first_state(record: StateCreatedRecord) -> bytes:
    return states.encode_state(
        leader=record.leader,
        leader_epoch=0,
        isr=record.isr,
        controller_epoch=record.controller_epoch,
        leader_recovery_state=0,
    )
