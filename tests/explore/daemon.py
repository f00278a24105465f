"""
One daemon: the production loop, hosted on ports whose state is data.

Reads wait in lanes, one for each thread of the real store. The explorer decides when the server
answers one and when the answer arrives; an answer that was not given yet is given on arrival. A
request to a broker waits on a link, or its answer does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tests.explore import production as p
from tests.explore.alter_requests import DaemonReassignments
from tests.explore.canonical import NUMBER_BASE
from tests.explore.isr_requests import DaemonEndpoint
from tests.explore.zookeeper import Reader, Watch, Znode, ZooKeeper

CONTROLLER_ID: Final = p.BrokerId(1000000)
LOCK: Final = f"{p.paths.LEADER}/lock"
LANES: Final = (
    "watch", "levels", "bulk", "again", "configs", "settings", "claims", "alter", "endpoint",
)  # fmt: skip


class DiedError(Exception):
    """The process ends here."""


class Claim(NamedTuple):
    """A claim: its epoch, and the version that fences its writes."""

    epoch: int
    version: int


class Link(NamedTuple):
    """The connection to a broker, with the request in flight."""

    epoch: int
    request: Any = None
    answer: Any = None
    """The broker's answer on its way back; None while the request is on its way."""
    resent: bool = False


class Clock:
    """The time of all daemons: it moves when a timer fires."""

    __slots__ = ("t",)

    def __init__(self) -> None:
        self.t = 1000.0

    def now(self) -> p.Instant:
        """Return the present instant."""
        return p.Instant(self.t)


class Points(p.Failpoints):
    """The failpoints of the loop: counted, and one of them fatal."""

    __slots__ = ("fatal", "passed")

    def __init__(self) -> None:
        self.passed = 0
        self.fatal: int | None = None

    def _pass(self) -> None:
        if self.fatal == self.passed:
            raise DiedError
        self.passed += 1

    def committing(self, _view: Any, _changes: Iterable[Any]) -> None:
        """Changes are about to be written."""
        self._pass()

    def committed(self, _view: Any, _changes: Iterable[Any]) -> None:
        """Changes are durable."""
        self._pass()

    def sending(self, _request: Any) -> None:
        """A request is about to be sent."""
        self._pass()

    def sent(self, _broker: int, _request: Any) -> None:
        """A request was sent."""
        self._pass()

    def altering(self) -> None:
        """Requests to the cluster's controller are about to be handed over, or were."""
        self._pass()

    def placing(self) -> None:
        """Requests for log directories are about to be handed over."""

    def placed(self) -> None:
        """Requests for log directories were handed over."""


class DaemonStore:
    """``reactor.ports.Store``: writes are immediate, reads wait in lanes."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        lanes: dict[str, tuple[Any, ...]],
        min_isr: int,
        protocol: str,
    ) -> None:
        self.zookeeper = zookeeper
        self.min_isr = min_isr
        self.protocol = protocol
        """What brokers say of their inter-broker protocol."""
        self.lanes = lanes
        self.session = zookeeper.open_session()
        self.claim: Claim | None = None
        self.tried: Claim | None = None
        self.claiming = False
        self.leadership: int | None = None
        self.generation = 0
        self.families: frozenset[str] = frozenset()
        self.watched_topics: set[str] = set()
        self.watched_states: set[p.TopicPartition] = set()
        self.multis = 0
        """Multis of the present cycle."""
        self.breaks: tuple[int, str] | None = None
        """The multi of this cycle at which the connection breaks, before or after it is written."""
        self.refuses: int | None = None
        """The multi of this cycle that ZooKeeper refuses for another reason than a race."""
        self.is_resigning = False
        """Whether the role is given back in this cycle."""

    def form(self) -> Any:
        """Return the canonical form of what is not in lanes or in the server."""
        return (
            self.session,
            self.claim,
            self.tried,
            self.claiming,
            self.leadership,
            self.generation,
            tuple(sorted(self.families)),
            tuple(sorted(self.watched_topics)),
            tuple(sorted(self.watched_states)),
        )

    # --- writes --------------------------------------------------------------------------------

    def commit(self, multis: Sequence[Sequence[Any]]) -> list[Any]:
        """Write the multis in order, behind the fences."""
        fences: list[Any] = []
        if self.claim is not None:
            fences.append(p.Check(p.paths.CONTROLLER_EPOCH, p.ZkVersion(self.claim.version)))
        elif not p.is_paperwork(multis):
            raise p.ControllerMovedError("the controller role is not ours")
        if self.leadership is None:
            raise p.ControllerMovedError("another daemon leads")
        fences.append(p.Check(p.paths.EPOCH, p.ZkVersion(self.leadership)))
        results: list[Any] = []
        for multi in multis:
            number, self.multis = self.multis, self.multis + 1
            if self.breaks == (number, "before"):
                self._break()
            results.append(self._write(fences, multi, is_refused=number == self.refuses))
            if self.breaks == (number, "after"):
                self._break()
        return results

    def _break(self) -> None:
        self.reconnect()
        raise p.CommitUnknownError("the connection broke")

    def reconnect(self) -> None:
        """Fire every watch and repeat unanswered requests, as a client does that reconnects."""
        self.zookeeper.fired += self.zookeeper.drop_watches(self.session)

    def _write(self, fences: list[Any], multi: Sequence[Any], *, is_refused: bool) -> Any:
        try:
            for operation in multi:
                if isinstance(operation, p.Create | p.CreateSequential):
                    self._make_parents(operation.path)
            self.zookeeper.transact(self.session, fences if is_refused else [*fences, *multi])
        except p.SessionExpiredError as error:
            raise p.SessionLostError("the ZooKeeper session expired") from error
        except p.TransactionFailedError as error:
            if error.index < len(fences):
                raise p.ControllerMovedError("another controller is in charge") from error
            return p.Rejected(error.index - len(fences), error.error)
        return p.Rejected(0, p.WriteError.OTHER) if is_refused else p.Committed()

    def _make_parents(self, path: str) -> None:
        if path.startswith(p.paths.CONFIGS):
            return
        topic = path.removeprefix(f"{p.paths.TOPICS}/").partition("/")[0]
        is_in_topic = path.startswith(f"{p.paths.TOPICS}/")
        if not is_in_topic or self.zookeeper.get(p.paths.topic_path(topic)) is not None:
            self.zookeeper.ensure(path.rpartition("/")[0])

    # --- reads: requests -----------------------------------------------------------------------

    def put(self, lane: str, item: tuple[Any, ...]) -> None:
        """Add a request or an answer to a lane."""
        self.lanes[lane] = (*self.lanes.get(lane, ()), item)

    def read(self, znode: Any) -> None:
        """Read a family."""
        lane = "bulk" if znode in p.OWN_RECORDS else "levels"
        self.families |= {str(znode)}
        if ("read", str(znode)) not in self.lanes.get(lane, ()):
            self.put(lane, ("read", str(znode)))

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Read topics."""
        self.generation = read_generation
        self.watched_topics.update(topics)
        self.put("bulk", ("topics", tuple(topics), read_generation))

    def read_states(self, partitions: Sequence[Any], *, watch: bool, read_generation: int) -> None:
        """Read partition states."""
        self.generation = read_generation
        self.put("bulk", ("states", tuple(partitions), watch, read_generation))

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """List the znodes of topics."""
        self.put("bulk", ("trees", tuple(topics)))

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests."""
        self.put("levels", ("submissions", tuple(names)))

    def read_accepted(self, request: Any) -> None:
        """Read accepted entries."""
        self.put("bulk", ("accepted", request))

    def read_entity_configs(self, entities: Sequence[Any]) -> None:
        """Read dynamic settings."""
        self.put("bulk", ("entities", tuple(entities)))

    def begin_tenure(self) -> None:
        """Work as the leader without the role."""
        if self.leadership is None:
            self.put("claims", ("events", (p.ClaimFailed("another daemon leads"),)))
        else:
            epoch = p.ControllerEpoch(self.leadership)
            self.put("claims", ("events", (p.ControllerClaimed(epoch),)))

    def claim_controller(self, *, at_once: bool = False) -> None:
        """Claim the role."""
        self.claiming = True
        self.put("claims", ("claim", at_once, False))

    def resign_controller(self) -> None:
        """Give the role back."""
        claim = self.claim
        if claim is None:
            self.put("claims", ("events", (p.Deposed("the controller role was not ours"),)))
            return
        self.claim, self.is_resigning = None, True
        self.put("claims", ("resign", claim.version))

    # --- reads: the server ---------------------------------------------------------------------

    def served(  # noqa: C901, PLR0911, PLR0912 - one arm per request
        self, item: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Answer a request at the server, now."""
        reader = Reader(self.zookeeper, self.session)
        made: Any = reader
        reads = p.SimReads(made, made, made, made)
        match item:
            case ("read", family):
                return ("events", self._family(reads, p.ZnodeFamily(family)))
            case ("topics", topics, generation):
                reads._watched_topics = self.watched_topics
                read = {topic: reads._topic(topic) for topic in topics}
                return ("events", (p.TopicsRead(read, generation),))
            case ("states", partitions, watch, generation):
                reads._watched_states = self.watched_states
                states = {q: reads._state(q, watch=watch) for q in partitions}
                return ("armed", states, generation, watch)
            case ("trees", topics):
                trees = {topic: reads._tree(topic) for topic in topics}
                return ("events", (p.TopicTreesRead(trees),))
            case ("submissions", names):
                return ("events", (reads._requests.read(names),))
            case ("accepted", request):
                return ("events", (reads._requests.accepted_of(request),))
            case ("entities", entities):
                return ("events", (reads._requests.entity_configs(entities),))
            case ("claim", at_once, is_due):
                return self._claim(at_once=at_once, is_due=is_due)
            case ("resign", version):
                return self._resign(version)
            case ("look",):
                return self._look()
            case ("stand",):
                return self._stand()
            case ("probe",):
                has_controller = self._node(p.paths.CONTROLLER) is not None
                problem = None if has_controller else "there is no controller"
                return ("events", (p.ReassignmentsProbed(problem),))
            case ("describe", topics, asked):
                config = p.TopicConfig(self.min_isr, unclean_leader_election=False)
                return ("events", (p.TopicConfigsRead(dict.fromkeys(topics, config), asked),))
            case ("setting", broker, epoch):
                told = p.BrokerSettingsRead(
                    broker, epoch, deletes_topics=True, protocol=self.protocol
                )
                return ("events", (told,))
            case _:
                return item

    def _family(self, reads: p.SimReads, family: p.ZnodeFamily) -> tuple[Any, ...]:
        event = reads._readers[family]()
        if isinstance(event, p.CancellationRead) and event.cancellation is not None:
            return (*(reads._readers[other]() for other in p.CANCELLABLE), event)
        return (event,)

    def _node(self, path: str) -> Znode | None:
        return self.zookeeper.get(path)

    def _leads(self) -> list[Any]:
        if self.leadership is None:
            return []
        return [p.Check(p.paths.EPOCH, p.ZkVersion(self.leadership))]

    def _claim(self, *, at_once: bool, is_due: bool) -> tuple[Any, ...]:
        controller, epoch = self._node(p.paths.CONTROLLER), self._node(p.paths.CONTROLLER_EPOCH)
        if epoch is None:
            return self._claim_failed("/controller_epoch cannot be read")
        known = int(epoch.data)
        is_ours = controller is not None and controller.ephemeral_owner == self.session
        if is_ours and self.tried is not None and self.tried.epoch == known:
            return self._claimed(self.tried)
        if self.leadership is None or not self.zookeeper.is_open(self.session):
            return self._claim_failed("another daemon leads")
        if controller is not None and not at_once and not (is_ours and is_due):
            return self._replace(controller, epoch)
        claim = Claim(known + 1, epoch.version + 1)
        operations: list[Any] = [
            *self._leads(),
            p.SetData(
                p.paths.CONTROLLER_EPOCH, str(claim.epoch).encode(), p.ZkVersion(epoch.version)
            ),
        ]
        if controller is not None and is_ours:
            operations.append(p.Check(p.paths.CONTROLLER, p.ZkVersion(controller.version)))
        else:
            operations += self._taking(controller)
        self.tried = claim
        try:
            self.zookeeper.transact(self.session, operations)
        except p.TransactionFailedError:
            return self._claim_failed("another daemon leads")
        return self._claimed(claim)

    def _replace(self, controller: Znode, epoch: Znode) -> tuple[Any, ...]:
        if controller.ephemeral_owner != self.session:
            unmoved = p.Check(p.paths.CONTROLLER_EPOCH, p.ZkVersion(epoch.version))
            try:
                self.zookeeper.transact(
                    self.session, [*self._leads(), unmoved, *self._taking(controller)]
                )
            except p.TransactionFailedError:
                return self._claim_failed("another daemon leads")
        return ("again",)

    def _taking(self, controller: Znode | None) -> list[Any]:
        operations: list[Any] = []
        if controller is not None:
            operations.append(p.Delete(p.paths.CONTROLLER, p.ZkVersion(controller.version)))
        data = p.encode_controller(CONTROLLER_ID, 0)
        return [*operations, p.Make(p.paths.CONTROLLER, data, ephemeral=True)]

    def _claim_failed(self, reason: str) -> tuple[Any, ...]:
        controller = self._node(p.paths.CONTROLLER)
        if controller is not None and controller.ephemeral_owner == self.session:
            delete = p.Delete(p.paths.CONTROLLER, p.ZkVersion(controller.version))
            self.zookeeper.transact(self.session, [delete])
        return ("claim_failed", reason)

    def _claimed(self, claim: Claim) -> tuple[Any, ...]:
        self.zookeeper.exists(p.paths.CONTROLLER, (self.session, "claim"))
        return ("claimed", claim, self.session)

    def _look(self) -> tuple[Any, ...]:
        controller = self._node(p.paths.CONTROLLER)
        if controller is not None and controller.ephemeral_owner == self.session:
            self.zookeeper.exists(p.paths.CONTROLLER, (self.session, "claim"))
            return ("events", ())
        return ("deposed", "/controller is not ours any more", False)

    def _resign(self, version: int) -> tuple[Any, ...]:
        controller = self._node(p.paths.CONTROLLER)
        if controller is not None and controller.ephemeral_owner == self.session:
            fence = p.Check(p.paths.CONTROLLER_EPOCH, p.ZkVersion(version))
            delete = p.Delete(p.paths.CONTROLLER, p.ZkVersion(controller.version))
            with suppress(p.TransactionFailedError):  # the claim is over
                self.zookeeper.transact(self.session, [fence, delete])
        return ("deposed", "resigned", True)

    def _stand(self) -> tuple[Any, ...]:
        if not self.zookeeper.is_open(self.session):
            return ("events", ())
        self.zookeeper.ensure(p.paths.LEADER)
        self.zookeeper.ensure(p.paths.EPOCH, b"0")
        holder = self._node(LOCK)
        if holder is not None and holder.ephemeral_owner != self.session:
            self.zookeeper.get(LOCK, (self.session, "leader"))
            return ("events", ())
        epoch = self._node(p.paths.EPOCH)
        assert epoch is not None
        version = epoch.version
        if holder is None:
            bump = p.SetData(p.paths.EPOCH, str(int(epoch.data) + 1).encode(), p.ZkVersion(version))
            self.zookeeper.transact(self.session, [p.Make(LOCK, ephemeral=True), bump])
            version += 1
        return ("won", version, self.session)

    # --- reads: the client ---------------------------------------------------------------------

    def heard(  # noqa: C901, PLR0911, PLR0912 - one arm per answer
        self, answer: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return the events of an answer that arrives at the client."""
        match answer:
            case ("events", events):
                return tuple(events)
            case ("armed", states, generation, watch):
                armed = frozenset(self.watched_states.intersection(states)) if watch else None
                return (p.StatesRead(states, generation, armed),)
            case ("again",):
                self.put("claims", ("claim", False, True))
                return ()
            case ("claimed", claim, session):
                self.claiming = False
                if session != self.session:
                    return (p.ClaimFailed("the session ended meanwhile"),)
                self.claim = claim
                return (p.ControllerClaimed(p.ControllerEpoch(claim.epoch)),)
            case ("claim_failed", reason):
                self.claiming = False
                return (p.ClaimFailed(reason),)
            case ("deposed", reason, is_forced):
                if self.claim is None and not is_forced:
                    return ()
                self.claim = None
                return (p.Deposed(reason),)
            case ("won", version, session):
                if session == self.session:
                    for znode in p.OWN_RECORDS:
                        self.read(znode)
                    self.put("bulk", ("lead", version, session))
                return ()
            case ("lead", version, session):
                if session != self.session:
                    return ()
                self.leadership = version
                return (p.LeadershipGained(),)
            case _:
                raise AssertionError(answer)

    def notified(self, watch: Watch) -> None:
        """Take note of a watch that fired."""
        match watch.key:
            case "topic":
                topic = watch.path.rpartition("/")[2]
                item = ("topics", (topic,), self.generation)
                if item not in self.lanes.get("again", ()):
                    self.put("again", item)
            case "state":
                _, _, _, topic, _, number, _ = watch.path.split("/")
                partition = p.TopicPartition(topic, int(number))
                self.watched_states.discard(partition)
                self.put("watch", ("events", (p.StateChanged(partition),)))
            case "claim":
                self.put("claims", ("look",))
            case "leader":
                self.put("claims", ("stand",))
            case family:
                self.read(p.ZnodeFamily(family))

    def expired(self) -> list[Any]:
        """Take note that the session is over, and open another; return the events."""
        events: list[Any] = []
        self.tried = None
        if self.claiming:
            self.claiming = False
            events.append(p.ClaimFailed("the session ended meanwhile"))
        self.claim = None
        events.append(p.Deposed("the ZooKeeper session expired"))
        if self.leadership is not None:
            self.leadership = None
            events.append(p.LeadershipLost("the ZooKeeper session expired"))
        self.session = self.zookeeper.open_session()
        asked = {lane: items for lane, items in self.lanes.items() if lane in {"bulk", "levels"}}
        self.lanes.clear()
        for family in sorted(self.families):
            self.read(p.ZnodeFamily(family))
        if self.watched_topics:
            self.put("again", ("topics", tuple(sorted(self.watched_topics)), self.generation))
        for partition in sorted(self.watched_states):
            self.put("watch", ("events", (p.StateChanged(partition),)))
        self.watched_states.clear()
        for lane, items in asked.items():
            for item in items:
                if item[0] in {"states", "trees", "submissions", "accepted", "entities"}:
                    self.put(lane, item)
        self.put("claims", ("stand",))
        return events


class DaemonChannels:
    """``reactor.ports.Channels``: one link per broker."""

    def __init__(self, sent: list[Any], strays: list[Any]) -> None:
        self.links: dict[int, Link] = {}
        self.sent = sent
        """Requests handed over since the laws last looked."""
        self.strays = strays
        """Requests on their way over connections that were closed."""

    def open(self, broker: Any) -> None:
        """Connect to a registration of a broker."""
        known = self.links.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            self.close(broker.id)
            self.links[broker.id] = Link(broker.epoch)

    def close(self, broker: int) -> None:
        """Disconnect; what is on its way may still arrive."""
        link = self.links.pop(broker, None)
        if link is not None and link.request is not None and link.answer is None:
            self.strays.append((broker, link.epoch, link.request))

    def close_all(self) -> None:
        """Disconnect from every broker."""
        for broker in list(self.links):
            self.close(broker)

    def send(self, broker: int, request: Any) -> None:
        """Send the next request."""
        link = self.links.get(broker)
        if link is not None:
            assert link.request is None, "two requests in flight"
            self.sent.append((broker, link.epoch, request))
            self.links[broker] = link._replace(request=request)


class DaemonConfigs:
    """``reactor.ports.TopicConfigs`` and ``BrokerSettings``."""

    def __init__(self, store: DaemonStore) -> None:
        self.store = store

    def describe(self, topics: Sequence[str], asked: Any) -> None:
        """Ask for the settings of topics: one request is under way, and the next one waits."""
        lane = self.store.lanes.get("configs", ())
        merged = tuple(dict.fromkeys((*(lane[1][1] if len(lane) > 1 else ()), *topics)))
        self.store.lanes["configs"] = (*lane[:1], ("describe", merged, asked))

    def describe_brokers(self, brokers: Sequence[Any]) -> None:
        """Ask for the settings of brokers."""
        for broker in brokers:
            self.store.put("settings", ("setting", broker.id, broker.epoch))


class Daemon:
    """One process, from its start to its end."""

    def __init__(  # noqa: PLR0917 - the parts it is composed of
        self,
        zookeeper: ZooKeeper,
        clock: Clock,
        options: p.Options,
        sent: list[Any],
        strays: list[Any],
        min_isr: int,
        protocol: str,
    ) -> None:
        self.lanes: dict[str, tuple[Any, ...]] = {}
        self.store = DaemonStore(zookeeper, self.lanes, min_isr, protocol)
        self.endpoint = None if options.endpoint is None else DaemonEndpoint()
        self.reassignments = DaemonReassignments(self.store)
        self.channels = DaemonChannels(sent, strays)
        self.configs = DaemonConfigs(self.store)
        self.points = Points()
        self.reactor = p.Reactor(
            view=p.ClusterView(options=options),
            store=self.store,
            channels=self.channels,
            configs=self.configs,
            broker_settings=self.configs,
            reassignments=self.reassignments,
            endpoint=self.endpoint,
            clock=clock,
            observer=p.SilentObserver(),
            failpoints=self.points,
        )
        numbers = self.reactor.view.topics_process
        numbers.config_request = numbers.config_request._replace(number=NUMBER_BASE)
        self.reactor.put(p.WallClockRead(0.0))
        self.reactor.start()
        self.store.put("claims", ("stand",))

    def form(self) -> Any:
        """Return what the canonical form of a daemon consists of."""
        return self.lanes, self.store, self.channels.links, self.endpoint, self.reactor

    @property
    def is_serving(self) -> bool:
        """Whether brokers that ask it are heard."""
        return self.endpoint is not None and self.endpoint.tenure is not None

    def run(self, events: Collection[Any] = ()) -> None:
        """Pass events on and run a cycle."""
        self.points.passed = self.store.multis = 0
        for event in events:
            self.reactor.put(event)
        self.reactor.run_cycle()
