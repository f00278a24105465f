"""
Merges many independent changes into few multis (group commit).

One topic znode write serves every partition of the topic in the multi, one legacy znode write every
entry. Multis are bounded in operations and bytes. Versions are predicted: the second multi that
writes a topic expects the version the first one leaves, so that all of them can be sent without
waiting; when one is refused, those that built on it are refused with it.

Pure: what comes back is values; the store adds the fences and executes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controller.core.model import (
    PartitionAssignment,
    Replicas,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.records import (
    AssignmentRecord,
    Change,
    GoalEndedRecord,
    GoalRecord,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    NotificationsDeletedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    OutcomeRecord,
    PreferredElectionEndedRecord,
    Record,
    StateCreatedRecord,
    StateRecord,
)
from controller.core.view import ClusterView
from controller.reactor.ports import Create, Delete, Operation, SetData
from controller.znodes import goals, legacy_plans, orphans, outcomes, paths, states, topics

MAX_OPERATIONS = 400
MAX_BYTES = 700_000
"""ZooKeeper refuses a multi above ``jute.maxbuffer``, 1 MiB by default."""


@dataclass(slots=True)
class Batch:
    """Changes that share one multi, and what that multi moves forward."""

    changes: list[Change] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    owners: list[tuple[Change, ...]] = field(default_factory=list)
    """For each operation the changes it belongs to: one, or all that share a merged write."""
    topics: tuple[str, ...] = ()
    legacy: bool = False


@dataclass(slots=True)
class _Draft:
    """A batch being filled."""

    changes: list[Change] = field(default_factory=list)
    own: list[tuple[Change, Operation]] = field(default_factory=list)
    topics: dict[str, dict[int, PartitionAssignment]] = field(default_factory=dict)
    entries: dict[TopicPartition, Replicas | None] = field(default_factory=dict)
    size: int = 0


class Batcher:
    """Turns one decision's changes into batches, with versions predicted across them."""

    def __init__(self, view: ClusterView) -> None:
        """Start from the versions the view holds."""
        self._view = view
        self._topics: dict[str, dict[int, PartitionAssignment]] = {}
        self._versions: dict[str, ZkVersion] = {}
        self._legacy_version = ZkVersion(0) if view.legacy is None else view.legacy.version
        self._legacy_entries = {} if view.legacy is None else dict(view.legacy.entries)

    def batches(self, changes: Iterable[Change]) -> Iterator[Batch]:
        """Yield the batches, in the order in which they have to be committed."""
        draft = _Draft()
        for change in sorted(changes, key=_topic_of):
            operations = [op for record in change.records for op in self._operations(record)]
            size = sum(_size(op) for op in operations) + self._merged_size(change, draft)
            full = len(draft.own) + len(operations) + len(draft.topics) > MAX_OPERATIONS
            if draft.changes and (full or draft.size + size > MAX_BYTES):
                yield self._close(draft)
                draft = _Draft()
                size = sum(_size(op) for op in operations) + self._merged_size(change, draft)
            self._add(draft, change, operations, size)
        if draft.changes:
            yield self._close(draft)

    def _merged_size(self, change: Change, draft: _Draft) -> int:
        """Estimate what the change's share of merged writes adds to the multi."""
        size = 0
        for record in change.records:
            if isinstance(record, AssignmentRecord):
                topic = record.partition.topic
                if topic not in draft.topics:
                    size += 40 * len(self._view.topics[topic].partitions)
                size += 60
            elif isinstance(record, LegacyEntryRecord):
                if not draft.entries:
                    size += 80 * len(self._legacy_entries)
                size += 80
        return size

    @staticmethod
    def _add(draft: _Draft, change: Change, operations: list[Operation], size: int) -> None:
        draft.changes.append(change)
        draft.size += size
        draft.own += [(change, op) for op in operations]
        for record in change.records:
            if isinstance(record, AssignmentRecord):
                entry = draft.topics.setdefault(record.partition.topic, {})
                entry[record.partition.partition] = record.assignment
            elif isinstance(record, LegacyEntryRecord):
                draft.entries[record.partition] = record.replicas

    def _close(self, draft: _Draft) -> Batch:
        batch = Batch(changes=draft.changes)
        for name, entries in draft.topics.items():
            sharing = tuple(c for c in draft.changes if _writes_topic(c, name))
            batch.operations.append(self._topic_write(name, entries))
            batch.owners.append(sharing)
        if draft.entries and self._view.legacy is not None:
            sharing = tuple(c for c in draft.changes if _writes_legacy(c))
            batch.operations.append(self._legacy_write(draft.entries))
            batch.owners.append(sharing)
            batch.legacy = True
        for change, operation in draft.own:
            batch.operations.append(operation)
            batch.owners.append((change,))
        batch.topics = tuple(draft.topics)
        return batch

    def _topic_write(self, name: str, entries: dict[int, PartitionAssignment]) -> SetData:
        topic = self._view.topics[name]
        partitions = self._topics.setdefault(name, dict(topic.partitions))
        partitions.update(entries)
        version = self._versions.get(name, topic.version)
        self._versions[name] = ZkVersion(version + 1)
        assignment = TopicAssignment(partitions, version, topic.czxid, topic.topic_id)
        return SetData(paths.topic_path(name), topics.encode_topic(assignment), version)

    def _legacy_write(self, entries: dict[TopicPartition, Replicas | None]) -> SetData:
        for partition, replicas in entries.items():
            if replicas is None:
                self._legacy_entries.pop(partition, None)
            else:
                self._legacy_entries[partition] = replicas
        version = self._legacy_version
        self._legacy_version = ZkVersion(version + 1)
        data = legacy_plans.encode_legacy_plan(self._legacy_entries)
        return SetData(paths.LEGACY_PLAN, data, version)

    def _operations(  # noqa: C901, PLR0911, PLR0912 - one arm per record
        self, record: Record
    ) -> list[Operation]:
        """Return the operations a record needs of its own; merged and volatile ones need none."""
        match record:
            case StateRecord(partition=partition):
                return [
                    SetData(paths.state_path(partition), _state(record), record.expected_version)
                ]
            case StateCreatedRecord(partition=partition):
                return [Create(paths.state_path(partition), _first_state(record))]
            case GoalRecord(partition=partition, goal=goal):
                if goal.route is Route.FOREIGN:
                    return []
                path, data = paths.goal_path(partition), goals.encode_goal(goal)
                if goal.version is None:
                    return [Create(path, data)]
                return [SetData(path, data, goal.version)]
            case GoalEndedRecord(partition=partition, version=version):
                if version is None:
                    return []
                return [Delete(paths.goal_path(partition), version)]
            case LegacyPlanEndedRecord(version=version):
                return [Delete(paths.LEGACY_PLAN, version)]
            case OutcomeRecord(request=request):
                return [Create(paths.outcome_path(request), outcomes.encode_outcome(record))]
            case OrphanRecord(orphan=orphan):
                if (orphan.broker, orphan.partition) in self._view.orphans:
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


def _topic_of(change: Change) -> str:
    return "" if change.partition is None else change.partition.topic


def _writes_topic(change: Change, name: str) -> bool:
    return any(
        isinstance(r, AssignmentRecord) and r.partition.topic == name for r in change.records
    )


def _writes_legacy(change: Change) -> bool:
    return any(isinstance(r, LegacyEntryRecord) for r in change.records)


def _size(operation: Operation) -> int:
    data = getattr(operation, "data", b"")
    return len(operation.path) + len(data) + 40
