"""A replica that stays and lags on a real cluster is waited for until the request tolerates it."""

from __future__ import annotations

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import Daemons, fill, holders, limit_copies
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

DURABLE = {"min.insync.replicas": "2"}
COUNT = 4
LAGGING = 3
TRICKLE = 1_000
"""Bytes per second: it never catches up."""
UNLIMITED = 10**12


@pytest.mark.timeout(400)
def test_a_request_continues_without_a_replica_that_lags(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A daemon that dies right after that was written changes nothing, and no record is lost."""
    partitions = range(COUNT)
    topic = make_topic(dict.fromkeys(partitions, (1, 2, LAGGING)), DURABLE)
    with Traffic(cluster.bootstrap_servers, {topic: COUNT}) as traffic:
        traffic.await_flow((topic, n) for n in partitions)
        cluster.brokers[LAGGING].stop()
        fill(cluster, [(topic, n) for n in partitions], 10)
        replicas = ",".join(f"{n}:{LAGGING}" for n in partitions)
        limit_copies(cluster, {topic}, TRICKLE, {topic: replicas})
        cluster.brokers[LAGGING].start()
        try:
            daemon = daemons.start()
            request = submit_request(cluster, {(topic, n): (2, LAGGING, 4) for n in partitions})
            eventually(
                lambda: (
                    {w["blocked_on"]["detail"] for w in daemon.status()["waiting"]}
                    == {f"replica {LAGGING}, which stays, is not in ISR"}
                ),
                within_s=60,
                what=lambda: f"the lagging replica is named: {daemon.status()['waiting']}",
            )
            explained = reassigner(cluster, "explain", f"{topic}-0").stdout
            assert "--tolerate-lagging BROKER" in explained
            changed = reassigner(
                cluster, "limits", "--request", request, "--tolerate-lagging", str(LAGGING)
            )
            assert changed.code == 0, changed.stdout
            daemon.kill()
            daemons.start()
            outcome = await_outcome(cluster, request, within_s=120)
            assert outcome["done"] == COUNT, outcome
            for n in partitions:
                assert cluster.replicas(topic, n) == [2, LAGGING, 4]
                assert cluster.isr(topic, n) == {2, 4}
                assert holders(cluster, topic, n) == {2, LAGGING, 4}
            traffic.await_flow((topic, n) for n in partitions)
        finally:
            limit_copies(cluster, (), UNLIMITED)
        eventually(
            lambda: all(cluster.isr(topic, n) == {2, LAGGING, 4} for n in partitions),
            within_s=120,
            what="the tolerated replica catches up",
        )
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
