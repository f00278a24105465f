"""
A whole simulated cluster: brokers, controllers, producer, daemons, checker, one event queue.

Here things are wired and time passes; what goes wrong is decided by the test or by ``faults``.
Plugging in the daemon takes a function that builds its loop from ``Ports``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Drains, Limits, Pauses, Quiesce
from controller.core.requests.submissions import (
    NO_DIRS,
    Cancellation,
    CancelScope,
    NamedDirs,
    RequestOptions,
    Window,
)
from controller.errors import ReassignmentConflictError
from controller.znodes import paths
from controller.znodes.cancellations import combine, encode_cancellation
from controller.znodes.operator_controls import (
    decode_pauses,
    encode_drains,
    encode_limits,
    encode_pauses,
    encode_throttle,
)
from controller.znodes.plans import encode_legacy_plan, encode_submission
from controller.znodes.topics import encode_topic
from tests.sim.brokers import SimBroker
from tests.sim.daemons import Build, SimDaemon
from tests.sim.decoded import cancellation_of, read_state, read_topic
from tests.sim.fabric import Fabric
from tests.sim.invariants import Invariants
from tests.sim.kafka_controller import KafkaController
from tests.sim.lanes import LATE_S
from tests.sim.producers import SimProducer
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import NO_SESSION, Make, Put, SimZooKeeper, Transaction

DIRECTORIES: Final = (
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.DELETIONS,
    paths.ISR_NOTIFICATIONS,
    paths.LOG_DIR_EVENTS,
    "/config/topics",
    "/config/brokers",
    paths.CONFIG_CHANGES,
)
WITHOUT_ID: Final = 0.25
"""How likely a topic is created by a tool of before 2.8, which writes no id."""
AGAIN_S: Final = 0.003
"""The time after which a topic is created again at the latest, when the former one is gone."""
SETTLED_S: Final = 60.0
"""The time in which a cluster elects its controller and the leaders of new topics."""


class NotReachedError(AssertionError):
    """A condition was not met in time."""


class World:
    """A cluster with running brokers, and the daemons added to it."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 5,
        has_kafka_controllers: bool = True,
        produce_every_s: float = 0.2,
        schedule: Schedule | None = None,
        has_endpoint: bool = False,
    ) -> None:
        """
        Start the brokers, with ids from 1.

        Args:
            seed: Decides the whole history.
            brokers: The number of brokers.
            has_kafka_controllers: Whether brokers stand for election as controller.
            produce_every_s: The interval at which the producer sends a record to every partition.
            schedule: The source of time and chance; by default one that the seed decides.
            has_endpoint: Whether daemons serve brokers, as from protocol 2.7.

        """
        self.seed = seed
        self.schedule = schedule or Schedule(seed)
        self.zookeeper = SimZooKeeper(lambda: int(1000 * self.schedule.unix_s()))
        self.fabric = Fabric(self.schedule, self.zookeeper, has_endpoint=has_endpoint)
        self.invariants = Invariants(self.fabric)
        self.invariants.follow(self._hears_since)
        self.producer = SimProducer(self.fabric, interval_s=produce_every_s)
        self.kafka_controllers: dict[BrokerId, KafkaController] = {}
        self.daemons: list[SimDaemon] = []
        self.cancelled: dict[RequestId, list[Cancellation]] = {}
        """What operators wanted to cancel, and when: by the cancellation that it became part of."""
        self.quiesced: dict[RequestId, list[Quiesce]] = {}
        """Every quiesce by its id, with each deadline that it had."""
        self._pauses = Pauses()
        self._created_again: dict[str, Callable[[], None]] = {}
        """What creates a topic again when its marker is gone, by the marker's path."""
        self.zookeeper.listeners.append(self._transacted)
        for directory in DIRECTORIES:
            self.zookeeper.ensure(directory)
        self.zookeeper.ensure(paths.CONTROLLER_EPOCH, b"0")
        for number in range(1, brokers + 1):
            broker = SimBroker(BrokerId(number), self.fabric, rack=f"rack{number % 3}")
            self.fabric.brokers[broker.id] = broker
            if has_kafka_controllers:
                self.kafka_controllers[broker.id] = KafkaController(broker, self.fabric)
            broker.start()

    # --- time ----------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The present instant, in seconds."""
        return self.schedule.now()

    def step(self) -> bool:
        """Run the next event; False when nothing is to come."""
        return self.schedule.step()

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (at := self.schedule.next_at()) is not None and at <= end:
            self.step()
        self.schedule.skip_to(end)

    def run_until(
        self, predicate: Callable[[], bool], *, within_s: float, look_every_s: float = 0.0
    ) -> None:
        """
        Let time pass until something is so.

        Args:
            predicate: What is waited for.
            within_s: When it has to be so.
            look_every_s: How often it is looked at; after every event by default.

        Raises:
            NotReachedError: it was not so within that time, or nothing is to come any more.

        """
        end = self.now + within_s
        while not predicate():
            until = self.now + look_every_s
            while (at := self.schedule.next_at()) is not None and at < min(until, end):
                self.step()
            if at is None or at > end:
                name = getattr(predicate, "__name__", repr(predicate))
                raise NotReachedError(f"seed {self.seed}: no {name} within {within_s} s")
            self.step()

    # --- the cluster ---------------------------------------------------------------------------

    @property
    def brokers(self) -> dict[BrokerId, SimBroker]:
        """The brokers, dead or alive."""
        return self.fabric.brokers

    def create_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        *,
        min_insync_replicas: int = 1,
        unclean_leader_election: bool = False,
        produce: bool = True,
    ) -> None:
        """
        Create a topic as CreateTopics does: settings and znode; a controller does the rest.

        Before that, an operator deletes what brokers kept of an earlier topic with the name. A tool
        of before 2.8 writes no topic id.
        """
        for broker in self.brokers.values():
            broker.discard_strays(name)
        self.fabric.configs[name] = TopicConfig(min_insync_replicas, unclean_leader_election)
        self.fabric.former_configs.pop(name, None)
        partitions = {n: PartitionAssignment(_ids(r)) for n, r in assignment.items()}
        topic_id = f"{self.zookeeper.zxid:022}" if self.fabric.has_topic_ids else None
        if topic_id is not None and self.schedule.random.random() < WITHOUT_ID:
            topic_id = None
            self.fabric.strike("topic_without_id")
        data = encode_topic(TopicAssignment(partitions, ZkVersion(0), Zxid(0), topic_id))
        self.zookeeper.transact(NO_SESSION, [Make(paths.topic_path(name), data)])
        if produce:
            self.producer.partitions += [TopicPartition(name, n) for n in assignment]

    def add_partitions(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Add partitions to a topic, as CreatePartitions does."""
        self.assign(name, {n: PartitionAssignment(_ids(r)) for n, r in assignment.items()})
        self.producer.partitions += [TopicPartition(name, n) for n in assignment]

    def assign(self, name: str, assignment: Mapping[int, PartitionAssignment]) -> None:
        """Write assignments into a topic znode, as others than the daemon do."""
        topic = self.topic(name)
        after = replace(topic, partitions={**topic.partitions, **assignment})
        self.zookeeper.transact(NO_SESSION, [Put(paths.topic_path(name), encode_topic(after))])

    def delete_topic(self, name: str) -> None:
        """Queue a topic for deletion."""
        self.producer.partitions = [p for p in self.producer.partitions if p.topic != name]
        self.zookeeper.transact(NO_SESSION, [Make(f"{paths.DELETIONS}/{name}")])

    def delete_topic_for(self, name: str, create: Callable[[], None]) -> None:
        """
        Queue a topic for deletion, and create another one of its name when it is gone.

        Daemons hear late of it in many cases: others than the listing are read first.
        """
        self.delete_topic(name)
        self._created_again[paths.deletion_path(name)] = create

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written if self._created_again else ():
            if written.after is None and written.path in self._created_again:
                create = partial(self._create_again, written.path)
                self.schedule.call_between(0.0, AGAIN_S, create)
                for daemon in self.daemons:
                    late_s = self.schedule.random.uniform(-LATE_S, LATE_S)
                    daemon.store.lanes.read_topics_at(self.now + late_s)

    def _create_again(self, marker: str) -> None:
        create = self._created_again.pop(marker, None)
        name = marker.rpartition("/")[2]
        if create is not None and self.zookeeper.get(paths.topic_path(name)) is None:
            create()

    def submit_plan(
        self, plan: Mapping[TopicPartition, Sequence[int]], log_dirs: NamedDirs = NO_DIRS
    ) -> None:
        """Write ``/admin/reassign_partitions``, as the stock tool does."""
        data = encode_legacy_plan({p: _ids(r) for p, r in plan.items()}, log_dirs)
        self.zookeeper.transact(NO_SESSION, [Make(paths.LEGACY_PLAN, data)])

    def submit_request(
        self,
        entries: Mapping[TopicPartition, Sequence[int]],
        options: RequestOptions | None = None,
        log_dirs: NamedDirs = NO_DIRS,
    ) -> RequestId:
        """Submit a request, as a client does; return its id."""
        wanted = {p: _ids(r) for p, r in entries.items()}
        options = options or RequestOptions()
        data = encode_submission(wanted, options, log_dirs=log_dirs)
        self.zookeeper.ensure(paths.REQUESTS)
        make = Make(paths.NEW_SUBMISSION, data, sequential=True)
        (path,) = self.zookeeper.transact(NO_SESSION, [make])
        return options.part_of or RequestId(path.rpartition("/")[2])

    def cancel(
        self,
        *,
        requests: Iterable[RequestId] = (),
        topics: Iterable[str] = (),
        partitions: Iterable[TopicPartition] = (),
        scope: CancelScope = CancelScope.IN_FLIGHT,
        throttle: int | None = None,
        window: Window | None = None,
    ) -> bool:
        """
        Cancel everything in progress, or what is selected, as the command does.

        Return False where an earlier cancellation has to be selected first: operators retry.
        """
        wanted = Cancellation(
            ZkVersion(0),
            Zxid(0),
            0,
            frozenset(requests),
            frozenset(topics),
            frozenset(partitions),
            scope,
            throttle=throttle,
            window=window,
        )
        znode = self.zookeeper.get(paths.CANCEL)
        found = None if znode is None else cancellation_of(znode)
        part = "" if found is None else paths.part_path(found.request, str(found.version))
        try:
            whole = combine(
                found, wanted, is_selected=bool(part) and self.zookeeper.get(part) is not None
            )
        except ReassignmentConflictError:
            return False
        self._turn(paths.CANCEL, encode_cancellation(whole))
        znode = self.zookeeper.get(paths.CANCEL)
        if znode is not None:
            written = cancellation_of(znode)
            own = replace(wanted, czxid=written.czxid, mzxid=written.mzxid)
            self.cancelled.setdefault(own.request, []).append(own)
        return True

    def submit_queue(
        self, plan: Mapping[TopicPartition, Sequence[int]], log_dirs: NamedDirs = NO_DIRS
    ) -> None:
        """Write ``/admin/reassign_partitions_queue``."""
        data = encode_legacy_plan({p: _ids(r) for p, r in plan.items()}, log_dirs)
        self.zookeeper.transact(NO_SESSION, [Make(paths.QUEUE, data)])

    def disable(self) -> None:
        """Throw the kill switch."""
        self.zookeeper.ensure(paths.KILL_SWITCH)

    def enable(self) -> None:
        """Take the kill switch back."""
        self.zookeeper.remove_tree(paths.KILL_SWITCH)

    def pause(self, pauses: Pauses) -> None:
        """Set the pauses: of everything, of requests or of brokers; a quiesce stays."""
        self._pauses = replace(pauses, quiesce=self._pauses.quiesce)
        self._turn(paths.PAUSES, encode_pauses(self._pauses))

    def quiesce(self, deadline_ms: int | None) -> Quiesce:
        """End all work, as the command does; return the quiesce that is in force."""
        since_ms = int(1000 * self.schedule.unix_s())
        wanted = Quiesce("storm", "somebody", since_ms, deadline_ms)
        self._pauses = self._pauses.quiescing(wanted)
        found = self._pauses.quiesce or wanted
        self.quiesced.setdefault(found.request, []).append(found)
        self._turn(paths.PAUSES, encode_pauses(self._pauses))
        return found

    @property
    def is_quiesced(self) -> bool:
        """Whether a quiesce is in ZooKeeper."""
        znode = self.zookeeper.get(paths.PAUSES)
        read = Pauses() if znode is None else decode_pauses(znode.data)
        return isinstance(read, Pauses) and read.quiesce is not None

    def resume(self, quiesce: Quiesce) -> None:
        """End a quiesce that is in force, with the general pause."""
        found = self._pauses.quiesce
        if found is not None and found.request == quiesce.request:
            self._pauses = self._pauses.removing()
            self._turn(paths.PAUSES, encode_pauses(self._pauses))

    def forget_pauses(self) -> None:
        """Delete the pauses, and the quiesce with them."""
        self._pauses = Pauses()
        self.zookeeper.remove_tree(paths.PAUSES)

    def limit(self, limits: Limits) -> None:
        """Set the limits."""
        self._turn(paths.LIMITS, encode_limits(limits))

    def throttle(self, bytes_per_s: int) -> None:
        """Set the throttle for all."""
        self._turn(paths.THROTTLE, encode_throttle(bytes_per_s))

    def drain(self, drains: Drains) -> None:
        """Set the drained brokers; without any, no drain stands."""
        if drains.brokers:
            self._turn(paths.DRAINS, encode_drains(drains))
        else:
            self.zookeeper.remove_tree(paths.DRAINS)

    def _turn(self, path: str, data: bytes) -> None:
        """Create a znode or replace its data, as the command line does."""
        if self.zookeeper.get(path) is None:
            self.zookeeper.ensure(path, data)
        else:
            self.zookeeper.transact(NO_SESSION, [Put(path, data)])

    def request_preferred_election(self, partitions: Sequence[TopicPartition]) -> None:
        """Write ``/admin/preferred_replica_election``, as the stock tool did."""
        listed = [{"topic": p.topic, "partition": p.partition} for p in partitions]
        data = json.dumps({"version": 1, "partitions": listed}).encode()
        self.zookeeper.transact(NO_SESSION, [Make(paths.PREFERRED_ELECTION, data)])

    def remove_controller(self) -> None:
        """Delete ``/controller``, as operators do to move the role."""
        self.zookeeper.remove_tree(paths.CONTROLLER)

    def seize_role(self) -> None:
        """Delete ``/controller`` and let a broker become the controller first."""
        self.remove_controller()
        controllers = list(self.kafka_controllers.values())
        self.schedule.random.shuffle(controllers)
        any(controller.elect_at_once() for controller in controllers)

    def active_kafka_controller(self) -> KafkaController | None:
        """Return the broker's controller that holds the role, if one does."""
        znode = self.zookeeper.get(paths.CONTROLLER)
        for controller in self.kafka_controllers.values():
            if znode is not None and controller.holds(znode.ephemeral_owner):
                return controller
        return None

    def topic(self, name: str) -> TopicAssignment:
        """Return what a topic znode says."""
        znode = self.zookeeper.get(paths.topic_path(name))
        if znode is None:
            raise KeyError(name)
        read = read_topic(znode)
        if isinstance(read, str):
            raise TypeError(read)
        return read

    def assignment(self, partition: TopicPartition) -> PartitionAssignment:
        """Return what the topic znode says of a partition."""
        return self.topic(partition.topic).partitions[partition.partition]

    def state(self, partition: TopicPartition) -> PartitionState | None:
        """Return a partition's state."""
        znode = self.zookeeper.get(paths.state_path(partition))
        read = None if znode is None else read_state(znode)
        if isinstance(read, str):
            raise TypeError(read)
        return read

    def partitions(self) -> list[TopicPartition]:
        """Return every partition of every topic."""
        return [
            TopicPartition(name, number)
            for name in sorted(self.zookeeper.children(paths.TOPICS) or ())
            for number in sorted(self.topic(name).partitions)
        ]

    def concerns_present_topic(self, partition: TopicPartition, spec: ReassignmentSpec) -> bool:
        """Return whether a partition exists in the topic that a spec was accepted for."""
        if partition not in self.partitions():
            return False
        return spec.topic_czxid in {None, self.topic(partition.topic).czxid}

    def is_healthy(self, partition: TopicPartition) -> bool:
        """
        Return whether a partition is led and its ISR is exactly its replicas, all live.

        Kafka's controller does not help a leader that forgot its request (KAFKA-12686).
        """
        state, assignment = self.state(partition), self.assignment(partition)
        if state is None or assignment.is_reassigning:
            return False
        leader = self.brokers.get(state.leader)
        if leader is None or partition not in leader.hosted:
            return False
        to_controller, kafka = leader.to_controller, self.active_kafka_controller
        is_stuck = (
            to_controller is not None
            and to_controller.waits_in_vain(partition)
            and kafka is not None
        )
        return (
            leader.hosted[partition].leader_epoch == state.leader_epoch
            and (is_stuck or set(state.isr) == set(assignment.replicas))
            and all(self.brokers[r].is_alive for r in assignment.replicas)
        )

    def all_healthy(self) -> bool:
        """Return whether every partition is healthy."""
        return all(self.is_healthy(p) for p in self.partitions())

    def holders(self, partition: TopicPartition) -> set[BrokerId]:
        """Return the brokers with a log of a partition on disk."""
        return {b.id for b in self.brokers.values() if partition in b.logs}

    def settle(self, within_s: float = SETTLED_S) -> None:
        """Let time pass until every partition is healthy."""
        self.run_until(self.all_healthy, within_s=within_s)

    # --- daemons -------------------------------------------------------------------------------

    def add_daemon(
        self, build: Build, *, session_timeout_s: float = 10.0, competes: bool = True
    ) -> SimDaemon:
        """Start a daemon beside the cluster."""
        daemon = SimDaemon(
            self.fabric, build, session_timeout_s=session_timeout_s, competes=competes
        )
        self.daemons = [d for d in self.daemons if d.is_alive] + [daemon]
        return daemon

    def _hears_since(self, session: int) -> float:
        """Return since when the daemon with a session hears everything without delay."""
        known = (d.hears_since for d in self.daemons if d.store.session.id == session)
        return next(known, 0.0)


def _ids(replicas: Sequence[int]) -> Replicas:
    return tuple(BrokerId(r) for r in replicas)
