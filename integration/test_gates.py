"""
Gates on real brokers: the work waits for a cluster that is not well, and says what it saw.

Brokers are killed or frozen for it; the partitions that suffer are not those that are moved.
"""

from __future__ import annotations

import time

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import await_moving, begun_in_order, lines
from integration.rigs.plans import Daemons, await_end, configure, copies_held
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.transaction_log import writes
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

REFRESH_S = 4
"""How old the settings may be that the daemon decides by."""


def weaken(cluster: Cluster, make_topic: MakeTopic) -> str:
    """Kill broker 5, so that broker 1 serves a partition below min ISR; return its topic."""
    weak = make_topic({0: (1, 5)}, {"min.insync.replicas": "2"})
    cluster.brokers[5].kill()
    eventually(lambda: cluster.isr(weak, 0) == {1}, within_s=20, what="the ISR shrank")
    return weak


@pytest.mark.acceptance
def test_no_step_begins_while_others_are_below_min_isr(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The partition is named in status and log; when it is healthy the work continues."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (1, 3)}
    weak = weaken(cluster, make_topic)
    daemon = daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets)
    eventually(
        lambda: daemon.status()["blocked"] == {"cluster_health": 1},
        within_s=20,
        what=lambda: f"the cluster's health is waited for: {daemon.status()}",
    )
    assert daemon.status()["waiting"][0]["blocked_on"]["detail"] == (
        "broker 1 serves partitions below min.insync.replicas whose other replicas are not live: "
        f"1 partition, {weak}-0"
    )
    detail = (
        f"below min.insync.replicas: 1 partition, {weak}-0; copies to and from broker 1 wait, "
        "except repairs"
    )
    warned = eventually(lambda: lines(daemon, "under_min_isr"), within_s=10)
    assert [(line["detail"], line["waits"]) for line in warned] == [(detail, True)]
    assert begun_in_order(writes(cluster), [topic]) == []
    cluster.start_brokers(5)
    await_end(cluster, targets, within_s=60)
    eventually(lambda: lines(daemon, "under_min_isr_ended"), within_s=10)


def test_a_target_below_a_min_isr_that_was_raised_meanwhile_is_refused(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The daemon has read a lower one; too old to decide by, it is read again."""
    topic = make_topic({0: (1, 2, 3)}, {"min.insync.replicas": "1"})
    targets = {(topic, 0): (1, 2, 4)}
    daemons.start("--tenure", "permanent", "--config-refresh", str(REFRESH_S))
    submit_request(cluster, targets)
    await_end(cluster, targets, within_s=60)
    configure(cluster, f"topics/{topic}", {"min.insync.replicas": "2"})
    time.sleep(REFRESH_S + 1)
    request = submit_request(cluster, {(topic, 0): (1,)})
    refused = await_outcome(cluster, request, within_s=20)["refused"]
    assert [row["reason"] for row in refused] == ["below_min_insync_replicas"]
    assert cluster.replicas(topic, 0) == [1, 2, 4]
    assert cluster.isr(topic, 0) == {1, 2, 4}


@pytest.mark.parametrize("policy", ["warn", "ignore"])
def test_steps_begin_all_the_same_where_operators_want_it_so(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, policy: str
) -> None:
    """With a warning, or without looking."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (1, 3)}
    with copies_held(cluster, targets):
        weaken(cluster, make_topic)
        daemon = daemons.start("--tenure-linger", "1", "--under-min-isr", policy)
        submit_request(cluster, targets)
        await_moving(cluster, targets)
        if policy == "warn":
            eventually(lambda: lines(daemon, "under_min_isr"), within_s=15, what="it is warned")
    await_end(cluster, targets, within_s=60)
    assert [line["waits"] for line in lines(daemon, "under_min_isr")] == (
        [False] if policy == "warn" else []
    )


def test_a_partition_below_min_isr_is_moved_to_its_cure(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A reassigning partition holds nothing up: its dead replica is replaced by a live one."""
    topic = make_topic({0: (1, 2)})
    weak = weaken(cluster, make_topic)
    targets = {(weak, 0): (1, 3), (topic, 0): (1, 4)}
    daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets)
    eventually(
        lambda: all(cluster.isr(t, n) == set(to) for (t, n), to in targets.items()),
        within_s=60,
        what="both are in sync where they are to be",
    )
    cluster.start_brokers(5)
    await_end(cluster, targets, within_s=60)
