"""
One state of the explored system, and what may happen next in it.

Actors are lanes of daemons, links, followers, leaders, Kafka's controller, timers. Without faults
and delays the first enabled actor acts, in a fixed order, so that every message arrives before time
passes. A *delay* holds an actor back: from then on it acts when nothing else can, or earlier by
choice, which costs nothing. Bounded delays and faults are part of the state.

Where a shape says so, leaders ask their controller for ISR changes (``isr_requests``). A copy of a
request whose connection broke, the *late* one, arrives at any time, or never where the daemon ends.

Kafka's controller takes a free role, repairs the state of the partition when brokers come and go,
and sends it at once. It does not carry out reassignments: it is slow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tests.explore import production as p
from tests.explore.alter_requests import NOBODY, Call, carried_out, unanswered
from tests.explore.brokers import FORGETTING, Broker, Log, Record, Replica
from tests.explore.canonical import NEVER_S, digest, form_at
from tests.explore.copying import copied
from tests.explore.daemon import LANES, Clock, Daemon, DiedError, Link
from tests.explore.isr_requests import (
    FIRST_WITH_IDS,
    PROTOCOLS,
    TOPIC_ID,
    Request,
    request_of,
    take_answer,
    want,
)
from tests.explore.kafka import Duties, judged
from tests.explore.zookeeper import ZooKeeper

Action = tuple[Any, ...]


class Budget(NamedTuple):
    """What may still happen beside the ordinary course."""

    delays: int = 0
    faults: int = 0
    records: int = 0
    operator: int = 0

    def covers(self, other: Budget) -> bool:
        """Return whether it allows everything that another allows."""
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))

    def spend(self, cost: Budget) -> Budget | None:
        """Return what is left; None if it does not suffice."""
        left = Budget(*(mine - spent for mine, spent in zip(self, cost, strict=True)))
        return left if min(left) >= 0 else None


FREE: Final = Budget()
DELAY: Final = Budget(delays=1)
FAULT: Final = Budget(faults=1)
RECORD: Final = Budget(records=1)
OPERATOR: Final = Budget(operator=1)


class Shape(NamedTuple):
    """What is explored: the cluster, the plan, and the kinds of faults."""

    name: str
    before: tuple[int, ...]
    target: tuple[int, ...]
    brokers: int
    budget: Budget
    faults: frozenset[str]
    options: Any = None
    daemons: int = 1
    is_bounded: bool = True
    """Whether delays are bounded; else every enabled actor may act next."""
    min_isr: int = 1
    asks: int | None = None
    """The version of AlterPartition in which leaders ask for ISRs; None: they write them."""
    delayed: frozenset[str] | None = None
    """The actors that delays hold back; None: all, and what recovers may do so earlier for one."""
    mortal: tuple[int, ...] | None = None
    """The brokers that may die; None: all."""
    operations: frozenset[str] = frozenset({"cancel"})
    """What the operator does (``operator_actions``)."""
    retarget: tuple[int, ...] = ()
    """The target of the operator's second request."""
    drained: int = 0
    """The broker that the operator drains."""
    is_kafka_busy: bool = True
    """Whether Kafka's controller does not come to carry out reassignments."""
    throttle: int | None = None
    """The throttle of the request, in bytes per second; 0: none, but operators set throttles."""
    tolerates: tuple[int, ...] = ()
    """The brokers of which the request tolerates that they lag."""
    elects: bool = False
    """Whether the request ends when the first replica of its target leads."""
    announces: bool = False
    """
    Whether leaders announce their ISRs in ``/isr_change_notification``, at once.

    A plan that waits for an ISR before its first step has no other news of it.
    """
    acts_early: bool = False
    """Whether the operator acts before the first step alone: around the claim."""
    recovers_freely: bool = False
    """
    Whether sessions end and processes return at any instant.

    Else they do when nothing but a timer is left; earlier it costs a delay.
    """

    @property
    def has_forgotten_logs(self) -> bool:
        """Whether logs may be left of which no znode says anything: of topics, or by Kafka's."""
        return not self.is_kafka_busy or bool(self.operations & OF_TOPICS)


OF_TOPICS: Final = frozenset({"delete topic", "create topic", "replace topic"})
TOPIC: Final = "t"
PARTITION: Final = p.TopicPartition(TOPIC, 0)
TOPIC_PATH: Final = p.paths.topic_path(TOPIC)
STATE_PATH: Final = p.paths.state_path(PARTITION)
SESSION_S: Final = 18.0
"""``zookeeper.session.timeout.ms`` of brokers: ZooKeeper ends the session of a dead one by then."""
HANGS_S: Final = 21_600.0
"""How long a broker that carries out nothing may keep its session, until somebody restarts it."""
DIRECTORIES: Final = (
    p.paths.BROKER_IDS,
    p.paths.TOPICS,
    p.paths.DELETIONS,
    p.paths.ISR_NOTIFICATIONS,
    p.paths.LOG_DIR_EVENTS,
    "/config/topics",
    "/config/brokers",
    p.paths.CONFIG_CHANGES,
    p.paths.REQUESTS,
)

ANNOUNCEMENT: Final = p.Make(
    f"{p.paths.ISR_NOTIFICATIONS}/isr_change_",
    b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    sequential=True,
)
SETTINGS: Final[dict[str, dict[str, str]]] = {
    "topics/t": {"retention.ms": "1", p.LEADER_REPLICAS: "9:9"},
    "brokers/1": {p.LEADER_RATE: "777"},
}
"""What others set before the plan; nothing else is set."""


class System:
    """The whole state, but for the budget."""

    __slots__ = (
        "brokers", "calls", "clock", "committed", "daemons", "held", "kafka", "late", "news",
        "next_value", "sent", "serving", "shape", "states", "strays", "zookeeper",
    )  # fmt: skip

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.clock = Clock()
        self.zookeeper = ZooKeeper()
        self.brokers = {
            n: Broker(n, shape.asks, joins_late="join late" in shape.faults)
            for n in range(1, shape.brokers + 1)
        }
        self.daemons: list[Daemon | None] = []
        self.sent: list[Any] = []
        self.strays: list[Any] = []
        self.news: list[Any] = []
        """What happened inside brokers since the laws last looked."""
        self.committed: tuple[Record, ...] = ()
        self.serving: tuple[int, tuple[int, ...]] = (-1, ())
        """The newest leader epoch that a leader accepted, and the replicas that came with it."""
        self.held: frozenset[Action] = frozenset()
        self.next_value = 0
        self.late: tuple[tuple[int, Request], ...] = ()
        """Requests of leaders to a daemon that arrive late, over connections that broke."""
        self.kafka: Duties | None = None
        """The tenure of Kafka's controller; None: no broker has the role."""
        self.calls: tuple[Call, ...] = ()
        """Requests of daemons to Kafka's controller."""
        self.states: dict[int, Any] = {}
        """The partition's states by version, in the history that led here first."""

    def copied(self, _memo: Any) -> System:
        """Return an independent copy."""
        other = System.__new__(System)
        other.shape = self.shape
        other.zookeeper = self.zookeeper.copy()
        memo: dict[int, Any] = {id(self.zookeeper): other.zookeeper, id(self): other}
        other.clock = copied(self.clock, memo)
        other.brokers = copied(self.brokers, memo)
        other.sent, other.strays = copied(self.sent, memo), copied(self.strays, memo)
        other.news = list(self.news)
        other.committed, other.serving = self.committed, self.serving
        other.held, other.next_value = self.held, self.next_value
        other.late, other.states = self.late, self.states.copy()
        other.daemons = copied(self.daemons, memo)
        other.kafka, other.calls = copied(self.kafka, memo), self.calls
        return other

    def key(self) -> bytes:
        """Return what identifies the state."""
        return digest(self.form())

    def form(self) -> Any:
        """Return the canonical form."""
        rest = form_at(
            (
                self.brokers,
                self.daemons,
                self.strays,
                self.committed,
                self.serving,
                self.held,
                self.late,
                self.kafka,
                self.calls,
            ),
            self.clock.t,
        )
        return self.zookeeper.form(), rest

    def mortals(self) -> Iterator[Broker]:
        """Yield the brokers that may die now."""
        for number, broker in self.brokers.items():
            if broker.is_alive and (self.shape.mortal is None or number in self.shape.mortal):
                yield broker

    # --- the cluster ---------------------------------------------------------------------------

    @property
    def has_topic_ids(self) -> bool:
        """Whether topics have ids."""
        return self.shape.asks is not None and self.shape.asks >= FIRST_WITH_IDS

    @property
    def protocol(self) -> str:
        """The inter-broker protocol of every broker."""
        return PROTOCOLS[self.shape.asks]

    def daemon(self, number: int) -> Daemon:
        """Return a running daemon."""
        daemon = self.daemons[number]
        assert daemon is not None
        return daemon

    def view_of(self, session: int) -> Any:
        """Return the view of the daemon that has a session; None: another client has it."""
        return next(
            (d.reactor.view for d in self.daemons if d is not None and d.store.session == session),
            None,
        )

    def data(self, path: str) -> bytes | None:
        """Return the data of a znode."""
        node = self.zookeeper.get(path)
        return None if node is None else node.data

    def state(self) -> Any:
        """Return the partition's state."""
        node = self.zookeeper.get(STATE_PATH)
        return None if node is None else p.read_state(node)  # type: ignore[arg-type]

    def assignment(self) -> Any:
        """Return the partition's entry in the topic znode."""
        node = self.zookeeper.get(TOPIC_PATH)
        return None if node is None else p.read_topic(node).partitions[0]  # type: ignore[union-attr, arg-type]

    def register(self, broker: Broker) -> None:
        """Start a broker's process."""
        self.zookeeper.close_session(broker.session)
        broker.is_alive, broker.session_ends = True, 0.0
        broker.session = self.zookeeper.open_session()
        data = (
            b'{"version":4,"host":"x","port":9092,"jmx_port":-1,"timestamp":"0",'
            b'"endpoints":["PLAINTEXT://x:9092"],'
            b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
        )
        if broker.asks is not None:
            data = (
                b'{"version":5,"host":"x","port":9092,"jmx_port":-1,"timestamp":"0",'
                b'"endpoints":["PLAINTEXT://x:9092","BROKERS://x:9093"],"features":{},'
                b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","BROKERS":"PLAINTEXT"}}'
            )
        path = p.paths.broker_path(p.BrokerId(broker.id))
        self.zookeeper.transact(broker.session, [p.Make(path, data, ephemeral=True)])
        broker.epoch = self.zookeeper.zxid

    def dispatch(self) -> None:
        """Pass watches that fired to their clients."""
        fired, self.zookeeper.fired = self.zookeeper.fired, []
        for watch in fired:
            for daemon in self.daemons:
                if daemon is not None and daemon.store.session == watch.session:
                    daemon.store.notified(watch)
            if self.kafka is not None and self.kafka.broker.session == watch.session:
                self.kafka.wake()

    # --- replication ---------------------------------------------------------------------------

    def _source(self, follower: Broker) -> tuple[Broker, Replica] | None:
        """Return the leader that a follower can fetch from, with its replica."""
        replica = follower.hosted.get(PARTITION)
        if not follower.is_alive or replica is None or not replica.is_fetching:
            return None
        leader = self.brokers.get(replica.leader)
        if leader is None or not leader.leads(PARTITION):
            return None
        source = leader.hosted[PARTITION]
        is_accepted = source.leader_epoch == replica.leader_epoch and follower.id in source.replicas
        return (leader, source) if is_accepted else None

    def can_fetch(self, follower: Broker) -> bool:
        """Return whether a fetch of a follower changes something."""
        found = self._source(follower)
        if found is None:
            return False
        leader, source = found
        log = leader.logs[PARTITION]
        own = follower.logs[PARTITION]
        return own.records != log.records or source.end_of(follower.id) != log.end

    def fetch(self, follower: Broker) -> None:
        """Copy everything from the leader."""
        found = self._source(follower)
        assert found is not None
        leader, source = found
        records = leader.logs[PARTITION].records
        if follower.logs[PARTITION].records != records[: follower.logs[PARTITION].end]:
            self.news.append(("truncated", follower.id))
        end = len(records)
        ends = tuple(sorted({**dict(source.ends), follower.id: end}.items()))
        leader.hosted[PARTITION] = source._replace(ends=ends)
        follower.logs[PARTITION] = Log(records, follower.logs[PARTITION].high_watermark)
        self.advance(leader)
        watermark = leader.logs[PARTITION].high_watermark
        follower.logs[PARTITION] = Log(records, min(watermark, end))
        if PARTITION not in leader.lost:
            follower.lost -= {PARTITION}

    def advance(self, leader: Broker) -> None:
        """Move the high watermark, and acknowledge records to producers."""
        replica, log = leader.hosted[PARTITION], leader.logs[PARTITION]
        committed = min(
            [log.end, *(replica.end_of(m) for m in replica.counted if m != leader.id)], default=0
        )
        if committed <= log.high_watermark:
            return
        leader.logs[PARTITION] = log._replace(high_watermark=committed)
        done = [offset for offset in replica.waiting if offset < committed]
        left = tuple(offset for offset in replica.waiting if offset >= committed)
        leader.hosted[PARTITION] = replica._replace(waiting=left)
        if len(replica.isr) >= self.shape.min_isr:
            self.news += [("acknowledged", leader.id, offset) for offset in done]

    def may_join(self, leader: Broker, follower: int) -> bool:
        """Return whether a follower may enter the ISR, as its leader sees it."""
        replica, log = leader.hosted[PARTITION], leader.logs[PARTITION]
        end = replica.end_of(follower)
        hosted = self.brokers[follower].hosted.get(PARTITION)
        return (
            follower in replica.replicas
            and follower not in replica.isr
            and end >= max(log.high_watermark, replica.epoch_start)
            and self.brokers[follower].is_alive
            and hosted is not None
            and hosted.is_fetching
            and self._source(self.brokers[follower]) is not None
        )

    def is_lagging(self, leader: Broker, follower: int) -> bool:
        """Return whether a member of the ISR cannot fetch, so that it will be taken out."""
        replica = leader.hosted[PARTITION]
        return (
            follower in replica.isr
            and follower != leader.id
            and self._source(self.brokers[follower]) is None
        )

    def _write_late(self, broker: Broker) -> None:
        """
        Write an ISR that was decided earlier, before the connection to ZooKeeper broke.

        The replica that a leader has in memory changes only if it is still the one it was.
        """
        wanted, then = broker.writing, broker.writing_at
        broker.writing, broker.writing_at = (), None
        assert then is not None
        now = broker.hosted.get(PARTITION)
        if now is not None and now.leader_epoch == then.leader_epoch and now.isr == then.isr:
            self.change_isr(broker, wanted)
            return
        data = p.encode_state(
            leader=broker.id,
            leader_epoch=then.leader_epoch,
            isr=wanted,
            controller_epoch=then.controller_epoch,
        )
        write = p.SetData(STATE_PATH, data, p.ZkVersion(then.partition_epoch))
        with suppress(p.TransactionFailedError, p.SessionExpiredError):
            self.zookeeper.transact(broker.session, [write])

    def change_isr(self, leader: Broker, isr: tuple[int, ...], *, announces: bool = True) -> None:
        """Write an ISR as its leader does, or ask for it; it announces that a little later."""
        if leader.asks is not None:
            want(leader, PARTITION, isr)
            return
        replica = leader.hosted[PARTITION]
        data = p.encode_state(
            leader=leader.id,
            leader_epoch=replica.leader_epoch,
            isr=isr,
            controller_epoch=replica.controller_epoch,
        )
        write = p.SetData(STATE_PATH, data, p.ZkVersion(replica.partition_epoch))
        try:
            self.zookeeper.transact(leader.session, [write])
        except (p.TransactionFailedError, p.SessionExpiredError):
            # Not repeated with another version: only a LeaderAndIsr brings one.
            leader.hosted[PARTITION] = replica._replace(partition_epoch=-2)
            return
        leader.hosted[PARTITION] = replica._replace(
            isr=isr, partition_epoch=replica.partition_epoch + 1
        )
        if self.shape.announces and announces:
            self.zookeeper.transact(leader.session, [ANNOUNCEMENT])
        self.advance(leader)

    # --- actions -------------------------------------------------------------------------------

    def actors(self) -> Iterator[Action]:
        """Yield the enabled actors in the order in which they act."""
        yield from self._messages()
        yield from self._replications()
        yield from self._requests()
        for number, daemon in enumerate(self.daemons):
            if daemon is not None and not self.zookeeper.is_open(daemon.store.session):
                yield ("notice", number)
        if self.zookeeper.get(p.paths.CONTROLLER) is None and self._electable():
            yield ("elect",)
        if self.kafka is not None and self.kafka.is_due:
            yield ("pass",)

    def _messages(self) -> Iterator[Action]:
        for number, daemon in enumerate(self.daemons):
            if daemon is not None:
                for lane in LANES:
                    if daemon.lanes.get(lane):
                        yield ("lane", number, lane)
        for number, daemon in enumerate(self.daemons):
            for broker, link in sorted(daemon.channels.links.items()) if daemon is not None else ():
                if link.answer is not None or (
                    link.request is not None and self.brokers[broker].is_alive
                ):
                    yield ("link", number, broker)
        for call in self.calls:
            if call.results is not None:
                yield ("reply", call.daemon, call.number)

    def _replications(self) -> Iterator[Action]:  # noqa: C901 - one kind each
        for broker in self.brokers.values():
            if self.can_fetch(broker):
                yield ("fetch", broker.id)
        leaders = [b for b in self.brokers.values() if b.leads(PARTITION)]
        for leader in leaders:
            if leader.hosted[PARTITION].partition_epoch == -2 or leader.is_asking(PARTITION):
                continue
            for other in self.brokers:
                if leader.writing:
                    break
                if self.may_join(leader, other):
                    yield ("expand", leader.id, other)
                elif self.is_lagging(leader, other):
                    yield ("shrink", leader.id, other)
        for broker in self.brokers.values():
            if broker.writing:
                yield ("write", broker.id)

    def _requests(self) -> Iterator[Action]:
        """Yield the requests of leaders to their controller, and the answers to them."""
        for broker in self.brokers.values():
            if broker.asking.answer is not None:
                yield ("answer", broker.id)
            if request_of(broker) is None:
                continue
            serving = [n for n, d in enumerate(self.daemons) if d is not None and d.is_serving]
            if serving:
                yield ("ask", serving[0], broker.id)
            elif self.kafka is not None:
                yield ("ask kafka", broker.id)
        for number, request in self.late:
            yield ("late", number, request)
        yield from self._calls()

    def _electable(self) -> list[Broker]:
        return [
            b for b in self.brokers.values() if self.zookeeper.is_open(b.session) and b.is_alive
        ]

    def recoveries(self) -> Iterator[Action]:
        """Yield what may happen at any time after a fault, as its effects end."""
        for broker in self.brokers.values():
            if not broker.is_alive:
                if self.zookeeper.is_open(broker.session):
                    yield ("expire broker", broker.id)
                yield ("restart", broker.id)
        owners = {d.store.session for d in self.daemons if d is not None}
        owners |= {b.session for b in self.brokers.values()}
        for session in sorted(self.zookeeper.sessions - owners - {p.NO_SESSION}):
            yield ("expire", session)
        for number, daemon in enumerate(self.daemons):
            if daemon is None:
                yield ("start", number)
        for stray in range(len(self.strays)):
            yield ("arrive", stray)

    def timers(self) -> Iterator[Action]:
        """
        Yield the daemons that wait for a timer, the earliest first.

        One that a shape sets to never does not fire: nobody waits years for the end of a plan. Nor
        does one after the end of a dead broker's session, which is then the next to come.
        """
        until = self._next_session_end()
        due = [
            (at, n)
            for n, d in enumerate(self.daemons)
            if d is not None
            and (at := d.reactor.wakes_at()) is not None
            and at < self.clock.t + NEVER_S
            and at <= until
        ]
        for _, number in sorted(due):
            yield ("timer", number)

    def _next_session_end(self) -> float:
        """Return when the first session of a dead broker ends."""
        dead = (b for b in self.brokers.values() if not b.is_alive)
        ends = (b.session_ends for b in dead if self.zookeeper.is_open(b.session))
        return min(ends, default=math.inf)

    def do(self, action: Action, fault: Action | None = None) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per action
        """Carry out an action; ``fault`` strikes the daemon in it."""
        match action:
            case ("lane", number, lane):
                self._deliver(number, lane, fault)
            case ("serve", number, lane):
                daemon = self.daemon(number)
                item, *rest = daemon.lanes[lane]
                daemon.lanes[lane] = (daemon.store.served(item), *rest)
                self.held |= {("lane", number, lane)}
            case ("link", number, broker):
                daemon = self.daemon(number)
                link = daemon.channels.links[broker]
                if link.answer is None:
                    link = self._handle(link, broker)
                daemon.channels.links[broker] = Link(link.epoch)
                self._run(number, (_answered(broker, link),), fault)
            case ("handle", number, broker):
                links = self.daemon(number).channels.links
                links[broker] = self._handle(links[broker], broker)
                self.held |= {("link", number, broker)}
            case ("lose answer", number, broker):
                links = self.daemon(number).channels.links
                link = links[broker]
                if link.answer is None:
                    link = self._handle(link, broker)
                links[broker] = link._replace(answer=None, resent=True)
            case ("fetch", follower):
                self.fetch(self.brokers[follower])
            case ("expand", leader, follower):
                isr = (*self.brokers[leader].hosted[PARTITION].isr, follower)
                self.change_isr(self.brokers[leader], isr)
            case ("join late", leader, follower):
                # ``Partition.maybeExpandIsr`` has looked the follower up before the exclusion.
                replica = self.brokers[leader].hosted[PARTITION]
                self.brokers[leader].hosted[PARTITION] = replica._replace(joining=())
                self.change_isr(self.brokers[leader], (*replica.isr, follower))
            case ("prepare", leader, follower):
                broker = self.brokers[leader]
                broker.writing = (*broker.hosted[PARTITION].isr, follower)
                broker.writing_at = broker.hosted[PARTITION]
                self.held |= {("write", leader)}
            case ("write", leader):
                self._write_late(self.brokers[leader])
            case ("shrink", leader, follower):
                members = self.brokers[leader].hosted[PARTITION].isr
                kept = tuple(m for m in members if m != follower)
                self.change_isr(self.brokers[leader], kept)
            case ("shrink and die", leader, follower):
                broker = self.brokers[leader]
                kept = tuple(m for m in broker.hosted[PARTITION].isr if m != follower)
                self.change_isr(broker, kept, announces=False)
                self._kill(broker, keeps_log=True)
            case ("ask", number, leader):
                self._run(number, (self._received(number, self._sent_by(leader)),), fault)
            case ("admit", number, leader):
                event = self._received(number, self._sent_by(leader))
                self.daemon(number).store.put("endpoint", ("events", (event,)))
                self.held |= {("lane", number, "endpoint")}
            case ("double", number, leader):
                broker = self.brokers[leader]
                request = Request(request_of(broker), leader, broker.epoch, is_copy=True)
                self.late = (*self.late, (number, request))
                self.held |= {("late", number, request)}
            case ("late", number, request):
                left = list(self.late)
                left.remove((number, request))
                self.late = tuple(left)
                is_heard = self.daemon(number).is_serving
                self._run(number, (self._received(number, request),) if is_heard else (), fault)
            case ("ask kafka", leader):
                request = self._sent_by(leader)
                assert self.kafka is not None
                self._answer(request, judged(self, self.kafka, request.request))
            case ("answer", leader):
                take_answer(self.brokers[leader], PARTITION)
                if self.brokers[leader].leads(PARTITION):
                    self.advance(self.brokers[leader])
            case ("lose the answer", leader):
                broker = self.brokers[leader]
                broker.asking = broker.asking._replace(is_sent=False, answer=None)
            case ("notice", number):
                daemon = self.daemon(number)
                events = daemon.store.expired()
                self._run(number, events, fault)
            case ("elect",):
                self._elect(self._electable()[-1], None if fault is None else fault[1])
            case ("pass",):
                self.run_kafka(None if fault is None else fault[1])
            case ("call", ticket):
                self._carry_out(self.call(ticket), fault)
            case ("reply", _, ticket):
                self._answer_call(self.call(ticket), fault)
            case ("reply twice", number, ticket):
                call = self.call(ticket)
                self._answer_call(call, fault)
                again = self._add_call(number, call.epoch, call.entries, call.results)
                self.held |= {("reply", number, again)}
            case ("give up", _, ticket):
                self._answer_call(self.call(ticket), fault, p.AlterOutcome.UNKNOWN)
            case ("unsent", _, ticket):
                self._answer_call(self.call(ticket), fault, p.AlterOutcome.UNSENT)
            case ("call in vain", _, ticket):
                call = self.call(ticket)
                is_sent = call.epoch is not None
                fate = p.AlterOutcome.UNKNOWN if is_sent else p.AlterOutcome.UNSENT
                self._answer_call(call, fault, fate)
            case ("expire broker", number):
                self.zookeeper.close_session(self.brokers[number].session)
                self.brokers[number].session_ends = 0.0
                self._end_fetches(self.brokers)
            case ("expire", session):
                self.zookeeper.close_session(session)
            case ("restart", number):
                self.register(self.brokers[number])
            case ("start", number):
                self.start_daemon(number)
            case ("arrive", index):
                broker, epoch, request = self.strays.pop(index)
                if self.brokers[broker].is_alive:
                    self.brokers[broker].handle(request, epoch, self.news)
            case ("timer", number):
                daemon = self.daemon(number)
                at = daemon.reactor.wakes_at()
                assert at is not None
                self.clock.t = max(self.clock.t, at)
                self._end_fetches(self.brokers)
                self._run(number, (), fault)
            case ("hold", actor):
                self.held |= {actor}
            case ("produce", number):
                self._produce(self.brokers[number])
            case ("kill", number, keeps_log):
                self._kill(self.brokers[number], keeps_log=keeps_log)
            case ("hang", number):
                self._kill(self.brokers[number], keeps_log=True, within_s=HANGS_S)
            case ("bounce", number):
                self._kill(self.brokers[number], keeps_log=False)
                self.register(self.brokers[number])
            case ("crash", number):
                self._crash(number)
            case ("lose session", number):
                self.zookeeper.close_session(self.daemon(number).store.session)
            case ("reconnect", number):
                daemon = self.daemon(number)
                daemon.store.reconnect()
            case _:
                raise AssertionError(action)
        self.follow()

    def follow(self) -> None:
        """Pass on what follows from an action at once."""
        self._depose_kafka()
        self._drop_calls()
        self.dispatch()
        if self.strays:
            self.strays[:] = [stray for stray in self.strays if self._may_matter(*stray)]
        if self.held:
            enabled = set(self.actors())
            self.held = frozenset(self.held & enabled)

    def _may_matter(self, number: int, epoch: int, request: Any) -> bool:
        """Return whether a request of a closed connection may be more than refused."""
        if "stray" not in self.shape.faults:
            return False
        broker = self.brokers[number]
        return request.controller_epoch >= broker.controller_epoch and not (
            broker.is_alive and epoch < broker.epoch
        )

    def _deliver(self, number: int, lane: str, fault: Action | None) -> None:
        daemon = self.daemon(number)
        item, *rest = daemon.lanes[lane]
        answer = daemon.store.served(item)
        if rest:
            daemon.lanes[lane] = tuple(rest)
        else:
            del daemon.lanes[lane]
        self.held -= {("lane", number, lane)}
        events = daemon.store.heard(answer)
        # The view may keep parts of an event: other states must not share them.
        self._run(number, copied_events(events), fault)

    def _run(self, number: int, events: Sequence[Any], fault: Action | None) -> None:
        daemon = self.daemon(number)
        daemon.points.fatal = daemon.store.refuses = None
        daemon.store.is_resigning = False
        daemon.store.breaks = None
        match fault:
            case ("die", at):
                daemon.points.fatal = at
            case ("break", multi, when):
                daemon.store.breaks = (multi, when)
            case ("refuse", multi):
                daemon.store.refuses = multi
        try:
            daemon.run(events)
        except DiedError:
            self._crash(number)
        if daemon.store.is_resigning:
            self.news.append(("resigned", number))
        self._pass_answers(daemon)
        self._take_calls(number, daemon)
        if self.daemons[number] is None:
            self._forget_calls(number)
        if daemon.reactor.finished:
            self.daemons[number] = None

    # --- what leaders ask of their controller --------------------------------------------------

    def is_asked(self) -> bool:
        """
        Return whether a daemon is asked for an ISR: a request, or an answer, is under way.

        What Kafka's controller makes of a lost log is not the daemon's matter: one that is elected
        after a restart does not know of it.
        """
        is_served = any(d is not None and d.is_serving for d in self.daemons)
        is_under_way = any(b.asking.change is not None for b in self.brokers.values())
        return is_served and (bool(self.late) or is_under_way)

    def is_held(self) -> bool:
        """
        Return whether a daemon that brokers accept has the role.

        A broker that restarts before its session ends is lost to Kafka's controller that is elected
        after that: it does not know of it.
        """
        return any(d is not None and d.reactor.view.tenure.accepted_by_broker for d in self.daemons)

    def is_answer_urgent(self) -> bool:
        """
        Return whether an answer is on its way to a leader that forgets requests.

        No time passes until it arrives: if it is later than the leader epoch that the daemon writes
        for its sake, the ISR stays as it is until the next one (KAFKA-12686).
        """
        return any(
            b.asks == FORGETTING and b.asking.answer is not None for b in self.brokers.values()
        )

    def is_waiting(self) -> bool:
        """Return whether an answer, a broker or a controller is to come first: no time passes."""
        if not self.shape.is_kafka_busy:
            return self.kafka is None or any(c.daemon != NOBODY for c in self.calls)
        return "lose log while asked" in self.shape.faults and not all(
            broker.is_alive for broker in self.brokers.values()
        )

    def _sent_by(self, leader: int) -> Request:
        """Send the request of a leader."""
        broker = self.brokers[leader]
        request = request_of(broker)
        broker.asking = broker.asking._replace(request=request, is_sent=True)
        return Request(request, leader, broker.epoch)

    def _received(self, number: int, request: Request) -> Any:
        """Let a daemon's endpoint receive a request: return the event."""
        daemon = self.daemon(number)
        assert daemon.endpoint is not None
        items = daemon.lanes.get("endpoint", ())
        return daemon.endpoint.received(
            request, frozenset(event.ticket for _, events in items for event in events)
        )

    def _pass_answers(self, daemon: Daemon) -> None:
        """Pass a daemon's answers on to those who wait; a process that ended sent none."""
        if daemon.endpoint is None:
            return
        answered, daemon.endpoint.answered = daemon.endpoint.answered, []
        for request, answer in answered:
            self.news.append(("answered", request, answer))
            if daemon in self.daemons and not request.is_copy:
                self._answer(request, answer)

    def _answer(self, request: Request, answer: Any) -> None:
        broker = self.brokers[request.broker]
        if broker.is_alive and broker.epoch == request.broker_epoch and broker.asking.is_sent:
            broker.asking = broker.asking._replace(answer=answer)

    def _handle(self, link: Link, number: int) -> Link:
        return link._replace(answer=self.hand_over(number, link.epoch, link.request))

    def hand_over(self, number: int, epoch: int, request: Any) -> Any:
        """Let a broker carry out a request, if it is alive; return the answer."""
        broker = self.brokers[number]
        if not broker.is_alive:
            return None
        answer = broker.handle(request, epoch, self.news)
        if isinstance(request, p.StopReplica) and self.shape.asks is None:
            self._end_fetches((number,))
        if broker.leads(PARTITION):
            self.advance(broker)
        return answer

    def _end_fetches(self, followers: Collection[int]) -> None:
        """Let leaders be done with the last fetches of followers: they stopped, or time passed."""
        for broker in self.brokers.values():
            replica = broker.hosted.get(PARTITION)
            if replica is not None and replica.joining:
                joining = tuple(f for f in replica.joining if f not in followers)
                broker.hosted[PARTITION] = replica._replace(joining=joining)

    # --- Kafka's controller --------------------------------------------------------------------

    def _elect(self, broker: Broker, fatal: int | None = None) -> None:
        """Let a broker take the free role and take over, as Kafka's controller does."""
        epoch = self.zookeeper.get(p.paths.CONTROLLER_EPOCH)
        assert epoch is not None
        data = p.encode_controller(p.BrokerId(broker.id), 0)
        raised = p.ControllerEpoch(int(epoch.data) + 1)
        bump = p.SetData(p.paths.CONTROLLER_EPOCH, str(raised).encode(), p.ZkVersion(epoch.version))
        make = p.Make(p.paths.CONTROLLER, data, ephemeral=True)
        self.zookeeper.transact(broker.session, [bump, make])
        self.kafka = Duties(broker, self, raised, p.ZkVersion(epoch.version + 1))
        self.run_kafka(fatal, failover=True)

    def run_kafka(self, fatal: int | None = None, *, failover: bool = False) -> bool:
        """Let Kafka's controller carry out an event; return whether its broker lives on."""
        kafka = self.kafka
        assert kafka is not None
        lives_on = kafka.run(fatal, failover=failover)
        self._forgive(kafka)
        if not lives_on:
            self._kill(kafka.broker, keeps_log=True)
        return lives_on

    def _forgive(self, kafka: Duties) -> None:
        """
        Promise nothing where Kafka's controller makes a broker lead that lost its log before.

        A broker that restarts before its session ends stays in the ISR if no controller sees both
        its registrations. One that is elected after that takes it for in sync: that is Kafka's
        protocol. ``laws`` judges daemons that give the role back and know of the restart.
        """
        state = self.state()
        leader = None if state is None else self.brokers.get(state.leader)
        if (
            leader is not None
            and leader.leads(PARTITION)
            and PARTITION in leader.lost
            and leader.hosted[PARTITION].leader_epoch == state.leader_epoch
            and kafka.unknown.get(leader.id) == leader.epoch
        ):
            self.committed = ()

    def _depose_kafka(self) -> None:
        """End the tenure of Kafka's controller where the role is not its broker's any more."""
        kafka, controller = self.kafka, self.zookeeper.get(p.paths.CONTROLLER)
        if kafka is None:
            return
        owner = None if controller is None else controller.ephemeral_owner
        if owner != kafka.broker.session or not kafka.broker.is_alive:
            self.zookeeper.drop_watches(kafka.broker.session)
            self.kafka = None

    # --- what daemons request of Kafka's controller --------------------------------------------

    def _calls(self) -> Iterator[Action]:
        """Yield what happens to the first request of each kind: it arrives, or is in vain."""
        epoch = None if self.kafka is None else self.kafka.epoch
        is_first = True
        for call in self.calls:
            if call.results is not None:
                continue
            if call.epoch is None or call.epoch != epoch:
                yield ("call in vain", call.daemon, call.number)
            elif is_first:
                yield ("call", call.number)
                is_first = False

    def call(self, number: int) -> Call:
        """Return a request that is under way."""
        return next(c for c in self.calls if c.number == number)

    def _carry_out(self, call: Call, fault: Action | None) -> None:
        kafka = self.kafka
        assert kafka is not None
        results = carried_out(kafka, self.assignment(), self.zookeeper, call)
        if self.run_kafka(None if fault is None else fault[1]):
            # Nobody waits for an answer that is on its way to nobody.
            self._replace(call, None if call.daemon == NOBODY else call._replace(results=results))

    def _answer_call(self, call: Call, fault: Action | None, fate: Any = None) -> None:
        """Tell a daemon the answer, or what is known without one."""
        is_left = fate is p.AlterOutcome.UNKNOWN and call.results is None
        if fate is None:
            event = p.ReassignmentsAltered(call.results or (), p.BrokerId(0))
        else:
            event = unanswered(call, fate)
        self._replace(call, call._replace(daemon=NOBODY) if is_left else None)
        self._run(call.daemon, (event,), fault)

    def occupy(self) -> None:
        """Have the daemon wait for the answer to a request for another partition."""
        self.daemon(0).reactor._alter_queue._is_out = True
        epoch = None if self.kafka is None else self.kafka.epoch
        self._add_call(0, epoch, ())

    def _replace(self, call: Call, other: Call | None) -> None:
        others = (other if c is call else c for c in self.calls)
        self.calls = tuple(c for c in others if c is not None)

    def _add_call(self, daemon: int, epoch: int | None, entries: Any, results: Any = None) -> int:
        taken = {c.number for c in self.calls}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        self.calls = (*self.calls, Call(number, daemon, epoch, entries, results))
        return number

    def _take_calls(self, number: int, daemon: Daemon) -> None:
        """Take what a daemon's loop handed over, and what it forgot."""
        handed, daemon.reassignments.handed = daemon.reassignments.handed, []
        epoch = None if self.kafka is None else self.kafka.epoch
        for entries in handed:
            if entries is None:
                self._forget_calls(number)
                continue
            self.news.append(("handed", number, entries))
            self._add_call(number, epoch, entries)

    def _drop_calls(self) -> None:
        """Drop the requests to a controller that is none any more, where nobody waits."""
        epoch = None if self.kafka is None else self.kafka.epoch
        if self.calls:
            self.calls = tuple(
                c for c in self.calls if c.daemon != NOBODY or c.epoch == epoch is not None
            )

    def _forget_calls(self, number: int) -> None:
        """Let a daemon hear nothing of its requests any more."""
        self.calls = tuple(
            c._replace(daemon=NOBODY) if c.daemon == number else c
            for c in self.calls
            if c.daemon != number or c.results is None
        )

    def _produce(self, leader: Broker) -> None:
        replica, log = leader.hosted[PARTITION], leader.logs[PARTITION]
        if len(replica.isr) < self.shape.min_isr:
            return
        record = Record(replica.leader_epoch, self.next_value)
        self.next_value += 1
        leader.logs[PARTITION] = log._replace(records=(*log.records, record))
        leader.hosted[PARTITION] = replica._replace(waiting=(*replica.waiting, log.end))
        self.advance(leader)

    def _kill(self, broker: Broker, *, keeps_log: bool, within_s: float = SESSION_S) -> None:
        broker.end()
        broker.session_ends = self.clock.t + within_s
        for daemon in self.daemons:
            link = None if daemon is None else daemon.channels.links.get(broker.id)
            if daemon is not None and link is not None and link.answer is not None:
                daemon.channels.links[broker.id] = link._replace(answer=None, resent=True)
        if not keeps_log:
            broker.lose_logs()
            state = self.state()
            if all(PARTITION in self.brokers[m].lost for m in state.isr):
                self.committed = ()  # nothing is promised: every copy in sync is lost

    def _crash(self, number: int) -> None:
        daemon = self.daemons[number]
        if daemon is not None:
            daemon.channels.close_all()
            self.daemons[number] = None
            # Its session may stay a while; nobody hears its watches.
            self.zookeeper.drop_watches(daemon.store.session)
            self.late = tuple(late for late in self.late if late[0] != number)
            self._forget_calls(number)
            for broker in self.brokers.values():  # connections that waited for it break
                broker.asking = broker.asking._replace(is_sent=broker.asking.answer is not None)

    def start_daemon(self, number: int) -> None:
        """Start a daemon's process."""
        shape = self.shape
        daemon = Daemon(
            self.zookeeper,
            self.clock,
            shape.options,
            self.sent,
            self.strays,
            shape.min_isr,
            self.protocol,
        )
        if number < len(self.daemons):
            self.daemons[number] = daemon
        else:
            self.daemons.append(daemon)


def copied_events(events: Sequence[Any]) -> list[Any]:
    """Return events that share nothing that can be changed."""
    memo: dict[int, Any] = {}
    return [copied(event, memo) for event in events]


def _answered(broker: int, link: Link) -> Any:
    error, results = link.answer
    errors = dict(results)
    request = link.request
    if isinstance(request, p.LeaderAndIsr):
        return p.LeaderAndIsrAnswered(
            broker=p.BrokerId(broker),
            broker_epoch=p.BrokerEpoch(link.epoch),
            error=error,
            results=tuple(
                p.LeaderAndIsrResult(s.partition, s.leader_epoch, errors[s.partition])
                for s in request.states
                if s.partition in errors
            ),
            resent=link.resent,
        )
    if isinstance(request, p.StopReplica):
        return p.StopReplicaAnswered(
            broker=p.BrokerId(broker),
            broker_epoch=p.BrokerEpoch(link.epoch),
            error=error,
            results=tuple(
                p.StopReplicaResult(s.partition, s.leader_epoch, s.delete, errors[s.partition])
                for s in request.states
                if s.partition in errors
            ),
            resent=link.resent,
        )
    return p.UpdateMetadataAnswered(p.BrokerId(broker), p.BrokerEpoch(link.epoch), error)


def initial(shape: Shape) -> System:
    """Return a settled cluster: a topic, its leader, and daemons that have read everything."""
    system = System(shape)
    zookeeper = system.zookeeper
    for directory in DIRECTORIES:
        zookeeper.ensure(directory)
    zookeeper.ensure(p.paths.CONTROLLER_EPOCH, b"1")
    for broker in system.brokers.values():
        system.register(broker)
    replicas = tuple(p.BrokerId(r) for r in shape.before)
    topic_id = TOPIC_ID if system.has_topic_ids else None
    zookeeper.ensure(TOPIC_PATH, topic_znode(replicas, topic_id))
    state = p.encode_state(leader=replicas[0], leader_epoch=0, isr=replicas, controller_epoch=1)
    zookeeper.ensure(STATE_PATH, state)
    for entity, values in SETTINGS.items() if shape.throttle is not None else ():
        path = p.paths.entity_config_path(p.Entity(entity))
        zookeeper.ensure(path, p.encode_entity_config(values.items()))
    first = Record(0, 0)
    system.next_value = 1
    system.committed = (first,)
    for number in shape.before:
        broker = system.brokers[number]
        broker.controller_epoch = 2
        broker.logs[PARTITION] = Log((first,), 1)
        is_leader = number == replicas[0]
        ends = tuple((r, 1) for r in sorted(shape.before) if r != number) if is_leader else ()
        broker.hosted[PARTITION] = Replica(
            replicas[0], 0, 1, 0, replicas, replicas, is_fetching=not is_leader, ends=ends
        )
    for broker in system.brokers.values():
        broker.controller_epoch = 2
        broker.live = frozenset(system.brokers)
    system._elect(system.brokers[shape.brokers])
    system.serving = (0, replicas)
    for number in range(shape.daemons):
        system.start_daemon(number)
    settle(system)
    return system


def topic_znode(replicas: tuple[int, ...], topic_id: str | None = None) -> bytes:
    """Return the content of a new topic's znode."""
    assigned = p.PartitionAssignment(tuple(map(p.BrokerId, replicas)))
    return p.encode_topic(p.TopicAssignment({0: assigned}, p.ZkVersion(0), p.Zxid(0), topic_id))


def settle(system: System, most: int = 1000) -> None:
    """Let everything happen in order until only timers are left."""
    for _ in range(most):
        actor = next(system.actors(), None)
        if actor is None:
            system.sent.clear()
            system.news.clear()
            system.zookeeper.written.clear()
            return
        system.do(actor)
    raise AssertionError("the system does not settle")


def submit(system: System) -> None:
    """Submit the plan of the shape."""
    request(system, system.shape.target)


def request(system: System, replicas: tuple[int, ...]) -> None:
    """Submit a request for the partition."""
    target = tuple(p.BrokerId(r) for r in replicas)
    shape = system.shape
    options = p.RequestOptions(
        throttle=shape.throttle or None,
        tolerate_lagging=tuple(map(p.BrokerId, shape.tolerates)),
        elect_leaders=shape.elects,
    )
    data = p.encode_submission({PARTITION: target}, options)
    make = p.Make(p.paths.NEW_SUBMISSION, data, sequential=True)
    system.zookeeper.transact(p.NO_SESSION, [make])
    system.dispatch()
