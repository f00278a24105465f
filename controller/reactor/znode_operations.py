"""
The ZooKeeper operations of each record.

A durable record without an arm here does not pass the type checker. Records that share a write with
others (topic znodes, plans, shards) are written by ``group_commit``; volatile ones are not written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from controller.core.bases import Shared, Volatile
from controller.core.calls.records import ProducerIdsRecord
from controller.core.deletions import records as deletions
from controller.core.deletions.model import TopicTree
from controller.core.leadership import records as leadership
from controller.core.model import PartitionAssignment, Route, TopicAssignment, ZkVersion, Zxid
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    DrainsEndedRecord,
)
from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments import records as reassignment_records
from controller.core.records import Record
from controller.core.requests import records as requests
from controller.core.topics.records import TopicCreatedRecord
from controller.core.view import ClusterView
from controller.errors import InvariantError
from controller.reactor import ports
from controller.znodes import (
    histories,
    paths,
    producer_ids,
    reassignments,
    topics,
)
from controller.znodes.entity_configs import (
    encode_announcement,
    encode_applied_throttle,
    encode_entity_config,
)

UNWRITTEN: Final = frozenset({reassignment_records.PhaseRecord, reassignment_records.BlockedRecord})
"""Records that are not written, and that are every second one: they are passed over first."""
_ANY_VERSION: Final = ZkVersion(-1)
"""For ZooKeeper: whatever the version is."""


def is_paperwork(multis: Iterable[Iterable[ports.Operation]]) -> bool:
    """Return whether a leading daemon may write the multis without the controller role."""
    return all(
        isinstance(op, ports.Check) or paths.is_paperwork(op.path)
        for multi in multis
        for op in multi
    )


def operations_of(  # noqa: C901, PLR0911, PLR0912 - one arm per record
    record: Record, view: ClusterView
) -> list[ports.Operation]:
    """Return the operations of a record; none for merged ones, and a check at most for volatile."""
    match record:
        case leadership.StateRecord(partition=partition, expected_version=expected):
            data = topics.encode_state(
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                leader_recovery_state=record.leader_recovery_state,
            )
            return [ports.SetData(paths.state_path(partition), data, expected)]
        case leadership.IsrRecord(partition=partition, before=before):
            data = topics.encode_state(
                leader=before.leader,
                leader_epoch=before.leader_epoch,
                isr=record.isr,
                controller_epoch=before.controller_epoch,
                leader_recovery_state=record.leader_recovery_state,
            )
            return [ports.SetData(paths.state_path(partition), data, before.version)]
        case leadership.StateReliedRecord(partition=partition, version=version):
            return [ports.Check(paths.state_path(partition), version)]
        case ProducerIdsRecord(block=block, expected_version=version):
            data = producer_ids.encode_producer_ids(block)
            return [_put_at_version(paths.PRODUCER_IDS, data, version)]
        case leadership.StateCreatedRecord(partition=partition):
            data = topics.encode_state(
                leader=record.leader,
                leader_epoch=0,
                isr=record.isr,
                controller_epoch=record.controller_epoch,
            )
            return [ports.Create(paths.state_path(partition), data)]
        case TopicCreatedRecord():
            return _new_topic(record)
        case deletions.DeletionBegunRecord(topic=topic, version=version):
            return [
                ports.Check(paths.deletion_path(topic), _ANY_VERSION),
                ports.Check(paths.topic_path(topic), version),
            ]
        case deletions.PartitionZnodesDeletedRecord(paths=below):
            return [ports.Delete(path, None) for path in below]
        case deletions.TopicDeletedRecord(topic=topic):
            return _topic_deleted(topic, view.deletions.trees.get(topic))
        case deletions.DeletionMarkerEndedRecord(topic=topic):
            return [ports.Delete(paths.deletion_path(topic), None)]
        case deletions.StaleMarkerEndedRecord(topic=topic, version=version):
            marker = ports.Delete(paths.deletion_path(topic), record.marker_version)
            return [ports.Check(paths.topic_path(topic), version), marker]
        case deletions.DeletionRequestedRecord(result=result):
            return [
                ports.Check(paths.topic_path(result.name), _ANY_VERSION),
                ports.Create(paths.deletion_path(result.name), b""),
            ]
        case reassignment_records.SpecRecord(partition=partition, spec=spec):
            if spec.route is Route.FOREIGN:
                return []
            data = reassignments.encode_spec(spec)
            return [_put_at_version(paths.reassignment_path(partition), data, spec.version)]
        case reassignment_records.SpecEndedRecord(version=None):
            return []
        case reassignment_records.SpecEndedRecord(partition=partition, version=version):
            return [ports.Delete(paths.reassignment_path(partition), version)]
        case requests.LegacyPlanEndedRecord(version=version):
            return [ports.Delete(paths.LEGACY_PLAN, version)]
        case requests.SubmissionEndedRecord(name=name, version=version):
            return [ports.Delete(paths.submission_path(name), version)]
        case requests.CancellationEndedRecord(version=version):
            return [ports.Delete(paths.CANCEL, version)]
        case DrainsEndedRecord(version=version):
            return [ports.Delete(paths.DRAINS, version)]
        case requests.QueueEndedRecord(version=version):
            return [ports.Delete(paths.QUEUE, version)]
        case requests.PartRecord(request=request, part=part):
            return [ports.Create(paths.part_path(request, part.name), histories.encode_part(part))]
        case requests.RequestOutcomeRecord(summary=summary):
            path = paths.outcome_path(summary.request)
            return [ports.Create(path, histories.encode_outcome(summary))]
        case requests.RequestOutcomeForgottenRecord(request=request, children=children):
            parent = paths.history_path(request)
            last = [ports.Delete(parent, None)] if record.is_last else []
            return [*(ports.Delete(f"{parent}/{child}", None) for child in children), *last]
        case AppliedThrottleRecord(lease=lease):
            path, data = paths.applied_throttle_path(lease.entity), encode_applied_throttle(lease)
            return [
                _put_at_version(path, data, lease.version),
                *config_operations(lease.entity, record.values, record.expected_version),
            ]
        case AppliedThrottleEndedRecord():
            return lifting(record)
        case reassignment_records.OrphanRecord(orphan=orphan):
            if (orphan.broker, orphan.partition) in view.reassignments.orphans:
                return []
            path = paths.orphan_path(orphan.broker, orphan.partition)
            return [ports.Create(path, reassignments.encode_orphan(orphan))]
        case reassignment_records.OrphanEndedRecord(orphan=orphan):
            return [ports.Delete(paths.orphan_path(orphan.broker, orphan.partition), None)]
        case leadership.NotificationsDeletedRecord(kind=kind, names=names):
            directory = paths.NOTIFICATION_DIRECTORIES[kind]
            return [ports.Delete(f"{directory}/{name}", None) for name in names]
        case leadership.PreferredElectionEndedRecord(version=version):
            return [ports.Delete(paths.PREFERRED_ELECTION, version)]
        case Shared() | Volatile():
            return []
        case _:
            assert_never(record)


def lifting(record: AppliedThrottleEndedRecord) -> list[ports.Operation]:
    """Return the operations that end an applied throttle and restore its settings."""
    lifted = ports.Delete(paths.applied_throttle_path(record.entity), record.applied_version)
    if record.values is not None:
        return [lifted, *config_operations(record.entity, record.values, record.expected_version)]
    path = paths.entity_config_path(record.entity)
    if record.expected_version is not None:
        return [lifted, ports.Check(path, record.expected_version)]
    # It has to be missing: creating it fails where it exists.
    return [lifted, ports.Create(path, b""), ports.Delete(path, ZkVersion(0))]


def _put_at_version(path: str, data: bytes, version: ZkVersion | None) -> ports.Operation:
    """Replace a znode at a version, or create it (None)."""
    return ports.Create(path, data) if version is None else ports.SetData(path, data, version)


def config_operations(
    entity: Entity, values: Iterable[tuple[str, str]], version: ZkVersion | None
) -> list[ports.Operation]:
    """Write an entity's dynamic settings and the notification on which brokers read them."""
    data = encode_entity_config(values)
    return [
        _put_at_version(paths.entity_config_path(entity), data, version),
        ports.CreateSequential(paths.NEW_ANNOUNCEMENT, encode_announcement(entity)),
    ]


def _new_topic(record: TopicCreatedRecord) -> list[ports.Operation]:
    """Return the settings and the topic, in the order in which Kafka writes them."""
    name = record.result.name
    path = paths.topic_config_path(name)
    data = encode_entity_config(record.configs)
    content = TopicAssignment(
        {number: PartitionAssignment(replicas) for number, replicas in enumerate(record.replicas)},
        ZkVersion(0),
        Zxid(0),
        record.result.topic_id,
    )
    settings: ports.Operation = ports.Create(path, data)
    if record.replaces_configs:
        settings = ports.SetData(path, data, _ANY_VERSION)
    return [settings, ports.Create(paths.topic_path(name), topics.encode_topic(content))]


def _topic_deleted(topic: str, tree: TopicTree | None) -> list[ports.Operation]:
    """
    Return the deletion of a topic in Kafka's order: its znodes, its settings, the marker.

    Leaders and operators may write the states and the settings until then.

    Raises:
        InvariantError: its znodes are not known.

    """
    if tree is None:
        raise InvariantError(f"{topic} is to be deleted, and its znodes are not listed")
    settings = [ports.Delete(paths.topic_config_path(topic), None)] if tree.has_configs else []
    return [
        *(ports.Delete(path, None) for path in tree.below),
        ports.Delete(paths.topic_path(topic), tree.version),
        *settings,
        ports.Delete(paths.deletion_path(topic), None),
    ]
