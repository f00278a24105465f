"""
The invariants of every simulated history, judged with every ZooKeeper transaction.

The rules see effects only and know nothing of the daemon's memory. Those that Kafka's own
controller breaks by design apply to the daemon only, which is identified by the sessions that took
``/controller`` with an id that is no broker's. The rules about data are ``data_rules``, those about
our own records ``record_rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.reactor.ports import Check, LeaderAndIsr, LeaderAndIsrState
from controller.znodes import paths
from controller.znodes.brokers_and_controller import decode_controller
from controller.znodes.plans import decode_legacy_plan
from tests.sim.copy_rules import Tolerance
from tests.sim.data_rules import DataRules
from tests.sim.decoded import read_topic
from tests.sim.deletion_rules import DeletionRules
from tests.sim.endpoint_rules import EndpointRules
from tests.sim.judges import Judge, Znodes
from tests.sim.record_rules import RecordRules
from tests.sim.rules import Rule
from tests.sim.state_rules import StateRules
from tests.sim.topic_rules import TopicRules
from tests.sim.zookeeper import NO_SESSION, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric

Changed = tuple[TopicPartition, PartitionAssignment, PartitionAssignment]
"""A partition with its assignments before and after a write of the topic znode."""


class Invariants:
    """The rules about znodes, and the history that they need."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._znodes = Znodes()
        self.judge = Judge(fabric.schedule)
        self._data = DataRules(fabric, self.judge, self._znodes)
        self.records = RecordRules(fabric, self.judge, self._znodes)
        self._fences: dict[int, int] = {}
        """The session that wrote under each version of ``/controller_epoch``."""
        self._daemons: set[int] = set()
        self._may_extend = False
        """Whether clients that are not known may have asked a daemon for partitions."""
        self._states = StateRules(fabric, self.judge, self._znodes, self.records, self._daemons)
        self.records.lowest_min_isr = self._states.lowest_min_isr
        self._states.elected_uncleanly = self._data.elected_uncleanly
        self.deletions = DeletionRules(fabric, self.judge, self._znodes, self._daemons)
        self._data.deletions = self.deletions
        fabric.witnesses.append(self._data)
        # The first listener: others rely on what it has noted.
        fabric.zookeeper.listeners.append(self.transacted)
        self.records.tolerated_of = Tolerance(fabric.zookeeper).of
        self.endpoint = EndpointRules(fabric, self.judge) if fabric.has_endpoint else None
        self._states.endpoint = self.endpoint
        self.topics = TopicRules(fabric, self.judge, self._daemons) if fabric.has_endpoint else None

    @property
    def checks(self) -> int:
        """Rules applied so far."""
        return self.judge.checks

    def committed(self, partition: TopicPartition) -> int:
        """Return how many records of a partition were acknowledged to producers."""
        return self._data.committed(partition)

    def assignments(self, topic: str) -> Mapping[int, PartitionAssignment]:
        """Return the assignments in a topic znode; empty where there is none."""
        known = self._znodes.topics.get(topic)
        return {} if known is None else known.partitions

    def is_daemon(self, session: int) -> bool:
        """Return whether a session claimed the role for a daemon."""
        return session in self._daemons

    def judge_a_recording(self, endpoint: EndpointRules, news_s: float) -> None:
        """Judge changes of ISRs by ``endpoint``; a daemon hears of an event after ``news_s``."""
        self._states.endpoint, self._states.news_s = endpoint, news_s
        self._may_extend = True

    def follow(self, hears_since: Callable[[int], float]) -> None:
        """Set the function that returns since when a session's daemon hears without delay."""
        self._states.hears_since = hears_since

    def trust_settings_for(self, seconds: float) -> None:
        """Set the age that settings may have when a daemon decides by them."""
        self._states.config_refresh_s = seconds

    @property
    def settings_good_for_s(self) -> float:
        """The age that settings may have when a daemon decides by them."""
        return self._states.config_refresh_s

    def lowest_min_isr(self, topic: str) -> int:
        """Return the lowest ``min.insync.replicas`` that a daemon may decide by now."""
        return self._states.lowest_min_isr(topic)

    def had_to_hear(self, session: int, since: float) -> bool:
        """Return whether the daemon with a session had to hear of an event at a time."""
        return self._states.had_to_hear(session, since)

    def may_seem_dead(self, broker: BrokerId) -> bool:
        """Return whether a controller may take a broker for dead because it hears late."""
        return self._states.may_seem_dead(broker)

    def judge_end(self, unmet: Mapping[TopicPartition, Replicas]) -> None:
        """Judge the end of a healed history: no entry lost, no record lost, no log left behind."""
        self.judge.applies(Rule.NO_ENTRY_LOST)
        for partition, target in unmet.items():
            self.judge.fail(f"{partition}: {target} was requested, and neither reached nor refused")
        for partition in self._znodes.states:
            self._data.nothing_is_lost(partition)
        self.records.nothing_is_left()
        self._ids_are_everywhere()
        if self.topics is not None:
            self.topics.judge_end()

    def _ids_are_everywhere(self) -> None:
        """Judge that all topics have ids, and each log that of its topic, where there are ids."""
        for name, topic in self._znodes.topics.items() if self._fabric.has_topic_ids else ():
            held = {
                log.topic_id
                for broker in self._fabric.brokers.values()
                for partition, log in broker.logs.items()
                if partition.topic == name
                and log.is_online
                and broker.id in self._znodes.replicas(partition)
            }
            self.judge.ensure(
                topic.topic_id is not None and held <= {topic.topic_id},
                f"{name} has the id {topic.topic_id}, its logs have {held}",
                Rule.LOGS_HAVE_IDS,
            )

    def sent(self, to: BrokerId, request: LeaderAndIsr) -> None:
        """Judge that the states in a LeaderAndIsr of the daemon are durable."""
        self.deletions.sent(to, request)
        for sent in request.states:
            state = self._znodes.states.get(sent.partition)
            if state is None:
                continue
            is_same = sent.partition_epoch == state.version
            is_equal = is_same and (sent.leader, sent.isr) == (state.leader, state.isr)
            is_known = sent.partition_epoch < state.version or is_equal
            if not is_known and request.controller_epoch < state.controller_epoch:
                # Queued before the sender lost the role, for a topic that was created again since:
                # a later controller wrote another state at a version that the sender knew already.
                continue
            self.judge.ensure(
                sent.leader_epoch <= state.leader_epoch and (not is_same or is_equal),
                f"{sent.partition}: the daemon sends {sent}, ZooKeeper says {state}",
                Rule.SENT_IS_DURABLE,
            )
            if sent.is_new and self._data.committed(sent.partition):
                self._is_no_member(to, sent, state, sent_under=request.controller_epoch)

    def _is_no_member(
        self,
        broker: BrokerId,
        sent: LeaderAndIsrState,
        state: PartitionState,
        *,
        sent_under: ControllerEpoch,
    ) -> None:
        """
        Judge that no member of the ISR is new once records of the partition are acknowledged.

        The first state of a partition may be sent late, as it was or in a newer state, and still
        name its receiver in the ISR: while the receiver was a member, nothing was acknowledged, and
        its leader or a reassignment may have removed it since. Kafka's controller sends its queued
        requests, too. The receiver makes an empty log and follows. That is safe only if it is no
        member any more, and if it never had a log: then no log with records is on a failed disk.

        A daemon that was replaced, and does not know it yet, may also send late what it queued
        before a replica entered the ISR: a broker that heard from the newer controller refuses it,
        and one that restarts and forgets refuses it by its own epoch.
        """
        receiver = self._fabric.brokers[broker]
        is_refused = sent_under < receiver.controller_epoch
        never_had_a_log = sent.partition not in receiver.made
        self.judge.ensure(
            (never_had_a_log or broker not in sent.isr) and (is_refused or broker not in state.isr),
            f"{sent.partition}: broker {broker} is to create its log as new: {sent}, {state}",
            Rule.NEW_IN_NO_ISR,
        )

    # --- ZooKeeper -----------------------------------------------------------------------------

    def transacted(self, transaction: Transaction) -> None:
        """Judge a transaction: topics first, since states are judged by the new assignments."""
        self.judge.note(transaction)
        self._one_writer(transaction)
        self.deletions.transacted(transaction)
        states: list[tuple[TopicPartition, Written]] = []
        topics: list[tuple[str, Written]] = []
        specs: list[tuple[TopicPartition, Written]] = []
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic]:
                    topics.append((topic, written))
                case ["brokers", "topics", topic, "partitions", number, "state"]:
                    states.append((TopicPartition(topic, int(number)), written))
                case ["admin", "reassignments", topic, number]:
                    specs.append((TopicPartition(topic, int(number)), written))
                case [*parts]:
                    self._other_written(transaction, parts, written)
        changed = [c for t, w in topics for c in self._topic_written(transaction, t, w)]
        for partition, written in states:
            self._states.written(transaction, partition, written)
            self._data.nothing_is_lost(partition)
        self._reassigned(transaction, changed)
        for partition, written in specs:
            self.records.own_written(transaction, written)
            self.records.spec_written(partition, written)

    def _reassigned(self, transaction: Transaction, changed: Sequence[Changed]) -> None:
        """Judge assignments that changed, by the states as they are after the transaction."""
        is_daemon = transaction.session in self._daemons
        for partition, old, new in changed:
            if is_daemon:
                self._isr_within_replicas(partition, new)
                self.records.of_this_topic(partition)
                self.records.within_bound(partition, old, new)
            else:
                self.records.assigned_by_others(partition, old, new)

    def _one_writer(self, transaction: Transaction) -> None:
        """
        Judge that one session alone writes under a version of ``/controller_epoch``.

        A session that takes ``/controller`` is exempt: it lets the former owner end its writes.
        """
        if any(written.path == paths.CONTROLLER for written in transaction.written):
            return
        for op in transaction.operations:
            if isinstance(op, Check) and op.path == paths.CONTROLLER_EPOCH:
                writer = self._fences.setdefault(op.version, transaction.session)
                self.judge.ensure(
                    writer == transaction.session,
                    f"two writers with version {op.version} of {paths.CONTROLLER_EPOCH}",
                    Rule.ONE_WRITER_PER_CLAIM,
                )

    def _other_written(self, transaction: Transaction, parts: list[str], written: Written) -> None:
        match parts:
            case ["controller_epoch"]:
                self._epoch_moved(written)
                for beside in transaction.written:
                    if beside.path == paths.CONTROLLER:
                        self._controller_changed(beside)
                if transaction.session in self._daemons:
                    self._znodes.claims[self._znodes.epoch] = transaction.zxid
            case ["controller"]:
                self._controller_changed(written)
            case ["brokers", "ids", name]:
                self._states.broker_moved(BrokerId(int(name)))
            case ["admin", "reassign_partitions"]:
                self._plan_written(transaction, written)
            case ["reassigner", "orphans", _, _]:
                self.records.own_written(transaction, written)
            case _:
                pass

    def _unreadable(self, transaction: Transaction, written: Written, why: str) -> None:
        """Judge that only a test wrote an undecodable znode."""
        vandalized = transaction.session == NO_SESSION
        self.judge.ensure(vandalized, f"{written.path} cannot be read: {why}")

    def _epoch_moved(self, written: Written) -> None:
        before = 0 if written.before is None else int(written.before.data)
        after = 0 if written.after is None else int(written.after.data)
        self.judge.ensure(
            written.before is None or after == before + 1,
            f"/controller_epoch went from {before} to {after}",
            Rule.EPOCH_BY_ONE,
        )
        self._znodes.epoch = after

    def _controller_changed(self, written: Written) -> None:
        if written.after is None:
            return
        read = decode_controller(written.after.data)
        if not isinstance(read, str) and read.broker_id not in self._fabric.brokers:
            self._daemons.add(written.after.ephemeral_owner)

    def _plan_written(self, transaction: Transaction, written: Written) -> None:
        if written.after is None or transaction.session not in self._daemons:
            return
        plan = decode_legacy_plan(written.after.data, ZkVersion(0), Zxid(0))
        self.judge.ensure(
            plan.unreadable is None and not plan.refused,
            "the daemon wrote a plan that Kafka would reject",
            Rule.PLAN_READABLE_FOR_KAFKA,
        )

    # --- topics --------------------------------------------------------------------------------

    def _topic_written(
        self, transaction: Transaction, topic: str, written: Written
    ) -> Iterator[Changed]:
        """Judge a topic znode; yield the changed assignments with those before."""
        before = self._znodes.topics.get(topic)
        if written.after is None:
            self._znodes.topics.pop(topic, None)
            self._data.forget(topic)
            self.records.topic_deleted(topic)
            return
        znode = written.after
        after = read_topic(znode)
        if isinstance(after, str):
            self._unreadable(transaction, written, after)
            self._znodes.topics.pop(topic, None)
            return
        self._znodes.topics[topic] = after
        for number, assignment in after.partitions.items():
            self.records.assigned(TopicPartition(topic, number), assignment)
        if before is None:
            return
        missing = before.partitions.keys() - after.partitions.keys()
        self.judge.ensure(
            not missing, f"{topic} lost partitions {sorted(missing)}", Rule.NO_PARTITION_LOST
        )
        if after.topic_id is None and transaction.session == NO_SESSION:
            # A tool of before 2.8 wrote it. It is the same topic, and no other id is right.
            self._znodes.topics[topic] = after = replace(after, topic_id=before.topic_id)
        self.judge.ensure(
            before.topic_id in {None, after.topic_id},
            f"{topic} got another topic id",
            Rule.SAME_TOPIC_ID,
        )
        for number, assignment in after.partitions.items():
            old = before.partitions.get(number)
            if old == assignment:
                continue
            partition = TopicPartition(topic, number)
            self._well_formed(partition, assignment)
            if old is None:
                # Where clients ask for partitions, ``topic_rules`` judges those that are added.
                is_added = self._may_extend and number < len(after.partitions)
                is_judged = transaction.session in self._daemons and self.topics is None
                why = f"{partition}: the daemon writes a partition that the topic does not have"
                self.judge.ensure(is_added or not is_judged, why, Rule.OF_THIS_TOPIC)
                continue
            if transaction.session in self._daemons:
                self._dropped_are_gone(partition, old, assignment)
            yield partition, old, assignment

    def _well_formed(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        replicas = set(assignment.replicas)
        marked = set(assignment.adding_replicas) | set(assignment.removing_replicas)
        self.judge.ensure(bool(replicas), f"{partition} has no replicas", Rule.REPLICAS_THERE)
        self.judge.ensure(
            len(replicas) == len(assignment.replicas),
            f"{partition} has one twice",
            Rule.NO_REPLICA_TWICE,
        )
        self.judge.ensure(
            marked <= replicas, f"{partition}: AR or RR name others than RS", Rule.MARKED_WITHIN_RS
        )
        self.judge.ensure(
            bool(assignment.target_replicas),
            f"{partition} would remove everything",
            Rule.TARGET_NOT_EMPTY,
        )
        self.judge.ensure(
            bool(assignment.origin_replicas),
            f"{partition}: a cancellation by Kafka's controller would remove everything",
            Rule.ORIGIN_NOT_EMPTY,
        )

    def _dropped_are_gone(
        self, partition: TopicPartition, old: PartitionAssignment, new: PartitionAssignment
    ) -> None:
        """Judge that a dropped replica's log is deleted or recorded as an orphan."""
        for broker_id in old.replicas:
            if broker_id in new.replicas:
                continue
            broker = self._fabric.brokers.get(broker_id)
            is_recorded = self._fabric.zookeeper.get(paths.orphan_path(broker_id, partition))
            self.judge.ensure(
                broker is None or partition not in broker.logs or is_recorded is not None,
                f"{partition}: the topic znode forgot replica {broker_id}, which still has its log",
                Rule.FORGOTTEN_IS_GONE,
            )

    def _isr_within_replicas(
        self, partition: TopicPartition, assignment: PartitionAssignment
    ) -> None:
        state = self._znodes.states.get(partition)
        self.judge.ensure(
            state is None or set(state.isr) <= set(assignment.replicas),
            f"{partition}: ISR {state and state.isr} is not within {assignment.replicas}",
            Rule.ASSIGNMENT_COVERS_ISR,
        )
