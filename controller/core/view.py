"""
The view: everything the daemon knows, owned by the thread of the loop.

It is composed by lifetime: each part is replaced as a whole by the event that ends its facts.

``observe`` folds in facts that were read or answered, ``apply`` the writes that are known to be
durable, and ``tenure_reset`` begins and ends a tenure; ``decide`` only reads the view. Whatever
must be examined because of a change is noted in ``due``; the loop passes it to ``decide``.

The view has no state of its own worth saving: after a restart the same events rebuild it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controller.core.events import Orphan
from controller.core.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    Instant,
    PartitionAssignment,
    PartitionState,
    Replicas,
    Route,
    TopicPartition,
)
from controller.core.options import EngineName, Options
from controller.core.state.cluster import ClusterHistory
from controller.core.state.intake import IntakeState
from controller.core.state.own_records import OwnRecords
from controller.core.state.role import RoleState
from controller.core.state.session import SessionState
from controller.core.state.tenure import TenureState
from controller.core.state.work import WorkState
from controller.core.worklist import Worklist

SHARES = 10
"""The share of a long cycle that is left while it delays other requests."""


@dataclass(slots=True)
class ClusterView:
    """The cluster, the reassignments and the tenure as known now."""

    options: Options
    role: RoleState = field(default_factory=RoleState)
    """Lasts as long as the process."""
    cluster: ClusterHistory = field(default_factory=ClusterHistory)
    """Lasts as long as the process."""
    session: SessionState = field(default_factory=SessionState)
    """Ends with the ZooKeeper session."""
    tenure: TenureState = field(default_factory=TenureState)
    """Ends at a claim and at the end of a tenure."""
    own_records: OwnRecords = field(default_factory=OwnRecords)
    """Ends with a tenure, and when this daemon becomes the leader."""
    work: WorkState = field(default_factory=WorkState)
    """Lasts as long as the process; its records are durable."""
    intake: IntakeState = field(default_factory=IntakeState)
    """Lasts as long as the process; its znodes are durable."""
    due: Worklist = field(default_factory=Worklist)
    """Ends with the cycle that takes it."""

    def __post_init__(self) -> None:
        """Take the engine of the settings; ``auto`` is decided when enough is known."""
        engine = self.options.engine
        if engine is not EngineName.AUTO:
            self.role.engine, self.role.engine_why = engine, "the settings say so"

    # --- questions -----------------------------------------------------------------------------

    @property
    def is_warm(self) -> bool:
        """Whether everything that must be known before a claim has been read."""
        return (
            self.session.listed is not None
            and self.session.legacy_read
            and self.own_records.specs_read
            and self.own_records.orphans_read
            and self.session.submissions_listed is not None
            and self.session.cancellation_read
            and self.session.kill_switch is not None
            and self.session.queue_read
            and self.session.controls_read
            and self.own_records.history_read
            and self.own_records.applied_throttles_read
            and self.session.deletions is not None
            and self.session.guards is not None
            and bool(self.cluster.brokers)
            and all(
                t in self.session.topics or t in self.session.unreadable_topics
                for t in self.session.listed
            )
        )

    def settled_assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """
        Return the entry of the topic znode, None unless it was read in this tenure.

        The previous controller may have written it after an earlier read. What was read of states
        gives no evidence of that: it may be newer.
        """
        topic = self.session.topics.get(partition.topic)
        if (
            self.tenure.held is None
            or topic is None
            or topic.read_in < self.tenure.claim_generation
        ):
            return None
        return self.session.assignment(partition)

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the broker is registered and its replica not on a failed disk."""
        return broker in self.cluster.brokers and (broker, partition) not in self.tenure.offline

    def failed_in(self, broker: BrokerId, partition: TopicPartition) -> BrokerEpoch | None:
        """Return the broker's registration if the replica's disk failed in it."""
        if broker not in self.cluster.brokers or (broker, partition) not in self.tenure.offline:
            return None
        return self.cluster.brokers[broker].epoch

    def is_undeletable(self, orphan: Orphan) -> bool:
        """Return whether its disk failed and its broker has not registered again since."""
        if orphan in self.work.orphans_failed:
            return True
        broker = self.cluster.brokers.get(orphan.broker)
        return broker is not None and broker.epoch == orphan.failed_in

    def is_in_reach(self, orphan: Orphan) -> bool:
        """Return whether its broker is registered and may still delete it."""
        return orphan.broker in self.cluster.brokers and not self.is_undeletable(orphan)

    def live(self, replicas: Iterable[BrokerId], partition: TopicPartition) -> Replicas:
        """Return the members that are live, in order."""
        return tuple(r for r in replicas if self.is_live(r, partition))

    def serving_replicas(self, partition: TopicPartition) -> Replicas:
        """
        Return the replica set to send to brokers.

        RS until the write that takes the dropped replicas out of the ISR, TR from that write on.
        """
        assignment = self.session.known_assignment(partition)
        if assignment is None:
            return ()
        if self.work.has_excluded(partition):
            return assignment.target_replicas
        return assignment.replicas

    def permits_unclean(self, partition: TopicPartition) -> bool:
        """
        Return whether the topic's settings permit an unclean election of the partition now.

        Kafka's controller reads them in every offline election. So only an answer counts that was
        requested after the partition was durably without a leader.
        """
        since, answers = (
            self.tenure.leaderless.get(partition),
            self.session.config_answers.get(partition.topic),
        )
        if since is None or answers is None or answers.number <= since:
            return False
        return self.session.configs[partition.topic].unclean_leader_election

    def note_leader(self, partition: TopicPartition, before: PartitionState | None) -> None:
        """
        Note the settings request after which an unclean election may be permitted.

        Args:
            partition: The partition whose state changed.
            before: Its former state.

        """
        state = self.tenure.states.get(partition)
        if state is None or state.leader != NO_LEADER:
            self.tenure.leaderless.pop(partition, None)
        elif (
            partition not in self.tenure.leaderless or before is None or before.leader != NO_LEADER
        ):
            self.tenure.leaderless[partition] = self.cluster.config_question.number

    def note_candidate(self, partition: TopicPartition) -> None:
        """Have an unclean election wait for a new settings request."""
        if partition in self.tenure.leaderless:
            self.tenure.leaderless[partition] = self.cluster.config_question.number

    @property
    def is_moving_ours(self) -> bool:
        """Whether a step of a request or legacy plan is in flight; not a foreign one."""
        if not self.tenure.in_flight:
            return False
        return any(r.in_flight for r in self.work.requests.values() if r.route is not Route.FOREIGN)

    def note_progress(self, partition: TopicPartition, at: Instant) -> None:
        """Note that the partition's step in flight made progress, unless it is foreign."""
        reassignment = self.work.reassignments.get(partition)
        if (
            reassignment is not None
            and reassignment.in_flight
            and reassignment.spec.route is not Route.FOREIGN
        ):
            self.tenure.progress_at = max(self.tenure.progress_at, at)

    def take_due(self) -> Worklist:
        """
        Return the worklist of this cycle and start a new one with the surplus.

        A bounce is passed on once the partition can be judged, and kept until then. So is an entry
        that was taken out of the legacy znode.
        """
        due = self.due
        self._keep_taken_out(due)
        self._keep_bounces(due)
        self.due = due.leave(self.shared(self.options.look_chunk))
        for partition in tuple(due.bounced_from):
            if not self._is_judgeable(partition):
                self._keep_bounce(partition, due.bounced_from.pop(partition))
        for partition in due.partitions if self.tenure.bounced else ():
            # A state that is being read again may be an older ISR of a leader that lost the newer
            # one.
            is_read = self._is_judgeable(partition) and partition not in self.tenure.seeding
            if is_read and partition in self.tenure.bounced:
                bounced = self.tenure.bounced.pop(partition)
                due.bounced_from.setdefault(partition, set()).update(bounced)
        return due

    def _keep_taken_out(self, due: Worklist) -> None:
        taken_out = self.tenure.taken_out | due.dropped
        self.tenure.taken_out = {
            p for p in taken_out & self.work.reassignments.keys() if not self.session.assignment(p)
        }
        due.dropped = taken_out - self.tenure.taken_out

    def _keep_bounces(self, due: Worklist) -> None:
        """
        Keep the bounces of partitions that cannot be judged now.

        A broker that left counts as well: it may be back when the state is read, which would then
        show a live leader. So does one that joined: the state may be from before it left.
        """
        came = due.bounced | due.left | (due.joined - due.elsewhere)
        for partition in due.partitions if came and self.tenure.held is not None else ():
            if not self._is_judgeable(partition):
                self._keep_bounce(partition, came)

    def _keep_bounce(self, partition: TopicPartition, brokers: Collection[BrokerId]) -> None:
        assignment = self.session.known_assignment(partition)
        replicas = () if assignment is None else assignment.replicas
        concerned = [r for r in replicas if r in brokers]
        if concerned:
            self.tenure.bounced.setdefault(partition, set()).update(concerned)

    def _is_judgeable(self, partition: TopicPartition) -> bool:
        """
        Return whether a bounce can be handled: topic and state are known and not in doubt.

        That there is no state is known as well. Nobody is elected for a topic that is to be deleted
        unless it is reassigned: an operator may withdraw the deletion.
        """
        if (
            partition.topic in (self.session.deletions or ())
            and partition not in self.work.reassignments
        ):
            return False
        is_read = partition in self.tenure.states or partition in self.tenure.stateless
        return is_read and self.session.assignment(partition) is not None

    def shared(self, most: int) -> int:
        """
        Reduce a per-cycle limit while other requests wait to be accepted.

        Long cycles have more throughput; a single request, or one that was accepted long ago, waits
        for no cycle.
        """
        unread = (self.session.submissions_listed or frozenset()) - self.session.submissions.keys()
        named = (n for n in self.session.submissions if n not in self.session.left_submissions)
        asking = len({self.session.submissions[name].request for name in named}) + bool(unread)
        if (
            self.intake.legacy is not None
            and len(self.intake.legacy.entries) > self.work.other_routes
        ):
            asking += 1
        return most if asking <= 1 else max(most // SHARES, 1)
