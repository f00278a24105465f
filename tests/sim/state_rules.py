"""
The rules about partition states: leader and ISR, epochs, and their writers.

Those that Kafka's own controller breaks by design apply to the daemons only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller.core.core_settings import Options
from controller.core.leadership.model import RECOVERED
from controller.core.model import NO_LEADER, BrokerId, PartitionState, TopicPartition
from controller.reactor.ports import Check
from controller.znodes import paths
from tests.sim.copy_rules import CopyRules
from tests.sim.decoded import read_state
from tests.sim.rules import Rule
from tests.sim.zookeeper import NO_SESSION, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.endpoint_rules import EndpointRules
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge, Znodes
    from tests.sim.record_rules import RecordRules

NEWS_S: Final = 2.0
"""The delay with which a daemon that hears without delay knows of an event, at most."""
KNOWN_S: Final = 20.0
"""The time for which a paused daemon may take a broker for dead that came or went."""


class StateRules:
    """The history of partition states; judges each write of one."""

    def __init__(
        self,
        fabric: Fabric,
        judge: Judge,
        znodes: Znodes,
        records: RecordRules,
        daemons: set[int],
    ) -> None:
        self._fabric = fabric
        self._judge = judge
        self._znodes = znodes
        self._records = records
        self._copies = CopyRules(judge, znodes, records, fabric.joined_late)
        self._daemons = daemons
        self._writers: dict[int, int] = {}
        """The session that wrote states with each controller epoch."""
        self._moved_at: dict[BrokerId, float] = {}
        """The time at which a broker's registration last came or went."""
        self._trusted_at: dict[TopicPartition, dict[BrokerId, float]] = {}
        """The time since which ISR members are known: they entered, or a controller kept them."""
        self._led_at: dict[TopicPartition, float] = {}
        """The time at which a controller last wrote the state."""
        self._leaderless_since: dict[TopicPartition, float] = {}
        """The time since which a partition's state has no leader."""
        self.config_refresh_s = Options().config_refresh_s
        """The age that settings may have when a daemon decides by them."""
        self.elected_uncleanly: Callable[[TopicPartition, PartitionState], None] = lambda *_: None
        """Called with unclean elections that were permitted."""
        self.endpoint: EndpointRules | None = None
        """Where leaders ask their controller."""
        self.hears_since: Callable[[int], float] = lambda _: 0.0
        """Returns since when the daemon with a session hears without delay."""
        self.news_s = NEWS_S

    def broker_moved(self, broker: BrokerId) -> None:
        """Note that a registration came or went."""
        self._moved_at[broker] = self._fabric.schedule.now()

    def written(
        self, transaction: Transaction, partition: TopicPartition, written: Written
    ) -> None:
        """Judge a state by the rules for its writer."""
        before = self._znodes.states.pop(partition, None)
        if written.after is None:
            return
        after = read_state(written.after)
        if isinstance(after, str):
            vandalized = transaction.session == NO_SESSION
            self._judge.ensure(vandalized, f"{written.path} cannot be read: {after}")
            return
        self._znodes.states[partition] = after
        if before is None or before.leader_epoch != after.leader_epoch:
            self._znodes.led_since[partition] = (after.leader_epoch, written.after.mzxid)
        self._judge.ensure(bool(after.isr), f"{partition}: empty ISR", Rule.ISR_NOT_EMPTY)
        self._judge.ensure(
            after.leader == NO_LEADER or after.leader in after.isr,
            f"{partition}: leader {after.leader} is not in ISR {after.isr}",
            Rule.LEADER_IN_ISR,
        )
        fenced = any(
            isinstance(op, Check) and op.path == paths.CONTROLLER_EPOCH
            for op in transaction.operations
        )
        is_requested = (
            self.endpoint is not None
            and before is not None
            and fenced
            and before.leader_epoch == after.leader_epoch
            and self.endpoint.is_as_requested(partition, before, after)
        )
        if is_requested:
            self._within_replicas(partition, after)
        elif fenced:
            self._written_by_controller(transaction, partition, before, after)
        elif before is not None:
            self._written_by_leader(transaction, partition, before, after)
        self._trusted(
            transaction.session, partition, after, by_controller=fenced and not is_requested
        )
        if after.leader != NO_LEADER:
            self._leaderless_since.pop(partition, None)
        elif before is None or before.leader != NO_LEADER:
            self._leaderless_since[partition] = self._fabric.schedule.now()

    def _written_by_controller(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        before: PartitionState | None,
        after: PartitionState,
    ) -> None:
        writer = self._writers.setdefault(after.controller_epoch, transaction.session)
        self._judge.ensure(
            writer == transaction.session,
            f"{partition}: two writers with controller epoch {after.controller_epoch}",
            Rule.ONE_WRITER_PER_EPOCH,
        )
        self._judge.ensure(
            transaction.session not in self._daemons
            or after.controller_epoch in self._fabric.accepted_epochs,
            f"{partition}: {after} is written before a broker accepted a request of the claim",
            Rule.ACCEPTED_FIRST,
        )
        self._judge.ensure(
            after.controller_epoch == self._znodes.epoch,
            f"{partition}: written with controller epoch {after.controller_epoch}, "
            f"the present one is {self._znodes.epoch}",
            Rule.PRESENT_EPOCH,
        )
        expected = 0 if before is None else before.leader_epoch + 1
        self._judge.ensure(
            after.leader_epoch == expected,
            f"{partition}: leader epoch {after.leader_epoch} instead of {expected}",
            Rule.LEADER_EPOCH_BY_ONE,
        )
        if before is None:
            if transaction.session in self._daemons:
                self._of_this_topic(partition, after)
            return
        self._judge.ensure(
            after.leader_recovery_state == RECOVERED or len(after.isr) == 1,
            f"{partition}: {after} is recovering",
            Rule.RECOVERING_ALONE,
        )
        if not set(after.isr) <= set(before.isr):
            self._elected_uncleanly(transaction, partition, before, after)
        if transaction.session in self._daemons:
            self._within_replicas(partition, after)
            self._above_floor(transaction.session, partition, before, after)
            self._copies.written(
                partition,
                before,
                after,
                is_live=lambda r: self._was_live(transaction.session, r, partition),
                may_be_live=lambda r: not self._was_dead(transaction.session, r),
                has_bounced=lambda r: self._has_bounced(r, partition),
            )

    def _elected_uncleanly(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) -> None:
        """Judge that an unclean leader is alone in the ISR, permitted, and the last resort."""
        session, now = transaction.session, self._fabric.schedule.now()
        is_alone = after.isr == (after.leader,) and after.leader in self._znodes.replicas(partition)
        since = self._requested_since(session, partition, after.leader)
        permitted = (
            config.unclean_leader_election
            for config in self._fabric.configs_since(partition.topic, since)
        )
        self._judge.ensure(
            is_alone and any(permitted),
            f"{partition}: a controller grew the ISR from {before.isr} to {after.isr}, which no "
            f"setting permitted since {since:.3f}, {now - since:.3f} s before",
            Rule.UNCLEAN_ALLOWED,
        )
        self.elected_uncleanly(partition, after)
        if session in self._daemons:
            self._judge.ensure(
                before.leader == NO_LEADER,
                f"{partition}: {after} was elected uncleanly before it was durable that {before} "
                "has no leader",
                Rule.NO_LEADER_FIRST,
            )
            live = [r for r in before.isr if self._was_live(session, r, partition)]
            self._judge.ensure(
                not live,
                f"{partition}: {after} was elected uncleanly, {live} were live and in ISR",
                Rule.UNCLEAN_LAST_RESORT,
            )

    def _requested_since(self, session: int, partition: TopicPartition, leader: BrokerId) -> float:
        """
        Return since when a setting may have permitted an unclean election.

        Kafka's controller reads the setting in the election. A daemon reads it once the state has
        no leader, and again when a replica registers.
        """
        now = self._fabric.schedule.now()
        if session not in self._daemons:
            return now
        since = max(self._leaderless_since.get(partition, now), now - self.config_refresh_s)
        registered = self._moved_at.get(leader, 0.0)
        return max(since, registered) if self.had_to_hear(session, registered) else since

    def _written_by_leader(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) -> None:
        kept = (after.leader, after.leader_epoch, after.controller_epoch)
        self._judge.ensure(
            kept == (before.leader, before.leader_epoch, before.controller_epoch),
            f"{partition}: a broker wrote {after} over {before}",
            Rule.BROKER_WRITES_ISR_ONLY,
        )
        writer = self._fabric.brokers[after.leader].session_id
        self._judge.ensure(
            writer == transaction.session,
            f"{partition}: ISR written by another than its leader",
            Rule.LEADER_WRITES_ISR,
        )
        late = self._fabric.joined_late
        added = {r for r in after.isr if r not in before.isr and (partition, r) not in late}
        if not added:
            return
        self._judge.ensure(
            added <= set(self._znodes.replicas(partition)),
            f"{partition}: {sorted(added)} entered the ISR, replicas are "
            f"{self._znodes.replicas(partition)}",
            Rule.REPLICAS_ENTER_ISR,
        )

    def _trusted(
        self,
        session: int,
        partition: TopicPartition,
        after: PartitionState,
        *,
        by_controller: bool,
    ) -> None:
        """
        Note the brokers that entered the ISR, and those that a controller knowingly kept.

        A leader may have decided before a broker registered again. In a tenure of the daemon, who
        enters at an older leader epoch than its registration is therefore not known, whichever
        controller wrote that epoch: the daemon owes the partition a new one.
        """
        now, known = self._fabric.schedule.now(), self._trusted_at.get(partition, {})
        if by_controller or partition not in self._led_at:
            self._led_at[partition] = now
        is_in_tenure = self._znodes.epoch in self._znodes.claims
        entered = self._led_at[partition] if is_in_tenure else now
        self._trusted_at[partition] = {
            r: known[r]
            if r in known
            and not (by_controller and self.had_to_hear(session, self._moved_at.get(r, 0.0)))
            else entered
            for r in after.isr
        }

    def _has_bounced(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """
        Return whether a broker registered again in the ISR, and no controller handled that.

        It may have lost records that it acknowledged. As Kafka's controller does, the daemon treats
        it as a broker that failed and joined, however late, if such a write was refused before.
        """
        trusted = self._trusted_at.get(partition, {}).get(broker)
        return trusted is not None and self._moved_at.get(broker, 0.0) > trusted

    def _of_this_topic(self, partition: TopicPartition, first: PartitionState) -> None:
        """Judge that a first state is that of a partition of the present topic."""
        replicas = self._znodes.replicas(partition)
        self._judge.ensure(
            {first.leader, *first.isr} <= set(replicas),
            f"{partition}: the first state is {first}, the topic has the replicas {replicas}",
            Rule.OF_THIS_TOPIC,
        )

    def _within_replicas(self, partition: TopicPartition, after: PartitionState) -> None:
        self._judge.ensure(
            set(after.isr) <= set(self._znodes.replicas(partition)),
            f"{partition}: the daemon wrote ISR {after.isr}, "
            f"replicas are {self._znodes.replicas(partition)}",
            Rule.ISR_WITHIN_REPLICAS,
        )

    def _above_floor(
        self,
        session: int,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) -> None:
        """
        Judge that the daemon takes no live replica out of an ISR that is too small without it.

        A broker in the ISR that is no replica does not count: it is no copy.
        """
        assignment = self._znodes.assignment(partition)
        if assignment is None:
            return
        wanted = self.lowest_min_isr(partition.topic)
        final = self._records.target_of(partition) or assignment.target_replicas
        floor = min(wanted, len(final))
        left = [
            r
            for r in before.isr
            if r not in after.isr
            and r in assignment.replicas
            and (partition, r) not in self._fabric.joined_late
        ]
        dropped = [
            r
            for r in left
            if self._was_live(session, r, partition) and not self._has_bounced(r, partition)
        ]
        if not dropped:
            return
        self._judge.ensure(
            len(after.isr) >= floor,
            f"{partition}: live replicas {dropped} left the ISR {before.isr}, which is below "
            f"{floor} now: {after.isr}",
            Rule.ABOVE_FLOOR,
        )

    def lowest_min_isr(self, topic: str) -> int:
        """Return the lowest ``min.insync.replicas`` that a daemon may decide by now."""
        since = self._fabric.schedule.now() - self.config_refresh_s
        known = self._fabric.configs_since(topic, since)
        return min(config.min_insync_replicas for config in known)

    def _was_live(self, session: int, broker_id: BrokerId, partition: TopicPartition) -> bool:
        """Return whether a daemon had to know that the replica is live."""
        broker = self._fabric.brokers.get(broker_id)
        if broker is None or self._zookeeper_lacks(broker_id):
            return False
        if broker.to_controller is not None and broker.to_controller.is_stopping:
            return False
        log = broker.logs.get(partition)
        is_online = log is not None and log.is_online
        return is_online and self.had_to_hear(session, self._moved_at.get(broker_id, 0.0))

    def _was_dead(self, session: int, broker: BrokerId) -> bool:
        """Return whether a daemon had to know that a broker is not live."""
        since = self._moved_at.get(broker, 0.0)
        return self._zookeeper_lacks(broker) and self.had_to_hear(session, since)

    def had_to_hear(self, session: int, since: float) -> bool:
        """Return whether the daemon with a session had to hear of an event at a time."""
        heard = max(since, self.hears_since(session))
        return self._fabric.schedule.now() - heard >= self.news_s

    def may_seem_dead(self, broker: BrokerId) -> bool:
        """Return whether a controller may take a broker for dead because it hears late."""
        since = self._fabric.schedule.now() - self._moved_at.get(broker, -KNOWN_S)
        return since < KNOWN_S or self._zookeeper_lacks(broker)

    def _zookeeper_lacks(self, broker: BrokerId) -> bool:
        return self._fabric.zookeeper.get(paths.broker_path(broker)) is None
