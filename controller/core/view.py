"""
The view: everything the daemon knows, owned by the thread of the loop.

It is the sum of the ledgers of the subjects. ``observe`` folds in facts that were read or answered,
``apply`` the writes that are known to be durable, ``invalidation`` those that were rejected;
``decide`` only reads the view (ARCHITECTURE.md, What changes the view). It has no state worth
saving: after a restart the same events rebuild it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.calls.model import CallLedger
from controller.core.cluster.model import ClusterLedger, LiveBroker
from controller.core.core_settings import EngineName, Options
from controller.core.deletions.model import DeletionHistory, DeletionLedger, DeletionSession
from controller.core.disks.model import DiskHistory, DiskLedger
from controller.core.leadership.model import LeadershipHistory, LeadershipLedger
from controller.core.model import BrokerId, Instant, Replicas, Route, TopicPartition
from controller.core.pacing.controls import DISABLED, Quiesce
from controller.core.pacing.model import (
    PacingHistory,
    PacingLeadership,
    PacingLedger,
    PacingSession,
)
from controller.core.reassignments.model import (
    Orphan,
    ReassignmentLeadership,
    ReassignmentLedger,
    ReassignmentTenure,
)
from controller.core.requests.model import (
    RequestLeadership,
    RequestLedger,
    RequestSession,
    RequestTenure,
)
from controller.core.role.model import RoleLedger, RoleSession, TenureLedger
from controller.core.topics.model import TopicHistory, TopicLedger, TopicTenure
from controller.core.worklist import Worklist


@dataclass(slots=True)
class ClusterView:
    """The cluster, the reassignments and the tenure as known now."""

    options: Options
    cluster: ClusterLedger = field(default_factory=ClusterLedger)
    topics: TopicLedger = field(default_factory=TopicLedger)
    topics_tenure: TopicTenure = field(default_factory=TopicTenure)
    topics_process: TopicHistory = field(default_factory=TopicHistory)
    deletions: DeletionLedger = field(default_factory=DeletionLedger)
    deletions_session: DeletionSession = field(default_factory=DeletionSession)
    deletions_process: DeletionHistory = field(default_factory=DeletionHistory)
    leadership: LeadershipLedger = field(default_factory=LeadershipLedger)
    leadership_process: LeadershipHistory = field(default_factory=LeadershipHistory)
    role: RoleLedger = field(default_factory=RoleLedger)
    role_session: RoleSession = field(default_factory=RoleSession)
    tenure: TenureLedger = field(default_factory=TenureLedger)
    reassignments: ReassignmentLedger = field(default_factory=ReassignmentLedger)
    reassignments_tenure: ReassignmentTenure = field(default_factory=ReassignmentTenure)
    reassignments_leadership: ReassignmentLeadership = field(default_factory=ReassignmentLeadership)
    requests: RequestLedger = field(default_factory=RequestLedger)
    requests_session: RequestSession = field(default_factory=RequestSession)
    requests_tenure: RequestTenure = field(default_factory=RequestTenure)
    requests_leadership: RequestLeadership = field(default_factory=RequestLeadership)
    pacing: PacingLedger = field(default_factory=PacingLedger)
    pacing_process: PacingHistory = field(default_factory=PacingHistory)
    pacing_session: PacingSession = field(default_factory=PacingSession)
    pacing_leadership: PacingLeadership = field(default_factory=PacingLeadership)
    disks: DiskLedger = field(default_factory=DiskLedger)
    disks_process: DiskHistory = field(default_factory=DiskHistory)
    calls: CallLedger = field(default_factory=CallLedger)
    due: Worklist = field(default_factory=Worklist)
    """Ends with the cycle that takes it."""

    def __post_init__(self) -> None:
        """Take the engine of the settings; ``auto`` is decided when enough is known."""
        engine = self.options.engine
        if engine is not EngineName.AUTO:
            self.role.engine, self.role.engine_why = engine, "configured in the settings"

    def end(self, *ended: Lifetime) -> None:
        """Replace the ledgers of these lifetimes."""
        for part in fields(self):
            ledger = getattr(self, part.name)
            if isinstance(ledger, Ledger) and ledger.lifetime in ended:
                setattr(self, part.name, ledger.successor())

    # --- questions -----------------------------------------------------------------------------

    @property
    def is_native(self) -> bool:
        """Whether the native engine is at work, also before one is chosen."""
        return self.role.engine is not EngineName.DELEGATED

    @property
    def is_controller(self) -> bool:
        """Whether the daemon is the cluster's controller."""
        return self.tenure.held is not None and self.is_native

    @property
    def quiesce(self) -> Quiesce | None:
        """The end of all work that an operator requested."""
        return self.pacing_process.controls.pauses.quiesce

    @property
    def disabled_because(self) -> str | None:
        """The reason for which no reassignment may be accepted or begin; None if it may."""
        if self.quiesce is not None:
            return str(self.quiesce)
        return DISABLED if self.requests_session.kill_switch else None

    @property
    def is_warm(self) -> bool:
        """Whether everything that must be known before a claim has been read."""
        return (
            self.topics.listed is not None
            and self.requests_session.legacy_read
            and self.reassignments_leadership.specs_read
            and self.reassignments_leadership.orphans_read
            and self.requests_session.submissions_listed is not None
            and self.requests_session.cancellation_read
            and self.requests_session.kill_switch is not None
            and self.requests_session.queue_read
            and self.pacing_session.controls_read
            and self.requests_leadership.history_read
            and self.pacing_leadership.applied_throttles_read
            and self.deletions_session.markers is not None
            and self.role_session.guards is not None
            and bool(self.cluster.brokers)
            and all(
                t in self.topics.by_name or t in self.topics.unreadable for t in self.topics.listed
            )
        )

    def is_of_former_topic(self, partition: TopicPartition) -> bool:
        """
        Return whether a reassignment was accepted for a deleted topic of the same name.

        It must not be applied to the present topic, for which its replicas were not judged. A
        record of an earlier version does not show it.
        """
        reassignment = self.reassignments.by_partition.get(partition)
        topic = self.topics.by_name.get(partition.topic)
        if reassignment is None or topic is None or reassignment.spec.topic_czxid is None:
            return False
        # Of a stale topic, too: what is certain is that the recorded one was created before it.
        return topic.czxid > reassignment.spec.topic_czxid

    def is_to_be_deleted(self, topic: str) -> bool:
        """Return whether the deletion of a topic is requested."""
        return topic in (self.deletions_session.markers or ())

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the broker is registered and its replica not on a failed disk."""
        return broker in self.cluster.brokers and (broker, partition) not in self.leadership.offline

    def is_staying(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the replica is live and its broker is not shutting down."""
        return broker not in self.leadership.shutting_down and self.is_live(broker, partition)

    def awaits_repair(self, partition: TopicPartition) -> bool:
        """
        Return whether a broker with a replica restarted, and a later cycle treats it as failed.

        Until then nothing is decided by the ISR, and no state is written: a broker that may have
        lost its log would count as in sync, and the write would be newer than its registration, so
        that no other controller could tell any more.
        """
        return bool(self.leadership.bounced.get(partition) or self.due.held.get(partition))

    def failed_in(self, broker: BrokerId, partition: TopicPartition) -> model.BrokerEpoch | None:
        """Return the broker's registration if the replica's disk failed in it."""
        is_offline = (broker, partition) in self.leadership.offline
        return self.registration_of(broker) if is_offline else None

    def registration_of(self, broker: BrokerId) -> model.BrokerEpoch | None:
        """Return the present registration of a broker; None: it is not live."""
        registered = self.cluster.brokers.get(broker)
        return None if registered is None else registered.epoch

    def is_undeletable(self, orphan: Orphan) -> bool:
        """Return whether its disk failed and its broker has not registered again since."""
        if orphan in self.reassignments.orphans_failed:
            return True
        broker = self.cluster.brokers.get(orphan.broker)
        return broker is not None and broker.epoch == orphan.failed_in

    def is_in_reach(self, orphan: Orphan) -> bool:
        """Return whether its broker is registered and may still delete it."""
        return orphan.broker in self.cluster.brokers and not self.is_undeletable(orphan)

    def live(self, replicas: Iterable[BrokerId], partition: TopicPartition) -> Replicas:
        """Return the members that are live, in order."""
        return tuple([r for r in replicas if self.is_live(r, partition)])

    def receivers(self, replicas: Iterable[BrokerId], partition: TopicPartition) -> Replicas:
        """
        Return the live members that are sent the partition's state, in order.

        Of brokers that shut down only the leader is, also one that is just replaced: a follower
        would fetch again, and enter the ISR.
        """
        state = self.leadership.states.get(partition)
        leader = model.NO_LEADER if state is None else state.leader
        leaving = self.leadership.shutting_down
        return tuple(r for r in self.live(replicas, partition) if r == leader or r not in leaving)

    def serving_replicas(self, partition: TopicPartition) -> Replicas:
        """Return the replicas to send: TR from the write on that excludes the others, else RS."""
        assignment = self.topics.known_assignment(partition)
        if assignment is None:
            return ()
        if self.reassignments.has_excluded(partition):
            return assignment.target_replicas
        return assignment.replicas

    @property
    def announced_brokers(self) -> tuple[LiveBroker, ...]:
        """
        The live brokers as every broker is to know them, with this daemon if it serves requests.

        It has a rack if all brokers have one: brokers of 2.8 and later create no topic by
        themselves while only some of the others have one (Kafka's AdminUtils).
        """
        live, endpoint = tuple(self.cluster.brokers.values()), self.options.endpoint
        if endpoint is None:
            return live
        racks = [b.rack for b in live if b.rack is not None]
        rack = min(racks) if racks and len(racks) == len(live) else None
        return (*live, replace(endpoint, rack=rack))

    @property
    def is_moving_ours(self) -> bool:
        """Whether a step of a request or legacy plan is in flight; not a foreign one."""
        requests = self.requests.by_id.values() if self.pacing.in_flight else ()
        return any(r.in_flight for r in requests if r.route is not Route.FOREIGN)

    def note_progress(self, partition: TopicPartition, at: Instant) -> None:
        """Note that the partition's step in flight made progress, unless it is foreign."""
        reassignment = self.reassignments.by_partition.get(partition)
        tenure = self.reassignments_tenure
        if reassignment is None or reassignment.spec.route is Route.FOREIGN:
            return
        if reassignment.in_flight:
            tenure.progress_at = max(tenure.progress_at, at)
