"""
The daemon dies, hangs, is stopped or is replaced in the middle: the cluster ends where it should.

A move is in the middle when its copies are held: the topic znode names a step and no broker can end
it. A Kafka controller finishes exactly that step; the daemon finishes the plan. All under a
producer, of which nothing acknowledged is lost.
"""

from __future__ import annotations

import time

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import (
    SESSION_S,
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    await_tenure,
    copies_held,
    holders,
    is_reassigning,
    orphans,
    plan_of,
    submit,
)
from integration.rigs.recovery_cells import nothing_lost
from integration.rigs.waiting import eventually

EXPIRED_WITHIN_S = SESSION_S + 2
"""ZooKeeper is at most one tick late with an expired session; the rest is the successor's."""


def test_a_kafka_controller_ends_the_steps_of_a_killed_daemon_and_a_restart_the_plan(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Kill -9 in the middle, under load: a consistent end by itself, then the rest; none lost."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "3")
    await_tenure(daemon)
    with nothing_lost(cluster, {topic: 6}):
        with copies_held(cluster, targets):
            begin(cluster, topic, targets)
            daemon.kill()
            await_broker_controller(cluster, within_s=EXPIRED_WITHIN_S)
        eventually(lambda: not is_reassigning(cluster, topic), within_s=20)
        assert all(set(cluster.isr(topic, n)) == set(cluster.replicas(topic, n)) for n in range(6))
        daemon.start()
        await_end(cluster, targets, within_s=60)


def test_a_daemon_that_has_to_stop_hands_the_role_back_at_once(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """SIGTERM in the middle: exit code 0, a broker is the controller, and a restart continues."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "3")
    await_tenure(daemon)
    with nothing_lost(cluster, {topic: 6}):
        with copies_held(cluster, targets):
            begin(cluster, topic, targets)
            begun = time.monotonic()
            assert daemon.stop() == 0
            took_s = time.monotonic() - begun
            took_s += await_broker_controller(cluster, within_s=SESSION_S)
            assert took_s < SESSION_S, f"{took_s:.1f} s: an expired session, not a hand-back"
            assert is_reassigning(cluster, topic)
            daemon.start()
            await_tenure(daemon)
        await_end(cluster, targets, within_s=60)


@pytest.mark.acceptance
def test_a_standby_takes_over_from_a_killed_leader_and_finishes(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Two daemons: the one that does not lead is ready, and leads when the other's session ends."""
    topic, targets = a_plan(make_topic)
    leader = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "3")
    await_tenure(leader)
    standby = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "3")
    assert (leader.status()["role"], standby.status()["role"]) == ("leader", "standby")
    with nothing_lost(cluster, {topic: 6}):
        with copies_held(cluster, targets):
            begin(cluster, topic, targets)
            leader.kill()
            await_tenure(standby, within_s=EXPIRED_WITHIN_S)
            assert standby.status()["role"] == "leader"
        await_end(cluster, targets, within_s=60)


def test_a_frozen_daemon_does_nothing_under_its_old_epoch_when_it_wakes(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its session expires while it is stopped: it claims anew before all else, and finishes."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "3")
    await_tenure(daemon)
    with nothing_lost(cluster, {topic: 6}):
        with copies_held(cluster, targets):
            begin(cluster, topic, targets)
            # Else it might be frozen between a write and its send, which brokers then fence.
            eventually(lambda: phases(daemon) == ["A2-syncing"] * 3, within_s=10)
            logs = {b.log: b.log.stat().st_size for b in cluster.brokers.values()}
            daemon.freeze()
            await_broker_controller(cluster, within_s=EXPIRED_WITHIN_S)
            daemon.thaw()
            await_tenure(daemon, within_s=20)
        await_end(cluster, targets, within_s=60)
    stale = [
        line
        for log, size in logs.items()
        for line in log.read_bytes()[size:].decode(errors="replace").splitlines()
        if "1000000" in line and "controller epoch" in line and " is old" in line
    ]
    assert stale == []


def test_a_dropped_replica_on_a_dead_broker_is_deleted_when_that_broker_is_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The move ends without it, its directory is remembered as an orphan, and goes in the end."""
    topic = make_topic({0: (1, 2, 3), 1: (2, 1, 3)}, {"min.insync.replicas": "2"})
    targets = {(topic, 0): (1, 4, 3), (topic, 1): (4, 1, 3)}
    daemons.start("--tenure-linger", "1")
    with nothing_lost(cluster, {topic: 2}):
        cluster.brokers[2].kill()
        eventually(lambda: not cluster.is_registered(2), within_s=15)
        submit(cluster, plan_of(targets))
        eventually(
            lambda: (
                orphans(cluster) == {f"2/{topic}-0", f"2/{topic}-1"}
                and all(cluster.replicas(t, n) == list(to) for (t, n), to in targets.items())
            ),
            within_s=40,
            what=lambda: f"both orphans are recorded; there are {orphans(cluster)}",
        )
        assert holders(cluster, topic, 0) == {1, 2, 3, 4}
        await_broker_controller(cluster, within_s=15)
        cluster.start_brokers(2)
        await_end(cluster, targets, within_s=30)
    await_broker_controller(cluster, within_s=15)


def a_plan(make_topic: MakeTopic) -> tuple[str, Targets]:
    """Return a topic of six partitions and a plan that moves all of them in two steps or more."""
    topic = make_topic(dict.fromkeys(range(6), (1, 2, 3)), {"min.insync.replicas": "2"})
    return topic, {(topic, n): (3, 4, 5) if n % 2 else (2, 5, 4) for n in range(6)}


def begin(cluster: Cluster, topic: str, targets: Targets) -> None:
    """Submit a plan and wait until three partitions are in flight."""
    submit(cluster, plan_of(targets))
    eventually(
        lambda: len((cluster.topic(topic) or {}).get("adding_replicas", {})) == 3,
        within_s=20,
        every_s=0.02,
        what="three partitions are in flight",
    )


def phases(daemon: Daemon) -> list[str]:
    """Return the phase of each partition in flight."""
    return [partition["phase"] for partition in daemon.status()["in_flight"]]
