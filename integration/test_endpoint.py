"""
Leaders ask the daemon for ISR changes while it is the controller, at their own protocol.

Brokers have a listener of their own, under which alone the daemon is listed. Every protocol that
has its own version of the request is a row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    await_tenure,
)
from integration.rigs.requests import await_outcome, cancel, submit_request
from integration.rigs.reserved_ports import ReservedPort
from integration.rigs.running_daemons import answered, await_shown
from integration.rigs.tcp_proxies import Link
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import GaveUpError, eventually

SERVED = [row for row in ROWS if row.endpoint]
DEAD = ("FATAL", "Error due to", "SchemaException")
"""Of a broker whose way to the controller ended."""
REPEATS_AFTER_S = 100
"""When a leader that may forget its request is given a new leader epoch, after the give-back."""


@pytest.fixture(scope="module", params=SERVED, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give its cluster: a leader drops a hung follower long before its session is over."""
    broker = replace(
        row.options.broker, replica_lag_time_max_ms=3_000, zookeeper_session_timeout_ms=40_000
    )
    with Cluster.running(replace(row.options, broker=broker)) as cluster:
        yield cluster


def shrink_and_expand(cluster: Cluster, topic: str, last: int | None) -> None:
    """
    Let a follower hang until its leader dropped it, then continue until it is back.

    Args:
        cluster: Under load, without which a follower does not lag.
        topic: With one partition.
        last: The broker that was the controller last. Another one hangs: a leader may wait for
            its answer for half a minute.

    """
    before = cluster.state(topic, 0) or {}
    hanging = next(b for b in before["isr"] if b not in {before["leader"], last})
    cluster.brokers[hanging].freeze()
    others = set(before["isr"]) - {hanging}
    eventually(lambda: cluster.isr(topic, 0) == others, within_s=30, what="the ISR shrinks")
    after = cluster.state(topic, 0) or {}
    assert (after["leader"], after["leader_epoch"]) == (before["leader"], before["leader_epoch"])
    cluster.brokers[hanging].thaw()
    whole = {*others, hanging}
    eventually(lambda: cluster.isr(topic, 0) == whole, within_s=40, what="the ISR expands")


def test_doctor_judges_the_configured_endpoint_as_the_daemon_does(
    row: Row, cluster: Cluster
) -> None:
    """Nothing is in its way, until it is listed under a listener that brokers do not have."""
    flags = dict(zip(row.arguments[::2], row.arguments[1::2], strict=True))
    settings = {f"REASSIGNER_{f[2:].replace('-', '_').upper()}": v for f, v in flags.items()}
    found = diagnosed(cluster, settings)
    assert "native_refused" not in found
    assert found["endpoint_modes"].startswith("private: possible under ")
    found = diagnosed(cluster, {**settings, "REASSIGNER_ENDPOINT_LISTENER": "OTHER"})
    assert "has no listener OTHER" in found["native_refused"]
    assert "2.7 or later" in diagnosed(cluster, {})["native_refused"]


def diagnosed(cluster: Cluster, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the evidence of the first finding of each check."""
    options = ("--zookeeper", cluster.zookeeper_connect, "--json")
    result = run_reassigner("doctor", *options, settings=settings, errors_too=False)
    return {f["check"]: f["evidence"] for f in reversed(json.loads(result.stdout)["findings"])}


def test_leaders_drop_and_add_followers_under_every_controller(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The daemon, then Kafka's controller after kill -9, then the daemon; moves in between."""
    still = make_topic({0: (1, 2, 3)}, {"min.insync.replicas": "2"})
    moving = make_topic(dict.fromkeys(range(4), (1, 2)))
    there: Targets = {(moving, n): (4, 5) for n in range(4)}
    back: Targets = {(moving, n): (2, 1) for n in range(4)}
    last = cluster.controller_broker()
    daemon = daemons.start(*row.arguments, "--tenure", "permanent")
    await_tenure(daemon)
    assert daemon.status()["engine"] == "native"
    with Traffic(cluster.bootstrap_servers, {still: 1, moving: 4}) as traffic:
        traffic.await_flow()
        shrink_and_expand(cluster, still, last)
        submit_request(cluster, there)
        await_end(cluster, there, within_s=90)
        assert answered(daemon, "AlterPartition") > 0
        daemon.kill()
        await_broker_controller(cluster, within_s=30)
        last = cluster.controller_broker()
        shrink_and_expand(cluster, still, last)
        daemon.start()
        await_tenure(daemon)
        submit_request(cluster, back)
        shrink_and_expand(cluster, still, last)
        await_end(cluster, back, within_s=90)
        assert answered(daemon, "AlterPartition") > 0
        await_shown(cluster, still, moving)
        traffic.await_flow()
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    for broker in cluster.brokers.values():
        assert broker.is_alive
        assert not [word for word in DEAD if broker.has_written(word)]


def await_end_after(row: Row, cluster: Cluster, targets: Targets, given_back: float) -> None:
    """
    Wait for the end of a plan whose step in flight is left to Kafka's controller.

    Leaders of some releases may forget what they asked for (KAFKA-12686): there the operator
    cancels, and submits the plan again.
    """
    may_forget = row.release.may_forget_isr_changes
    try:
        await_end(cluster, targets, within_s=60 if may_forget else 120, any_leader=True)
    except GaveUpError:
        if not may_forget:
            raise
        time.sleep(max(0.0, given_back + REPEATS_AFTER_S - time.monotonic()))
        await_outcome(cluster, cancel(cluster), within_s=60)
        submit_request(cluster, targets)
        await_end(cluster, targets, within_s=90, any_leader=True)
        print(f"{row.name}: ended {time.monotonic() - given_back:.0f} s later, submitted again")


def test_role_is_given_back_if_brokers_cannot_reach_the_endpoint(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Kafka's controller ends the step; the delegated engine does the rest."""
    topic = make_topic({0: (1, 2), 1: (2, 1)})
    targets: Targets = {(topic, 0): (4, 5), (topic, 1): (5, 4)}
    nowhere = ReservedPort()
    daemon = daemons.start(
        *row.arguments, *("--endpoint-advertise", nowhere.address), "--tenure-linger", "1"
    )
    submit_request(cluster, targets)
    await_tenure(daemon)
    eventually(
        lambda: '"endpoint_unreached"' in daemon.log.read_text(),
        within_s=120,
        what="the role is given back",
    )
    given_back = time.monotonic()
    await_broker_controller(cluster, within_s=30)
    await_end_after(row, cluster, targets, given_back)
    assert daemon.status()["engine"] == "delegated"
    assert "reassigner_endpoint_unreached_total{broker=" in daemon.get("/metrics")[1]
    nowhere.close()


def test_role_is_given_back_if_requests_get_lost_on_the_way_to_the_endpoint(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """
    Leaders asked before in this tenure; then nothing arrives, and no connection breaks.

    A leader of 2.7 or 2.8 whose request is under way then may never ask again (KAFKA-12686). There
    the plan may have to be cancelled and submitted again, as the guide says.
    """
    before = make_topic({0: (1, 2), 1: (2, 1)})
    topic = make_topic({0: (1, 2), 1: (2, 1)})
    link = Link()
    daemon = daemons.start(
        *row.arguments,
        *("--endpoint-listen", link.behind.address, "--endpoint-advertise", link.port.address),
        *("--tenure", "permanent"),
    )
    await_tenure(daemon)
    try:
        earlier: Targets = {(before, 0): (1, 3), (before, 1): (2, 3)}
        submit_request(cluster, earlier)
        await_end(cluster, earlier, within_s=60)
        link.swallow()
        targets: Targets = {(topic, 0): (4, 5), (topic, 1): (5, 4)}
        submit_request(cluster, targets)
        begun = time.monotonic()
        eventually(
            lambda: '"endpoint_unreached"' in daemon.log.read_text(),
            within_s=240,
            what="the role is given back",
        )
        given_back = time.monotonic()
        print(f"{row.name}: given back after {given_back - begun:.0f} s")
        await_broker_controller(cluster, within_s=30)
        await_end_after(row, cluster, targets, given_back)
        assert daemon.status()["engine"] == "delegated"
    finally:
        link.close()
