"""
Fixtures on real servers: one cluster for the whole run, whole again before and after each test.

Tests take fresh topics rather than fresh clusters; a test that needs another shape of cluster makes
its own with ``Cluster.running``.

With ``--cluster containers`` the cluster is that of the compose file: the tests of what is deployed
(``integration/containers``) run, and those marked ``any_cluster``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import pytest
from confluent_kafka import KafkaException

from integration.containers.container_cluster import container_cluster
from integration.containers.deployment import Deployment
from integration.containers.engines import Engine, running_engine
from integration.containers.images import images
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import Row
from integration.rigs.operator_actions import forget
from integration.rigs.plans import Daemons
from integration.rigs.processes import exit_on_sigterm
from integration.rigs.scratch_directories import scratch_directory
from integration.rigs.servers import ZooKeeperServer

CONTAINERS: Final = Path(__file__).with_name("containers")


class MakeTopic(Protocol):
    """Create a topic under a unique name and return that name."""

    def __call__(
        self,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Return once every replica is in sync."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the cluster be chosen."""
    parser.addoption(
        "--cluster",
        choices=("processes", "containers"),
        default="processes",
        help="which cluster the tests share: child processes, or containers of docker-compose.yml",
    )


def pytest_configure() -> None:
    """Clean up when the run is asked to end, too."""
    exit_on_sigterm()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests of containers out where none are asked for."""
    on_processes = config.getoption("--cluster") == "processes"
    return True if on_processes and collection_path == CONTAINERS else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On containers, keep what is about them and what takes any cluster."""
    if config.getoption("--cluster") == "processes":
        return
    kept = [
        item
        for item in items
        if CONTAINERS in item.path.parents or item.get_closest_marker("any_cluster")
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.fixture(scope="module")
def row_cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a module's ``row``."""
    with row.running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """Give a ZooKeeper without brokers; tests keep to a chroot of their own."""
    with scratch_directory() as directory:
        server = ZooKeeperServer(directory / "zookeeper")
        try:
            server.start()
            yield server
        finally:
            server.kill()
            server.port.close()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Give the program that runs containers."""
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def built_images(engine: Engine) -> dict[str, str]:
    """Give the image for each variable of the compose file."""
    return images(engine)


@pytest.fixture(scope="session")
def deployment(engine: Engine, built_images: dict[str, str]) -> Iterator[Deployment]:
    """Give what the compose file describes, up until the end of the run."""
    with scratch_directory() as directory:
        deployment = Deployment(engine, built_images, directory)
        with deployment.running():
            yield deployment


@pytest.fixture(scope="session")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the five brokers of this run; tests take ``cluster`` instead."""
    if request.config.getoption("--cluster") == "processes":
        with Cluster.running() as cluster:
            yield cluster
        return
    with (
        scratch_directory() as directory,
        container_cluster(request.getfixturevalue("deployment"), directory) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Give the shared cluster with everything up, and see to it that the next test gets it so."""
    shared_cluster.heal()
    yield shared_cluster
    shared_cluster.heal()


@pytest.fixture(scope="session")
def alter_partition_clusters() -> Iterator[Callable[[Row], Cluster]]:
    """Give the cluster of a row whose leaders ask the daemon: one for the whole run."""
    with ExitStack() as running:
        started: dict[Row, Cluster] = {}

        def cluster_of(row: Row) -> Cluster:
            if row not in started:
                started[row] = running.enter_context(row.running())
            return started[row]

        yield cluster_of


@pytest.fixture
def native_cluster(request: pytest.FixtureRequest) -> Cluster:
    """
    Give the cluster of a row of ``NATIVE``, the parameter; its daemons get what they need.

    Modules whose tests run on these rows take their ``cluster`` from it.
    """
    row: Row = request.param
    found: Cluster = (
        request.getfixturevalue("alter_partition_clusters")(row)
        if row.endpoint
        else request.getfixturevalue("shared_cluster")
    )
    return found


@pytest.fixture
def nothing_turned(cluster: Cluster) -> Iterator[None]:
    """Begin and end without what operators turn, and without the throttles that tests leave."""
    forget(cluster)
    yield
    forget(cluster)


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Give names for topics that contain the name of their test."""
    test = re.sub(r"[^A-Za-z0-9_]", "-", request.node.name)[:60]
    return lambda: f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_topic(cluster: Cluster, fresh_name: Callable[[], str]) -> Iterator[MakeTopic]:
    """Give a maker of topics that are deleted after the test, where no deletion is under way."""
    cluster.await_deletions()
    made: list[str] = []

    def make(
        assignment: Mapping[int, Sequence[int]], config: Mapping[str, str] | None = None
    ) -> str:
        name = fresh_name()
        made.append(name)
        cluster.create_topic(name, assignment, config)
        return name

    yield make
    cluster.heal()
    for name in made:
        try:
            cluster.delete_topics(name)
        except KafkaException:
            continue  # never created, or deleted by the test


@pytest.fixture
def daemons(cluster: Cluster, make_topic: MakeTopic, tmp_path: Path) -> Iterator[Daemons]:
    """
    Give daemons, and judge afterwards whatever they wrote (``Daemons.close``).

    They end before the topics are deleted, for which a broker has to lead.
    """
    del make_topic
    started = Daemons(cluster, tmp_path)
    yield started
    started.close()
