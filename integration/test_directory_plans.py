"""Plans of log directories on real brokers: made from snapshots, carried out, and taken back."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import fill
from integration.rigs.servers import BrokerOptions
from integration.rigs.small_disks import MountRefusedError
from integration.rigs.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None, reason="the extra `pipeline` is not installed"
    ),
]

MB: Final = 2**20
DISK_MB: Final = 160
PARTITIONS: Final = 8
MANY, FEW = 12, 2
"""Records of half a megabyte."""
SPARK: Final = ("--master", "local[2]", "--driver-memory", "1g")


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Give three brokers with two small log directories each."""
    broker = BrokerOptions(log_dirs=2, disk_mb=DISK_MB, extra={"log.index.size.max.bytes": "65536"})
    try:
        with Cluster.running(ClusterOptions(brokers=3, broker=broker)) as cluster:
            yield cluster
    except MountRefusedError as error:
        pytest.skip(f"file systems of limited size need the right to mount: {error}")


def directories(cluster: Cluster, topic: str) -> dict[tuple[int, int], str]:
    """Return the log directory of each partition, by partition and broker."""
    return {
        (n, broker): str(log_dir)
        for broker, process in cluster.brokers.items()
        for log_dir in process.log_dirs
        for n in range(PARTITIONS)
        if (log_dir / f"{topic}-{n}").is_dir()
    }


def configured(cluster: Cluster, directory: Path) -> Path:
    """Write the settings; volumes as small as these all look like one, unless they are named."""
    capacities = {
        str(broker): {str(log_dir): DISK_MB * MB for log_dir in process.log_dirs}
        for broker, process in cluster.brokers.items()
    }
    table, config = directory / "capacities.json", directory / "config.toml"
    table.write_text(json.dumps(capacities))
    config.write_text(f'zookeeper = "{cluster.zookeeper_connect}"\ndisk_capacities = "{table}"\n')
    return config


@contextmanager
def running(cluster: Cluster, directory: Path) -> Iterator[None]:
    """Run a daemon."""
    daemon = Daemon(cluster.zookeeper_connect, directory / "daemon", "--tenure-linger", "2")
    try:
        daemon.start()
        yield
    finally:
        daemon.stop()
        daemon.port.close()
    assert_conforming(cluster, daemon.journal_directory)


def planned(cluster: Cluster, directory: Path, *options: str) -> dict[str, Any]:
    """Take a snapshot and plan from it; return the summary."""
    directory.mkdir(exist_ok=True)
    config = configured(cluster, directory)
    snapshot, plan = directory / "snapshot", directory / "plan"
    for arguments in (
        ("snapshot", "--config", str(config), "--out", str(snapshot)),
        ("plan", str(snapshot), *options, "--out", str(plan)),
    ):
        result = run_reassigner("pipeline", *arguments, *SPARK, within_s=900)
        assert result.code == 0, result.stdout
    summary: dict[str, Any] = json.loads((plan / "summary.json").read_text())["plan"]
    return summary


def named(plan: Path) -> dict[tuple[int, int], str]:
    """Return the log directories that a plan names, by partition and broker."""
    return {
        (entry["partition"], broker): log_dir
        for entry in json.loads((plan / "plan.json").read_text())["partitions"]
        for broker, log_dir in zip(entry["replicas"], entry["log_dirs"], strict=True)
        if log_dir != "any"
    }


def carry_out(cluster: Cluster, directory: Path) -> None:
    """Carry out all requests of a plan with a daemon, each after a dry run."""
    with running(cluster, directory):
        for request in sorted((directory / "plan" / "requests").iterdir()):
            for options in (("--dry-run",), ("--wait", "--timeout", "120")):
                where = ("--zookeeper", cluster.zookeeper_connect)
                done = run_reassigner("execute", str(request), *where, *options, within_s=300)
                assert done.code == 0, done.stdout


def test_brokers_are_evened_out_by_the_plan(
    shared_cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The daemon carries it out; the next plan has nothing to do; Kafka's tool takes it back."""
    cluster = shared_cluster
    topic = make_topic({n: [1, 2] for n in range(PARTITIONS)})
    first = directories(cluster, topic)
    crowded = str(cluster.brokers[1].log_dirs[0])
    for n in range(PARTITIONS):
        fill(cluster, [(topic, n)], MANY if first[n, 1] == crowded else FEW)
    options = ("--balance-dirs", "--tolerance", "0.25")
    summary = planned(cluster, tmp_path, *options)
    moved = named(tmp_path / "plan")
    assert len(moved) == summary["moves"] > 0
    carry_out(cluster, tmp_path)
    assert directories(cluster, topic) == first | moved
    assert planned(cluster, tmp_path / "again", *options)["moves"] == 0
    rollback = str(tmp_path / "plan" / "rollback.json")
    back = cluster.reassign_partitions("--execute", "--reassignment-json-file", rollback)
    assert back.code == 0, back.stdout
    eventually(lambda: directories(cluster, topic) == first, within_s=120)


def test_new_replicas_are_in_the_planned_directories(
    shared_cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The replicas of a drained broker share the directories of the empty one."""
    cluster = shared_cluster
    topic = make_topic({n: [1, 2] for n in range(PARTITIONS)})
    fill(cluster, [(topic, n) for n in range(PARTITIONS)], FEW)
    first = directories(cluster, topic)
    options = ("--drain", "2", "--include", topic, "--place-dirs")
    assert planned(cluster, tmp_path, *options)["moves"] == PARTITIONS
    placed = named(tmp_path / "plan")
    assert Counter(placed.values()) == dict.fromkeys(
        map(str, cluster.brokers[3].log_dirs), PARTITIONS // 2
    )
    carry_out(cluster, tmp_path)
    stayed = {key: log_dir for key, log_dir in first.items() if key[1] == 1}
    eventually(lambda: directories(cluster, topic) == stayed | placed, within_s=60)


def test_a_directory_is_relieved_within_its_broker(
    shared_cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """As ``generate`` plans it: onto the other disk, as long as that stays below the mark."""
    cluster = shared_cluster
    topic = make_topic({n: [2] for n in range(PARTITIONS)})
    first = directories(cluster, topic)
    crowded, other = map(str, cluster.brokers[2].log_dirs)
    for n in range(PARTITIONS):
        fill(cluster, [(topic, n)], 2 * MANY if first[n, 2] == crowded else 1)
    config = configured(cluster, tmp_path)
    before = used_share(crowded)
    mark = f"{100 * (before - 0.05):.0f}%"
    goal = ("generate", topic, "--relieve", f"2:{crowded}", "--below", mark)
    with running(cluster, tmp_path):
        shown = run_reassigner(*goal, "--config", str(config), "--json", errors_too=False)
        assert shown.code == 0, shown.stdout
        found = json.loads(shown.stdout)
        assert (found["replicas_copied"], found["replicas_relocated"]) == (0, 1)
        done = run_reassigner(*goal, "--config", str(config), "--execute", "--wait", within_s=300)
        assert done.code == 0, done.stdout
    (moved,) = found["proposed"]["partitions"]
    assert directories(cluster, topic) == first | {(moved["partition"], 2): other}
    eventually(lambda: used_share(crowded) < before - 0.05, within_s=120)


def used_share(directory: str) -> float:
    """Return the used share of a file system."""
    found = os.statvfs(directory)
    return 1 - found.f_bavail / found.f_blocks
