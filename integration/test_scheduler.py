"""
The scheduler on real brokers: limits changed during the work, and the order of pending partitions.

Copies are held, so that what is in flight stays there and can be counted; what happened in which
order is read from ZooKeeper's transaction log.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from integration.conftest import MakeTopic
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.operator_actions import (
    COPY,
    await_count,
    await_moving,
    begun_in_order,
    most_at_once,
    moving,
    said,
)
from integration.rigs.plans import Daemons, Targets, await_end, await_tenure, copies_held
from integration.rigs.requests import submit_request
from integration.rigs.transaction_log import assignments, writes
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

MEGABYTE = 1_000_000


@pytest.mark.acceptance
def test_partitions_in_flight_are_limited_and_the_limit_is_turned_live(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """More begin at once when it is raised; when it is lowered, those in flight continue."""
    topic = make_topic(dict.fromkeys(range(6), (1, 2)))
    targets = {(topic, n): (1, 3 + n % 3) for n in range(6)}
    daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "2")
    with copies_held(cluster, targets):
        submit_request(cluster, targets)
        await_count(cluster, topic, 2)
        said(cluster, "limits", "--max-partitions-in-flight", "4")
        await_count(cluster, topic, 4)
        said(cluster, "limits", "--max-partitions-in-flight", "1")
    await_end(cluster, targets, within_s=60)
    assert most_at_once(writes(cluster), topic) == 4


def test_copies_into_and_out_of_one_broker_are_limited_live(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Of one broker or of all; a partition that needs none of these brokers is not held up."""
    topic = make_topic({**dict.fromkeys(range(4), (1, 2)), 4: (4, 2)})
    into_five = {(topic, n): (1, 5) for n in range(4)}
    elsewhere = {(topic, 4): (4, 3)}
    targets = {**into_five, **elsewhere}
    said(cluster, "limits", "--broker", "5", "--max-incoming", "1")
    daemons.start("--tenure-linger", "1")
    with copies_held(cluster, targets):
        submit_request(cluster, targets)
        await_moving(cluster, [(topic, 0), (topic, 4)])
        said(cluster, "limits", "--broker", "5", "--unset", "max-incoming")
        await_count(cluster, topic, 5)
    await_end(cluster, targets, within_s=60)
    said(cluster, "limits", "--max-outgoing", "2")
    back = {(topic, n): (1, 2) for n in range(4)} | {(topic, 4): (4, 2)}
    with copies_held(cluster, targets):
        submit_request(cluster, back)
        await_moving(cluster, [(topic, 0), (topic, 1), (topic, 4)])
        said(cluster, "limits", "--max-outgoing", "3")
        await_count(cluster, topic, 4)
    await_end(cluster, back, within_s=60)


def test_a_request_may_have_a_limit_of_its_own(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Beside it another request uses the slots that are left."""
    narrow, wide = (make_topic(dict.fromkeys(range(3), (1, 2))) for _ in range(2))
    plans: list[Targets] = [{(t, n): (1, 3 + n) for n in range(3)} for t in (narrow, wide)]
    daemons.start("--tenure-linger", "1")
    with copies_held(cluster, [p for plan in plans for p in plan]):
        submit_request(cluster, plans[0], max_partitions_in_flight=1)
        submit_request(cluster, plans[1])
        await_count(cluster, wide, 3)
        await_count(cluster, narrow, 1)
    for plan in plans:
        await_end(cluster, plan, within_s=60)
    assert most_at_once(writes(cluster), narrow) == 1


def test_bytes_in_flight_are_limited_where_sizes_are_known(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Two of five megabytes fit below twelve; a partition larger than the limit goes alone."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2)))
    targets = {(topic, n): (1, 3 + n % 3) for n in range(4)}
    said(cluster, "limits", "--max-bytes", "12MB")
    said(cluster, "pause")
    daemon = daemons.start("--tenure-linger", "30")
    with copies_held(cluster, targets):
        submit_request(cluster, targets)
        await_sizes(daemon, targets)
        said(cluster, "resume")
        await_count(cluster, topic, 2)
        said(cluster, "limits", "--max-bytes", "1MB")
    await_end(cluster, targets, within_s=90)
    assert most_at_once(writes(cluster), topic, COPY) == 2


def test_step_size_is_turned_live_and_set_by_request(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The request's own comes first, then what was turned for all, then the settings."""
    own, ordinary = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    targets = {(own, 0): (3, 4), (ordinary, 0): (3, 4)}
    daemons.start("--tenure-linger", "1", "--step-size", "1")
    said(cluster, "limits", "--step-size", "all")
    submit_request(cluster, {(own, 0): (3, 4)}, step_size=1)
    submit_request(cluster, {(ordinary, 0): (3, 4)})
    await_end(cluster, targets, within_s=60)
    history = writes(cluster)
    assert max(len(a.adding) for a in assignments(history, own, 0)) == 1
    assert max(len(a.adding) for a in assignments(history, ordinary, 0)) == 2


def test_leaders_move_no_faster_than_allowed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """One per broker and second: five leaders of one broker take four seconds at the least."""
    topic = make_topic(dict.fromkeys(range(5), (1, 2)))
    targets = {(topic, n): (3 + n % 3, 2) for n in range(5)}
    said(cluster, "limits", "--leader-moves", "1")
    daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets)
    await_end(cluster, targets, within_s=60)
    moved: dict[int, list[int]] = defaultdict(list)
    leaders = dict.fromkeys(range(5), 1)
    for write in writes(cluster):
        parts = write.path.split("/")
        if parts[3:4] == [topic] and parts[-1] == "state" and write.content:
            number, leader = int(parts[5]), int(write.content["leader"])
            if leader != leaders[number]:
                for broker in (leaders[number], leader):
                    moved[broker].append(write.at_ms)
                leaders[number] = leader
    gaps = [b - a for times in moved.values() for a, b in pairwise(times)]
    assert len(moved[1]) == 5
    # ZooKeeper stamps a write some time after it was decided, not always the same.
    assert min(gaps) > 700, gaps


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("small-first", [2, 3, 0, 1]),
        ("large-first", [1, 0, 3, 2]),
        ("most-useful-first", [1, 2, 0, 3]),
    ],
)
def test_what_waits_goes_in_the_order_that_was_requested(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, order: str, expected: list[int]
) -> None:
    """
    By size, or the largest from the fullest broker first.

    The brokers share a disk, so they are equally full, and what they hold of the plan decides: that
    is most on broker 2, also when partition 1 has left it.
    """
    topic = make_topic({0: (1, 4), 1: (1, 2), 2: (1, 2), 3: (2, 3)})
    grow(cluster, topic, {0: 4, 1: 6, 2: 2, 3: 3})
    targets = {(topic, n): (1, 5) for n in range(3)} | {(topic, 3): (2, 5)}
    said(cluster, "limits", "--order", order, "--max-partitions-in-flight", "1")
    said(cluster, "pause")
    daemon = daemons.start("--tenure-linger", "30")
    submit_request(cluster, targets)
    await_sizes(daemon, targets)
    said(cluster, "resume")
    await_end(cluster, targets, within_s=60)
    assert begun_in_order(writes(cluster), [topic]) == [(topic, n) for n in expected]


def test_one_slow_partition_does_not_hold_up_the_others(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It keeps one of two slots; everything else passes it through the other."""
    slow, quick = make_topic({0: (1, 2)}), make_topic(dict.fromkeys(range(12), (1, 2)))
    held = {(slow, 0): (1, 3)}
    others = {(quick, n): (3 + n % 3, 2) for n in range(12)}
    await_tenure(daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "2"))
    with copies_held(cluster, held):
        submit_request(cluster, {**held, **others})
        await_moving(cluster, held)
        eventually(
            lambda: all(cluster.replicas(t, n) == list(to) for (t, n), to in others.items()),
            within_s=25,
            what="everything else ended meanwhile",
        )
        assert moving(cluster, slow) == {(slow, 0)}
    await_end(cluster, {**held, **others}, within_s=60)


def await_sizes(daemon: Daemon, targets: Targets) -> None:
    """Wait until the daemon knows the sizes of these partitions."""

    def size_of(topic: str, partition: int) -> int | None:
        _, body = daemon.get(f"/explain?partition={topic}-{partition}")
        found = json.loads(body)["reassignment"] or {}
        size = found.get("size_bytes")
        assert size is None or isinstance(size, int)
        return size

    eventually(
        lambda: all(size_of(*partition) for partition in targets),
        within_s=30,
        what="the sizes are known",
    )


def grow(cluster: Cluster, topic: str, megabytes: dict[int, int]) -> None:
    """Write so many megabytes into each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for partition, count in megabytes.items():
        for key in range(2 * count):
            producer.produce(topic, b"x" * (MEGABYTE // 2), f"{-1 - key}".encode(), partition)
    left = producer.flush(60)
    assert left == 0, f"{left} records are not written"
