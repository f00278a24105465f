"""
Throttles on real brokers when something happens meanwhile: other requests, deaths, deletions.

What is left in Kafka's settings afterwards is what stood there before, and nothing comes back to
life that was deleted.
"""

from __future__ import annotations

from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import await_leases_gone, await_moving, ended, rates, said
from integration.rigs.plans import Daemons, await_end, configured, fill
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

TRICKLE: Final = 1
FAST: Final = 500_000_000
SLOWLY, QUICKLY, FREELY = (str(TRICKLE),) * 2, (str(FAST),) * 2, (None, None)


def await_rates(cluster: Cluster, wanted: dict[int, tuple[str | None, str | None]]) -> None:
    """Wait until these rates stand on these brokers."""
    eventually(
        lambda: {n: r for n, r in rates(cluster).items() if n in wanted} == wanted,
        within_s=20,
        what=lambda: f"{wanted} stand, not {rates(cluster)}",
    )


@pytest.mark.acceptance
def test_the_lower_of_two_requests_throttles_holds_until_that_request_is_gone(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """On the brokers of both; a broker of one request alone has that one's rate."""
    first, second = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    fill(cluster, [(first, 0), (second, 0)])
    daemons.start("--tenure-linger", "1")
    slow = submit_request(cluster, {(first, 0): (1, 3)}, throttle=TRICKLE)
    await_moving(cluster, [(first, 0)])
    quick = submit_request(cluster, {(second, 0): (1, 4)}, throttle=FAST)
    await_rates(cluster, {1: SLOWLY, 2: SLOWLY, 3: SLOWLY, 4: QUICKLY, 5: FREELY})
    said(cluster, "cancel", slow)
    await_rates(cluster, {3: FREELY})
    await_end(cluster, {(first, 0): (1, 2), (second, 0): (1, 4)}, within_s=60)
    assert ended(cluster, quick)["done"] == 1
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREELY}


def test_a_broker_that_was_dead_gets_the_throttle_when_it_is_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Before that there is nothing it could copy, and nothing waits for it."""
    topic = make_topic({0: (1, 2)})
    fill(cluster, [(topic, 0)])
    targets = {(topic, 0): (1, 3)}
    cluster.brokers[2].kill()
    eventually(lambda: not cluster.is_registered(2), within_s=15)
    daemons.start("--tenure-linger", "1")
    request = submit_request(cluster, targets, throttle=TRICKLE)
    await_moving(cluster, targets)
    await_rates(cluster, {1: SLOWLY, 2: FREELY, 3: SLOWLY})
    cluster.start_brokers(2)
    await_rates(cluster, {2: SLOWLY})
    said(cluster, "throttle", str(FAST), "--request", request)
    await_end(cluster, targets, within_s=90)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREELY}


def test_the_throttle_of_a_topic_that_is_deleted_is_lifted_without_bringing_it_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """What was in flight ends, the role is given back, and a broker deletes the topic."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    fill(cluster, [(topic, 0)])
    daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "1")
    request = submit_request(cluster, {(topic, 0): (1, 3), (topic, 1): (1, 3)}, throttle=TRICKLE)
    await_moving(cluster, [(topic, 0)])
    cluster.zk.create(f"/admin/delete_topics/{topic}", b"")
    said(cluster, "throttle", str(FAST), "--request", request)
    eventually(
        lambda: cluster.zk.exists(f"/brokers/topics/{topic}") is None,
        within_s=90,
        what="the topic is deleted",
    )
    await_leases_gone(cluster)
    refused = ended(cluster, request)["refused"]
    assert {r["reason"] for r in refused} <= {"unknown_partition", "topic_being_deleted"}
    assert configured(cluster, f"topics/{topic}") == {}
    assert cluster.zk.exists(f"/config/topics/{topic}") is None
    assert set(rates(cluster).values()) == {FREELY}
