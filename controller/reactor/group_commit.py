"""
Group commit: merges many independent changes into few multis.

Within a multi, one write of a topic znode serves all partitions of the topic, one write of a plan's
znode all its entries, and one shard all rows of a request. Multis are bounded in operations and
bytes. Versions are predicted: the second multi that writes a topic expects the version that the
first one leaves. It is sent only after the first is durable (``in_groups``). If both were in flight
and another client wrote the znode in between, the first would be rejected, and the second would
match the version of that write and overwrite it. A change that was decided from a topic znode and
does not write it is preceded by a check of its version.

Pure: returns values; the store adds the fences and executes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from controller.core import model
from controller.core.leadership.records import (
    IsrRecord,
    StateCreatedRecord,
    StateRecord,
    StateReliedRecord,
)
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests.model import PlanNode
from controller.core.requests.records import (
    LegacyEntryRecord,
    QueueEntryEndedRecord,
    SubmissionReliedRecord,
)
from controller.core.requests.submissions import NamedDirs
from controller.core.topics.records import AssignmentRecord, TopicIdRecord
from controller.core.view import ClusterView
from controller.reactor.outcome_rows import Rows
from controller.reactor.ports import Check, Operation, SetData
from controller.reactor.znode_operations import UNWRITTEN, operations_of
from controller.znodes import paths, plans, topics

MAX_BYTES = 700_000
"""Bytes of a multi: well below ``jute.maxbuffer``, and enough for many changes."""
FULL_PERCENT = 95
"""
Percentage of the largest request that a multi with a large topic may take.

Sizes are estimates.
"""
BESIDE_PLAN_BYTES = 60_000
"""Bytes for other operations of a multi that rewrites a large plan or topic."""

_PARTITION_BYTES = 40
"""Estimate for a partition in its topic's znode."""
_ASSIGNMENT_BYTES = 60
"""Estimate for the added assignment of a partition whose reassignment begins."""
_ENTRY_BYTES = 50
"""Estimate for an entry of a plan, without its topic's name and its brokers."""

_OnTopic = (
    SpecRecord | SpecEndedRecord | StateRecord | StateCreatedRecord | StateReliedRecord | IsrRecord
)

Entries = dict[model.TopicPartition, model.Replicas | None]
"""Entries of a plan that change; None removes one."""


@dataclass(slots=True)
class Batch:
    """Changes that share one multi, and the versions that the multi increases."""

    changes: list[Change] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    owners: list[tuple[Change, ...]] = field(default_factory=list)
    """The changes that own each operation: one, or all that share a merged write."""
    topics: tuple[str, ...] = ()
    legacy: bool = False
    queue: bool = False
    shards: int = 0
    """The number of the next shard of this tenure."""

    def add(self, operation: Operation, *owners: Change) -> None:
        """Add an operation with the changes that own it."""
        self.operations.append(operation)
        self.owners.append(owners)


@dataclass(slots=True)
class _Draft:
    """A batch being filled."""

    changes: list[Change] = field(default_factory=list)
    own: list[tuple[Change, Operation]] = field(default_factory=list)
    topics: dict[str, dict[int, model.PartitionAssignment]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Ids that topics get."""
    relied_on: dict[str, list[Change]] = field(default_factory=dict)
    """Changes that are valid only while a topic znode is as it was read."""
    submissions: dict[SubmissionReliedRecord, list[Change]] = field(default_factory=dict)
    """Changes that are valid only while a submitted znode is as it was read."""
    legacy: Entries = field(default_factory=dict)
    queue: Entries = field(default_factory=dict)
    log_dirs: dict[model.TopicPartition, model.LogDirs] = field(default_factory=dict)
    """Of the changed entries of the legacy plan."""
    sharing: dict[str, dict[int, Change]] = field(default_factory=dict)
    """Changes that share the one write of a znode, by its path."""
    rows: Rows = field(default_factory=Rows)
    size: int = 0
    plans: int = 0
    """The part of ``size`` that rewritten plans take."""
    whole_topics: int = 0
    """The part of ``size`` that rewritten topics take, without added assignments."""

    def owners(self, path: str) -> tuple[Change, ...]:
        """Return the changes that share the write of a znode, in their order."""
        return tuple(self.sharing[path].values())


class _Plan:
    """A plan's znode as the writes of this decision leave it."""

    def __init__(self, path: str, node: PlanNode | None) -> None:
        self.path = path
        self._version = model.ZkVersion(0) if node is None else node.version
        self.exists = node is not None
        self.entries = {} if node is None else dict(node.entries)
        self._log_dirs = {} if node is None else dict(node.log_dirs)
        self._size: int | None = None
        """Cached estimate, dropped at each write: it takes a pass over all entries."""

    def write(self, changed: Entries, log_dirs: NamedDirs) -> SetData:
        """Return the write of the znode with entries changed or removed."""
        for partition, replicas in changed.items():
            self._log_dirs.pop(partition, None)
            if replicas is None:
                self.entries.pop(partition, None)
                continue
            self.entries[partition] = replicas
            if log_dirs.get(partition):
                self._log_dirs[partition] = log_dirs[partition]
        version, self._version = self._version, model.ZkVersion(self._version + 1)
        self._size = None
        data = plans.encode_legacy_plan(self.entries, self._log_dirs)
        return SetData(self.path, data, version)

    def size(self, draft: Entries) -> int:
        """Estimate the bytes that one more entry adds to a multi."""
        return _ENTRY_BYTES if draft else _ENTRY_BYTES + self.whole_size()

    def whole_size(self) -> int:
        """Estimate the bytes of the znode."""
        if self._size is None:
            self._size = sum(
                _ENTRY_BYTES + len(p.topic) + sum(len(str(broker)) + 1 for broker in replicas)
                for p, replicas in self.entries.items()
            ) + sum(
                _ENTRY_BYTES + sum(len(path) for _, path in named)
                for named in self._log_dirs.values()
            )
        return self._size


class Batcher:
    """Groups the changes of one decision into batches, with versions predicted across them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._topics: dict[str, dict[int, model.PartitionAssignment]] = {}
        self._versions: dict[str, model.ZkVersion] = {}
        self._ids: dict[str, str] = {}
        self._legacy = _Plan(paths.LEGACY_PLAN, view.requests.legacy)
        self._queue = _Plan(paths.QUEUE, view.requests.queue)
        self._shards = view.requests_tenure.shards

    def _topic_size(self, topic: str) -> int:
        """Estimate the bytes of a topic's znode."""
        return _PARTITION_BYTES * len(self._view.topics.by_name[topic].partitions)

    def split_large_ends(self, changes: Iterable[Change]) -> tuple[list[Change], list[Change]]:
        """
        Split the legacy plan's entries off final changes too large to write both in one multi.

        Kafka's controller also writes the topic first and the plan after it. A controller that
        takes over in between finds the entry and removes it. Return the changes, and those to write
        after the change they were split from is durable.
        """
        if not self._legacy.exists:
            return list(changes), []
        first: list[Change] = []
        then: list[Change] = []
        for change in changes:
            entries = tuple(r for r in change.records if isinstance(r, LegacyEntryRecord))
            if not entries or self._has_room(change):
                first.append(change)
                continue
            others = tuple(r for r in change.records if not isinstance(r, LegacyEntryRecord))
            first.append(replace(change, records=others))
            then.append(Change(entries, partition=change.partition))
        return first, then

    def _has_room(self, change: Change) -> bool:
        """Return whether the plan is written with the change: it fits, or must not be split."""
        topics = [r.partition.topic for r in change.records if isinstance(r, AssignmentRecord)]
        if not topics or not any(isinstance(r, SpecEndedRecord) for r in change.records):
            return True
        return sum(map(self._topic_size, topics)) + self._legacy.whole_size() <= MAX_BYTES

    def batches(self, changes: Iterable[Change]) -> Iterator[Batch]:
        """Yield the batches in the order in which they must be committed."""
        draft = _Draft()
        for change in sorted(changes, key=_topic_of):
            records = [r for r in change.records if type(r) not in UNWRITTEN]
            operations = [op for r in records for op in operations_of(r, self._view)]
            size = sum(_size(op) for op in operations) + self._merged_size(records, draft)
            shared = len(draft.topics) + len(draft.relied_on) + len(draft.submissions)
            full = len(draft.own) + len(operations) + shared > self._view.options.multi_operations
            large = draft.size + size > MAX_BYTES and draft.size + size > self._bytes_max(draft)
            if draft.changes and (full or large):
                yield self._close(draft)
                draft = _Draft()
                size = sum(_size(op) for op in operations) + self._merged_size(records, draft)
            self._add(draft, change, records, operations, size)
        if draft.changes:
            yield self._close(draft)

    def _merged_size(self, records: Sequence[Record], draft: _Draft) -> int:
        """Estimate the bytes that the records of a change add to the merged writes of a multi."""
        size = draft.rows.size(records)
        for record in records:
            if isinstance(record, AssignmentRecord):
                topic = record.partition.topic
                if topic not in draft.topics:
                    size += self._topic_size(topic)
                size += _ASSIGNMENT_BYTES
            elif isinstance(record, TopicIdRecord) and record.topic not in draft.topics:
                size += self._topic_size(record.topic)
            elif isinstance(record, LegacyEntryRecord):
                size += self._legacy.size(draft.legacy)
            elif isinstance(record, QueueEntryEndedRecord):
                size += self._queue.size(draft.queue)
        return size

    def _add(
        self,
        draft: _Draft,
        change: Change,
        records: Sequence[Record],
        operations: list[Operation],
        size: int,
    ) -> None:
        draft.changes.append(change)
        draft.size += size
        draft.own += [(change, op) for op in operations]
        draft.rows.add(change, records)
        for record in records:
            if _relies_on_topic(record) and record.partition.topic in self._view.topics.by_name:
                draft.relied_on.setdefault(record.partition.topic, []).append(change)
            if isinstance(record, SubmissionReliedRecord):
                draft.submissions.setdefault(record, []).append(change)
                continue
            if isinstance(record, AssignmentRecord):
                topic = record.partition.topic
                draft.whole_topics += 0 if topic in draft.topics else self._topic_size(topic)
                entry = draft.topics.setdefault(topic, {})
                entry[record.partition.partition] = record.assignment
                path = paths.topic_path(topic)
            elif isinstance(record, TopicIdRecord):
                topic = record.topic
                draft.whole_topics += 0 if topic in draft.topics else self._topic_size(topic)
                draft.topics.setdefault(topic, {})
                draft.ids[topic] = record.topic_id
                path = paths.topic_path(topic)
            elif isinstance(record, LegacyEntryRecord):
                draft.plans += 0 if draft.legacy else self._legacy.whole_size()
                draft.legacy[record.partition] = record.replicas
                draft.log_dirs[record.partition] = record.log_dirs
                path = paths.LEGACY_PLAN
            elif isinstance(record, QueueEntryEndedRecord):
                draft.plans += 0 if draft.queue else self._queue.whole_size()
                draft.queue[record.partition] = None
                path = paths.QUEUE
            else:
                continue
            draft.sharing.setdefault(path, {})[id(change)] = change

    def _close(self, draft: _Draft) -> Batch:
        batch = Batch(changes=draft.changes)
        for name, relying in draft.relied_on.items():
            if name not in draft.topics:
                version = self._versions.get(name, self._view.topics.by_name[name].version)
                batch.add(Check(paths.topic_path(name), version), *relying)
        for submission, relying in draft.submissions.items():
            path = paths.submission_path(submission.name)
            batch.add(Check(path, submission.version), *relying)
        for name, entries in draft.topics.items():
            self._ids.update(draft.ids)
            batch.add(self._topic_write(name, entries), *draft.owners(paths.topic_path(name)))
        batch.legacy = self._merge(batch, self._legacy, draft.legacy, draft)
        batch.queue = self._merge(batch, self._queue, draft.queue, draft)
        for change, operation in draft.own:
            batch.add(operation, change)
        for shard, sharing in draft.rows.shards(self._epoch, self._shards):
            batch.add(shard, *sharing)
            self._shards += 1
        batch.topics = tuple(draft.topics)
        batch.shards = self._shards
        return batch

    def _bytes_max(self, draft: _Draft) -> int:
        """Return the largest size of a batch, which leaves room beside a large topic or plan."""
        with_topics = draft.plans + draft.whole_topics + BESIDE_PLAN_BYTES
        full = self._view.options.request_bytes * FULL_PERCENT // 100
        return max(MAX_BYTES, draft.plans + BESIDE_PLAN_BYTES, min(with_topics, full))

    @property
    def _epoch(self) -> int:
        return 0 if self._view.tenure.held is None else self._view.tenure.held.epoch

    @staticmethod
    def _merge(batch: Batch, plan: _Plan, entries: Entries, draft: _Draft) -> bool:
        """Add one write for all entries; return whether anything is written."""
        if not entries or not plan.exists:
            return False
        batch.add(plan.write(entries, draft.log_dirs), *draft.owners(plan.path))
        return True

    def _topic_write(self, name: str, entries: dict[int, model.PartitionAssignment]) -> SetData:
        topic = self._view.topics.by_name[name]
        partitions = self._topics.setdefault(name, dict(topic.partitions))
        partitions.update(entries)
        version = self._versions.get(name, topic.version)
        self._versions[name] = model.ZkVersion(version + 1)
        topic_id = self._ids.get(name, topic.topic_id)
        assignment = model.TopicAssignment(partitions, version, topic.czxid, topic_id)
        return SetData(paths.topic_path(name), topics.encode_topic(assignment), version)


def in_groups(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield groups of batches; none expects a version that another of its group writes."""
    group: list[Batch] = []
    written: set[str] = set()
    for batch in batches:
        expecting = [o for o in batch.operations if isinstance(o, Check | SetData)]
        if any(o.path in written for o in expecting):
            yield group
            group, written = [], set()
        written.update(o.path for o in expecting if isinstance(o, SetData))
        group.append(batch)
    if group:
        yield group


def changes_of(batches: Iterable[Batch]) -> list[Change]:
    """Return the changes of all batches."""
    return [change for batch in batches for change in batch.changes]


def _topic_of(change: Change) -> str:
    return "" if change.partition is None else change.partition.topic


def _relies_on_topic(record: Record) -> TypeGuard[_OnTopic]:
    """
    Return whether a record is derived from a topic znode: the assignment, or that it exists.

    That znode was read in this tenure, since when no other controller deletes topics, but clients
    of old releases write it themselves. With the delegated engine, the controller may carry out a
    request after the last read. A version does not tell a topic from a later one of the same name
    (``docs/decisions/0002``).
    """
    match record:
        case StateRecord() | StateCreatedRecord() | StateReliedRecord() | IsrRecord():
            return True
        case SpecRecord(spec=spec):
            return spec.version is None and spec.route is not model.Route.FOREIGN
        case SpecEndedRecord(version=version, stands=stands):
            return version is None or stands
        case _:
            return False


def _size(operation: Operation) -> int:
    return len(operation.path) + len(getattr(operation, "data", b"")) + 40
