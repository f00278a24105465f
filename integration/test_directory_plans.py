"""Log directories of real brokers: a snapshot, a plan that evens them out, and its rollback."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
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
    """Give two brokers with two small log directories each."""
    broker = BrokerOptions(log_dirs=2, disk_mb=DISK_MB, extra={"log.index.size.max.bytes": "65536"})
    try:
        with Cluster.running(ClusterOptions(brokers=2, broker=broker)) as cluster:
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
    named, config = directory / "capacities.json", directory / "config.toml"
    named.write_text(json.dumps(capacities))
    config.write_text(f'zookeeper = "{cluster.zookeeper_connect}"\ndisk_capacities = "{named}"\n')
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


def balanced(cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Take a snapshot and plan from it; return the summary."""
    config = configured(cluster, directory)
    snapshot, plan = directory / "snapshot", directory / "plan"
    for arguments in (
        ("snapshot", "--config", str(config), "--out", str(snapshot)),
        ("plan", str(snapshot), "--balance-dirs", "--tolerance", "0.25", "--out", str(plan)),
    ):
        result = run_reassigner("pipeline", *arguments, *SPARK, within_s=900)
        assert result.code == 0, result.stdout
    summary: dict[str, Any] = json.loads((plan / "summary.json").read_text())
    return summary


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
    summary = balanced(cluster, tmp_path)
    assert summary["plan"]["brokers"] > 0
    plan = tmp_path / "plan"
    wanted = {
        (entry["partition"], broker): log_dir
        for entry in json.loads((plan / "plan.json").read_text())["partitions"]
        for broker, log_dir in zip(entry["replicas"], entry["log_dirs"], strict=True)
        if log_dir != "any"
    }
    assert len(wanted) == summary["plan"]["moves"] > 0
    with running(cluster, tmp_path):
        for request in sorted((plan / "requests").iterdir()):
            for options in (("--dry-run",), ("--wait", "--timeout", "120")):
                where = ("--zookeeper", cluster.zookeeper_connect)
                done = run_reassigner("execute", str(request), *where, *options, within_s=300)
                assert done.code == 0, done.stdout
    assert directories(cluster, topic) == first | wanted
    again = tmp_path / "again"
    again.mkdir()
    assert balanced(cluster, again)["plan"]["moves"] == 0
    rollback = str(plan / "rollback.json")
    back = cluster.reassign_partitions("--execute", "--reassignment-json-file", rollback)
    assert back.code == 0, back.stdout
    eventually(lambda: directories(cluster, topic) == first, within_s=120)
