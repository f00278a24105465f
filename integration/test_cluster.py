"""The harness itself: what the other tests on real brokers stand on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.kafka_tools import TOPICS
from integration.rigs.processes import ChildProcess
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import writes
from integration.rigs.waiting import GaveUpError, eventually

_ROOT = Path(__file__).resolve().parent.parent
_STARTS_TWO_CHILDREN = """
import sys, threading
from pathlib import Path
from integration.rigs.processes import ChildProcess
directory = Path(sys.argv[1])
children = [ChildProcess(name, ["sleep", "600"], log=directory / name) for name in ("a", "b")]
for child in children:
    starter = threading.Thread(target=child.start)
    starter.start()
    starter.join()
children[1].freeze()
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Give three brokers in two racks with two disks each."""
    options = ClusterOptions(
        brokers=3,
        racks=("a", "b"),
        broker=BrokerOptions(min_insync_replicas=2, log_dirs=2),
    )
    with Cluster.running(options) as cluster:
        yield cluster


@pytest.mark.acceptance
def test_nothing_acknowledged_is_lost_when_a_broker_is_killed_and_comes_back(
    three: Cluster,
) -> None:
    """Kill -9 the leader under traffic: another takes over, it rejoins, every record is there."""
    three.create_topic("killed", {0: [1, 2, 3], 1: [2, 3, 1]}, {"min.insync.replicas": "2"})
    partitions = {"killed": 2}
    with Traffic(three.bootstrap_servers, partitions) as traffic:
        traffic.await_flow()
        three.brokers[1].kill()
        eventually(lambda: three.leader("killed", 0) not in {None, 1}, within_s=30)
        traffic.await_flow()
        three.brokers[1].start()
        eventually(lambda: three.isr("killed", 0) == {1, 2, 3}, within_s=60)
        traffic.stop()
    result = traffic.audited()
    assert result.is_clean, str(result)
    assert result.acknowledged > 400
    assert three.replicas("killed", 1) == [2, 3, 1]


def test_brokers_registered_with_their_racks_and_the_old_protocol(three: Cluster) -> None:
    """With inter-broker protocol 2.6 a registration has no features: native may work on it."""
    registrations = {n: three.read(f"/brokers/ids/{n}") or {} for n in three.brokers}
    assert {n: found["rack"] for n, found in registrations.items()} == {1: "a", 2: "b", 3: "a"}
    assert not any("features" in found for found in registrations.values())


def test_a_frozen_broker_loses_its_session_and_rejoins_when_thawed(three: Cluster) -> None:
    """SIGSTOP leaves the process there but ends its session; SIGCONT brings the broker back."""
    three.create_topic("frozen", {0: [3, 1, 2]})
    three.brokers[3].freeze()
    eventually(lambda: not three.is_registered(3), within_s=30)
    assert three.brokers[3].is_alive
    three.brokers[3].thaw()
    eventually(lambda: three.isr("frozen", 0) == {1, 2, 3}, within_s=60)


def test_the_controller_is_a_broker_and_moves_when_that_one_stops(three: Cluster) -> None:
    """An orderly stop hands the role to another broker; after heal all three are back."""
    eventually(three.controller_broker, within_s=30)
    first = three.controller_broker()
    assert first is not None
    code = three.brokers[first].stop()
    assert code == 128 + signal.SIGTERM
    eventually(lambda: three.controller_broker() not in {None, first}, within_s=30)
    three.heal()
    assert all(broker.is_alive for broker in three.brokers.values())


def test_directories_of_a_deleted_topic_disappear_soon(three: Cluster) -> None:
    """The disks are seen as they are; nothing of a deleted topic stays for long."""
    three.create_topic("short-lived", {0: [1], 1: [2]})
    assert "short-lived-0" in three.replica_directories(1)
    assert "short-lived-0" not in three.replica_directories(2)
    three.delete_topics("short-lived")
    eventually(
        lambda: (
            not any(
                name.startswith("short-lived")
                for broker_id in three.brokers
                for name in three.replica_directories(broker_id)
            )
        ),
        within_s=60,
    )


def test_stock_tools_run(three: Cluster) -> None:
    """Their exit code and text come back."""
    three.create_topic("seen", {0: [1, 2]})
    listed = three.run_tool(TOPICS, "--bootstrap-server", three.bootstrap_servers, "--list")
    assert listed.code == 0
    assert "seen" in listed.stdout.splitlines()
    code, text = three.reassign_partitions("--list")
    assert code == 0
    assert "No partition reassignments found." in text


def test_zookeeper_restarts_on_its_port_with_its_data(three: Cluster) -> None:
    """A killed ZooKeeper comes back with every znode and the brokers keep their sessions."""
    before = three.topic("killed-with-zookeeper")
    three.create_topic("killed-with-zookeeper", {0: [1, 2, 3]})
    three.zookeeper.kill()
    three.heal()
    assert before is None
    assert three.replicas("killed-with-zookeeper", 0) == [1, 2, 3]


def test_the_shared_cluster_is_whole_again_whatever_a_test_did_to_it(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Killed, stopped and frozen brokers all serve after ``heal``, with their replicas in sync."""
    topic = make_topic({0: [1, 2, 3, 4, 5]})
    cluster.brokers[1].kill()
    cluster.brokers[2].stop()
    cluster.brokers[3].freeze()
    cluster.heal()
    assert all(cluster.is_registered(n) for n in cluster.brokers)
    eventually(lambda: cluster.isr(topic, 0) == {1, 2, 3, 4, 5}, within_s=60)


@pytest.mark.acceptance
def test_children_die_with_a_killed_parent_whichever_thread_started_them(tmp_path: Path) -> None:
    """SIGKILL the process that started children, one of them frozen: neither outlives it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _STARTS_TWO_CHILDREN, str(tmp_path)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert [_is_running(pid) for pid in children] == [True, True]
        parent.kill()
    eventually(lambda: not any(_is_running(pid) for pid in children), within_s=10)


@pytest.mark.acceptance
def test_nothing_is_left_of_a_closed_cluster() -> None:
    """After the ``with`` block no process and no file of the cluster exists."""
    with Cluster.running(
        ClusterOptions(brokers=1, broker=BrokerOptions(internal_replication_factor=1))
    ) as cluster:
        pids = [process.pid for process in cluster.processes]
        assert all(pid is not None and _is_running(pid) for pid in pids)
    assert not any(pid is not None and _is_running(pid) for pid in pids)
    assert not cluster.directory.exists()


def test_the_transaction_log_has_no_multi_that_failed(cluster: Cluster) -> None:
    """ZooKeeper logs the parts before the one that failed, though nothing of them happened."""
    cluster.zk.create("/multis", b"first")
    failing = cluster.zk.transaction()
    failing.set_data("/multis", b"never")
    failing.delete("/multis", version=7)
    failing.commit()
    passing = cluster.zk.transaction()
    passing.set_data("/multis", b"second")
    passing.delete("/multis")
    passing.commit()
    seen = [write.data for write in writes(cluster) if write.path == "/multis"]
    assert seen == [b"first", b"second", None]


def test_a_wait_that_runs_out_says_what_it_saw() -> None:
    """The message of a failed wait holds the aim and the last result."""
    with pytest.raises(GaveUpError, match=r"the impossible; last: 0"):
        eventually(lambda: 0, within_s=0.05, every_s=0.01, what="the impossible")


def test_a_child_that_ends_at_once_is_reported_with_its_output(tmp_path: Path) -> None:
    """A program that fails to start is distinguished from one that is slow."""
    child = ChildProcess(
        "failing", ["sh", "-c", "echo cannot; exit 3"], log=tmp_path / "failing.log"
    )
    child.spawn()
    assert child.wait(within_s=10) == 3
    assert "cannot" in child.log_tail()


def _is_running(pid: int) -> bool:
    """Return whether a process exists and is not merely waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
