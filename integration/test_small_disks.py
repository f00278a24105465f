"""
No disk is ever full because of a plan: log directories of limited size, watched while copies run.

Each plan would fill a disk if all of it began at once.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import Daemons, Targets, await_end, fill, what_is_missing
from integration.rigs.requests import cancel, reassigner, submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.small_disks import DiskWatch, MountRefusedError, free_bytes
from integration.rigs.waiting import eventually

MB: Final = 2**20
DISK_MB: Final = 76
PARTITIONS: Final = 16
RECORDS: Final = 8
"""Of half a megabyte each: four megabytes in each partition, 64 on each disk."""
RESERVE_MB: Final = 2
DELETE_DELAY_MS: Final = 4_000
ENGINES: Final = {"2.6": "native", "3.9": "delegated"}
"""By inter-broker protocol."""


@pytest.fixture(scope="module", params=ENGINES)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give four brokers with one small disk each; their releases report free space."""
    broker = BrokerOptions(
        inter_broker_protocol=request.param,
        disk_mb=DISK_MB,
        extra={
            "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
            "log.segment.bytes": str(MB),
            "log.index.size.max.bytes": "65536",
        },
    )
    try:
        with Cluster.running(ClusterOptions(brokers=4, broker=broker)) as cluster:
            yield cluster
    except MountRefusedError as error:
        pytest.skip(f"file systems of limited size need the right to mount: {error}")


@pytest.fixture
def daemon(cluster: Cluster, daemons: Daemons) -> Daemon:
    """Give a daemon that limits nothing but the space on disks."""
    protocol = cluster.options.broker.inter_broker_protocol
    assert protocol is not None
    started = daemons.start(
        *("--engine", ENGINES[protocol], "--step-size", "all", "--tenure-linger", "1"),
        *("--min-free", f"{RESERVE_MB * MB}", "--size-refresh", "1", "--copy-refresh", "1"),
        *("--max-incoming-per-broker", "100", "--max-outgoing-per-broker", "100"),
    )
    eventually(lambda: started.status()["engine"] == ENGINES[protocol], within_s=20)
    return started


def filled(cluster: Cluster, make_topic: MakeTopic, broker: int) -> str:
    """Return a topic of which all partitions are on one broker, and take 64 MB there."""
    eventually(
        lambda: all(free_bytes(d) > (DISK_MB - 4) * MB for d in cluster.brokers[broker].log_dirs),
        within_s=60,
        what="the logs of the test before are deleted",
    )
    topic = make_topic({n: [broker] for n in range(PARTITIONS)})
    fill(cluster, [(topic, n) for n in range(PARTITIONS)], RECORDS)
    return topic


def an_exchange(cluster: Cluster, make_topic: MakeTopic) -> Targets:
    """Fill two brokers; return the plan by which they exchange all their partitions."""
    first, second = (filled(cluster, make_topic, broker) for broker in (1, 2))
    return {
        **{(first, n): [2] for n in range(PARTITIONS)},
        **{(second, n): [1] for n in range(PARTITIONS)},
    }


def watched(cluster: Cluster) -> DiskWatch:
    """Return a watch of every log directory."""
    return DiskWatch(d for broker in cluster.brokers.values() for d in broker.log_dirs)


def judge(cluster: Cluster, disks: DiskWatch) -> None:
    """Judge that no disk was full, and that every broker lives."""
    assert all(broker.is_alive for broker in cluster.brokers.values())
    least = {str(path): free // 1024 for path, free in disks.least_free.items()}
    # A broker allocates ahead of what it reports, so a part of the reserve may be in use.
    assert min(least.values()) >= RESERVE_MB * 1024 // 2, f"KB that were free at least: {least}"


def blocked_by(daemon: Daemon) -> set[str]:
    """Return the reasons for which pending partitions wait."""
    rows: list[dict[str, Any]] = daemon.status()["waiting"]
    return {row["blocked_on"]["by"] for row in rows if row["blocked_on"] is not None}


@pytest.mark.parametrize(
    "shared_cluster",
    [pytest.param("2.6", marks=pytest.mark.smoke), "3.9"],
    indirect=True,
    scope="module",
)
def test_two_brokers_exchange_all_partitions_without_filling_a_disk(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """What leaves a disk makes room there, after the delay of deletions."""
    targets = an_exchange(cluster, make_topic)
    with watched(cluster) as disks:
        submit_request(cluster, targets)
        eventually(lambda: "disk_full" in blocked_by(daemon), within_s=30)
        await_end(cluster, targets, within_s=300)
    judge(cluster, disks)


def test_what_does_not_fit_waits_with_the_reason_and_can_be_cancelled(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """Two disks do not fit on one: the rest waits until it is cancelled."""
    topics = [filled(cluster, make_topic, broker) for broker in (1, 2)]
    targets: Targets = {(topic, n): [3] for topic in topics for n in range(PARTITIONS)}

    def on_target() -> int:
        return sum(cluster.replicas(topic, n) == [3] for topic, n in targets)

    with watched(cluster) as disks:
        request = submit_request(cluster, targets)
        eventually(lambda: on_target() >= PARTITIONS, within_s=120)
        time.sleep(10)
        assert PARTITIONS <= on_target() < 2 * PARTITIONS
        assert blocked_by(daemon) == {"disk_full"}
        (topic, number) = next(p for p in targets if cluster.replicas(*p) != [3])
        explained = reassigner(cluster, "explain", f"{topic}-{number}").stdout
        assert "broker 3" in explained, explained
        assert "free above min_free" in explained, explained
        cancel(cluster, requests=[request])
        eventually(lambda: not daemon.status()["waiting"], within_s=60)
    judge(cluster, disks)


def test_a_broker_and_the_daemon_are_killed_while_disks_are_almost_full(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """The disks are measured again, and the plan ends."""
    targets = an_exchange(cluster, make_topic)
    with watched(cluster) as disks:
        submit_request(cluster, targets)
        for _ in range(2):
            eventually(lambda: "disk_full" in blocked_by(daemon), within_s=60)
            daemon.kill()
            cluster.brokers[2].kill()
            cluster.start_brokers(2)
            daemon.start()
        if cluster.options.broker.uses_alter_partition:
            await_end_but_strays(cluster, targets, killed=2)
        else:
            await_end(cluster, targets, within_s=300)
    judge(cluster, disks)


THROTTLE: Final = 200_000
"""Bytes per second and broker: a partition takes 20 seconds."""
FLOOR_S: Final = RECORDS * 500_000 / THROTTLE + DELETE_DELAY_MS / 1000
"""What a copy and the deletion of a log take at least."""


def used_share(directory: Path) -> float:
    """Return the used share of a file system, as brokers count it."""
    found = os.statvfs(directory)
    return 1 - found.f_bavail / found.f_blocks


def test_a_full_disk_is_relieved_and_its_first_bytes_are_free_soon(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The plan has no more replicas than it takes; no other disk ends above the mark."""
    del daemon
    topic = filled(cluster, make_topic, 1)
    (full,) = cluster.brokers[1].log_dirs
    assert used_share(full) > 0.8
    plan = tmp_path / "plan.json"
    options = ("--relieve", "1", "--below", "75%", "--output", str(plan))
    said = json.loads(reassigner(cluster, "generate", *options, "--json").stdout)
    moved = said["proposed"]["partitions"]
    least = math.ceil(said["bytes_above"] / said["bytes_copied"] * len(moved))
    assert len(moved) == least
    assert all(p["replicas"] != [1] for p in moved)
    refused = reassigner(cluster, "generate", "--relieve", "1", "--below", "5%")
    assert refused.code == 1
    assert "The lowest mark that can be reached is" in refused.stdout
    targets = {(topic, p["partition"]): p["replicas"] for p in moved}
    before = free_bytes(full)
    with watched(cluster) as disks:
        begun = time.monotonic()
        submit_request(cluster, targets, throttle=THROTTLE, max_partitions_in_flight=1)
        eventually(lambda: free_bytes(full) > before + MB, within_s=120, every_s=0.1)
        first_s = time.monotonic() - begun
        await_end(cluster, targets, within_s=300)
    judge(cluster, disks)
    print(
        f"the first bytes were free after {first_s:.1f} s, {first_s / FLOOR_S:.2f} times the floor"
    )
    assert first_s <= 1.1 * FLOOR_S
    eventually(lambda: used_share(full) < 0.75, within_s=60, what="the deleted logs are gone")
    assert all(used_share(d) <= 0.75 for b in cluster.brokers.values() for d in b.log_dirs)
    again = json.loads(reassigner(cluster, "generate", *options, "--json").stdout)
    assert again["proposed"]["partitions"] == []


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="the extra `pipeline` is not installed"
)
def test_a_snapshot_has_the_same_plan_as_the_cluster(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The pipeline and ``generate`` choose the same replicas and places."""
    del daemon
    filled(cluster, make_topic, 1)
    goal = ("--relieve", "1", "--below", "75%")
    said = json.loads(reassigner(cluster, "generate", *goal, "--json").stdout)
    spark = ("--master", "local[2]", "--driver-memory", "1g")
    where = ("--zookeeper", cluster.zookeeper_connect)
    taken = ("snapshot", "--out", str(tmp_path / "before"), *where)
    done = run_reassigner("pipeline", *taken, *spark, within_s=600)
    assert done.code == 0, done.stdout
    plan = ("plan", str(tmp_path / "before"), *goal, "--out", str(tmp_path / "plan"))
    done = run_reassigner("pipeline", *plan, *spark, within_s=600)
    assert done.code == 0, done.stdout
    assert "broker 1: 8" in done.stdout
    found = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert found["partitions"] == said["proposed"]["partitions"]
    request = str(tmp_path / "plan" / "requests" / "wave-0001.json")
    preview = reassigner(cluster, "execute", request, "--dry-run")
    assert preview.code == 0, preview.stdout
    assert "replicas to copy" in preview.stdout


def test_a_budget_of_bytes_is_spent_on_the_fullest_disk(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """Five partitions of four megabytes; the figures are those of the disks afterwards."""
    del daemon
    topic = filled(cluster, make_topic, 1)
    (full,) = cluster.brokers[1].log_dirs
    before = used_share(full)
    options = ("--budget", "22MB", "--json")
    said = json.loads(reassigner(cluster, "generate", *options).stdout)
    assert len(said["proposed"]["partitions"]) == 5
    assert said["bytes_copied"] <= 22_000_000
    targets = {(topic, p["partition"]): p["replicas"] for p in said["proposed"]["partitions"]}
    done = reassigner(cluster, "generate", *options[:2], "--execute", "--wait")
    assert done.code == 0, done.stdout
    await_end(cluster, targets, within_s=120)
    eventually(lambda: used_share(full) < before - 18 / DISK_MB, within_s=60)


def await_end_but_strays(cluster: Cluster, targets: Targets, *, killed: int) -> None:
    """
    Wait until the plan is carried out; a broker that was killed may keep logs that it lost.

    Kafka's controller does not repeat a deletion that a dying broker did not receive, and a daemon
    that died with it cannot know of it. Such a log takes no part in the partition any more.
    """

    def missing() -> list[str]:
        stray = {f"{t}-{n} is on the disks of { {killed, *rs} }" for (t, n), rs in targets.items()}
        return [m for m in what_is_missing(cluster, targets) if m not in stray]

    eventually(lambda: not missing(), within_s=300, every_s=0.2, what=lambda: f"{missing()}")
