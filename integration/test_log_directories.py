"""Real brokers create and move replicas in the log directories that entries name (KIP-113)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.log_dirs import BrokerLogDirs
from controller.clocks import MonotonicClock
from controller.core.cluster.model import LiveBroker
from controller.core.disks.records import LogDirsAltered, LogDirsDescribed
from controller.core.model import BrokerId, TopicPartition
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.failpoints import Failpoint
from integration.rigs.kafka_tools import REASSIGN_PARTITIONS, run_tool
from integration.rigs.plans import (
    LEGACY_PLAN,
    Daemons,
    await_end,
    configured,
    fill,
    is_reassigning,
)
from integration.rigs.recovery_cells import await_death
from integration.rigs.requests import await_outcome, cancel, reassigner, submit_request
from integration.rigs.seized_controllers import QueueInbox, SeizedController
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from tests.contracts.directories_contract import ONE, DirectoriesContract

MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
OPTIONS: Final = ("--tenure-linger", "1", "--min-free", "none")
ENDS_WITHIN_S: Final = 120.0
WHERE: Final = tuple(row for row in ROWS if row.protocol in {None, "2.6"})
"""Both engines with the newest release, and the native one with the oldest two."""
CHOSEN: Final = tuple(
    row for row in WHERE if row.engine == "native" or (row.protocol, row.wanted) == (None, "auto")
)


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give engine and release."""
    assert isinstance(request.param, Row)
    return request.param


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give four brokers with two log directories each."""
    broker = BrokerOptions(
        inter_broker_protocol=row.protocol, release=row.release, log_dirs=2, heap_mb=384
    )
    with Cluster.running(ClusterOptions(brokers=4, broker=broker)) as cluster:
        yield cluster


# --- the contract of the requests ---------------------------------------------------------------


class RealDirectories:
    """The brokers of the cluster, asked as by the daemon."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self._cluster = cluster
        self._inbox = QueueInbox()
        self.directories = BrokerLogDirs(self._inbox, ConnectionSettings(), MonotonicClock())
        self.directories.start()
        reader = SeizedController(cluster.zookeeper_connect)
        self._live: Mapping[BrokerId, LiveBroker] = reader.brokers()
        reader.stop()
        self.directories.update_brokers(self._live.values())

    def described(self, broker: BrokerId, *partitions: TopicPartition) -> LogDirsDescribed:
        """Ask a broker, and return the answer."""
        self.directories.describe([self._live[broker]], partitions, is_whole=False)
        event = self._inbox.next()
        assert isinstance(event, LogDirsDescribed)
        return event

    def altered(
        self, broker: BrokerId, partition: TopicPartition, directory: str
    ) -> LogDirsAltered:
        """Request a directory, and return the answer."""
        self.directories.alter(self._live[broker], {partition: directory})
        event = self._inbox.next()
        assert isinstance(event, LogDirsAltered)
        return event

    def add_replica(self, broker: BrokerId) -> None:
        """Have Kafka's controller add a replica, by the legacy znode."""
        topic, number = self.partition
        entry = {"topic": topic, "partition": number, "replicas": [1, int(broker)]}
        plan = json.dumps({"version": 1, "partitions": [entry]}).encode()
        self._cluster.zk.create(LEGACY_PLAN, plan)
        eventually(lambda: self._cluster.zk.exists(LEGACY_PLAN) is None, within_s=40)
        eventually(lambda: bool(self.described(broker, self.partition).replicas), within_s=40)

    def settle(self) -> None:
        """Wait until nothing is moved any more."""
        eventually(
            lambda: all(
                p.future is None for p in self.described(ONE, self.partition).replicas.values()
            ),
            within_s=40,
        )


class TestRealDirectories(DirectoriesContract):
    """The contract of AlterReplicaLogDirs."""

    @pytest.fixture
    def rig(self, cluster: Cluster, make_topic: MakeTopic) -> Iterator[RealDirectories]:
        """Return the brokers, and a topic on the first."""
        made = RealDirectories(cluster, make_topic({0: [1]}))
        eventually(lambda: bool(made.described(ONE, made.partition).replicas), within_s=40)
        yield made
        made.directories.stop()


# --- the daemon ----------------------------------------------------------------------------------


def where(cluster: Cluster, topic: str, number: int, broker: int) -> list[int]:
    """Return the directories of a broker with the log of a partition, and with a future one."""
    name = f"{topic}-{number}"
    return [
        n
        for n, directory in enumerate(cluster.brokers[broker].log_dirs)
        for entry in directory.iterdir()
        if entry.name == name or (entry.name.startswith(f"{name}.") and "future" in entry.name)
    ]


def plan_entry(
    cluster: Cluster,
    topic: str,
    number: int,
    replicas: Sequence[int],
    directories: Sequence[int | None],
) -> dict[str, Any]:
    """Return an entry in the format of the stock tool."""
    listed = [
        "any" if n is None else str(cluster.brokers[broker].log_dirs[n])
        for broker, n in zip(replicas, directories, strict=True)
    ]
    return {"topic": topic, "partition": number, "replicas": list(replicas), "log_dirs": listed}


def mixture(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """Return new replicas, kept ones that move, an order that stays, and only directories."""
    other = {b: 1 - where(cluster, topic, 1, b)[0] for b in (1, 2)}
    return [
        plan_entry(cluster, topic, 0, [3, 4], [1, 0]),
        plan_entry(cluster, topic, 1, [1, 2], [other[1], other[2]]),
        plan_entry(cluster, topic, 2, [2, 3], [0, 1]),
        plan_entry(cluster, topic, 3, [4, 1], [0, None]),
    ]


def judge_places(cluster: Cluster, entries: Sequence[Mapping[str, Any]]) -> None:
    """Judge that each named replica is in its directory, and nowhere else."""
    for entry in entries:
        for broker, path in zip(entry["replicas"], entry["log_dirs"], strict=True):
            found = where(cluster, entry["topic"], entry["partition"], broker)
            dirs = [str(cluster.brokers[broker].log_dirs[n]) for n in found]
            assert len(dirs) == 1, entry
            assert path in {"any", dirs[0]}, (entry, broker, dirs)


def targets_of(entries: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], list[int]]:
    """Return the target replicas of entries."""
    return {(e["topic"], e["partition"]): e["replicas"] for e in entries}


def start(daemons: Daemons, row: Row, *, failpoint: Failpoint | None = None) -> Daemon:
    """Start a daemon of the row's engine."""
    dies = None if failpoint is None else ("die", failpoint)
    return daemons.start("--engine", row.wanted, *OPTIONS, failpoint=dies)


def four(make_topic: MakeTopic) -> str:
    """Return a topic with four partitions on the first two brokers."""
    return make_topic({n: [1, 2] for n in range(4)})


def test_replicas_end_in_the_named_directories_and_the_stock_tool_sees_it(
    cluster: Cluster, row: Row, daemons: Daemons, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """New ones, kept ones, and where only directories change; by the command line."""
    topic = four(make_topic)
    fill(cluster, [(topic, n) for n in range(4)], 2)
    start(daemons, row)
    entries = mixture(cluster, topic)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    plan = ("--reassignment-json-file", str(path))
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    if row.release.reassigns_by_api:
        done = reassigner(cluster, "stock", *server, "--execute", *plan)
        assert "Successfully started moving log directory to" in done.stdout
    else:
        done = reassigner(cluster, "execute", str(path), "--wait", "--timeout", "60")
    assert done.code == 0, done.stdout
    await_end(cluster, targets_of(entries), within_s=ENDS_WITHIN_S)
    judge_places(cluster, entries)
    if row.release.reassigns_by_api:
        flags = (*server, "--verify", "--preserve-throttles", *plan)
        theirs = run_tool(
            REASSIGN_PARTITIONS, *flags, release=row.release, directory=tmp_path, errors_too=False
        )
        ours = reassigner(cluster, "stock", *flags)
        # Kafka's tool says it in other words since 3.3; ours says it as that does.
        since = theirs.stdout.replace(" is complete.\n", " is completed.\n")
        assert (ours.code, ours.stdout) == (theirs.code, since)
        assert f"Reassignment of replica {topic}-1-2 completed successfully." in ours.stdout


def test_the_way_back_that_execute_prints_restores_the_directories(
    cluster: Cluster, row: Row, daemons: Daemons, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Its whole output, with the headings, is the plan that leads back."""
    topic = make_topic({0: [1, 2]})
    fill(cluster, [(topic, 0)], 2)
    start(daemons, row)
    before = {b: where(cluster, topic, 0, b) for b in (1, 2)}
    there = plan_entry(cluster, topic, 0, [1, 3], [1 - before[1][0], 1])
    path = tmp_path / "plan.json"
    for text in (json.dumps({"version": 1, "partitions": [there]}), ""):
        if text:
            path.write_text(text)
        done = reassigner(cluster, "execute", str(path), "--wait", "--timeout", "60")
        assert done.code == 0, done.stdout
        path.write_text(done.stdout)
        if text:
            judge_places(cluster, [there])
    assert "the current assignment of the tool's output was taken" in done.stdout
    assert cluster.replicas(topic, 0) == [1, 2]
    # Broker 2 got a new replica, in any directory.
    assert where(cluster, topic, 0, 1) == before[1]


def test_directory_that_a_broker_does_not_have_is_refused(
    cluster: Cluster, row: Row, daemons: Daemons, make_topic: MakeTopic
) -> None:
    """The rest of the request is carried out."""
    topic = four(make_topic)
    start(daemons, row)
    good = plan_entry(cluster, topic, 0, [3, 4], [1, 1])
    bad = {**plan_entry(cluster, topic, 1, [3, 4], [1, 1]), "log_dirs": ["any", "/no/such"]}
    request = submit_request(cluster, {"version": 1, "partitions": [good, bad]})
    ended = await_outcome(cluster, request, within_s=ENDS_WITHIN_S)
    (refusal,) = ended["refused"]
    assert refusal["detail"] == "broker 4 has no log directory /no/such"
    judge_places(cluster, [good])
    assert cluster.replicas(topic, 1) == [1, 2]


def test_throttled_move_is_cancelled(
    cluster: Cluster, row: Row, daemons: Daemons, make_topic: MakeTopic
) -> None:
    """The replica stays where it was, and the throttle is removed."""
    topic = make_topic({0: [1, 2]})
    fill(cluster, [(topic, 0)], 20)
    start(daemons, row)
    (here,) = where(cluster, topic, 0, 2)
    entry = plan_entry(cluster, topic, 0, [1, 2], [None, 1 - here])
    document = {"version": 1, "partitions": [entry], "log_dirs_throttle": 1000}
    request = submit_request(cluster, document)
    eventually(lambda: len(where(cluster, topic, 0, 2)) > 1, within_s=60, what="a move begins")
    assert configured(cluster, "brokers/2")[MOVE_RATE] == "1000"
    explained = reassigner(cluster, "explain", f"{topic}-0").stdout
    assert "placing" in explained, explained
    cancel(cluster, requests=[request])
    ended = await_outcome(cluster, request, within_s=ENDS_WITHIN_S)
    assert ended["fates"] == {"rolled_back": 1}, ended
    assert where(cluster, topic, 0, 2) == [here]
    eventually(lambda: MOVE_RATE not in configured(cluster, "brokers/2"), within_s=20)
    assert not is_reassigning(cluster, topic)


@pytest.mark.parametrize(
    "failpoint",
    [Failpoint.BEFORE_PLACEMENT, Failpoint.PLACEMENT_SENT, Failpoint.PLACING_BEGUN],
)
def test_killed_daemon_is_succeeded(
    cluster: Cluster, row: Row, daemons: Daemons, make_topic: MakeTopic, failpoint: Failpoint
) -> None:
    """Whatever the brokers noted or began: every replica ends in its directory."""
    topic = four(make_topic)
    fill(cluster, [(topic, n) for n in range(4)], 2)
    daemon = start(daemons, row, failpoint=failpoint)
    entries = mixture(cluster, topic)
    submit_request(cluster, {"version": 1, "partitions": entries})
    await_death(daemon)
    start(daemons, row)
    await_end(cluster, targets_of(entries), within_s=ENDS_WITHIN_S)
    judge_places(cluster, entries)
