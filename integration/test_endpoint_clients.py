"""
Operators' tools and clients during a tenure, where they see the daemon as the controller.

Kafka's own tool, its AdminClient and librdkafka run unchanged. Each row is a cluster of one
release, at the highest inter-broker protocol that it has.
"""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import (
    KAFKA_2_7,
    KAFKA_2_8,
    KAFKA_3_2,
    KAFKA_3_5,
    KAFKA_3_9,
    Release,
    classpath,
)
from integration.rigs.kafka_tools import TOPICS, ToolResult
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_end,
    await_tenure,
    copies_held,
    plan_of,
)
from integration.rigs.plans_under_load import controller_session
from integration.rigs.processes import dying_with_parent
from integration.rigs.requests import submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.rigs.zookeeper_ensembles import expire_session

PUBLIC: Final = (
    "--engine",
    "native",
    "--controller-endpoint",
    "public",
    "--endpoint-listen",
    "127.0.0.1:0",
    "--tenure-linger",
    "1",
)
DAEMON_ID: Final = 1_000_000
JAVA: Final = "org.apache.kafka.tools"
TIMEOUT_MS: Final = 40_000
"""How long a request of an AdminClient may take."""
MESSAGES: Final = 4000
"""Of a producer that works for twenty seconds."""


ROWS: Final = (KAFKA_3_9, KAFKA_3_5, KAFKA_3_2, KAFKA_2_8, KAFKA_2_7)


@pytest.fixture(scope="module", params=ROWS, ids=lambda release: release.kafka)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a release; its tests follow each other on it."""
    release: Release = request.param
    options = BrokerOptions(release=release, inter_broker_protocol=None)
    with Cluster.running(ClusterOptions(brokers=4, broker=options)) as found:
        yield found


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path) -> Callable[..., ToolResult]:
    """Give Kafka's reassignment tool, with a plan."""

    def run(targets: Targets, *arguments: str) -> ToolResult:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(plan_of(targets)))
        return cluster.reassign_partitions("--reassignment-json-file", str(plan), *arguments)

    return run


def controllers_seen(cluster: Cluster) -> set[int]:
    """Return the controllers that the brokers name."""
    servers = [b.address for b in cluster.brokers.values()]
    found = [AdminClient({"bootstrap.servers": s, **cluster.client_security}) for s in servers]
    return {a.list_topics(timeout=10).controller_id for a in found}


def sees_daemon(cluster: Cluster) -> bool:
    """Return whether every broker names the daemon as the controller."""
    return controllers_seen(cluster) == {DAEMON_ID}


@contextmanager
def tenure(
    cluster: Cluster, daemons: Daemons, make_topic: MakeTopic, *options: str
) -> Iterator[Daemon]:
    """Keep the role with a copy that does not end, until clients see the daemon."""
    topic = make_topic({0: (1, 2)})
    daemon = daemons.start(*PUBLIC, *options)
    with copies_held(cluster, [(topic, 0)]) as let_go:
        submit_request(cluster, {(topic, 0): (3, 4)})
        await_tenure(daemon)
        eventually(lambda: sees_daemon(cluster), within_s=30, what="clients see the daemon")
        yield daemon
        let_go()
    await_end(cluster, {(topic, 0): (3, 4)}, within_s=90)


def test_the_stock_tool_works_during_a_tenure(
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    tool: Callable[..., ToolResult],
) -> None:
    """Execute, list, verify and cancel what waits for a free slot; then execute to the end."""
    topic = make_topic({0: (1, 2), 1: (2, 1)})
    targets: Targets = {(topic, 0): (3, 4), (topic, 1): (4, 3)}
    with tenure(cluster, daemons, make_topic, "--max-partitions-in-flight", "1"):
        refused = tool(targets, "--execute")
        assert "existing partition assignment" in refused.stdout
        done = tool(targets, "--execute", "--additional")
        assert f"Successfully started partition reassignments for {topic}-0" in done.stdout
        listed = cluster.reassign_partitions("--list").stdout
        assert f"{topic}-0: replicas: 3,4,1,2. adding: 3,4. removing: 1,2." in listed
        verified = tool(targets, "--verify", "--preserve-throttles").stdout
        assert verified.count("still in progress") == 2
        cancelled = tool(targets, "--cancel", "--preserve-throttles").stdout
        assert f"Successfully cancelled partition reassignments for: {topic}-0" in cancelled
        after = tool(targets, "--verify", "--preserve-throttles").stdout
        assert after.count("There is no active reassignment of partition") == 2
        assert [cluster.replicas(topic, n) for n in (0, 1)] == [[1, 2], [2, 1]]
    eventually(lambda: cluster.controller() == DAEMON_ID, within_s=20)
    done = tool(targets, "--execute", "--throttle", "100000000")
    assert f"Successfully started partition reassignments for {topic}-0" in done.stdout
    await_end(cluster, targets, within_s=60)
    verified = tool(targets, "--verify").stdout
    assert verified.count("is completed" if "is completed" in verified else "is complete") == 2
    assert "Clearing broker-level throttles" in verified


def test_leader_election_tool_works(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A leader that is not the preferred one is replaced, and one that is stays."""
    topic = make_topic({0: (1, 2)})
    cluster.brokers[1].kill()
    eventually(lambda: cluster.leader(topic, 0) == 2, within_s=60)
    cluster.start_brokers(1)
    eventually(lambda: cluster.isr(topic, 0) == {1, 2}, within_s=60)
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--election-type", "preferred")
    with tenure(cluster, daemons, make_topic):
        assert cluster.leader(topic, 0) == 2
        chosen = (*where, "--topic", topic, "--partition", "0")
        first = cluster.run_tool("LeaderElectionCommand", *chosen).stdout
        assert (
            f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in first
        )
        assert cluster.leader(topic, 0) == 1
        again = cluster.run_tool("LeaderElectionCommand", *chosen).stdout
        # The tool of 2.7 does not say which.
        assert "Valid replica already elected for partitions" in again


def test_topics_are_created_grown_and_deleted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """By librdkafka and by Kafka's tool, with a copy in flight all the time."""
    name = f"late-{uuid.uuid4().hex[:8]}"
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", name)
    with tenure(cluster, daemons, make_topic):
        # A client that knew a controller before would report that it is none any more.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        made = admin.create_topics([NewTopic(name, 2, 2)], operation_timeout=30, request_timeout=60)
        made[name].result(timeout=90)
        assert set((cluster.topic(name) or {})["partitions"]) == {"0", "1"}
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        grown = cluster.run_tool(TOPICS, *where, "--alter", "--partitions", "3")
        assert grown.code == 0, grown.stdout
        assert set((cluster.topic(name) or {})["partitions"]) == {"0", "1", "2"}
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        gone = cluster.run_tool(TOPICS, *where, "--delete")
        assert gone.code == 0, gone.stdout
        eventually(lambda: cluster.topic(name) is None, within_s=60, what="it is deleted")


def test_clients_neither_stall_nor_fail(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Producers and consumers that start, work and stop during a tenure."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    with tenure(cluster, daemons, make_topic):
        with Traffic(cluster.bootstrap_servers, {topic: 2}) as traffic:
            traffic.await_flow()
            time.sleep(5)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert topic in admin.list_topics(timeout=10).topics
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        assert all(f.result(timeout=20) for f in described.values())
        ours = ConfigResource(ResourceType.BROKER, str(DAEMON_ID))
        assert admin.describe_configs([ours])[ours].result(timeout=20) == {}


def test_java_clients_do_not_notice(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A producer from before the claim to after the role is given back; a group in between."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    servers = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic)
    load = ("--max-messages", str(MESSAGES), "--throughput", "200", "--acks", "-1")
    with ThreadPoolExecutor() as beside:
        producing = beside.submit(cluster.run_tool, f"{JAVA}.VerifiableProducer", *servers, *load)
        with tenure(cluster, daemons, make_topic):
            grouped = ("--group-id", topic, "--max-messages", str(MESSAGES // 4))
            consumed = cluster.run_tool(f"{JAVA}.VerifiableConsumer", *servers, *grouped)
            assert consumed.code == 0, consumed.stdout
            assert "offsets_committed" in consumed.stdout
        produced = producing.result(timeout=120)
    assert produced.code == 0, produced.stdout
    assert "producer_send_error" not in produced.stdout
    assert produced.stdout.count("producer_send_success") == MESSAGES


def test_client_that_stays_connected_follows_the_role_to_another_daemon(
    cluster: Cluster, daemons: Daemons
) -> None:
    """
    Both daemons have the same id, and the former one continues to run.

    To Kafka's AdminClient the new address alone is no reason to leave an open connection.
    """
    options = (*PUBLIC, "--tenure", "permanent")
    first, second = daemons.start(*options), daemons.start(*options)
    await_tenure(first)
    eventually(lambda: sees_daemon(cluster), within_s=30, what="clients see the daemon")
    names = [f"asked-{uuid.uuid4().hex[:8]}" for _ in range(4)]
    with connected_admin(cluster) as create:
        assert create(names[0]) == "created"
        expire_session(cluster.zookeeper_connect, controller_session(cluster))
        await_tenure(second)
        begun = time.monotonic()
        assert [create(name) for name in names[1:]] == ["created"] * 3
        print(f"created by the other daemon after {time.monotonic() - begun:.1f} s")
    assert first.is_alive


@contextmanager
def connected_admin(cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """Run one AdminClient of Java; yield a function that creates a topic and returns its result."""
    command = java_command(
        str(Path(__file__).parent / "rigs" / "AdminSession.java"),
        cluster.bootstrap_servers,
        str(TIMEOUT_MS),
        classpath=classpath(cluster.options.broker.release),
        heap_mb=128,
        logging=write_logging(cluster.directory, threshold="OFF"),
    )
    with subprocess.Popen(
        dying_with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        requests, answers = running.stdin, running.stdout

        def create(name: str) -> str:
            print(name, file=requests, flush=True)
            return answers.readline().strip()

        yield create
        running.kill()


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_a_broker_that_is_lost_holds_nothing_up(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, how: str
) -> None:
    """Whose requests it relayed finds another broker; the ISR shrinks, and grows again."""
    topic = make_topic(dict.fromkeys(range(6), (1, 2, 3)), {"min.insync.replicas": "2"})
    with tenure(cluster, daemons, make_topic):
        with Traffic(cluster.bootstrap_servers, {topic: 6}) as traffic:
            traffic.await_flow()
            lost = cluster.brokers[3]
            lost.freeze() if how == "freeze" else lost.kill()
            begun = time.monotonic()
            eventually(lambda: all(cluster.isr(topic, n) == {1, 2} for n in range(6)), within_s=60)
            print("SHRUNK", how, time.monotonic() - begun)
            traffic.await_flow()
            if how == "freeze":
                lost.thaw()
            else:
                cluster.start_brokers(3)
            eventually(
                lambda: all(cluster.isr(topic, n) == {1, 2, 3} for n in range(6)), within_s=60
            )
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
