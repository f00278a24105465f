"""
The main job on real brokers: plans are carried out by our own controller, and nothing is lost.

What the cluster went through is read from ZooKeeper's transaction log: each value that ever stood,
not only those that a watch was quick enough to see.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    ConfigResource,
    ResourceType,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import (
    Daemons,
    await_broker_controller,
    await_end,
    await_tenure,
    configure,
    copies_held,
    holders,
    is_reassigning,
    outcome,
    plan_of,
    submit,
    unconfigure,
)
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import Assignment, assignments, writes
from integration.rigs.waiting import eventually

DURABLE = {"min.insync.replicas": "2"}
DELETE_DELAY_S = 60
"""Kafka's default for ``file.delete.delay.ms``."""
_DELETE_DELAY = "log.segment.delete.delay.ms"


@pytest.fixture
def default_delete_delay(cluster: Cluster) -> Iterator[None]:
    """Let brokers keep deleted logs for as long as by default: other tests have no time for it."""
    for broker in cluster.brokers:
        configure(cluster, f"brokers/{broker}", {_DELETE_DELAY: str(1000 * DELETE_DELAY_S)})
    eventually(lambda: _delays(cluster) == {str(1000 * DELETE_DELAY_S)}, within_s=30)
    yield
    for broker in cluster.brokers:
        unconfigure(cluster, f"brokers/{broker}", _DELETE_DELAY)


def _delays(cluster: Cluster) -> set[str]:
    """Return for how many milliseconds the brokers keep deleted logs, as they say themselves."""
    brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in cluster.brokers]
    answers = [f for b in brokers for f in cluster.admin.describe_configs([b]).values()]
    return {str(answer.result(timeout=10)[_DELETE_DELAY].value) for answer in answers}


def deleted(cluster: Cluster, topic: str, partition: int) -> set[int]:
    """Return the brokers with a log of the partition that is deleted and still on its disk."""
    return {
        broker
        for broker in cluster.brokers
        for name in cluster.replica_directories(broker)
        if name.startswith(f"{topic}-{partition}.") and name.endswith("-delete")
    }


@pytest.mark.any_cluster
@pytest.mark.smoke
def test_a_plan_under_load_is_carried_out_and_no_acknowledged_record_is_lost(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """Thirty partitions of three topics move while a producer with acks=all writes to them."""
    topics = [make_topic(dict.fromkeys(range(10), (1, 2, 3)), DURABLE) for _ in range(3)]
    partitions = dict.fromkeys(topics, 10)
    targets = {
        (topic, n): [(3, 4, 5), (5, 1, 4), (2, 4, 3)][(n + shift) % 3]
        for shift, topic in enumerate(topics)
        for n in range(10)
    }
    daemons.start("--tenure-linger", "1")
    with Traffic(cluster.bootstrap_servers, partitions) as traffic:
        traffic.await_flow()
        submit(cluster, plan_of(targets))
        await_end(cluster, targets, within_s=60)
        traffic.await_flow()
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    await_broker_controller(cluster, within_s=10)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of(targets)))
    code, text = cluster.reassign_partitions("--reassignment-json-file", str(file), "--verify")
    assert code == 0, text
    assert text.count("is completed.") == len(targets), text


@pytest.mark.acceptance
@pytest.mark.usefixtures("default_delete_delay")
def test_a_step_size_of_one_goes_through_the_assignments_of_the_ticket(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """
    KAFKA-6794: one replica at a time; one more than the larger replica set serves or copies.

    The topic znode lists what a step drops beside them, out of the ISR, and brokers keep a log that
    they delete on their disks for a minute.
    """
    three = make_topic({0: (1, 2, 3), 1: (1, 2, 3), 2: (5, 4, 3)}, DURABLE)
    two = make_topic({0: (1, 2)}, DURABLE)
    targets = {
        (three, 0): (3, 4, 5),
        (three, 1): (4, 5, 1),
        (three, 2): (2, 1, 3),
        (two, 0): (3, 4),
    }
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", "1"))
    with (
        Traffic(cluster.bootstrap_servers, {three: 3, two: 1}),
        DiskWatcher(cluster, targets) as disks,
    ):
        submit(cluster, plan_of(targets))
        await_end(cluster, targets, within_s=40)
    history = writes(cluster)

    def went(topic: str, partition: int) -> list[tuple[int, ...]]:
        rows = (a.remaining for a in assignments(history, topic, partition))
        return [row for row, _ in groupby(rows)]

    assert went(three, 0) == [(1, 2, 3), (1, 2, 3, 4), (1, 3, 4, 5), (3, 4, 5)]
    assert went(three, 1) == [(1, 2, 3), (1, 2, 3, 4), (1, 3, 4, 5), (4, 5, 1)]
    assert went(three, 2) == [(5, 4, 3), (5, 4, 3, 2), (5, 3, 2, 1), (2, 1, 3)]
    assert went(two, 0) == [(1, 2), (1, 2, 3), (1, 3, 4), (3, 4)]
    assert disks.samples > 20
    assert disks.excesses == []
    listed = [a.replicas for a in assignments(history, three, 0)]
    assert max(map(len, listed)) == 5
    assert deleted(cluster, three, 0) == {1, 2}
    assert deleted(cluster, three, 2) == {5, 4}
    assert deleted(cluster, two, 0) == {1, 2}


@pytest.mark.usefixtures("default_delete_delay")
def test_a_deleted_log_keeps_its_disk_until_the_delay_has_passed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The reassignment has ended long before: only then is the disk free."""
    topic = make_topic({0: (1, 2)})
    await_tenure(daemons.start("--tenure", "permanent"))
    submit(cluster, plan_of({(topic, 0): (1, 3)}))
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=40)
    ended_at = time.monotonic()
    assert holders(cluster, topic, 0) == {1, 3}
    assert deleted(cluster, topic, 0) == {2}
    eventually(lambda: not deleted(cluster, topic, 0), within_s=DELETE_DELAY_S + 30)
    assert time.monotonic() - ended_at > DELETE_DELAY_S - 10


@pytest.mark.any_cluster
def test_a_single_jump_goes_through_the_classic_rows(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """With --step-size all, RS, AR and RR are those of Kafka's own reassignment."""
    three, two = make_topic({0: (1, 2, 3)}, DURABLE), make_topic({0: (1, 2)}, DURABLE)
    targets = {(three, 0): (3, 4, 5), (two, 0): (3, 4)}
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", "all"))
    with Traffic(cluster.bootstrap_servers, {three: 1, two: 1}):
        submit(cluster, plan_of(targets))
        await_end(cluster, targets, within_s=40)
    history = writes(cluster)
    assert assignments(history, three, 0) == [
        Assignment((1, 2, 3)),
        Assignment((3, 4, 5, 1, 2), (4, 5), (1, 2)),
        Assignment((3, 4, 5)),
    ]
    assert assignments(history, two, 0) == [
        Assignment((1, 2)),
        Assignment((3, 4, 1, 2), (3, 4), (1, 2)),
        Assignment((3, 4)),
    ]


@pytest.mark.any_cluster
def test_replication_factor_and_order_change_and_a_target_already_reached_is_done(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """More replicas, fewer replicas, another order, which moves no leader, and nothing to do."""
    two = make_topic({0: (1, 2), 1: (4, 5)}, DURABLE)
    four = make_topic({0: (1, 2, 3, 4), 1: (1, 2, 3, 4)}, DURABLE)
    targets = {
        (two, 0): (5, 1, 2, 3),
        (two, 1): (4, 5),
        (four, 0): (4, 2),
        (four, 1): (3, 1, 4, 2),
    }
    await_tenure(daemons.start("--tenure", "permanent"))
    request = submit(cluster, plan_of(targets))
    order = {(four, 1): targets.pop((four, 1))}
    await_end(cluster, targets, within_s=40)
    await_end(cluster, order, within_s=40, any_leader=True)
    state = cluster.state(four, 1)
    assert state is not None
    assert state["leader"] == 1
    summary = outcome(cluster, request)
    assert summary is not None
    assert (summary["done"], summary["refused"]) == (4, [])
    history = writes(cluster)
    assert assignments(history, four, 1) == [Assignment((1, 2, 3, 4)), Assignment((3, 1, 4, 2))]
    assert assignments(history, two, 1) == [Assignment((4, 5))]


def test_what_a_kafka_controller_began_is_driven_to_its_own_target(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """A reassignment begun through Kafka's API is in flight when our tenure begins: it ends."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    foreign, ours = {(topic, 0): (3, 4)}, {(topic, 1): (2, 5)}
    file = tmp_path / "foreign.json"
    file.write_text(json.dumps(plan_of(foreign)))
    with copies_held(cluster, [*foreign, *ours]):
        result = cluster.reassign_partitions("--reassignment-json-file", str(file), "--execute")
        assert result.code == 0, result.stdout
        assert is_reassigning(cluster, topic)
        daemon = daemons.start("--tenure-linger", "1")
        assert cluster.controller_broker() is not None
        submit(cluster, plan_of(ours))
        await_tenure(daemon)
        assert cluster.replicas(topic, 0) == [3, 4, 1, 2]
    await_end(cluster, {**foreign, **ours}, within_s=60)
    assert assignments(writes(cluster), topic, 0) == [
        Assignment((1, 2)),
        Assignment((3, 4, 1, 2), (3, 4), (1, 2)),
        Assignment((3, 4)),
    ]
    await_broker_controller(cluster, within_s=10)


class DiskWatcher:
    """
    Looks at the disks as fast as it can for partitions that are on too many of them.

    While a step drops a replica, its log may still be there beside the new one. A log that is being
    deleted does not count.
    """

    def __init__(self, cluster: Cluster, targets: dict[tuple[str, int], tuple[int, ...]]) -> None:
        self.samples = 0
        self.excesses: list[str] = []
        self._cluster = cluster
        self._bounds = {
            (topic, n): max(len(cluster.replicas(topic, n)), len(target)) + 1
            for (topic, n), target in targets.items()
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disks", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(0.01):
            for (topic, partition), bound in self._bounds.items():
                before = self._dropping(topic, partition)
                found = holders(self._cluster, topic, partition)
                dropping = max(before, self._dropping(topic, partition))
                self.samples += 1
                if len(found) > bound + dropping:
                    self.excesses.append(f"{topic}-{partition} on {found}, {dropping} leaving")

    def _dropping(self, topic: str, partition: int) -> int:
        content = self._cluster.topic(topic) or {}
        return len(content.get("removing_replicas", {}).get(str(partition), ()))
