"""Leaderships leave a broker before it is restarted, and come back, with records flowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.plans import Daemons, holders
from integration.rigs.requests import reassigner
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import assignments, writes
from integration.rigs.waiting import eventually

DURABLE = {"min.insync.replicas": "2"}
COUNT = 12
ORDERS = {n: (5, n % 4 + 1, (n + 1) % 4 + 1) for n in range(COUNT)}
FOLLOWS = {n + COUNT: (n % 2 + 1, 5, 4) for n in range(4)}
VERDICT = "broker 5 leads no partition: it can be restarted"
EVACUATIONS = "/reassigner/control/evacuations"
SLOWLY = ("--max-leader-moves-per-broker-per-second", "2")


@pytest.fixture(scope="module", params=[ROWS[0], ROWS[3]], ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row for each engine."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a row."""
    with row.running() as cluster:
        yield cluster


def led_by(cluster: Cluster, topic: str, broker: int) -> int:
    """Return how many partitions a broker leads."""
    return sum(cluster.leader(topic, n) == broker for n in {**ORDERS, **FOLLOWS})


def orders(cluster: Cluster, topic: str) -> Mapping[int, tuple[int, ...]]:
    """Return the replicas of each partition, in order."""
    return {n: tuple(cluster.replicas(topic, n)) for n in {**ORDERS, **FOLLOWS}}


def judge_verdict(cluster: Cluster, partition: str) -> None:
    """See that status, ``explain`` and ``doctor`` say what the command says of a restart."""
    for words in (("status",), ("explain", partition), ("doctor",)):
        assert VERDICT in " ".join(reassigner(cluster, *words).stdout.split()), words


@pytest.mark.timeout(400)
def test_leaderships_leave_and_return_although_the_daemon_dies(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """No record is lost, no replica is copied, and the broker restarts without leading anything."""
    before = {**ORDERS, **FOLLOWS}
    topic = make_topic(before, DURABLE)
    daemon = daemons.start(*SLOWLY)
    with (
        Traffic(cluster.bootstrap_servers, {topic: len(before)}) as traffic,
        ThreadPoolExecutor(1) as pool,
    ):
        traffic.await_flow((topic, n) for n in before)
        command: Future[ToolResult] = pool.submit(
            reassigner, cluster, "leaders", "--evacuate", "5", "--reason", "kernel", "--wait"
        )
        eventually(
            lambda: led_by(cluster, topic, 5) <= COUNT - 3,
            within_s=60,
            every_s=0.05,
            what="some leaderships have moved",
        )
        daemon.kill()
        left = led_by(cluster, topic, 5)
        assert left > 0
        daemons.start(*SLOWLY)
        done = command.result(timeout=150)
        assert done.code == 0, done.stdout
        last = done.stdout.splitlines()[-1]
        assert last == VERDICT, done.stdout
        judge_verdict(cluster, f"{topic}-0")
        assert led_by(cluster, topic, 5) == 0
        assert all(order[-1] == 5 for n, order in orders(cluster, topic).items() if n in ORDERS)
        assert cluster.zk.exists(EVACUATIONS) is not None

        cluster.brokers[5].stop()
        cluster.brokers[5].start()
        eventually(
            lambda: all(5 in cluster.isr(topic, n) for n in before),
            within_s=60,
            what="broker 5 is in sync again",
        )
        assert led_by(cluster, topic, 5) == 0
        assert reassigner(cluster, "leaders").code == 0

        returned = reassigner(cluster, "leaders", "--return", "5", "--wait")
        assert returned.code == 0, returned.stdout
        assert returned.stdout.splitlines()[-1] == (
            f"the leaderships of broker 5 are back: it leads {COUNT} partitions"
        )
        assert orders(cluster, topic) == before
        assert all(cluster.leader(topic, n) == order[0] for n, order in ORDERS.items())
        assert cluster.zk.exists(EVACUATIONS) is None
        traffic.await_flow((topic, n) for n in before)
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    history = writes(cluster)
    for number, order in before.items():
        for assignment in assignments(history, topic, number):
            assert (assignment.adding, assignment.removing) == ((), ())
            assert set(assignment.replicas) == set(order)
    assert all(holders(cluster, topic, n) == set(order) for n, order in before.items())
