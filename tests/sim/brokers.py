"""
A simulated broker: its registration, its disks, and how it judges a controller's requests.

The rules are Kafka's (``ReplicaManager``, ``KafkaApis``; inter-broker protocols below 2.7).
Replication itself is ``replication``; how requests travel is ``links``. A broker that is killed
keeps its logs and loses everything it held in memory, the controller epoch included.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from controller import kafka_errors
from controller.core.cluster.model import WITH_SENT_IDS, is_protocol_at_least
from controller.core.model import BrokerEpoch, BrokerId, TopicPartition
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
)
from controller.znodes import paths
from tests.sim.broker_to_controller import LISTENER, BrokerToController
from tests.sim.logs import Future, Log
from tests.sim.replicas import HostedReplica
from tests.sim.replication import Replication
from tests.sim.sessions import SimSession
from tests.sim.zookeeper import Make

if TYPE_CHECKING:
    from tests.sim.controller_endpoints import ControllerListener
    from tests.sim.fabric import Fabric

DIRECTORIES: Final = 2
"""Log directories of every broker."""
FUTURE_RECORDS: Final = 40
"""Records that a future log copies between two ticks of its broker."""
ANNOUNCE_AGAIN_S: Final = 1.0
"""How soon a broker without ZooKeeper tries again to report a failed directory."""
DELETED_LEADER: Final = -2
"""The leader in UpdateMetadata, or the epoch in StopReplica, of a partition being deleted."""
NO_EPOCH: Final = -1
"""In StopReplica: the sender does not know the leader epoch."""


class CachedLeader(NamedTuple):
    """The metadata of a partition that a broker serves to clients."""

    leader: BrokerId
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer: the error of the request and, if that is none, those of its partitions."""

    error: int
    results: tuple[tuple[TopicPartition, int], ...] = ()


class SimBroker:
    """One broker, over any number of lives of its process."""

    def __init__(self, broker_id: BrokerId, fabric: Fabric, *, rack: str | None = None) -> None:
        self.id = broker_id
        self.rack = rack
        self.is_alive = False
        self.incarnation = 0
        """Grows with every start and every death; what was scheduled for another one is void."""
        self.epoch = BrokerEpoch(-1)
        """The czxid of the registration."""
        self.session: SimSession | None = None
        self.controller_epoch = 0
        self.live: frozenset[BrokerId] = frozenset()
        """The live brokers, as the last UpdateMetadata listed them."""
        self.metadata: dict[TopicPartition, CachedLeader] = {}
        self.hosted: dict[TopicPartition, HostedReplica] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.made: set[TopicPartition] = set()
        """Partitions of which it ever made a log, even if that is lost or deleted by now."""
        self.unseen: dict[TopicPartition, Log] = {}
        """Logs on disks that failed before the process began: it does not know of them."""
        self.unseen_since = 0
        """The zxid at which it began without them."""
        self.offline_directories: set[int] = set()
        self.refused: set[TopicPartition] = set()
        """Replicas offline until the restart: they got no log, one may be on a lost disk."""
        self.preferred: dict[TopicPartition, int] = {}
        """The directory in which the log of a replica is to be made; forgotten at a restart."""
        self.futures: dict[TopicPartition, Future] = {}
        """Copies of logs in other directories, which are to replace them."""
        self.replication = Replication(self, fabric)
        self.started: list[Callable[[], None]] = []
        """Called whenever the broker has registered."""
        self.ended: list[Callable[[], None]] = []
        """Called when the process ends."""
        self._fabric = fabric
        self.controller: ControllerListener | None = None
        """The controller's address, as the last UpdateMetadata named it."""
        self.kafka_endpoint: ControllerListener | None = None
        """Where Kafka's controller on this broker is asked."""
        self.to_controller: BrokerToController | None = (
            BrokerToController(self, fabric) if fabric.has_endpoint else None
        )

    @property
    def directories(self) -> range:
        """The log directories, failed ones included."""
        return range(DIRECTORIES)

    @property
    def session_id(self) -> int:
        """The id of the present ZooKeeper session."""
        return -1 if self.session is None else self.session.id

    @property
    def is_connected(self) -> bool:
        """Whether the broker has a connection to ZooKeeper."""
        return self.session is not None and self.session.is_connected

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process: register with ZooKeeper, know nothing yet."""
        if self.is_alive:
            return
        self.is_alive = True
        self.incarnation += 1
        self.controller_epoch = 0
        self.live = frozenset()
        self.controller = None
        self.metadata = {}
        self.hosted = {}
        self.refused = set()
        self.preferred = {}
        for future in self.futures.values():
            future.is_stuck = False
        self._overlook_failed()
        if self.session is not None:
            # The ephemeral of the life before is in the way: a broker waits until it is gone.
            self._fabric.zookeeper.close_session(self.session.id)
        self._register()
        self._tick_later()
        for action in self.started:
            action()

    def stop(self) -> None:
        """End the process cleanly: the registration goes at once."""
        if self.is_alive and self.session is not None:
            self._end()
            self.session.close()

    def kill(self) -> None:
        """End the process at once: the registration stays until the session times out."""
        if self.is_alive and self.session is not None:
            self._end()
            self.session.abandon()

    def expire(self) -> None:
        """Let the ZooKeeper session expire while the process runs on; it registers anew later."""
        if self.is_alive and self.session is not None:
            self.session.expire()

    def _end(self) -> None:
        self.is_alive = False
        self.incarnation += 1
        for replica in self.hosted.values():
            replica.fail_waiting(kafka_errors.NOT_LEADER_OR_FOLLOWER)
        self.hosted = {}
        for action in self.ended:
            action()

    def _register(self) -> None:
        incarnation = self.incarnation

        def register_again() -> None:
            if incarnation == self.incarnation:
                self._register()
                for action in self.started:
                    action()

        zookeeper = self._fabric.zookeeper
        timeout_s = self._fabric.broker_session_s
        self.session = SimSession(
            zookeeper, self._fabric.schedule, timeout_s=timeout_s, expired=register_again
        )
        path = paths.broker_path(self.id)
        zookeeper.transact(self.session.id, [Make(path, self._registration(), ephemeral=True)])
        self.epoch = BrokerEpoch(zookeeper.zxid)

    def _registration(self) -> bytes:
        port = 9092 + self.id
        registration = {
            "version": 4,
            "host": "sim",
            "port": port,
            "jmx_port": -1,
            "timestamp": "0",
            "endpoints": [f"PLAINTEXT://sim:{port}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
        if self._fabric.has_endpoint:
            endpoints = (f"PLAINTEXT://sim:{port}", f"{LISTENER}://sim:{port + 1000}")
            protocols = {"PLAINTEXT": "PLAINTEXT", LISTENER: "PLAINTEXT"}
            registration |= {"endpoints": endpoints, "listener_security_protocol_map": protocols}
            registration |= {"version": 5, "features": {}}
        if self.rack is not None:
            registration["rack"] = self.rack
        return json.dumps(registration).encode()

    def _tick_later(self) -> None:
        incarnation = self.incarnation
        period = self._fabric.replica_lag_s / 2

        def tick() -> None:
            if incarnation == self.incarnation:
                self.replication.tick()
                self._copy_futures()
                self._tick_later()

        self._fabric.schedule.call_between(period * 0.8, period * 1.2, tick)

    # --- disks ---------------------------------------------------------------------------------

    def fail_directory(self, directory: int) -> None:
        """Lose a log directory: its replicas are offline, and a znode notifies the controller."""
        self.offline_directories.add(directory)
        self.futures = {
            p: f
            for p, f in self.futures.items()
            if directory not in {f.directory, self.logs[p].directory}
        }
        for partition, log in self.logs.items():
            if log.directory != directory:
                continue
            log.is_online = False
            replica = self.hosted.get(partition)
            if replica is not None:
                replica.fail_waiting(kafka_errors.KAFKA_STORAGE_ERROR)
        self._announce_failure(self.incarnation)

    def _announce_failure(self, incarnation: int) -> None:
        if not self.is_alive or incarnation != self.incarnation:
            return
        if self.is_connected and self._fabric.zookeeper.is_open(self.session_id):
            event = {"version": 1, "broker": self.id, "event": 1}
            path = f"{paths.LOG_DIR_EVENTS}/log_dir_event_"
            make = Make(path, json.dumps(event).encode(), sequential=True)
            self._fabric.zookeeper.transact(self.session_id, [make])
        else:
            self._fabric.schedule.call_in(
                ANNOUNCE_AGAIN_S, lambda: self._announce_failure(incarnation)
            )

    def _overlook_failed(self) -> None:
        """Begin without the logs on failed disks: which replicas they had is unknown."""
        failed = {p: log for p, log in self.logs.items() if not log.is_online}
        if failed:
            self.unseen |= failed
            self.unseen_since = self._fabric.zookeeper.zxid
        for partition in failed:
            del self.logs[partition]
            self.futures.pop(partition, None)

    def copy(self, partition: TopicPartition) -> Log | None:
        """Return what the broker has of a partition, seen or not."""
        return self.logs.get(partition) or self.unseen.get(partition)

    def discard_strays(self, topic: str) -> None:
        """
        Delete the logs of a deleted topic, as an operator does before creating it again.

        A broker whose replica was dropped keeps its log if it was dead, or if Kafka's controller
        ended before it sent the deletion; then Kafka deletes the topic without it. A broker with
        topic ids (KIP-516) refuses such a log; one without them would use it.
        """
        for replica in [r for p, r in self.hosted.items() if p.topic == topic]:
            replica.fail_waiting(kafka_errors.KAFKA_STORAGE_ERROR)
        self.hosted = {p: replica for p, replica in self.hosted.items() if p.topic != topic}
        self.logs = {p: log for p, log in self.logs.items() if p.topic != topic}
        self.made = {p for p in self.made if p.topic != topic}
        self.unseen = {p: log for p, log in self.unseen.items() if p.topic != topic}
        self.futures = {p: f for p, f in self.futures.items() if p.topic != topic}

    def repair_directories(self) -> None:
        """Mount the failed directories again, nothing lost, while the process is down."""
        self.offline_directories.clear()
        self.logs = self.unseen | self.logs
        self.unseen = {}
        for log in self.logs.values():
            log.is_online = True

    def empty_directory(self, directory: int) -> None:
        """Mount an empty disk in place of one while the process is down."""
        self.futures = {
            p: f
            for p, f in self.futures.items()
            if directory not in {f.directory, self.logs[p].directory}
        }
        self.logs = {p: log for p, log in self.logs.items() if log.directory != directory}

    def replace_directories(self) -> None:
        """Mount empty disks in place of the failed directories while the process is down."""
        lost = [p for p, log in self.logs.items() if not log.is_online]
        for partition in lost:
            del self.logs[partition]
        self.unseen = {}
        self.offline_directories.clear()

    def _lacks_settings(self, partition: TopicPartition) -> bool:
        """Return whether a log cannot be made: its settings come from ZooKeeper."""
        has_expired = not self._fabric.zookeeper.is_open(self.session_id)
        return partition not in self.logs and has_expired

    def _log_for(self, partition: TopicPartition, *, is_new: bool) -> Log | None:
        """Return the replica's log, made if need be; None if its directory may have failed."""
        log = self.logs.get(partition)
        if log is None:
            if self.offline_directories and not is_new:
                return None
            good = [d for d in range(DIRECTORIES) if d not in self.offline_directories]
            disks = self._fabric.disks
            preferred = self.preferred.pop(partition, None)
            if preferred is not None:
                if preferred not in good:
                    return None
                directory = preferred
            elif disks is None:
                directory = self._fabric.schedule.random.choice(good)
            else:
                directory = disks.chosen(self, good)
            log = self.logs[partition] = Log(directory)
            self.made.add(partition)
        return log if log.is_online else None

    def place(self, partition: TopicPartition, directory: int) -> int:
        """
        Have a replica in a directory (``ReplicaManager.alterReplicaLogDirs``); return the error.

        Where there is no replica yet, the error says so, and its log will be made there.
        """
        if directory not in self.directories:
            return kafka_errors.LOG_DIR_NOT_FOUND
        if directory in self.offline_directories or self._is_offline(partition):
            return kafka_errors.KAFKA_STORAGE_ERROR
        log, future = self.logs.get(partition), self.futures.get(partition)
        if future is not None and future.directory != directory:
            del self.futures[partition]
            future = None
        if log is None or (log.directory != directory and future is None):
            self.preferred[partition] = directory
        if partition not in self.hosted or log is None:
            return kafka_errors.REPLICA_NOT_AVAILABLE
        if log.directory != directory and future is None:
            del self.preferred[partition]
            self.futures[partition] = Future(directory)
        return kafka_errors.NONE

    def _copy_futures(self) -> None:
        """Let future logs grow; one that caught up replaces the log."""
        for partition, future in list(self.futures.items()):
            log = self.logs[partition]
            if future.is_stuck or partition not in self.hosted:
                continue
            future.end = min(log.end, future.end + FUTURE_RECORDS)
            if self._fabric.disks is not None:
                self._fabric.disks.copied(self, future)
            if future.end == log.end:
                log.directory = future.directory
                del self.futures[partition]

    def _is_offline(self, partition: TopicPartition) -> bool:
        log = self.logs.get(partition)
        return partition in self.refused or (log is not None and not log.is_online)

    # --- requests ------------------------------------------------------------------------------

    def refuse(self) -> Answer:
        """Refuse a request of a client without the permission of a controller."""
        return Answer(kafka_errors.CLUSTER_AUTHORIZATION_FAILED)

    def handle(
        self,
        request: BrokerRequest,
        broker_epoch: BrokerEpoch,
        sender: ControllerListener | None = None,
    ) -> Answer:
        """Carry out a controller's request that was addressed to the broker with this epoch."""
        if request.controller_epoch < self.controller_epoch:
            return Answer(kafka_errors.STALE_CONTROLLER_EPOCH)
        if -1 < broker_epoch < self.epoch:
            return Answer(kafka_errors.STALE_BROKER_EPOCH)
        self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsr():
                has_ids = is_protocol_at_least(request.protocol, WITH_SENT_IDS)
                results = tuple(
                    (s.partition, self._accept(s, s.topic_id if has_ids else None))
                    for s in request.states
                )
                if any(error == kafka_errors.UNKNOWN_SERVER_ERROR for _, error in results):
                    return Answer(kafka_errors.UNKNOWN_SERVER_ERROR)
                return Answer(kafka_errors.NONE, results)
            case UpdateMetadata():
                self._update_metadata(request, sender)
                return Answer(kafka_errors.NONE)
            case StopReplica():
                return Answer(
                    kafka_errors.NONE, tuple((s.partition, self._stop(s)) for s in request.states)
                )

    def _update_metadata(self, request: UpdateMetadata, sender: ControllerListener | None) -> None:
        self.live = frozenset(broker.id for broker in request.live_brokers)
        self.controller = sender
        for listed in request.live_brokers if self._fabric.has_endpoint else ():
            if listed.id not in self._fabric.brokers:
                self.controller = self._fabric.endpoints[listed.endpoints[0].port]
        for state in request.states:
            if state.leader == DELETED_LEADER:
                self.metadata.pop(state.partition, None)
            else:
                self.metadata[state.partition] = CachedLeader(state.leader, state.leader_epoch)

    def _known_already(self, state: LeaderAndIsrState, topic_id: str | None) -> int | None:
        """Return the answer where the broker has this state, a newer one, or another topic."""
        partition = state.partition
        replica, log = self.hosted.get(partition), self.logs.get(partition)
        if log is not None and topic_id is not None and log.topic_id not in {None, topic_id}:
            self._fabric.strike("topic_id_refused")
            return kafka_errors.INCONSISTENT_TOPIC_ID
        if replica is None or state.leader_epoch > replica.leader_epoch:
            return None
        is_same = state.leader_epoch == replica.leader_epoch
        if is_same and topic_id is not None and log is not None and log.topic_id is None:
            self._fabric.strike("topic_id_learnt")
            log.topic_id = topic_id
            return kafka_errors.NONE
        return kafka_errors.STALE_CONTROLLER_EPOCH

    def _accept(self, state: LeaderAndIsrState, topic_id: str | None) -> int:  # noqa: PLR0911 - one per rule of Kafka's
        """Become leader or follower (``ReplicaManager.becomeLeaderOrFollower``)."""
        partition = state.partition
        replica = self.hosted.get(partition)
        if self._is_offline(partition):
            return kafka_errors.KAFKA_STORAGE_ERROR
        known = self._known_already(state, topic_id)
        if known is not None:
            return known
        if self.id not in state.replicas:
            # Up to Kafka 2.8, it takes a partition without a log for one on a failed disk.
            self.refused |= {partition} - self.logs.keys()
            return kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
        if self._lacks_settings(partition):
            # The epoch is noted before the log is made: a request with the same one is ignored.
            self.hosted[partition] = HostedReplica(Log(0), leader_epoch=state.leader_epoch)
            return kafka_errors.UNKNOWN_SERVER_ERROR
        log = self._log_for(partition, is_new=state.is_new)
        if log is None:
            self.refused.add(partition)
            return kafka_errors.KAFKA_STORAGE_ERROR
        log.topic_id = log.topic_id or topic_id
        if replica is None:
            replica = self.hosted[partition] = HostedReplica(log)
        replica.log = log
        if state.leader != self.id and state.leader not in self.live:
            # Kafka logs it and answers NONE: the transition is skipped, the epoch not recorded.
            return kafka_errors.NONE
        if state.partition_epoch < replica.partition_epoch:
            return kafka_errors.NONE
        if partition in self.futures and self._fabric.stalls_moves:
            # KAFKA-9654: the fetcher within the broker is fenced by the new leader epoch.
            self.futures[partition].is_stuck = True
        was_leader = replica.leads(self.id)
        replica.leader = state.leader
        replica.leader_epoch = state.leader_epoch
        replica.controller_epoch = state.controller_epoch
        replica.partition_epoch = state.partition_epoch
        replica.isr = state.isr
        replica.wanted = None
        replica.replicas = state.replicas
        self._take_role(partition, replica, was_leader=was_leader)
        return kafka_errors.NONE

    def _take_role(
        self, partition: TopicPartition, replica: HostedReplica, *, was_leader: bool
    ) -> None:
        if self.to_controller is not None:
            self.to_controller.forget_isr_change(partition)
        if replica.leads(self.id):
            for witness in self._fabric.witnesses:
                witness.leader_accepted(self.id, partition, replica.leader_epoch, replica.replicas)
            self.replication.begin_leading(partition, replica)
            return
        if was_leader:
            replica.fail_waiting(kafka_errors.NOT_LEADER_OR_FOLLOWER)
        replica.is_fetching = True
        self.replication.schedule_fetch(partition)

    def _stop(self, state: StopReplicaState) -> int:
        """Stop, or stop and delete, one replica (``ReplicaManager.stopReplicas``)."""
        partition = state.partition
        replica = self.hosted.get(partition)
        log = self.logs.get(partition)
        if self._is_offline(partition):
            return kafka_errors.KAFKA_STORAGE_ERROR
        epoch = state.leader_epoch
        if self._fences(epoch) and replica is not None and epoch < replica.leader_epoch:
            return kafka_errors.FENCED_LEADER_EPOCH
        if replica is not None:
            replica.is_fetching = False
            if state.delete:
                replica.fail_waiting(kafka_errors.UNKNOWN_TOPIC_OR_PARTITION)
                del self.hosted[partition]
        if state.delete and log is not None:
            del self.logs[partition]
            self.futures.pop(partition, None)
            if self._fabric.disks is not None:
                self._fabric.disks.deleted(self.id, log)
            for witness in self._fabric.witnesses:
                witness.deleted(self.id, partition, epoch)
        return kafka_errors.NONE

    def _fences(self, leader_epoch: int) -> bool:
        return self._fabric.fences_stop_replica and leader_epoch not in (DELETED_LEADER, NO_EPOCH)
