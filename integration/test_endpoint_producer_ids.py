"""
Idempotent producers start while the daemon is the controller, at the brokers' own protocol.

From inter-broker protocol 3.0 on, brokers ask their controller for blocks of producer ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.clients import records_of
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_jars import KAFKA_3_2, KAFKA_3_9
from integration.rigs.plans import Daemons, await_broker_controller, await_tenure
from integration.rigs.producer_starts import IdRequests, Starts
from integration.rigs.running_daemons import answered
from integration.rigs.transaction_log import writes

SERVED: Final = [row for row in ROWS if row.endpoint and row.release in {KAFKA_3_2, KAFKA_3_9}]
BROKERS: Final = 3
PARTITIONS: Final = 6
DURING_A_TENURE: Final = 2000
AT_EACH_HAND_OVER: Final = 200
IDS_PER_S: Final = 150.0
"""Of each broker, besides: a block lasts for seven seconds."""
BLOCK: Final = 1000
WAIT_S: Final = 10.0
"""The longest that an id may take, also while the role changes hands on a busy machine."""


@pytest.fixture(scope="module", params=SERVED, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give its cluster."""
    with Cluster.running(replace(row.options, brokers=BROKERS)) as cluster:
        yield cluster


def blocks_handed_out(cluster: Cluster) -> list[tuple[int, int]]:
    """Return the first and last id of every block that was ever written, the oldest first."""
    contents = [w.content for w in writes(cluster) if w.path == "/latest_producer_id_block"]
    return [(int(c["block_start"]), int(c["block_end"])) for c in contents if c]


def test_producers_start_under_every_controller(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Two thousand during a tenure, then more while the role goes to a broker and comes back."""
    replicas = {n: (1 + n % 3, 1 + (n + 1) % 3, 1 + (n + 2) % 3) for n in range(PARTITIONS)}
    topic = make_topic(replicas, {"min.insync.replicas": "2"})
    starts = Starts()
    daemon = daemons.start(*row.arguments, "--tenure", "permanent")
    await_tenure(daemon)

    def start(count: int) -> None:
        starts.start(count, cluster.bootstrap_servers, topic, PARTITIONS)

    ports = [broker.port.number for broker in cluster.brokers.values()]
    with IdRequests(ports, per_s=IDS_PER_S) as requests:
        start(DURING_A_TENURE)
        during = answered(daemon, "AllocateProducerIds")
        took_s = sorted(starts.took_s)
        waited_s = requests.longest_wait_s
        daemon.stop()
        start(AT_EACH_HAND_OVER)
        await_broker_controller(cluster, within_s=30)
        start(AT_EACH_HAND_OVER)
        daemon.start()
        start(AT_EACH_HAND_OVER)
        await_tenure(daemon)
        start(AT_EACH_HAND_OVER)
        requests.judge()
    print(
        f"{row.name}: {len(took_s)} producers, {median(took_s):.2f} s each, "
        f"{took_s[-1]:.2f} s at most; {during} blocks of the daemon; {len(requests.ids)} ids "
        f"besides, waits of {waited_s:.2f} s at most, with hand-overs {requests.longest_wait_s:.2f}"
    )
    ids = [*starts.ids, *requests.ids]
    assert len(starts.ids) == DURING_A_TENURE + 4 * AT_EACH_HAND_OVER
    assert len(set(ids)) == len(ids), "a producer id was handed out twice"
    assert sum(records_of(cluster, topic, n) for n in range(PARTITIONS)) == len(starts.ids)
    blocks = blocks_handed_out(cluster)
    assert len({first for first, _ in blocks}) == len(blocks)
    assert set(ids) <= {known for first, last in blocks for known in range(first, last + 1)}
    assert during >= DURING_A_TENURE // BLOCK
    assert answered(daemon, "AllocateProducerIds") > 0, "it handed out none when it was back"
    assert requests.longest_wait_s < WAIT_S
    for broker in cluster.brokers.values():
        assert broker.is_alive
        assert not broker.has_written("FATAL")
