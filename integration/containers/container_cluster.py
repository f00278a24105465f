"""
The cluster of the compose file, for the tests that need only a running cluster.

Its servers are containers: they are started, stopped and killed by the engine. Their data is in
directories of this machine, so replicas and ZooKeeper's transaction log are read as elsewhere.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from integration.containers.deployment import DAEMONS, Deployment
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.processes import ChildDiedError, ChildProcess
from integration.rigs.reserved_ports import ReservedPort
from integration.rigs.servers import Broker, ZooKeeperServer
from integration.rigs.waiting import eventually

_FIRST_BROKER_PORT: Final = 19091
_SESSION_S: Final = 18.0
"""Kafka's default for ``zookeeper.session.timeout.ms``."""
_ZOOKEEPER_PORT: Final = 2181


class PublishedPort(ReservedPort):
    """A port that the engine holds."""

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        """Leave it to the engine."""


class ServiceProcess(ChildProcess):
    """The first process of a service's container."""

    def __init__(self, deployment: Deployment, service: str) -> None:
        # Not super(): a server's own constructor writes its configuration, which compose does here.
        ChildProcess.__init__(self, service, (), log=deployment.data / f"{service}.log")
        self._deployment = deployment

    def spawn(self) -> None:
        """Start the container that ended."""
        if self.is_alive:
            raise ChildDiedError(f"{self.name} is not dead")
        self._deployment.engine.run("start", self._deployment.container(self.name))

    def await_ready(self) -> None:
        """Wait until its health check passes."""
        self._deployment.await_healthy(self.name)

    def signal(self, number: int) -> None:
        """Send a signal; no effect on a container that ended."""
        if self.is_alive:
            self._deployment.kill(self.name, signal.Signals(number))

    def freeze(self) -> None:
        """Make it hang."""
        self.signal(signal.SIGSTOP)

    def wait(self, within_s: float) -> int:
        """Wait for its end and return the exit code."""
        eventually(lambda: not self.is_alive, within_s=within_s, what=f"{self.name} ends")
        return self._deployment.exit_code(self.name)

    @property
    def is_alive(self) -> bool:
        """True if the container runs."""
        return self._deployment.is_running(self.name)

    def log_tail(self) -> str:
        """Return the end of what it wrote."""
        return self._deployment.logs(self.name)[-2000:]

    def has_written(self, text: str) -> bool:
        """Return whether something is anywhere in what it wrote."""
        return text in self._deployment.logs(self.name)


class ContainerZooKeeper(ServiceProcess, ZooKeeperServer):
    """The ZooKeeper of the compose file."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment, "zookeeper")
        self.port = PublishedPort(_ZOOKEEPER_PORT)
        self.peer_ports = ()
        self.data_directory = deployment.data / "zookeeper-log"


class ContainerBroker(ServiceProcess, Broker):
    """A broker of the compose file."""

    def __init__(
        self, deployment: Deployment, broker_id: int, is_registered: Callable[[int], bool]
    ) -> None:
        super().__init__(deployment, f"kafka-{broker_id}")
        self.broker_id = broker_id
        self.port = PublishedPort(_FIRST_BROKER_PORT + broker_id - 1)
        self.link = None
        self.log_dirs = [deployment.data / f"kafka-{broker_id}"]
        self._is_registered = is_registered

    def spawn(self) -> None:
        """Start it once the session of a killed predecessor is over: Kafka refuses to before."""
        eventually(
            lambda: not self._is_registered(self.broker_id),
            within_s=_SESSION_S + 10.0,
            what=f"the former session of {self.name} expires",
        )
        ServiceProcess.spawn(self)


class ContainerCluster(Cluster):
    """
    ZooKeeper and the brokers of a deployment; tests start daemons of their own.

    Args:
        deployment: It is up.
        directory: For what tests write.
    """

    daemon_options = ("--inter-broker-listener", "EXTERNAL")

    def __init__(self, deployment: Deployment, directory: Path) -> None:
        self._deployment = deployment
        super().__init__(directory, ClusterOptions(racks=("a", "b", "c")))

    def start(self) -> None:
        """Connect; everything runs."""
        self.zk.start(timeout=30)
        self.heal()

    def heal(self) -> None:
        """Let every server run again, and the daemons of the deployment not."""
        for service in DAEMONS:
            if self._deployment.is_running(service):
                self._deployment.stop(service)
        super().heal()

    def close(self) -> None:
        """Leave; the containers stay."""
        self.zk.stop()
        self.zk.close()

    def _make_zookeepers(self) -> list[ZooKeeperServer]:
        return [ContainerZooKeeper(self._deployment)]

    def _make_broker(self, broker_id: int) -> Broker:
        return ContainerBroker(self._deployment, broker_id, self.is_registered)


@contextmanager
def container_cluster(deployment: Deployment, directory: Path) -> Iterator[ContainerCluster]:
    """Yield the cluster of a deployment that is up."""
    cluster = ContainerCluster(deployment, directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
