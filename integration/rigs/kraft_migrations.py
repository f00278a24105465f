"""
The migration of a cluster from ZooKeeper to KRaft, step by step, as Kafka's guide describes it.

One KRaft controller takes the metadata over from ZooKeeper when every broker has registered with
it; brokers then leave ZooKeeper, and at last the controller does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from integration.rigs.cluster import Cluster
from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import classpath
from integration.rigs.kafka_tools import run_tool
from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import ReservedPort
from integration.rigs.servers import KRAFT_LISTENER, Broker, properties_text
from integration.rigs.waiting import eventually

CONTROLLER_ID: Final = 3000
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
MIGRATED: Final = "Completed migration of metadata"
"""In the log of the controller."""


class KraftMigration:
    """
    One KRaft controller, and the brokers that move to it.

    Args:
        cluster: At inter-broker protocol 3.9.
        topics: The replicas of each partition, which are in sync before a broker is restarted.
    """

    def __init__(self, cluster: Cluster, topics: Mapping[str, Mapping[int, Sequence[int]]]) -> None:
        self._cluster = cluster
        self._topics = topics
        self._port = ReservedPort()
        self._quorum = {
            "controller.quorum.voters": f"{CONTROLLER_ID}@{self._port.address}",
            "controller.listener.names": KRAFT_LISTENER,
        }
        directory = self._directory = cluster.directory / "kraft-controller"
        directory.mkdir()
        self._configuration = directory / "controller.properties"
        self._settings = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            **self._quorum,
            "listeners": f"{KRAFT_LISTENER}://{self._port.address}",
            "listener.security.protocol.map": f"{KRAFT_LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "data"),
        }
        release = cluster.options.broker.release
        command = java_command(
            "kafka.Kafka",
            str(self._configuration),
            classpath=classpath(release),
            heap_mb=384,
            logging=write_logging(directory),
        )
        self.controller = ChildProcess("KRaft controller", command, log=directory / "server.log")

    def begin(self) -> None:
        """Start the controller in migration mode; it waits for the brokers."""
        of_zookeeper = {
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.connect": self._cluster.zookeeper_connect,
        }
        self._configuration.write_text(properties_text(self._settings | of_zookeeper))
        cluster_id = (self._cluster.read("/cluster/id") or {})["id"]
        formatted = run_tool(
            STORAGE_TOOL,
            *("format", "-t", cluster_id, "-c", str(self._configuration)),
            release=self._cluster.options.broker.release,
            directory=self._directory,
        )
        assert formatted.code == 0, formatted.stdout
        self.controller.start()

    def migrate(self) -> None:
        """Restart the brokers in migration mode, and wait until the metadata are taken over."""
        self._restart_brokers(lambda broker: broker.migrate(self._quorum))
        eventually(
            lambda: self.controller.has_written(MIGRATED),
            within_s=120,
            what=lambda: (
                f"the metadata are migrated; the log ends with {self.controller.log_tail()}"
            ),
        )

    def leave_zookeeper(self) -> None:
        """Restart the brokers without ZooKeeper: from now on nothing leads back but a backup."""
        self._restart_brokers(Broker.leave_zookeeper)

    def finalize(self) -> None:
        """Restart the controller without ZooKeeper: the migration is complete."""
        self.controller.stop()
        self._configuration.write_text(properties_text(self._settings))
        self.controller.start()

    def close(self) -> None:
        """Kill the controller."""
        self.controller.kill()
        self._port.close()

    def _restart_brokers(self, configure: Callable[[Broker], None]) -> None:
        for broker in self._cluster.brokers.values():
            broker.stop()
            configure(broker)
            broker.start()
            for topic, assignment in self._topics.items():
                # The KRaft controller writes the ISR to ZooKeeper, too, until the end.
                self._cluster.await_in_sync(topic, assignment)
