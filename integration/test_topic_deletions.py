"""
Topics that the daemon deletes during a tenure, on real brokers of several releases.

That the controller epoch stays shows that no broker was the controller in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_2_3, KAFKA_2_4, KAFKA_2_7, KAFKA_2_8, KAFKA_3_9
from integration.rigs.plans import Daemons, await_broker_controller, copies_held
from integration.rigs.running_daemons import (
    await_claim,
    controller_epoch,
    is_done,
    permanent_tenure,
    running_daemon,
    shows,
    strike,
    submit,
)
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

ROWS: Final = (
    Row("native", KAFKA_3_9, "2.6"),
    Row("native", KAFKA_2_4, None),
    Row("native", KAFKA_2_3, None),
    Row("native", KAFKA_2_7, None, wanted="native", endpoint=True),
    Row("native", KAFKA_2_8, None, wanted="native", endpoint=True),
    Row("native", KAFKA_3_9, None, wanted="native", endpoint=True),
)
PARTITIONS: Final = 50
SAFE: Final = {"min.insync.replicas": "2"}
DELETED_S: Final = 30.0


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    row: Row = request.param
    with row.running() as found:
        yield found


def mark(cluster: Cluster, topic: str) -> None:
    """Have a topic deleted, as a broker that serves DeleteTopics does."""
    cluster.zk.create(f"/admin/delete_topics/{topic}", b"")


def spread(partitions: int) -> Mapping[int, list[int]]:
    """Return replicas on three of five brokers for each partition."""
    return {n: [(n + i) % 5 + 1 for i in range(3)] for n in range(partitions)}


def is_gone(cluster: Cluster, topic: str) -> bool:
    """Return whether a topic is deleted with its settings and its marker."""
    paths = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return all(cluster.zk.exists(path) is None for path in paths)


def logs(cluster: Cluster, topic: str) -> set[str]:
    """Return the directories of a topic on all brokers, except those about to be removed."""
    found = (cluster.replica_directories(b) for b in cluster.brokers)
    return {d for each in found for d in each if d.startswith(topic) and not d.endswith("-delete")}


def is_known(cluster: Cluster, topic: str) -> bool:
    """Return whether a live broker shows the topic to clients."""
    live = (n for n, broker in cluster.brokers.items() if broker.is_alive)
    return any(shows(cluster, n, topic) for n in live)


def test_topics_are_deleted_while_a_copy_continues(cluster: Cluster, make_topic: MakeTopic) -> None:
    """No other controller is needed; a topic of the same name can be created again."""
    busy = make_topic({0: [1, 2, 3]}, SAFE)
    doomed = make_topic(spread(PARTITIONS))
    small = make_topic({0: [1, 2, 3]})
    plan = {busy: {0: [3, 4, 5]}}
    with copies_held(cluster, [(busy, 0)]) as release, permanent_tenure(cluster):
        submit(cluster, plan)
        eventually(lambda: (cluster.topic(busy) or {})["partitions"]["0"] != [1, 2, 3], within_s=30)
        epoch = controller_epoch(cluster)
        mark(cluster, doomed)
        mark(cluster, small)
        mark(cluster, "never-created")
        marked = (doomed, small, "never-created")
        eventually(lambda: all(is_gone(cluster, t) for t in marked), within_s=DELETED_S)
        assert not is_done(cluster, plan)
        assert logs(cluster, doomed) == set()
        assert logs(cluster, small) == set()
        eventually(lambda: not is_known(cluster, doomed), within_s=5)
        assert controller_epoch(cluster) == epoch
        release()
        eventually(lambda: is_done(cluster, plan), within_s=60)
        assert controller_epoch(cluster) == epoch
    cluster.create_topic(doomed, spread(4), SAFE)
    with Traffic(cluster.bootstrap_servers, {doomed: 4}) as traffic:
        traffic.await_flow()
        traffic.stop()
    found = traffic.audited()
    assert found.is_clean, str(found)


def test_a_topic_that_is_newer_than_its_marker_stays(
    cluster: Cluster, fresh_name: Callable[[], str]
) -> None:
    """A controller that dies between a topic's znodes and its marker leaves the marker."""
    topic, document = fresh_name(), {"version": 2, "partitions": {"0": [1, 2, 3]}}
    with permanent_tenure(cluster, "--log-format", "json") as daemon:
        epoch = controller_epoch(cluster)
        daemon.freeze()
        mark(cluster, topic)
        cluster.zk.create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        cluster.zk.create(
            f"/brokers/topics/{topic}",
            json.dumps({**document, "adding_replicas": {}, "removing_replicas": {}}).encode(),
        )
        daemon.thaw()
        eventually(lambda: cluster.isr(topic, 0) == {1, 2, 3}, within_s=20)
        assert cluster.zk.exists(f"/admin/delete_topics/{topic}") is None
        assert '"stale_deletion_marker_removed"' in daemon.log.read_text()
        with Traffic(cluster.bootstrap_servers, {topic: 1}) as traffic:
            traffic.await_flow()
            traffic.stop()
        found = traffic.audited()
        assert found.is_clean, str(found)
        assert holders(cluster, topic) == {1, 2, 3}
        assert controller_epoch(cluster) == epoch
        mark(cluster, topic)
        eventually(lambda: is_gone(cluster, topic), within_s=DELETED_S)
        assert holders(cluster, topic) == set()


def holders(cluster: Cluster, topic: str) -> set[int]:
    """Return the brokers that have a log of a topic, except those about to be removed."""
    return {
        broker
        for broker in cluster.brokers
        for name in cluster.replica_directories(broker)
        if name.startswith(topic) and not name.endswith("-delete")
    }


def waits_for(daemon: Daemon, topic: str, broker: int) -> bool:
    """Return whether the status says that a deletion waits for a broker."""
    why = f"waits for broker {broker}, which is not live and has a replica"
    pending: Mapping[str, str] = daemon.status()["topic_deletions"]
    return pending.get(topic) == why


def test_live_replicas_are_deleted_while_the_broker_of_others_is_dead(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """The status names the broker; its logs and the znodes go when it is back."""
    doomed = make_topic({n: [1, 2, 3] for n in range(4)})
    with permanent_tenure(cluster) as daemon:
        epoch = controller_epoch(cluster)
        strike(cluster, 3)
        mark(cluster, doomed)
        eventually(lambda: holders(cluster, doomed) == {3}, within_s=20)
        eventually(lambda: waits_for(daemon, doomed, 3), within_s=20)
        eventually(lambda: not is_known(cluster, doomed), within_s=5)
        assert cluster.topic(doomed) is not None
        cluster.brokers[3].start()
        eventually(lambda: is_gone(cluster, doomed), within_s=60)
        eventually(lambda: logs(cluster, doomed) == set(), within_s=10)
        assert not is_known(cluster, doomed)
        assert controller_epoch(cluster) == epoch


@pytest.mark.parametrize("is_followed", [False, True], ids=["kafka", "daemon"])
def test_a_deletion_that_waits_ends_with_whichever_controller_follows(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, *, is_followed: bool
) -> None:
    """The daemon is killed while a broker is dead; Kafka's controller or another daemon ends it."""
    doomed = make_topic({n: [1, 2, 3] for n in range(4)})
    dying = daemons.start("--tenure", "permanent")
    await_claim(cluster)
    strike(cluster, 3)
    mark(cluster, doomed)
    eventually(lambda: waits_for(dying, doomed, 3), within_s=20)
    heir = daemons.start("--tenure", "permanent") if is_followed else None
    epoch = controller_epoch(cluster)
    dying.kill()
    if heir is None:
        await_broker_controller(cluster, within_s=30)
    else:
        eventually(lambda: controller_epoch(cluster) > epoch, within_s=30)
        await_claim(cluster)
        eventually(lambda: waits_for(heir, doomed, 3), within_s=20)
        assert holders(cluster, doomed) == {3}
    assert not is_known(cluster, doomed)
    cluster.brokers[3].start()
    eventually(lambda: is_gone(cluster, doomed), within_s=60)
    eventually(lambda: logs(cluster, doomed) == set(), within_s=20)
    eventually(lambda: not is_known(cluster, doomed), within_s=10)


def test_a_deletion_that_waits_does_not_keep_the_role(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """
    Kafka's controller cannot end it either before the broker is back.

    It deletes the live replicas before the claim, which would interrupt that (KAFKA-12315). One
    that is elected after the mark deletes none before the dead broker is back.
    """
    dead, target = (5, 4) if cluster.controller_broker() != 5 else (4, 5)
    moved = make_topic({0: [1, 2, 3]}, SAFE)
    doomed = make_topic({0: [1, 2, dead]})
    plan = {moved: {0: [1, 2, target]}}
    with running_daemon(cluster, "--tenure-linger", "1"):
        strike(cluster, dead)
        mark(cluster, doomed)
        eventually(lambda: holders(cluster, doomed) == {dead}, within_s=20)
        submit(cluster, plan)
        await_claim(cluster)
        eventually(lambda: is_done(cluster, plan), within_s=30)
        eventually(cluster.controller_broker, within_s=30)
        cluster.brokers[dead].start()
        eventually(lambda: is_gone(cluster, doomed), within_s=60)
