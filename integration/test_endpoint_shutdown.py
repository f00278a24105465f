"""
Brokers stop and start while the daemon is the controller, at their own protocol.

From Kafka 3.0 on a broker finds the daemon for a controlled shutdown. Earlier ones look for it
among the registered brokers; they try three times, then they stop as a broker that dies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_jars import KAFKA_2_8, KAFKA_3_2, KAFKA_3_9
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    await_tenure,
    copies_held,
    is_reassigning,
    plan_of,
    submit,
)
from integration.rigs.requests import submit_request
from integration.rigs.running_daemons import answered
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

RELEASES = (KAFKA_3_9, KAFKA_3_2, KAFKA_2_8)
SERVED = [row for row in ROWS if row.endpoint and row.release in RELEASES]
TRIES = {"controlled.shutdown.max.retries": "3", "controlled.shutdown.retry.backoff.ms": "5000"}
"""Kafka's defaults."""
LONGER_S = 2.0
"""How much longer than under Kafka's controller a producer may pause: the machine is busy."""


@pytest.fixture(scope="module", params=SERVED, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give its cluster, whose brokers try to shut down as often as Kafka's do by default."""
    options = replace(row.options, brokers=4)
    broker = replace(options.broker, extra={**options.broker.extra, **TRIES})
    with Cluster.running(replace(options, broker=broker)) as cluster:
        yield cluster


def restart_all(cluster: Cluster, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
    """Restart one broker after the other, each when the one before is in sync again."""
    for broker_id, broker in cluster.brokers.items():
        broker.stop(within_s=60.0)
        cluster.start_brokers(broker_id)
        cluster.await_in_sync(topic, assignment)


def test_broker_stops_in_the_middle_of_a_plan(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It leads nothing when it stops if it finds the daemon; the plan ends when it is back."""
    still = make_topic(dict.fromkeys(range(8), (1, 2, 3)), {"min.insync.replicas": "2"})
    moving = make_topic(dict.fromkeys(range(20), (1, 2)))
    there: Targets = {(moving, n): (3, 1) for n in range(20)}
    daemon = daemons.start(*row.arguments, "--tenure", "permanent", "--step-size", "1")
    await_tenure(daemon)
    with Traffic(cluster.bootstrap_servers, {still: 8, moving: 20}) as traffic:
        traffic.await_flow()
        submit_request(cluster, there)
        cluster.brokers[1].stop(within_s=60.0)
        led = [n for n in range(8) if cluster.leader(still, n) == 1]
        eventually(lambda: all(cluster.leader(still, n) in {2, 3} for n in range(8)), within_s=30)
        cluster.start_brokers(1)
        await_end(cluster, there, within_s=120, any_leader=True)
        cluster.await_in_sync(still, dict.fromkeys(range(8), (1, 2, 3)))
        traffic.await_flow()
        traffic.stop()
    print(f"{row.name}: led at the end of the process {led}, pause {traffic.longest_pause_s:.2f} s")
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    if row.release.lists_controllers:
        assert answered(daemon, "ControlledShutdown") == 1
        assert led == []


def test_rolling_restart_pauses_producers_no_longer_than_under_kafkas_controller(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The same restarts in the middle of the same plan, under one controller after the other."""
    assignment = {n: ((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2))[n % 4] for n in range(16)}
    topic = make_topic(assignment, {"min.insync.replicas": "2"})
    moving = make_topic(dict.fromkeys(range(4), (1, 2)))
    plans: list[Targets] = [{(moving, n): to for n in range(4)} for to in ((3, 4), (1, 2))]
    pauses: dict[str, float] = {}
    daemon = daemons.start(*row.arguments, "--tenure", "permanent")
    await_tenure(daemon)
    for controller, targets in zip(("daemon", "Kafka"), plans, strict=True):
        if controller == "Kafka":
            daemon.stop()
            await_broker_controller(cluster, within_s=30)
        with Traffic(cluster.bootstrap_servers, {topic: 16}) as traffic:
            traffic.await_flow()
            with copies_held(cluster, targets):
                submit(cluster, plan_of(targets))
                eventually(lambda: is_reassigning(cluster, moving), within_s=30)
                restart_all(cluster, topic, assignment)
            await_end(cluster, targets, within_s=180, any_leader=True)
            traffic.await_flow()
            traffic.stop()
        pauses[controller] = traffic.longest_pause_s
        assert traffic.failed == {}
    print(f"{row.name}: longest pauses of producers {pauses}")
    assert pauses["daemon"] <= pauses["Kafka"] + LONGER_S
