"""
A real cluster on this machine: ZooKeeper, some brokers, and what tests ask of them.

Reads znodes as they are, without the project's own codecs: a test must not believe what it tests.
Faults happen only on request; ``heal`` ends them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from integration.rigs.kafka_tools import REASSIGN_PARTITIONS, ToolResult, run_tool
from integration.rigs.scratch_directories import scratch_directory
from integration.rigs.servers import Broker, BrokerOptions, ZooKeeperServer
from integration.rigs.small_disks import small_disks
from integration.rigs.waiting import GaveUpError, eventually
from integration.rigs.zookeeper_ensembles import ensemble

_SERVING_WITHIN_S: Final = 60.0
_RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
"""Soon, as servers here go away on purpose; kazoo's own pauses grow to a minute."""
_PASSING: Final = (KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN)
"""The error of a controller that has just lost its role or its ZooKeeper session."""
_NO_CONTROLLER: Final = "waiting for controller"
"""The error of a client that knows no controller: it sent nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The shape of a cluster."""

    brokers: int = 5
    """They get the ids 1 to n."""
    zookeepers: int = 1
    """More than one are an ensemble."""
    zookeeper_heap_mb: int = 256
    """Of a single one."""
    racks: Sequence[str] = ()
    """Dealt out in turn; none means brokers without a rack."""
    chroot: str = "/kafka"
    broker: BrokerOptions = field(default_factory=BrokerOptions)


class Cluster:
    """
    A ZooKeeper and its brokers; ``running`` makes one that is cleaned up.

    Attributes:
        zookeepers: The ZooKeeper processes, one unless it is an ensemble.
        brokers: The broker processes by id.
        directory: The directory of all its files.
    """

    def __init__(self, directory: Path, options: ClusterOptions) -> None:
        self.directory = directory
        self.options = options
        self.zookeepers = self._make_zookeepers()
        addresses = ",".join(server.address for server in self.zookeepers)
        self.zookeeper_connect = addresses + options.chroot
        self.zk = KazooClient(
            hosts=self.zookeeper_connect,
            timeout=10.0,
            connection_retry=dict(_RECONNECT),
            **self.zookeeper_client,
        )
        self.brokers = {
            broker_id: self._make_broker(broker_id) for broker_id in range(1, options.brokers + 1)
        }

    @classmethod
    @contextmanager
    def running(cls, options: ClusterOptions | None = None) -> Iterator[Self]:
        """Yield a cluster that serves; afterwards no process and no file of it is left."""
        with ExitStack() as cleaning:
            directory = cleaning.enter_context(scratch_directory())
            cluster = cls(directory, options or ClusterOptions())
            if cluster.options.broker.disk_mb is not None:
                disks = (d for broker in cluster.brokers.values() for d in broker.log_dirs)
                cleaning.enter_context(small_disks(disks, cluster.options.broker.disk_mb))
            cleaning.callback(cluster.close)
            cluster.start()
            yield cluster

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything, the brokers side by side, and wait until all know each other."""
        self.start_zookeepers()
        self.zookeeper.make_path(self.options.chroot or "/")
        self.zk.start(timeout=30)
        self._before_brokers()
        self.start_brokers(*self.brokers)
        self._await_whole()

    def start_zookeepers(self) -> None:
        """Start every ZooKeeper that is dead, side by side, and wait until each serves."""
        dead = [server for server in self.zookeepers if not server.is_alive]
        for server in dead:
            server.spawn()
        for server in dead:
            server.await_ready()

    def start_brokers(self, *broker_ids: int) -> None:
        """Start brokers side by side and wait until each serves."""
        for broker_id in broker_ids:
            self.brokers[broker_id].spawn()
        for broker_id in broker_ids:
            self.brokers[broker_id].await_ready()

    def heal(self) -> None:
        """Let everything run again that was killed, stopped, frozen, cut off or lost its disk."""
        for process in self.processes:
            process.thaw()
        self.start_zookeepers()
        for broker in self.brokers.values():
            if broker.link is not None:
                broker.link.repair()
            if broker.failed_disks:
                broker.stop()
                broker.repair_disks()
        self.start_brokers(*(n for n, broker in self.brokers.items() if not broker.is_alive))
        self._await_whole()

    def close(self) -> None:
        """Kill every process and give up every port; the data is of no more use."""
        self.zk.stop()
        self.zk.close()
        for process in self.processes:
            process.kill()
        for server in self.zookeepers:
            for port in (server.port, *server.peer_ports):
                port.close()
        for broker in self.brokers.values():
            for port in broker.ports.values():
                port.close()
            if broker.link is not None:
                broker.link.close()

    # --- what other kinds of clusters change ---------------------------------------------------

    zookeeper_client: Mapping[str, Any] = MappingProxyType({})
    """Further arguments of kazoo's clients."""
    client_security: Mapping[str, str] = MappingProxyType({})
    """librdkafka's security settings."""
    daemon_settings: Mapping[str, str] = MappingProxyType({})
    """Settings of daemons, by the name of their environment variable."""
    daemon_options: Sequence[str] = ()
    """What daemons on this machine need to reach the brokers."""

    def _make_zookeepers(self) -> list[ZooKeeperServer]:
        return ensemble(self.directory, self.options.zookeepers, self.options.zookeeper_heap_mb)

    def _make_broker(self, broker_id: int) -> Broker:
        racks = self.options.racks
        return Broker(
            broker_id,
            self.directory / f"broker-{broker_id}",
            zookeeper=self.zookeeper_connect,
            options=self._broker_options(broker_id),
            rack=racks[(broker_id - 1) % len(racks)] if racks else None,
            is_registered=self.is_registered,
        )

    def _broker_options(self, _broker_id: int) -> BrokerOptions:
        return self.options.broker

    def _before_brokers(self) -> None:
        """Write to ZooKeeper what brokers need when they start."""

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The ZooKeeper process, the first of them in an ensemble."""
        return self.zookeepers[0]

    @property
    def processes(self) -> list[Broker | ZooKeeperServer]:
        """Every process of the cluster, dead or alive."""
        return [*self.brokers.values(), *self.zookeepers]

    # --- clients -------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, dead or alive, as clients take them."""
        return ",".join(broker.address for broker in self.brokers.values())

    @cached_property
    def admin(self) -> AdminClient:
        """A client for topic administration; its requests wait while a daemon has the role."""
        return self._admin_of(self.bootstrap_servers)

    def create_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> str:
        """
        Create a topic with exactly these replicas, wait for all in the ISR, return its name.

        Args:
            name: Of the topic.
            assignment: Replicas by partition; partitions count from 0 without gaps.
            config: Topic settings.
        """
        self.request_topic(name, assignment, config)
        self.await_in_sync(name, assignment)
        return name

    def request_topic(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Have a topic created and do not wait for its replicas; see ``create_topic``."""
        replicas = [list(assignment[partition]) for partition in range(len(assignment))]
        topic = NewTopic(
            name,
            num_partitions=len(replicas),
            replica_assignment=replicas,
            config=dict(config or {}),
        )
        self._administer(lambda: self.admin.create_topics([topic], request_timeout=30))

    def request_partitions(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Have the partitions that follow its last added to a topic and do not wait for them."""
        replicas = [list(of) for _, of in sorted(assignment.items())]
        grown = NewPartitions(name, max(assignment) + 1, replica_assignment=replicas)
        self._administer(lambda: self.admin.create_partitions([grown], request_timeout=30))

    def await_in_sync(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Wait until these partitions of a topic have exactly these replicas, all in the ISR."""
        hosts = {broker for of in assignment.values() for broker in of}
        logs = {b: {f"{name}-{n}" for n, of in assignment.items() if b in of} for b in hosts}

        def is_there() -> bool:
            if any(self.isr(name, n) != set(of) for n, of in assignment.items()):
                return False
            return all(held <= self.replica_directories(b) for b, held in logs.items())

        self._await_controller(is_there, f"every replica of {name} is in sync")

    def delete_topics(self, *names: str) -> None:
        """Ask for the deletion of topics; it is complete when their znodes are gone."""
        if names:
            self._administer(lambda: self.admin.delete_topics(list(names), request_timeout=30))

    def await_deletions(self) -> None:
        """Wait until every requested deletion of a topic is complete."""
        self._await_controller(
            lambda: not self.zk.get_children("/admin/delete_topics"),
            "topics that are to be deleted are gone",
        )

    def _await_controller(self, is_done: Callable[[], bool], what: str) -> None:
        """
        Wait for what Kafka's controller does.

        A broker that lost the role in the middle of a change of replicas cannot make another one
        when it is the controller again, until it is restarted (KAFKA-12315).
        """
        for _ in self.brokers:  # the next one to lead may be stuck as well
            try:
                eventually(is_done, within_s=_SERVING_WITHIN_S / 3, what=what)
            except GaveUpError:
                stuck = self.controller_broker()
                if stuck is None or not self.brokers[stuck].has_written("batch is not empty"):
                    raise
                self.brokers[stuck].restart()
            else:
                return
        eventually(is_done, within_s=_SERVING_WITHIN_S, what=what)

    def _administer(self, send: Callable[[], Mapping[str, Future[None]]]) -> None:
        """Ask the controller for something, again where the role has just changed hands."""

        def done() -> bool:
            try:
                self.admin.list_topics(timeout=10)  # says who is the controller
            except KafkaException:
                return False  # the brokers are busy, nothing was requested yet
            try:
                for future in send().values():
                    future.result(timeout=35)
            except KafkaException as error:
                if error.args[0].code() in _PASSING or _NO_CONTROLLER in error.args[0].str():
                    return False
                raise
            return True

        within_s = 2 * _SERVING_WITHIN_S
        eventually(done, within_s=within_s, what="a controller takes requests for topics")

    def run_tool(self, main_class: str, *arguments: str, within_s: float = 120.0) -> ToolResult:
        """Run a stock tool (``kafka_tools``) of the brokers' release."""
        return run_tool(
            main_class,
            *arguments,
            release=self.options.broker.release,
            directory=self.directory,
            within_s=within_s,
        )

    def run_admin_tool(self, main_class: str, *arguments: str) -> ToolResult:
        """Run a stock tool that speaks to the brokers, as a user who may do everything."""
        where = ("--bootstrap-server", self.bootstrap_servers)
        return self.run_tool(main_class, *where, *arguments)

    def reassign_partitions(self, *arguments: str) -> ToolResult:
        """Run the stock reassignment tool against this cluster."""
        where = (
            ("--bootstrap-server", self.bootstrap_servers)
            if self.options.broker.release.reassigns_by_api
            else ("--zookeeper", self.zookeeper_connect)
        )
        return self.run_tool(REASSIGN_PARTITIONS, *where, *arguments)

    # --- what ZooKeeper and the disks say ------------------------------------------------------

    def read(self, path: str) -> dict[str, Any] | None:
        """Return a znode's JSON object, None where there is no znode."""
        try:
            data, _stat = self.zk.get(path)
        except NoNodeError:
            return None
        content = json.loads(data)
        assert isinstance(content, dict), f"{path} holds {data!r}"
        return content

    def topic(self, name: str) -> dict[str, Any] | None:
        """Return the topic znode: ``partitions``, ``adding_replicas``, ``removing_replicas``."""
        return self.read(f"/brokers/topics/{name}")

    def replicas(self, name: str, partition: int) -> list[int]:
        """Return the replicas of a partition in their order, empty where there is none."""
        topic = self.topic(name) or {"partitions": {}}
        return list(topic["partitions"].get(str(partition), []))

    def state(self, name: str, partition: int) -> dict[str, Any] | None:
        """Return the partition's state znode: ``leader``, ``isr``, ``leader_epoch`` and so on."""
        return self.read(f"/brokers/topics/{name}/partitions/{partition}/state")

    def isr(self, name: str, partition: int) -> set[int]:
        """Return the brokers in the partition's ISR, none where there is no state."""
        return set((self.state(name, partition) or {"isr": []})["isr"])

    def leader(self, name: str, partition: int) -> int | None:
        """Return the partition's leader, None where there is none."""
        leader = (self.state(name, partition) or {"leader": -1})["leader"]
        return None if leader == -1 else int(leader)

    def controller(self) -> int | None:
        """Return the id in ``/controller``, of a broker or a daemon; None: no controller."""
        holder = self.read("/controller")
        return None if holder is None else int(holder["brokerid"])

    def controller_broker(self) -> int | None:
        """Return the broker that is the controller; None: no broker is."""
        holder = self.controller()
        return holder if holder in self.brokers else None

    def is_registered(self, broker_id: int) -> bool:
        """Return whether a broker is registered; False as well while ZooKeeper does not answer."""
        try:
            return self.zk.exists(f"/brokers/ids/{broker_id}") is not None
        except KazooException:
            return False

    def replica_directories(self, broker_id: int) -> set[str]:
        """Return the replica directories on a broker's disks, ``…-delete`` ones included."""
        return self.brokers[broker_id].replica_directories()

    def _await_whole(self) -> None:
        eventually(
            self._is_whole,
            within_s=_SERVING_WITHIN_S,
            what="a controller leads and every broker knows every other",
            tolerating=(KafkaException, KazooException),
        )

    def _is_whole(self) -> bool:
        if self.controller() is None:
            return False
        return all(
            set(self._admin_of(broker.address).list_topics(timeout=5).brokers) == set(self.brokers)
            for broker in self.brokers.values()
        )

    def _admin_of(self, servers: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": servers, **self.client_security, **QUIET})


QUIET: Final[Mapping[str, str | int | float | bool]] = {"log_level": 0}
"""librdkafka writes every refused connection to our standard error; here brokers die on purpose."""
