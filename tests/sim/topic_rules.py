"""
The rules about topics and partitions that clients create through a daemon.

A daemon creates only what a client waits for, as the client asked for it, topic and settings in one
transaction. What it answers is so: a created topic is there with everything, and each of its
partitions is led; a request that was refused or only validated wrote nothing. Whichever controller
follows, a topic that is written is completed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from controller import kafka_errors
from controller.core.calls.client_requests import (
    CreateTopics,
    MorePartitions,
    NewTopic,
    RequestOnTopics,
    TopicAnswer,
)
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.throttle_settings import EntityConfig
from controller.core.topics.model import BY_DEFAULT, TopicResult
from controller.znodes import paths
from controller.znodes.entity_configs import decode_entity_config
from tests.sim.decoded import read_state, read_topic
from tests.sim.zookeeper import Transaction, Written

if TYPE_CHECKING:
    from controller.reactor.ports import StopReplica
    from tests.sim.controller_endpoints import SimEndpoint
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge
    from tests.sim.logs import Log

UNDECIDED: Final = frozenset({kafka_errors.REQUEST_TIMED_OUT, kafka_errors.NOT_CONTROLLER})
"""Errors after which a client does not know whether its topic is created, as with Kafka."""


class TopicRule(StrEnum):
    """The rules of histories in which clients create topics."""

    ONLY_AS_REQUESTED = (
        "a daemon creates and extends topics only as a client asked that still waits"
    )
    WRITTEN_WHOLE = "a daemon writes a topic and its settings in one transaction"
    CREATED_AS_TOLD = "a topic that a client was told is there, as it was told, and is led"
    GROWN_AS_TOLD = "partitions that a client was told are there, as it was told, and are led"
    REFUSED_WROTE_NOTHING = "a request that was refused or only validated wrote nothing"
    NOT_WHILE_MOVING = "a daemon adds no partitions to a topic with a reassignment in progress"
    FIRST_STATES = "in the end every partition of a written topic has a state"


Ticket = tuple["SimEndpoint", int]


@dataclass(slots=True)
class _Life:
    """A topic from its creation to its deletion."""

    czxid: int
    partitions: Mapping[int, PartitionAssignment] = field(default_factory=dict)
    topic_id: str | None = None
    led: dict[int, list[tuple[float, BrokerId, int]]] = field(default_factory=dict)
    """The leader and the leader epoch of each partition, and since when."""
    accepted: set[tuple[int, BrokerId, int]] = field(default_factory=set)
    """Partition, broker and leader epoch wherever a leader accepted a LeaderAndIsr."""
    gone_at: float | None = None


@dataclass(slots=True)
class _Change:
    """A creation or an extension that a daemon wrote."""

    life: _Life
    session: int
    name: str
    first_new: int
    count: int
    factor: int
    topic_id: str | None
    tickets: set[Ticket]
    """The waiting requests that it may be for; the only one, once a client was told."""


class TopicRules:
    """The witness of everything that clients create."""

    def __init__(self, fabric: Fabric, judge: Judge, daemons: Collection[int]) -> None:
        """
        Judge from now on.

        Args:
            fabric: The cluster.
            judge: Fails where a rule is broken.
            daemons: The sessions that claimed the role for a daemon.

        """
        self._fabric = fabric
        self._judge = judge
        self._daemons = daemons
        self.applied: Counter[TopicRule] = Counter()
        self._waiting: dict[Ticket, RequestOnTopics] = {}
        self._lives: dict[str, _Life] = {}
        self._changes: list[_Change] = []
        self._unstarted: dict[TopicPartition, int] = {}
        """Partitions without a state that daemons wrote, with the session of the daemon."""
        fabric.topic_witnesses.append(self)
        fabric.witnesses.append(self)
        fabric.zookeeper.listeners.append(self.transacted)

    def _ensure(self, condition: bool, why: str, rule: TopicRule) -> None:  # noqa: FBT001
        self.applied[rule] += 1
        self._judge.ensure(condition, f"{rule}: {why}")

    # --- what brokers do -----------------------------------------------------------------------

    def leader_accepted(
        self, broker: BrokerId, partition: TopicPartition, leader_epoch: int, replicas: Replicas
    ) -> None:
        """Note an accepted leadership."""
        del replicas
        life = self._lives.get(partition.topic)
        if life is not None:
            life.accepted.add((partition.partition, broker, leader_epoch))

    def acknowledged(
        self, partition: TopicPartition, log: Log, offset: int, leader_epoch: int
    ) -> None:
        """Do nothing: ``data_rules`` judges records."""

    def truncated(self, broker: BrokerId, partition: TopicPartition) -> None:
        """Do nothing."""

    def deleted(self, broker: BrokerId, partition: TopicPartition, leader_epoch: int) -> None:
        """Do nothing."""

    def daemon_stops(self, broker: BrokerId, request: StopReplica) -> None:
        """Do nothing."""

    # --- writes --------------------------------------------------------------------------------

    def transacted(self, transaction: Transaction) -> None:
        """Judge what a daemon writes of topics, and note what anybody does."""
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic]:
                    self._topic_written(transaction, topic, written)
                case ["brokers", "topics", topic, "partitions", number, "state"]:
                    self._state_written(transaction, TopicPartition(topic, int(number)), written)
                case _:
                    pass

    def _topic_written(self, transaction: Transaction, name: str, written: Written) -> None:
        read = None if written.after is None else read_topic(written.after)
        life = self._lives.get(name)
        if not isinstance(read, TopicAssignment):
            if life is not None:
                life.gone_at = self._fabric.schedule.now()
                del self._lives[name]
                self._unstarted = {p: s for p, s in self._unstarted.items() if p.topic != name}
            return
        is_daemon = transaction.session in self._daemons
        if life is None or written.before is None:
            life = self._lives[name] = _Life(read.czxid)
            if is_daemon:
                self._created(transaction, name, read, life)
        elif is_daemon and read.partitions.keys() - life.partitions.keys():
            self._grown(transaction, name, read, life)
        life.partitions, life.topic_id = read.partitions, read.topic_id

    def _created(
        self, transaction: Transaction, name: str, read: TopicAssignment, life: _Life
    ) -> None:
        settings = self._settings_written(transaction, name)
        self._ensure(
            settings is not None,
            f"session {transaction.session} wrote {name} without its settings",
            TopicRule.WRITTEN_WHOLE,
        )

        def is_for(topic: NewTopic, requested: CreateTopics) -> bool:
            return (
                topic.name == name
                and dict(topic.configs) == settings
                and _is_placed(topic, requested, read, self._fabric.brokers)
            )

        tickets: set[Ticket] = set()
        for ticket, requested in self._of(transaction.session):
            if isinstance(requested, CreateTopics) and any(
                is_for(t, requested) for t in requested.topics
            ):
                tickets.add(ticket)
        self._changed(transaction, name, read, life, 0, tickets)

    def _grown(
        self, transaction: Transaction, name: str, read: TopicAssignment, life: _Life
    ) -> None:
        first = len(life.partitions)
        added = tuple(read.partitions[n].replicas for n in sorted(read.partitions)[first:])
        self._ensure(
            not any(a.is_reassigning for a in life.partitions.values()),
            f"{name} gets partitions from {first} on, and was {life.partitions}",
            TopicRule.NOT_WHILE_MOVING,
        )

        def is_for(topic: MorePartitions) -> bool:
            return (
                topic.name == name
                and topic.count == len(read.partitions)
                and topic.assignments in {None, added}
                and all(_are_brokers(r, self._fabric.brokers) for r in added)
            )

        tickets: set[Ticket] = set()
        for ticket, requested in self._of(transaction.session):
            if not isinstance(requested, CreateTopics) and any(map(is_for, requested.topics)):
                tickets.add(ticket)
        self._changed(transaction, name, read, life, first, tickets)

    def _changed(  # noqa: PLR0917 - a change and its cause
        self,
        transaction: Transaction,
        name: str,
        read: TopicAssignment,
        life: _Life,
        first: int,
        tickets: set[Ticket],
    ) -> None:
        """Judge that a change is for a client that waits, and note it."""
        meant = {t for t in tickets if not self._waiting[t].validate_only}
        rule = TopicRule.ONLY_AS_REQUESTED
        if tickets and not meant:
            rule = TopicRule.REFUSED_WROTE_NOTHING
        self._ensure(
            bool(meant),
            f"session {transaction.session} wrote {name} as {read}, "
            f"which no client waits for: {list(self._waiting.values())}",
            rule,
        )
        factor = len(read.partitions[first].replicas)
        count, session = len(read.partitions), transaction.session
        self._changes.append(
            _Change(life, session, name, first, count, factor, read.topic_id, meant)
        )
        for number in range(first, count):
            self._unstarted[TopicPartition(name, number)] = session

    def _settings_written(
        self, transaction: Transaction, name: str
    ) -> Mapping[str, str | None] | None:
        """Return the settings that a transaction writes for a topic, if it does."""
        path = f"{paths.TOPIC_CONFIGS}/{name}"
        for written in transaction.written:
            if written.path == path and written.after is not None:
                read = decode_entity_config(written.after.data, ZkVersion(0))
                return dict(read.values) if isinstance(read, EntityConfig) else None
        return None

    def _of(self, session: int) -> list[tuple[Ticket, RequestOnTopics]]:
        """Return the requests that wait for the daemon with a session."""
        return [(t, requested) for t, requested in self._waiting.items() if t[0].session == session]

    def _state_written(
        self, transaction: Transaction, partition: TopicPartition, written: Written
    ) -> None:
        state = None if written.after is None else read_state(written.after)
        life = self._lives.get(partition.topic)
        if life is None or not isinstance(state, PartitionState):
            return
        since = (self._fabric.schedule.now(), state.leader, int(state.leader_epoch))
        life.led.setdefault(partition.partition, []).append(since)
        writer = self._unstarted.pop(partition, None)
        if writer is not None and writer != transaction.session:
            is_daemon = transaction.session in self._daemons
            by = "daemon" if is_daemon else "broker"
            self._fabric.strike(f"creation_completed_by_another_{by}")

    # --- answers -------------------------------------------------------------------------------

    def request_received(
        self, endpoint: SimEndpoint, ticket: int, request: RequestOnTopics
    ) -> None:
        """Note a request that arrives at a daemon."""
        self._waiting[endpoint, ticket] = request

    def daemon_answers(
        self, endpoint: SimEndpoint, ticket: int, request: RequestOnTopics, answer: TopicAnswer
    ) -> None:
        """Judge what a daemon is about to answer: after that it may write nothing more for it."""
        known = (endpoint, ticket)
        del self._waiting[known]
        for result in answer.results:
            changes = [c for c in self._changes if c.name == result.name and known in c.tickets]
            if result.error in UNDECIDED:
                continue
            if result.error or request.validate_only:
                self._ensure(
                    not any(c.tickets == {known} for c in changes),
                    f"{request} is answered {result}, and wrote {changes}",
                    TopicRule.REFUSED_WROTE_NOTHING,
                )
            else:
                is_new = isinstance(request, CreateTopics)
                rule = TopicRule.CREATED_AS_TOLD if is_new else TopicRule.GROWN_AS_TOLD
                self._ensure(bool(changes), f"nobody wrote {result}", rule)
                changes[-1].tickets = {known}
                self._as_told(changes[-1], result, rule, endpoint.session)

    def _as_told(self, change: _Change, result: TopicResult, rule: TopicRule, session: int) -> None:
        told = [(result.num_partitions, change.count)]
        if rule is TopicRule.CREATED_AS_TOLD:
            told.append((result.replication_factor, change.factor))
        self._ensure(
            all(was_told == is_so for was_told, is_so in told)
            and (rule is TopicRule.GROWN_AS_TOLD or result.topic_id == change.topic_id),
            f"a client is told {result}, and the topic was written so: {change}",
            rule,
        )
        controller = self._fabric.zookeeper.get(paths.CONTROLLER)
        is_in_charge = controller is not None and controller.ephemeral_owner == session
        life, now = change.life, self._fabric.schedule.now()
        # Another controller may have deleted it, and daemons delete in the cycle of an answer.
        is_there = life.gone_at is None and life.topic_id == change.topic_id
        self._ensure(
            is_there or not is_in_charge or life.gone_at == now,
            f"a client is told {result}, and the topic is gone",
            rule,
        )
        for number in range(change.first_new, change.count):
            led = life.led.get(number, [])
            # The states that the daemon knew when it decided, if nobody replaced it since.
            known = [(leader, epoch) for at, leader, epoch in led if at < now][-1:]
            known += [(leader, epoch) for at, leader, epoch in led if at == now]
            if not is_in_charge:
                known = [(leader, epoch) for _, leader, epoch in led]
            self._ensure(
                any((number, *each) in life.accepted for each in known),
                f"a client is told {result}; of partition {number}, led by {led}, no leader has "
                f"acknowledged that: {sorted(life.accepted)}",
                rule,
            )

    def judge_end(self) -> None:
        """Judge that every topic is complete."""
        for name, life in self._lives.items():
            lacking = sorted(life.partitions.keys() - life.led.keys())
            self._ensure(
                not lacking,
                f"{name}: partitions {lacking} have no state",
                TopicRule.FIRST_STATES,
            )


def _is_placed(
    topic: NewTopic, requested: CreateTopics, read: TopicAssignment, brokers: Collection[BrokerId]
) -> bool:
    """Return whether a topic znode has the partitions, replicas and id that a client asked for."""
    has = tuple((n, read.partitions[n].replicas) for n in sorted(read.partitions))
    if read.topic_id != (topic.topic_id if requested.defaults.uses_topic_ids else None):
        return False
    if topic.assignments:
        return has == tuple(sorted(dict(topic.assignments).items()))
    count, factor = topic.num_partitions, topic.replication_factor
    count = requested.defaults.num_partitions if count == BY_DEFAULT else count
    factor = requested.defaults.default_replication_factor if factor == BY_DEFAULT else factor
    return [n for n, _ in has] == list(range(count)) and all(
        len(r) == factor and _are_brokers(r, brokers) for _, r in has
    )


def _are_brokers(replicas: Replicas, brokers: Collection[BrokerId]) -> bool:
    return len(set(replicas)) == len(replicas) and all(r in brokers for r in replicas)
