"""
Builders of views, and a driver that plays ZooKeeper and the brokers for the pure core.

``Driver`` commits every change at once, acknowledges what is sent and lets new replicas catch up
on request; it records each partition's assignments and states in order, so that a test
reads like the table in the document it comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.core.calls.broker_requests import Permission
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import Options
from controller.core.cycle import apply, observe, record_effect, take_due, versions_moved
from controller.core.decide import decide
from controller.core.deletions.model import DeletionMarker, TopicTree
from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.effects import (
    DescribeBrokerSettings,
    DescribeTopicConfigs,
    Effect,
    ReadAccepted,
    ReadStates,
    ReadTopics,
    ReadTopicTrees,
    SendLeaderAndIsr,
    SendLiveBrokers,
    SendStopReplica,
)
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead, WallClockRead
from controller.core.reassignments.records import (
    OrphansRead,
    SpecsRead,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import Change, Event
from controller.core.requests.model import kind_of
from controller.core.requests.records import (
    AcceptedRead,
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    LegacyEntryRecord,
    LegacyPlanRead,
    QueueRead,
    SubmissionsListed,
)
from controller.core.requests.submissions import LegacyPlan
from controller.core.role.records import (
    BrokerSettingsRead,
    BrokersRead,
    ClaimGuardsRead,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    UpdateMetadataAnswered,
)
from controller.core.topics.model import NEVER_REQUESTED, ConfigRequest
from controller.core.topics.records import (
    AssignmentRecord,
    TopicConfigsRead,
    TopicIdRecord,
    TopicsListed,
    TopicsRead,
)
from controller.core.topics.topic_configs import forget_old_configs
from controller.core.view import ClusterView
from controller.kafka_errors import KAFKA_STORAGE_ERROR

EPOCH = ControllerEpoch(7)
WALL_S = 1_700_000_000.0
"""What the wall clock says when a test begins."""
ENTRY = Endpoint("PLAINTEXT", "controller", 9999, "PLAINTEXT")
SERVING = Options(
    id_seed=b"seed",
    endpoint=LiveBroker(BrokerId(1000000), BrokerEpoch(0), (ENTRY,)),
    serves_clients=True,
)
"""Settings of a daemon that serves brokers of 2.7 and later."""


def replicas(*ids: int) -> Replicas:
    """Return a replica list."""
    return tuple(BrokerId(i) for i in ids)


def broker(broker_id: int, epoch: int = 100) -> LiveBroker:
    """Return a registration."""
    return LiveBroker(
        BrokerId(broker_id),
        BrokerEpoch(epoch + broker_id),
        (Endpoint("PLAINTEXT", "localhost", 9000 + broker_id, "PLAINTEXT"),),
    )


def tp(partition: int = 0, topic: str = "t") -> TopicPartition:
    """Return a partition of the topic most tests use."""
    return TopicPartition(topic, partition)


def plan(entries: Mapping[TopicPartition, Sequence[int]], czxid: int = 50) -> LegacyPlan:
    """Return a legacy plan as read."""
    return LegacyPlan({p: replicas(*r) for p, r in entries.items()}, ZkVersion(0), Zxid(czxid))


def requested_now(view: ClusterView, topics: Iterable[str], now: Instant) -> ConfigRequest:
    """Return a question for the settings of topics that is asked just now."""
    record_effect(view, DescribeTopicConfigs(tuple(topics)), now)
    return view.topics_process.config_request


@dataclass
class Driver:
    """Plays the outside of the core, one partition's history at a time."""

    assignments: Mapping[TopicPartition, Sequence[int]]
    brokers: Iterable[int] = range(7)
    options: Options = field(default_factory=Options)
    min_isr: int = 1
    acknowledges: bool = True
    failing: set[BrokerId] = field(default_factory=set)
    """Brokers whose disk fails under the next deletion; they forget the replica with it."""
    answers_topics: bool = True
    accepts: bool = True
    """Whether brokers accept an UpdateMetadata."""
    answers_configs: bool = False
    """Whether a question for settings is answered, with what was read of a topic last."""
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    deletes_topics: bool | None = None
    """What brokers say of ``delete.topic.enable``; None: nothing."""
    protocol: str | None = None
    """Their protocol as brokers say it, empty: nothing; None: they are of before 2.7."""

    def __post_init__(self) -> None:
        """Read the cluster and claim the role."""
        self.view = ClusterView(self.options)
        self.now = Instant(1000.0)
        self.configs: dict[str, TopicConfig] = {}
        self.sent: list[Effect] = []
        self.changes: list[Change] = []
        self.history: dict[TopicPartition, list[PartitionAssignment]] = {}
        self.states: dict[TopicPartition, list[PartitionState]] = {}
        by_topic: dict[str, dict[int, PartitionAssignment]] = {}
        for partition, ids in self.assignments.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = PartitionAssignment(
                replicas(*ids)
            )
        found = {t: TopicAssignment(p, ZkVersion(0), Zxid(9)) for t, p in by_topic.items()}
        self.observe(
            BrokersRead({BrokerId(b): self.registration(b) for b in self.brokers}),
            TopicsListed(frozenset(by_topic)),
            TopicsRead(found),
            *self.nothing_requested(),
            LeadershipGained(),
            WallClockRead(WALL_S),
        )
        self.observe(*self.own_records())
        self.observe(ControllerClaimed(EPOCH))
        if not self.answers_topics:
            self.observe(TopicsRead(found))
        first = {
            p: PartitionState(
                BrokerId(self.leaders.get(p, ids[0])),
                LeaderEpoch(0),
                replicas(*ids),
                ControllerEpoch(1),
                ZkVersion(0),
            )
            for p, ids in self.assignments.items()
        }
        self.first_states = first
        self.observe(StatesRead(first))
        self.observe(
            TopicConfigsRead({t: TopicConfig(self.min_isr, False) for t in by_topic})  # noqa: FBT003
        )
        for partition in self.assignments:
            self.history[partition] = []
            self.states[partition] = []

    @property
    def permission(self) -> Permission:
        """The permission for a request in the present tenure, or of the first one outside any."""
        held = self.view.tenure.held
        return Permission("a peer", None, EPOCH if held is None else held.epoch)

    def observe(self, *events: Event) -> None:
        """Fold events and decide until nothing is due."""
        for event in events:
            self.fold(event)
        self.settle()
        assert self.view.reassignments.topics_at_work == Counter(
            p.topic for p in self.view.reassignments.by_partition
        )
        by = (r.spec.cancelled_by for r in self.view.reassignments.by_partition.values())
        assert self.view.reassignments.rolling_back == Counter(
            name for name in by if name is not None
        )

    def submit(self, entries: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Write a plan into the legacy znode."""
        self.observe(LegacyPlanRead(plan(entries)))

    @staticmethod
    def nothing_requested() -> tuple[Event, ...]:
        """Return the reads of a cluster without plans, requests and controls."""
        return (
            DeletionsRead(frozenset()),
            ClaimGuardsRead(BrokerId(1), True, -1, False, None),  # noqa: FBT003 - the event's fields in order
            LegacyPlanRead(None),
            CancellationRead(None),
            KillSwitchRead(is_on=False),
            QueueRead(None),
            ControlsRead(Controls()),
            SubmissionsListed(frozenset()),
        )

    @staticmethod
    def own_records() -> tuple[Event, ...]:
        """Return what is read of our own records where there are none."""
        return (
            SpecsRead({}, {}),
            OrphansRead(frozenset()),
            HistoryRead({}, {}),
            AppliedThrottlesRead({}),
        )

    def restart(self) -> None:
        """Lose the tenure and claim again: everything in memory only is gone."""
        known = dict(self.view.leadership.states)
        legacy = self.view.requests.legacy
        self.observe(Deposed("a new process"))
        self.observe(HistoryRead({}, {}), AppliedThrottlesRead({}))
        self.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
        if legacy is not None:
            again = LegacyPlan(dict(legacy.entries), legacy.version, legacy.czxid)
            self.observe(LegacyPlanRead(again))
        self.observe(StatesRead(known))

    def adopt(self, specs: Mapping[TopicPartition, ReassignmentSpec]) -> None:
        """Claim where an earlier daemon left these records."""
        known = dict(self.view.leadership.states)
        self.observe(Deposed("a new process"))
        self.observe(
            SpecsRead(specs, {}),
            OrphansRead(frozenset()),
            HistoryRead({}, {}),
            AppliedThrottlesRead({}),
        )
        self.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
        self.observe(StatesRead(known))

    def settle(self) -> None:
        """Decide, commit and answer until nothing is due."""
        for _ in range(1000):
            if not self.view.due:
                return
            decision = decide(self.view, take_due(self.view), self.now)
            effects: list[Effect] = []
            for change in decision.changes:
                self.commit(change)
                effects += change.effects
            effects += decision.effects
            for effect in effects:
                record_effect(self.view, effect, self.now)
                self.sent.append(effect)
            for effect in effects:
                self.answer(effect)
        raise AssertionError("the core does not come to rest")

    def commit(self, change: Change) -> None:
        """Apply a change as if it had become durable on its own."""
        self.changes.append(change)
        topics = {r.partition.topic for r in change.records if isinstance(r, AssignmentRecord)}
        topics |= {r.topic for r in change.records if isinstance(r, TopicIdRecord)}
        legacy = any(isinstance(r, LegacyEntryRecord) for r in change.records)
        versions_moved(self.view, topics, legacy=legacy)
        for record in change.records:
            if isinstance(record, AssignmentRecord) and record.partition in self.history:
                self.history[record.partition].append(record.assignment)
            apply(self.view, record, self.now)
            if isinstance(record, StateRecord) and record.partition in self.states:
                self.states[record.partition].append(self.view.leadership.states[record.partition])

    def answer(self, effect: Effect) -> None:  # noqa: C901, PLR0912 - one arm per effect
        """Answer as healthy brokers do."""
        match effect:
            case SendLeaderAndIsr(partition=partition, brokers=brokers) if self.acknowledges:
                self.acknowledge(partition, brokers)
            case SendStopReplica(partition=partition, broker=to, leader_epoch=epoch, delete=delete):
                if self.acknowledges:
                    error = KAFKA_STORAGE_ERROR if delete and to in self.failing else 0
                    if error:
                        self.failing.remove(to)
                    result = StopReplicaResult(partition, epoch, delete, error)
                    self.fold(StopReplicaAnswered(to, self.epoch(to), 0, (result,), resent=False))
            case SendLiveBrokers() if self.accepts:
                for to in self.view.cluster.brokers:
                    self.fold(UpdateMetadataAnswered(to, self.epoch(to), 0))
            case ReadAccepted(request=request) if kind_of(request) == "cancel":
                # What it accepted is noted beside the read.
                self.fold(AcceptedRead(request, ()))
            case ReadTopics(topics=topics) if self.answers_topics:
                found = {
                    t: self.view.topics.by_name[t] for t in topics if t in self.view.topics.by_name
                }
                self.fold(
                    TopicsRead(
                        {
                            name: TopicAssignment(
                                dict(t.partitions),
                                t.version,
                                t.czxid,
                                None if t.lacks_id else t.topic_id,
                            )
                            for name, t in found.items()
                        }
                        | {name: None for name in topics if name in self.view.topics.missing}
                    )
                )
            case DescribeTopicConfigs(topics=topics) if self.answers_configs:
                known = {t: self.configs[t] for t in topics if t in self.configs}
                self.fold(TopicConfigsRead(known))
            case DescribeBrokerSettings(brokers=requested):
                for one in requested:
                    says = BrokerSettingsRead(one.id, one.epoch, self.deletes_topics)
                    self.fold(replace(says, protocol=self.protocol or None))
            case ReadTopicTrees(topics=topics):
                self.fold(TopicTreesRead({name: self.tree(name) for name in topics}))
            case DescribeTopicConfigs() | ReadStates():
                pass
            case _:
                pass

    def tree(self, topic: str) -> TopicTree | None:
        """Return the znodes of a topic as ZooKeeper lists them."""
        known = self.view.topics.by_name.get(topic)
        if known is None:
            return None
        parent = f"/brokers/topics/{topic}/partitions"
        below = (p for n in known.partitions for p in (f"{parent}/{n}/state", f"{parent}/{n}"))
        marker = DeletionMarker(Zxid(known.czxid + 1), ZkVersion(0))
        return TopicTree(known.czxid, known.version, (*below, parent), True, marker)  # noqa: FBT003

    def registration(self, broker_id: int, epoch: int = 100) -> LiveBroker:
        """Return the registration of a broker of this protocol."""
        return replace(broker(broker_id, epoch), has_features=self.protocol is not None)

    def epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the epoch the broker registered with."""
        return self.view.cluster.brokers[broker_id].epoch

    def acknowledge(self, partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """Let brokers acknowledge the partition's present leader epoch."""
        for to in brokers:
            epoch = self.view.leadership.states[partition].leader_epoch
            result = LeaderAndIsrResult(partition, epoch, 0)
            self.fold(LeaderAndIsrAnswered(to, self.epoch(to), 0, (result,), resent=False))

    def acknowledge_stop(
        self, partition: TopicPartition, brokers: Iterable[BrokerId], *, delete: bool = False
    ) -> None:
        """Let brokers acknowledge that they fetch a partition no more, or deleted its replica."""
        for to in brokers:
            epoch = self.view.leadership.states[partition].leader_epoch
            result = StopReplicaResult(partition, epoch, delete, 0)
            self.observe(StopReplicaAnswered(to, self.epoch(to), 0, (result,), resent=False))

    def fold(self, event: Event) -> None:
        """Fold an event without deciding yet; what is read began now, unless it says otherwise."""
        if isinstance(event, TopicsRead | StatesRead) and not event.read_generation:
            event = replace(event, read_generation=self.view.role.read_generation)
        if isinstance(event, TopicConfigsRead) and event.request == NEVER_REQUESTED:
            event = replace(event, request=requested_now(self.view, event.configs, self.now))
            read = {t: c for t, c in event.configs.items() if isinstance(c, TopicConfig)}
            self.configs.update(read)
        forget_old_configs(self.view, self.now)
        observe(self.view, event, self.now)

    def catch_up(self, partition: TopicPartition, *brokers: int) -> None:
        """Let the leader add replicas to the ISR: all of the serving set, or those named."""
        state = self.view.leadership.states[partition]
        wanted = replicas(*brokers) if brokers else self.view.serving_replicas(partition)
        isr = state.isr + tuple(r for r in wanted if r not in state.isr)
        self.change_isr(partition, isr)

    def change_isr(self, partition: TopicPartition, isr: Replicas) -> None:
        """Let the leader write this ISR, and the daemon read it with a watch."""
        state = self.view.leadership.states[partition]
        changed = PartitionState(
            state.leader,
            state.leader_epoch,
            isr,
            state.controller_epoch,
            ZkVersion(state.version + 1),
        )
        if partition in self.states:
            self.states[partition].append(changed)
        self.observe(StatesRead({partition: changed}, armed=frozenset({partition})))

    def run(self, partition: TopicPartition) -> None:
        """Let every new replica catch up until the reassignment ended."""
        for _ in range(50):
            if partition not in self.view.reassignments.by_partition:
                return
            self.catch_up(partition)
        raise AssertionError(
            f"{partition} does not end: {self.view.reassignments.by_partition[partition]}"
        )

    def passed(self, partition: TopicPartition) -> list[Replicas]:
        """Return the target of each step the topic znode went through, without repeats."""
        seen: list[Replicas] = []
        for assignment in self.history[partition]:
            target = assignment.target_replicas
            if not seen or seen[-1] != target:
                seen.append(target)
        return seen
