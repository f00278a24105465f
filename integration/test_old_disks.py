"""
No disk of an old broker is ever full because of a plan: it reports no free space.

Brokers before Kafka 3.3 say how large their logs are; ``disk_capacities`` says how large their log
directories are. A deleted log counts for 60 seconds, as long as these brokers keep it; for so long
after its start, the daemon begins no copy, as another one may have had logs deleted before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.kafka_jars import KAFKA_2_3, KAFKA_2_4, Release
from integration.rigs.plans import Daemons, await_end, fill
from integration.rigs.requests import cancel, submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.small_disks import MountRefusedError, free_bytes
from integration.rigs.waiting import eventually
from integration.test_small_disks import blocked_by, judge, watched

MB: Final = 2**20
RESERVE_MB: Final = 2
RECORDS: Final = 8
"""Of half a megabyte each."""
PARTITION_MB: Final = 4
IN_EACH: Final = 4
"""Partitions in each directory, as a broker spreads them evenly."""
ROOM_MB: Final = 12
"""Beside these and the reserve."""
DISK_MB: Final = IN_EACH * PARTITION_MB + RESERVE_MB + ROOM_MB
ROWS: Final = [(KAFKA_2_4, 2), (KAFKA_2_4, 3), (KAFKA_2_3, 2), (KAFKA_2_3, 3)]


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: f"{row[0].kafka}-{row[1]}")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give three brokers with two or three small disks each."""
    release: Release = request.param[0]
    broker = BrokerOptions(
        inter_broker_protocol=None,
        release=release,
        log_dirs=request.param[1],
        disk_mb=DISK_MB,
        extra={"log.segment.bytes": str(MB), "log.index.size.max.bytes": "65536"},
    )
    try:
        with Cluster.running(ClusterOptions(brokers=3, broker=broker)) as cluster:
            yield cluster
    except MountRefusedError as error:
        pytest.skip(f"file systems of limited size need the right to mount: {error}")


@pytest.fixture
def daemon(cluster: Cluster, daemons: Daemons) -> Daemon:
    """Give a daemon that has the capacities from a file and limits nothing else."""
    table = cluster.directory / "capacities.json"
    capacities = {
        str(number): {str(d): DISK_MB * MB for d in broker.log_dirs}
        for number, broker in cluster.brokers.items()
    }
    table.write_text(json.dumps(capacities), encoding="utf-8")
    started = daemons.start(
        *("--engine", "native", "--step-size", "all", "--tenure-linger", "1"),
        *("--disk-capacities", str(table), "--min-free", f"{RESERVE_MB * MB}"),
        *("--size-refresh", "5", "--copy-refresh", "2"),
        *("--max-incoming-per-broker", "100", "--max-outgoing-per-broker", "100"),
    )
    eventually(lambda: started.status()["engine"] == "native", within_s=20)
    return started


def filled(cluster: Cluster, make_topic: MakeTopic, broker: int) -> tuple[str, int]:
    """Return a topic that takes most of a broker's disks, and the number of its partitions."""
    dirs = cluster.brokers[broker].log_dirs
    eventually(
        lambda: all(free_bytes(d) > (DISK_MB - 3) * MB for d in dirs),
        within_s=120,
        what="the logs of the test before are deleted",
    )
    count = IN_EACH * len(dirs)
    topic = make_topic({n: [broker] for n in range(count)})
    fill(cluster, [(topic, n) for n in range(count)], RECORDS)
    return topic, count


def test_two_old_brokers_exchange_all_partitions_without_filling_a_disk(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """What a broker deleted counts until its delay has passed."""
    targets: dict[tuple[str, int], list[int]] = {}
    for broker in (1, 2):
        topic, count = filled(cluster, make_topic, broker)
        targets.update({(topic, n): [3 - broker] for n in range(count)})
    with watched(cluster) as disks:
        submit_request(cluster, targets)
        eventually(lambda: "disk_full" in blocked_by(daemon), within_s=120)
        await_end(cluster, targets, within_s=600)
    least = min(disks.least_free.values())
    judge(cluster, disks)
    assert least < ROOM_MB * MB, "the disks had room for everything"


def test_what_does_not_fit_on_an_old_broker_waits(
    cluster: Cluster, daemon: Daemon, make_topic: MakeTopic
) -> None:
    """The disks of two brokers do not fit on those of one: the rest waits until cancelled."""
    targets: dict[tuple[str, int], list[int]] = {}
    for broker in (1, 2):
        topic, count = filled(cluster, make_topic, broker)
        targets.update({(topic, n): [3] for n in range(count)})

    def on_target() -> int:
        return sum(cluster.replicas(topic, n) == [3] for topic, n in targets)

    with watched(cluster) as disks:
        request = submit_request(cluster, targets)
        eventually(lambda: on_target() >= len(targets) // 2, within_s=200)
        eventually(lambda: blocked_by(daemon) == {"disk_full"}, within_s=60)
        assert on_target() < len(targets)
        cancel(cluster, requests=[request])
        eventually(lambda: not daemon.status()["waiting"], within_s=60)
    judge(cluster, disks)
