"""
The documented sequence of the pipeline on a real cluster.

Snapshot, a plan that drains a broker, its requests one after the other, another snapshot, the
report: and what all of them say is compared with the files on the brokers' disks.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None, reason="the extra `pipeline` is not installed"
    ),
]

TOPICS = {"orders": 6, "clicks": 4}
LEAVING = 4
RECORDS = 6_000
RETENTION_MS = "86400000"
SPARK_WITHIN_S = 900.0
NOT_ALL = 2
SIZES = (
    "SELECT broker, sum(size_bytes) AS n FROM t WHERE topic IN ('orders', 'clicks') GROUP BY broker"
)


@pytest.fixture(scope="module")
def filled() -> Iterator[Cluster]:
    """Give a cluster of four brokers in two racks with some data."""
    with Cluster.running(ClusterOptions(brokers=4, racks=("a", "b"))) as cluster:
        for first, (topic, count) in enumerate(TOPICS.items()):
            cluster.create_topic(
                topic,
                {p: (1 + (first + p) % 4, 1 + (first + p + 1) % 4) for p in range(count)},
                {"retention.ms": RETENTION_MS, "min.insync.replicas": "1"},
            )
        with Traffic(
            cluster.bootstrap_servers, TOPICS, records_per_s=20_000, payload_bytes=1_000
        ) as filling:
            eventually(lambda: len(filling.acknowledged) >= RECORDS, within_s=120)
            filling.stop()
        yield cluster


def on_disk(cluster: Cluster) -> dict[int, int]:
    """Return the bytes of our topics' segments on each broker's disks, by the files themselves."""
    held: Counter[int] = Counter()
    for broker, process in cluster.brokers.items():
        for log_dir in process.log_dirs:
            held[broker] += sum(
                segment.stat().st_size
                for segment in Path(log_dir).glob("*/*.log")
                if segment.parent.name.rpartition("-")[0] in TOPICS
            )
    return dict(held)


def pipeline(*arguments: str | Path, codes: tuple[int, ...] = (0,)) -> ToolResult:
    """Run one verb of the pipeline."""
    spark = () if arguments[0] == "rebase" else ("--master", "local[2]", "--driver-memory", "1g")
    result = run_reassigner("pipeline", *map(str, arguments), *spark, within_s=SPARK_WITHIN_S)
    assert result.code in codes, result.stdout
    return result


def read(directory: Path, expression: str) -> list[dict[str, Any]]:
    """Return the rows of a query over a Parquet table, by a Spark of its own."""
    from controller.pipeline.spark_session import open_session  # noqa: PLC0415 - may not be installed

    spark = open_session("local[1]", memory="1g", shuffles=1)
    spark.read.parquet(str(directory)).createOrReplaceTempView("t")
    return [row.asDict() for row in spark.sql(expression).collect()]


def test_the_documented_sequence_agrees_with_the_disks(filled: Cluster, tmp_path: Path) -> None:
    """Every number along the way is what the files on the disks say."""
    zookeeper = ("--zookeeper", filled.zookeeper_connect)
    before, plan, after = tmp_path / "before", tmp_path / "plan", tmp_path / "after"
    shelf = tmp_path / "reports"
    report = shelf / "drain"

    pipeline("snapshot", "--out", before, *zookeeper)
    first = on_disk(filled)
    assert {r["broker"]: r["n"] for r in read(before / "replicas", SIZES)} == first
    leaders = "SELECT topic, partition, broker FROM t WHERE is_leader"
    for row in read(before / "replicas", leaders):
        assert filled.leader(row["topic"], row["partition"]) == row["broker"]
    query = "SELECT topic, min_insync_replicas AS least, configs FROM t"
    assert {
        r["topic"]: (r["least"], r["configs"]) for r in read(before / "topics", query)
    } == dict.fromkeys(TOPICS, (1, {"retention.ms": RETENTION_MS, "min.insync.replicas": "1"}))
    racks = {r["broker"]: r["rack"] for r in read(before / "brokers", "SELECT * FROM t")}
    assert racks == {1: "a", 2: "b", 3: "a", 4: "b"}

    pipeline(
        "plan", before, "--drain", str(LEAVING), "--include", "orders|clicks",
        "--wave-partitions", "3", "--out", plan, codes=(0, NOT_ALL),
    )  # fmt: skip
    requests = sorted((plan / "requests").iterdir())
    assert len(requests) > 1
    planned = {
        r["broker"]: r["n"]
        for r in read(
            plan / "changes",
            "SELECT broker, sum(size_bytes) AS n FROM (SELECT size_bytes, "
            "explode(array_except(after, before)) AS broker FROM t) GROUP BY broker",
        )
    }

    daemon = Daemon(filled.zookeeper_connect, tmp_path / "daemon", "--tenure-linger", "2")
    try:
        daemon.start()
        for request in requests:
            done = run_reassigner(
                "execute", str(request), *zookeeper, "--wait", "--timeout", "120", within_s=300
            )
            assert done.code == 0, done.stdout
        eventually(lambda: on_disk(filled)[LEAVING] == 0, within_s=60)
    finally:
        daemon.stop()
        daemon.port.close()
    assert_conforming(filled, daemon.journal_directory)
    last = on_disk(filled)
    came = {broker: planned.get(broker, 0) for broker in filled.brokers}
    for broker in (1, 2, 3):
        assert last[broker] - first[broker] == came[broker]

    pipeline("snapshot", "--out", after, *zookeeper)
    assert {r["broker"]: r["n"] for r in read(after / "replicas", SIZES)} == {
        broker: size for broker, size in last.items() if size
    }

    pipeline("report", daemon.journal_directory, "--plan", plan, "--after", after, "--out", report)
    moved = {
        r["broker"]: r["in_bytes"]
        for r in read(report / "brokers", "SELECT broker, in_bytes FROM t WHERE in_bytes > 0")
    }
    assert moved == planned
    ended = read(report / "requests", "SELECT * FROM t WHERE state = 'done'")
    assert len(ended) == len(requests)
    assert sum(r["moved_bytes"] for r in ended) == sum(planned.values())
    assert sum(r["planned_bytes"] for r in ended) == sum(planned.values())
    assert (report / "report.html").read_text(encoding="utf-8").count("<svg") >= 4

    check_shelf(Daemon(*zookeeper[1:], tmp_path / "next", "--reports-dir", str(shelf)), ended)
    check_other_times(requests[0], zookeeper, tmp_path)
    check_stock(filled, plan / "plan.json")


def test_rates_are_measured_by_the_growth_of_logs(filled: Cluster, tmp_path: Path) -> None:
    """The growth of the leaders' logs is what producers write; consumers stay unknown."""
    zookeeper = ("--zookeeper", filled.zookeeper_connect)
    snapshot = tmp_path / "snapshot"
    with Traffic(
        filled.bootstrap_servers, TOPICS, records_per_s=1_000, payload_bytes=1_000
    ) as writing:
        begun, first = time.monotonic(), len(writing.acknowledged)
        said = pipeline("snapshot", "--measure-rates", "20s", "--out", snapshot, *zookeeper)
        written = (len(writing.acknowledged) - first) / (time.monotonic() - begun) * 1_000
        writing.stop()
    assert "bytes out to consumers: unknown for" in said.stdout
    total = "SELECT sum(bytes_in_per_s) AS n, count(bytes_in_per_s) AS known FROM t"
    (rates,) = read(snapshot / "rates", f"{total} WHERE topic IN ('orders', 'clicks')")
    assert rates["known"] == sum(TOPICS.values())
    assert 0.5 * written < rates["n"] < 2 * written


def check_shelf(daemon: Daemon, requests: list[dict[str, Any]]) -> None:
    """Check that a daemon links the report from its status page, and serves it."""
    try:
        daemon.start()
        assert '<a href="/reports/drain">drain</a>' in daemon.get("/")[1]
        for row in requests:
            assert "/reports/drain" in daemon.get(f"/history?request={row['request']}")[1]
        code, page = daemon.get("/reports/drain")
        assert (code, "After-action report" in page) == (200, True)
    finally:
        daemon.stop()
        daemon.port.close()


def check_stock(cluster: Cluster, plan: Path) -> None:
    """Check that Kafka's own tool understands the plan, and finds it carried out."""
    verified = cluster.reassign_partitions("--reassignment-json-file", str(plan), "--verify")
    assert verified.code == 0, verified.stdout
    assert verified.stdout.count("is completed") == len(json.loads(plan.read_text())["partitions"])


def check_other_times(request: Path, zookeeper: tuple[str, ...], tmp_path: Path) -> None:
    """Check what happens to a request that the cluster has left behind."""
    # Done already: there is nothing to do, and nothing against it.
    again = run_reassigner("execute", str(request), *zookeeper, "--dry-run")
    assert again.code == 0, again.stdout
    # It was planned for another cluster: refused, whatever stands there.
    other = tmp_path / "other.json"
    other.write_text(json.dumps(json.loads(request.read_text()) | {"cluster_id": "another"}))
    foreign = run_reassigner("execute", str(other), *zookeeper)
    assert foreign.code == 1, foreign.stdout
    assert "was planned for the cluster another" in foreign.stdout
    # A partition was moved meanwhile: refused, and the part that still fits can be written.
    changed = json.loads(request.read_text())
    entry = changed["partitions"][0]
    entry["original_replicas"] = [LEAVING, *entry["original_replicas"][:1]]
    entry["replicas"] = entry["original_replicas"][::-1]
    stale = tmp_path / "stale.json"
    stale.write_text(json.dumps(changed))
    refused = run_reassigner("execute", str(stale), *zookeeper)
    assert refused.code == 3, refused.stdout
    assert f"{entry['topic']}-{entry['partition']}: it has changed" in refused.stdout
    pipeline("rebase", stale, "--out", tmp_path / "now.json", *zookeeper, codes=(NOT_ALL,))
    assert json.loads((tmp_path / "now.json").read_text())["partitions"] == []
