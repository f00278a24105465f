"""
A view with throttled work, and the dynamic settings it meets: commits are compare-and-sets.

``ThrottleRig`` plays ZooKeeper for ``throttles``: it answers reads, refuses a write whose version
is not the one that stands there, and lets operators change settings behind our back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.core.core_settings import Options
from controller.core.cycle import apply, observe, record_effect, take_due
from controller.core.effects import Effect, MeasureLatency, ReadEntityConfigs
from controller.core.model import (
    Blocked,
    BrokerId,
    ControllerEpoch,
    Instant,
    LogDirs,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.fold import throttles_refused
from controller.core.pacing.governed_rates import govern_rates
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    AppliedThrottlesRead,
    ControlsRead,
    EntityConfigsRead,
)
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity, EntityConfig
from controller.core.pacing.throttles import follow_throttles, throttle_gate
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests.model import Request
from controller.core.requests.submissions import RequestOptions, Throttle
from controller.core.role.invalidation import invalidate
from controller.core.role.model import Tenure
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import broker, replicas

REQUEST = RequestId("request_0000000001")
CURRENT = (1, 2, 3)


@dataclass
class ThrottleRig:
    """One view, the settings of its cluster, and every write that was made."""

    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 4})
    """Partitions per topic, all on brokers 1, 2, 3 of 1 to 7."""
    settings: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    applied_throttles: dict[Entity, AppliedThrottle] = field(default_factory=dict)
    forbidden: set[Entity] = field(default_factory=set)
    """Settings that may not be written."""

    def __post_init__(self) -> None:
        """Know a cluster with nothing to do."""
        view = self.view = ClusterView(Options())
        self.now = Instant(1000.0)
        self.writes: list[Record] = []
        self.reads: list[Entity] = []
        self.decided: list[Record] = []
        self.measured: list[MeasureLatency] = []
        view.role.leading = True
        view.tenure.held = Tenure(ControllerEpoch(7), self.now)
        view.reassignments_leadership.specs_read = view.requests_leadership.history_read = True
        view.pacing_session.controls_read = view.pacing_process.controls_known = True
        view.cluster.brokers = {BrokerId(n): broker(n) for n in range(1, 8)}
        for name, count in self.topics.items():
            assignments = {n: PartitionAssignment(replicas(*CURRENT)) for n in range(count)}
            view.topics.by_name[name] = Topic(assignments, ZkVersion(0), Zxid(1), None)
            self.settings.setdefault(Entity(f"topics/{name}"), EntityConfig({}, ZkVersion(0)))

    def begin(self) -> None:
        """Read what is leased, and settle."""
        observe(self.view, AppliedThrottlesRead(dict(self.applied_throttles)), self.now)
        self.settle()

    def want(
        self,
        partitions: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle: Throttle | None = 1_000_000,
        request: RequestId = REQUEST,
        moves: int | None = None,
        log_dirs: LogDirs = (),
    ) -> None:
        """Accept a request with these targets and directories, all in one turn."""
        options = RequestOptions(throttle=throttle, log_dirs_throttle=moves)
        self.view.requests.by_id[request] = Request(Route.REQUEST, self.now, options=options)
        for partition, target in partitions.items():
            spec = ReassignmentSpec(
                replicas(*target), replicas(*CURRENT), request, Route.REQUEST, log_dirs=log_dirs
            )
            self.apply(SpecRecord(partition, spec))
        self.settle()

    def end(self, *partitions: TopicPartition) -> None:
        """Let reassignments end."""
        for partition in partitions:
            spec = self.view.reassignments.by_partition[partition].spec
            self.apply(SpecEndedRecord(partition, spec.version, spec.request, "cancelled"))
        self.settle()

    def operator_sets(self, entity: str, **values: str | None) -> None:
        """Change settings behind our back; underscores stand for dots, None takes one out."""
        known = self.settings.get(Entity(entity))
        config = known if isinstance(known, EntityConfig) else EntityConfig({}, None)
        merged = dict(config.values)
        for name, value in values.items():
            key = name.replace("_", ".")
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        version = ZkVersion(0) if config.version is None else ZkVersion(config.version + 1)
        self.settings[Entity(entity)] = EntityConfig(merged, version)

    def values(self, entity: str) -> dict[str, str]:
        """Return what stands in an entity's settings."""
        config = self.settings.get(Entity(entity))
        return dict(config.values) if isinstance(config, EntityConfig) else {}

    def gate(self, partition: TopicPartition) -> Blocked | None:
        """Return what keeps the partition's step from beginning."""
        return throttle_gate(
            self.view, partition, self.view.reassignments.by_partition[partition].spec
        )

    def refresh(self, seconds: float) -> None:
        """Let time pass and a timer fire."""
        self.now = Instant(self.now + seconds)
        self.view.due.timer = True
        self.settle()

    def change_controls(self) -> None:
        """Have everything looked at, as a change of the controls does."""
        process = self.view.pacing_process
        process.participants.note_all(process.applied_throttles)
        self.view.due.wake(ControlsRead.wakes)
        self.settle()

    def apply(self, record: Record) -> None:
        """Fold a record."""
        apply(self.view, record, self.now)

    def settle(self) -> None:
        """Decide, commit and answer until nothing is due."""
        for _ in range(100):
            due = take_due(self.view)
            if not due:
                return
            self.turn(due)
        raise AssertionError("throttles do not come to rest")

    def turn(self, due: Worklist | None = None) -> None:
        """Decide, commit and answer once."""
        due = due or Worklist(throttles=True)
        decisions = (
            govern_rates(self.view, due, self.now),
            follow_throttles(self.view, due, self.now),
        )
        effects: list[Effect] = [e for decision in decisions for e in decision.effects]
        for change in (c for decision in decisions for c in decision.changes):
            self.decided += change.records
            effects += self.commit(change)
        for effect in effects:
            record_effect(self.view, effect, self.now)
            if isinstance(effect, MeasureLatency):
                self.measured.append(effect)
            if isinstance(effect, ReadEntityConfigs):
                self.reads += effect.entities
                nothing = EntityConfig({}, None)
                found = {e: self.settings.get(e, nothing) for e in effect.entities}
                observe(self.view, EntityConfigsRead(found), self.now)

    def commit(self, change: Change) -> list[Effect]:
        """Write a change if every version is the one that stands there."""
        for record in change.records:
            if not isinstance(record, AppliedThrottleRecord | AppliedThrottleEndedRecord):
                continue
            self.writes.append(record)
            entity = (
                record.lease.entity if isinstance(record, AppliedThrottleRecord) else record.entity
            )
            if entity in self.forbidden:
                throttles_refused(self.view, change, "no_auth", self.now)
                return []
            if not self.write(entity, record):
                return invalidate(self.view, change)
        for record in change.records:
            self.apply(record)
        return []

    def write(
        self,
        entity: Entity,
        record: AppliedThrottleRecord | AppliedThrottleEndedRecord,
    ) -> bool:
        """Compare and set one entity's settings; None only compares."""
        known = self.settings.get(entity)
        version = known.version if isinstance(known, EntityConfig) else None
        if version != record.expected_version:
            return False
        if record.values is None:
            return True
        following = ZkVersion(0) if version is None else ZkVersion(version + 1)
        self.settings[entity] = EntityConfig(dict(record.values or ()), following)
        return True
