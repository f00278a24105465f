"""
ZooKeeper and Kafka brokers as child processes: their settings, and when they serve.

Settings are small on purpose (five brokers fit in 3 GB) and quick (files of deleted replicas
disappear after a second, sessions expire after six). Ports, ids and data stay over restarts.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import KAFKA_3_9, Release, classpath
from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort
from integration.rigs.tcp_proxies import Link
from integration.rigs.waiting import eventually

LINKED_LISTENER: Final = "LINKED"
"""Name of the listener behind a link."""
INTERNAL_LISTENER: Final = "INTERNAL"
"""Name of the listener that only brokers use."""
KRAFT_LISTENER: Final = "CONTROLLER"
"""Name of the listener of KRaft controllers, which brokers need for their connections to them."""

# ApiVersions, version 0, correlation id 0, no client id: the first request of every client.
_HELLO: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The settings of a broker that tests vary; all others are fixed below."""

    inter_broker_protocol: str | None = "2.6"
    """Below 2.7 leaders write their ISR to ZooKeeper; None leaves the release's default."""
    min_insync_replicas: int = 1
    controlled_shutdown: bool = True
    replica_lag_time_max_ms: int = 10_000
    zookeeper_session_timeout_ms: int = 6_000
    log_dirs: int = 1
    disk_mb: int | None = None
    """The size of the file system of each log directory; None: that of the machine."""
    linked: bool = False
    """True for a second listener, behind a proxy that can be cut (``tcp_proxies``)."""
    internal: bool = False
    """True for a listener of their own, by which brokers and the controller find each other."""
    heap_mb: int = 512
    internal_replication_factor: int = 3
    """Of the offsets and transaction topics."""
    release: Release = KAFKA_3_9
    listeners: Mapping[str, str] = field(default_factory=lambda: {"PLAINTEXT": "PLAINTEXT"})
    """Security protocols by listener name; clients use the first listener."""
    tls: ssl.SSLContext | None = None
    """For connections to the first listener; None: it has no TLS."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Java system properties."""
    classes: Path | None = None
    """A directory of further classes."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further broker settings; they win over everything here."""

    @property
    def uses_alter_partition(self) -> bool:
        """Whether leaders ask the controller for ISR changes rather than write them."""
        wanted = self.inter_broker_protocol or self.release.kafka
        return tuple(int(part) for part in wanted.split(".")[:2]) >= (2, 7)


class ZooKeeperServer(ChildProcess):
    """
    A ZooKeeper server, standalone by default.

    Args:
        directory: Configuration, log and data go below it.
        name: How messages call it.
        extra: Further settings.
        heap_mb: Of its JVM; it keeps the last 500 writes in memory, however large.
        jute_maxbuffer: The largest request it takes, in bytes, if not ZooKeeper's default.
        properties: Further Java system properties.
        tls: For connections to it; None: its port has no TLS.
        client: Further arguments of kazoo's client, such as credentials.
    """

    def __init__(  # noqa: PLR0913 - what a server is made of
        self,
        directory: Path,
        *,
        name: str = "zookeeper",
        extra: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        jute_maxbuffer: int | None = None,
        properties: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self.port = ReservedPort()
        self._tls = tls
        self._client = dict(client or {})
        self.peer_ports: tuple[ReservedPort, ...] = ()
        """The addresses at which members of an ensemble speak to each other."""
        self.data_directory = directory / "data"
        configuration = directory / "zoo.cfg"
        listening = "clientPort" if tls is None else "secureClientPort"
        settings = {
            "dataDir": str(self.data_directory),
            listening: str(self.port.number),
            f"{listening}Address": LOCALHOST,
            "tickTime": "500",  # sessions from one second on, expired at most half a second late
            "minSessionTimeout": "1000",
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **(extra or {}),
        }
        configuration.write_text(properties_text(settings))
        command = java_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(configuration),
            classpath=classpath(KAFKA_3_9),
            heap_mb=heap_mb,
            logging=write_logging(directory),
            properties={
                # Survives kill -9 without fsync: the page cache keeps the writes.
                "zookeeper.forceSync": "no",
                "zookeeper.preAllocSize": "1024",
                **({} if jute_maxbuffer is None else {"jute.maxbuffer": str(jute_maxbuffer)}),
                **(properties or {}),
            },
        )
        super().__init__(name, command, log=directory / "zookeeper.log")

    @property
    def address(self) -> str:
        """``host:port``, without a chroot."""
        return self.port.address

    def make_path(self, path: str) -> None:
        """Create a path, such as a chroot, unless it is there."""
        client = KazooClient(hosts=self.address, **self._client)
        client.start(timeout=30)
        try:
            client.ensure_path(path)
        finally:
            client.stop()
            client.close()

    def is_ready(self) -> bool:
        """Return whether requests are served."""
        return self.mode() is not None

    def mode(self) -> str | None:
        """Return ``standalone``, ``leader`` or ``follower``; None while nothing is served."""
        _, found, rest = _send(self.port.number, b"srvr", self._tls).partition(b"Mode: ")
        return rest.split()[0].decode() if found else None


class Broker(ChildProcess):
    """
    One Kafka broker.

    Args:
        broker_id: Its fixed id.
        directory: Configuration, log and data go below it.
        zookeeper: Connect string with chroot.
        options: The settings that tests vary.
        rack: Its rack, if any.
        is_registered: Returns whether this id is registered in ZooKeeper.
    """

    def __init__(  # noqa: PLR0913 - what a broker is made of
        self,
        broker_id: int,
        directory: Path,
        *,
        zookeeper: str,
        options: BrokerOptions,
        rack: str | None,
        is_registered: Callable[[int], bool],
    ) -> None:
        directory.mkdir(parents=True)
        self.broker_id = broker_id
        internal = {INTERNAL_LISTENER: "PLAINTEXT"} if options.internal else {}
        self._protocols = {**options.listeners, **internal}
        self.ports = {listener: ReservedPort() for listener in self._protocols}
        self.port = next(iter(self.ports.values()))
        self.link = Link() if options.linked else None
        self._tls = options.tls
        self.log_dirs = [directory / f"data-{n}" for n in range(options.log_dirs)]
        self._is_registered = is_registered
        self._is_in_zookeeper = True
        self._session_s = options.zookeeper_session_timeout_ms / 1000
        configuration = self._configuration = directory / "server.properties"
        self._written = self._settings(zookeeper, options, rack)
        configuration.write_text(properties_text(self._written))
        command = java_command(
            "kafka.Kafka",
            str(configuration),
            classpath=":".join(
                map(str, filter(None, (classpath(options.release), options.classes)))
            ),
            heap_mb=options.heap_mb,
            logging=write_logging(directory),
            properties=dict(options.properties),
        )
        super().__init__(f"broker {broker_id}", command, log=directory / "server.log")

    @property
    def address(self) -> str:
        """``host:port`` of the listener that clients and brokers use."""
        return self.port.address

    def spawn(self) -> None:
        """Start it once the session of a killed predecessor is over: Kafka refuses to before."""
        eventually(
            lambda: not (self._is_in_zookeeper and self._is_registered(self.broker_id)),
            within_s=self._session_s + 10.0,
            what=f"the former session of {self.name} expires",
        )
        super().spawn()

    def upgrade(self) -> None:
        """Use the inter-broker protocol of the release from the next start on."""
        self.configure({"inter.broker.protocol.version": None})

    def configure(self, settings: Mapping[str, str | None]) -> None:
        """Change settings from the next start on; None removes one."""
        changed = {**self._written, **settings}
        self._written = {name: value for name, value in changed.items() if value is not None}
        self._configuration.write_text(properties_text(self._written))

    def migrate(self, quorum: Mapping[str, str]) -> None:
        """Register with a quorum of KRaft controllers, too, from the next start on."""
        self._protocols |= {KRAFT_LISTENER: "PLAINTEXT"}
        protocols = ",".join(f"{n}:{p}" for n, p in self._protocols.items())
        self.configure(
            {
                **quorum,
                "zookeeper.metadata.migration.enable": "true",
                "listener.security.protocol.map": protocols,
            }
        )

    def leave_zookeeper(self) -> None:
        """Be a broker of a KRaft cluster, with the same id and logs, from the next start on."""
        self._is_in_zookeeper = False
        of_zookeeper = [name for name in self._written if name.startswith("zookeeper.")]
        first = next(iter(self.ports))
        self.configure(
            {
                **dict.fromkeys((*of_zookeeper, "broker.id", "inter.broker.protocol.version")),
                "process.roles": "broker",
                "node.id": str(self.broker_id),
                "inter.broker.listener.name": self._written.get(
                    "inter.broker.listener.name", first
                ),
            }
        )

    def fail_disk(self, number: int) -> Path:
        """
        Make a log directory fail, as a failed disk does; return it.

        A file takes its place. The broker notices at its next checkpoint there, or as soon as
        it creates a segment.
        """
        failing = self.log_dirs[number]
        failing.rename(_aside(failing))
        failing.write_text("a directory was here")
        return failing

    @property
    def failed_disks(self) -> list[Path]:
        """The log directories that were made to fail."""
        return [log_dir for log_dir in self.log_dirs if _aside(log_dir).exists()]

    def repair_disks(self) -> None:
        """
        Bring failed log directories back with what they held; the broker has to be dead.

        A running broker never takes a failed directory into use again.
        """
        for log_dir in self.failed_disks:
            log_dir.unlink()
            _aside(log_dir).rename(log_dir)

    def clear_aborted_logs(self) -> list[Path]:
        """
        Delete what a broker leaves of logs that it could not create, and return it.

        It makes the directory, then asks ZooKeeper for the topic's settings. If its session is over
        (the request came while it hung), the empty directory stays, and the next attempt may choose
        another disk. With both there the broker refuses to start: "Duplicate log directories".
        The broker has to be dead, as for the operator who does this by hand.
        """
        aborted = [entry for entry in self._directories() if not _holds_files(entry)]
        for directory in aborted:
            directory.rmdir()
        return aborted

    def is_ready(self) -> bool:
        """Return whether it is registered and answers requests; it registers before it answers."""
        is_registered = not self._is_in_zookeeper or self._is_registered(self.broker_id)
        return is_registered and bool(_send(self.port.number, _HELLO, self._tls))

    def replica_directories(self) -> set[str]:
        """
        Return the names of the replica directories on its disks, live and being deleted.

        A live one is called ``topic-partition``, one that is to be deleted
        ``topic-partition.id-delete``. One without any file is no replica (``clear_aborted_logs``).
        """
        return {entry.name for entry in self._directories() if _holds_files(entry)}

    def _directories(self) -> list[Path]:
        return [
            entry
            for log_dir in self.log_dirs
            if log_dir.is_dir()
            for entry in log_dir.iterdir()
            if entry.is_dir()
        ]

    def _settings(self, zookeeper: str, options: BrokerOptions, rack: str | None) -> dict[str, str]:
        protocols = {LINKED_LISTENER: "PLAINTEXT", **self._protocols}
        listeners = advertised = ",".join(f"{n}://{p.address}" for n, p in self.ports.items())
        if self.link is not None:
            listeners += f",{LINKED_LISTENER}://{self.link.behind.address}"
            advertised += f",{LINKED_LISTENER}://{self.link.port.address}"
        optional = {
            "broker.rack": rack,
            "inter.broker.protocol.version": options.inter_broker_protocol,
            "inter.broker.listener.name": INTERNAL_LISTENER if options.internal else None,
        }
        return {
            "broker.id": str(self.broker_id),
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(options.zookeeper_session_timeout_ms),
            "log.dirs": ",".join(str(path) for path in self.log_dirs),
            "min.insync.replicas": str(options.min_insync_replicas),
            "controlled.shutdown.enable": str(options.controlled_shutdown).lower(),
            "replica.lag.time.max.ms": str(options.replica_lag_time_max_ms),
            "offsets.topic.replication.factor": str(options.internal_replication_factor),
            "transaction.state.log.replication.factor": str(options.internal_replication_factor),
            **_FIXED,
            **{name: value for name, value in optional.items() if value is not None},
            **options.extra,
        }


_FIXED: Final[Mapping[str, str]] = {
    # The broker does nothing that a test did not request.
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "delete.topic.enable": "true",
    "unclean.leader.election.enable": "false",
    # Soon rather than robust.
    "controlled.shutdown.max.retries": "1",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "1000",  # of the task that deletes directories
    "log.segment.delete.delay.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",  # where a failed disk is noticed
    # Small.
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.threads": "1",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
}


def _holds_files(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except FileNotFoundError:  # deleted just now
        return False


def _aside(log_dir: Path) -> Path:
    """Return where a log directory waits while its disk has failed."""
    return log_dir.with_name(f"{log_dir.name}.failed")


def properties_text(settings: Mapping[str, str]) -> str:
    """Return settings as Java programs read them."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _send(port: int, question: bytes, tls: ssl.SSLContext | None) -> bytes:
    """Return the beginning of the answer of a local server, empty when there is none."""
    try:
        with ExitStack() as closing:
            connection = socket.create_connection((LOCALHOST, port), timeout=2.0)
            closing.enter_context(connection)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=LOCALHOST)
                closing.enter_context(connection)
            connection.sendall(question)
            return connection.recv(4096)
    except OSError:
        return b""
