"""
Topic ids on real brokers: whatever controller moved a replica, its log has the id of its topic.

A log has it in ``partition.metadata``, from Kafka 3 on: brokers of 2.8 know the ids of topics, and
keep none with their logs. Every release that has its own version of the requests is a row.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from controller.brokers.broker_connections import BrokerConnection
from controller.brokers.broker_queries import query_all
from controller.brokers.channels import BrokerChannels, ChannelOptions
from controller.brokers.config_queries import LIMITS
from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice
from controller.brokers.frames import frame_of
from controller.brokers.messages import topic_uuid
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId, TopicPartition
from controller.reactor.ports import LeaderAndIsr, UpdateMetadata
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_jars import KAFKA_2_8, KAFKA_3_9
from integration.rigs.plans import Daemons, Targets, await_end, await_tenure
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.seized_controllers import CONTROLLER, QueueInbox, SeizedController
from integration.rigs.servers import INTERNAL_LISTENER
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

WITH_IDS = [row for row in ROWS if row.endpoint and row.release.kafka >= "2.8"]
METADATA, METADATA_BY_ID = 3, 12
CONNECTIONS = ConnectionSettings(listeners=ListenerChoice(inter_broker_listener=INTERNAL_LISTENER))
WITHOUT_FILES = (KAFKA_2_8,)
OTHER_ID = "c29tZXRoaW5nIGVsc2UgIQ"


@pytest.fixture(scope="module", params=WITH_IDS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give its cluster."""
    with row.running() as cluster:
        yield cluster


def stored_id(cluster: Cluster, topic: str) -> str | None:
    """Return the id in the topic znode."""
    data, _ = cluster.zk.get(f"/brokers/topics/{topic}")
    found = json.loads(data).get("topic_id")
    return None if found is None else str(found)


def metadata_files(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> list[Path]:
    """Return where a broker keeps the id of a replica."""
    return [
        directory / f"{topic}-{partition}" / "partition.metadata"
        for directory in cluster.brokers[broker].log_dirs
        if (directory / f"{topic}-{partition}").is_dir()
    ]


def id_on(cluster: Cluster, broker: int, topic: str) -> str | None:
    """Return the id in the log of partition 0 of a topic."""
    for file in metadata_files(cluster, broker, topic):
        if file.exists():
            found = re.search(r"topic_id: (\S+)", file.read_text())
            return None if found is None else found.group(1)
    return None


def await_ids(cluster: Cluster, topic: str, *brokers: int) -> str:
    """Wait until the topic has an id, these brokers have it in their logs, and all know it."""
    keeps_ids = cluster.options.broker.release not in WITHOUT_FILES

    def missing() -> dict[int, str | None]:
        found = {b: id_on(cluster, b, topic) for b in brokers} if keeps_ids else {}
        wanted = stored_id(cluster, topic)
        return {b: i for b, i in found.items() if i is None or i != wanted}

    def is_known() -> bool:
        topic_id = stored_id(cluster, topic)
        return topic_id is not None and names_of(cluster, topic, topic_id) == known

    known = dict.fromkeys(map(BrokerId, cluster.brokers), topic)
    eventually(lambda: not missing(), within_s=30, what=lambda: f"{topic}: ids of {missing()}")
    eventually(is_known, within_s=30, every_s=1.0, what=f"all brokers know the id of {topic}")
    topic_id = stored_id(cluster, topic)
    assert topic_id is not None
    return topic_id


def names_of(cluster: Cluster, topic: str, topic_id: str) -> dict[BrokerId, str | None]:
    """Return the topic that each broker knows by an id, as clients see it; from 3.0 on by it."""

    async def topic_id_of(_: LiveBroker, connection: BrokerConnection) -> str | None:
        version = min(METADATA_BY_ID, connection.understood[METADATA][1])
        is_by_id = version == METADATA_BY_ID
        request = MetadataRequest(
            version=version,
            topics=[(topic_uuid(topic_id), None) if is_by_id else (None, topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer: Any = await connection.send_and_receive(frame_of(request))
        (found,) = answer.topics
        is_known = not found.error_code and found.topic_id == topic_uuid(topic_id)
        return str(found.name) if is_known else None

    reader = SeizedController(cluster.zookeeper_connect)
    try:
        live = reader.brokers().values()
        deadline = time.monotonic() + 30.0
        return {
            b: str(name)
            for b, name in query_all(CONNECTIONS, LIMITS, live, topic_id_of, deadline=deadline)
        }
    finally:
        reader.stop()


def permanent(daemons: Daemons) -> Daemon:
    """Return a daemon that is the controller."""
    daemon = daemons.start("--tenure", "permanent")
    await_tenure(daemon)
    return daemon


def write_topic(
    cluster: Cluster, name: str, replicas: dict[int, list[int]], topic_id: str | None = None
) -> None:
    """Write a topic znode as a tool of before 2.8 does, or with an id."""
    document: dict[str, object] = {"version": 1, "partitions": replicas}
    if topic_id is not None:
        document = {**document, "version": 3, "topic_id": topic_id}
        document |= {"adding_replicas": {}, "removing_replicas": {}}
    path, data = f"/brokers/topics/{name}", json.dumps(document).encode()
    if cluster.zk.exists(path):
        cluster.zk.set(path, data)
    else:
        cluster.zk.create(path, data)


def test_moved_replica_has_the_id_of_its_topic(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """And so do those that stay; brokers find the topic by it afterwards."""
    topic = make_topic({0: (1, 2)})
    topic_id = await_ids(cluster, topic, 1, 2)
    permanent(daemons)
    there: Targets = {(topic, 0): (2, 4, 5)}
    submit_request(cluster, there)
    await_end(cluster, there, within_s=90)
    assert await_ids(cluster, topic, 2, 4, 5) == topic_id
    for broker in cluster.brokers.values():
        text = broker.log.read_text(errors="replace")
        assert not re.search(rf"{topic}\S* .*with topic id None", text)
    assert names_of(cluster, topic, topic_id) == dict.fromkeys(
        map(BrokerId, cluster.brokers), topic
    )


def test_topic_without_an_id_gets_one_and_keeps_it(cluster: Cluster, daemons: Daemons) -> None:
    """A tool of before 2.8 creates it in a tenure, and writes it without the id later."""
    daemon = permanent(daemons)
    topic = f"unnamed-{uuid.uuid4().hex[:8]}"
    write_topic(cluster, topic, {0: [1, 2]})
    cluster.await_in_sync(topic, {0: (1, 2)})
    topic_id = await_ids(cluster, topic, 1, 2)
    write_topic(cluster, topic, {0: [1, 2]})
    eventually(lambda: stored_id(cluster, topic) == topic_id, within_s=20, what="it is put back")
    assert daemon.status()["tenure"]["held"]
    there: Targets = {(topic, 0): (2, 3)}
    submit_request(cluster, there)
    await_end(cluster, there, within_s=90)
    assert await_ids(cluster, topic, 2, 3) == topic_id


def test_logs_without_an_id_get_it_at_a_claim(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A controller that sends no ids made the replica, as earlier releases of the daemon did."""
    if row.release in WITHOUT_FILES:
        pytest.skip("logs of this release have no ids")
    topic = make_topic({0: (1, 2)})
    partition = TopicPartition(topic, 0)
    inbox, seized = QueueInbox(), SeizedController(cluster.zookeeper_connect)
    with ExitStack() as ending:
        ending.callback(seized.stop)
        eventually(seized.claim, within_s=30)
        channels = BrokerChannels(inbox, ChannelOptions(CONTROLLER, CONNECTIONS))
        channels.start()
        ending.callback(channels.stop)
        data, stat = cluster.zk.get(f"/brokers/topics/{topic}")
        document = {**json.loads(data), "partitions": {"0": [1, 2, 3]}}
        cluster.zk.set(f"/brokers/topics/{topic}", json.dumps(document).encode(), stat.version)
        live = seized.brokers()
        replicas = (BrokerId(1), BrokerId(2), BrokerId(3))
        state = replace(seized.change(partition), replicas=replicas)
        for broker in live.values():
            channels.open(broker)
            channels.send(broker.id, UpdateMetadata(seized.epoch, (), tuple(live.values())))
        for broker_id in replicas:
            sent = replace(state, is_new=broker_id == 3)
            request = LeaderAndIsr(seized.epoch, (sent,), (live[state.leader],))
            channels.send(broker_id, request)
        events = [inbox.next() for _ in range(len(live) + len(replicas))]
        answers = [e for e in events if isinstance(e, LeaderAndIsrAnswered)]
        assert [r.error for a in answers for r in a.results] == [0, 0, 0]
        eventually(lambda: bool(metadata_files(cluster, 3, topic)), within_s=20)
        assert id_on(cluster, 3, topic) is None
        permanent(daemons)
        await_ids(cluster, topic, 1, 2, 3)


def test_broker_with_a_log_of_another_topic_keeps_the_copy_waiting(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The reason is shown; when the old log is removed and the broker restarts, it ends."""
    if row.release in WITHOUT_FILES:
        pytest.skip("logs of this release have no ids")
    topic = make_topic({0: (1, 2)})
    broker = cluster.brokers[3]
    broker.stop()
    old = broker.log_dirs[0] / f"{topic}-0"
    old.mkdir()
    (old / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    broker.start()
    daemon = permanent(daemons)
    there: Targets = {(topic, 0): (1, 3)}
    request = submit_request(cluster, there)

    def why() -> str:
        return json.dumps(daemon.status()["in_flight"])

    eventually(lambda: "INCONSISTENT_TOPIC_ID" in why(), within_s=30, what=why)
    assert cluster.isr(topic, 0) == {1, 2}
    broker.stop()
    for file in old.iterdir():
        file.unlink()
    old.rmdir()
    broker.start()
    await_end(cluster, there, within_s=90)
    await_outcome(cluster, request, within_s=20)
    await_ids(cluster, topic, 1, 3)


def test_topics_get_their_ids_in_a_rolling_upgrade(tmp_path: Path) -> None:
    """The last broker that leaves 2.7 behind lets the daemon assign them, under load."""
    before = Row("native", KAFKA_3_9, "2.7", endpoint=True)
    options = replace(before.options, brokers=3)
    with Cluster.running(options) as cluster, ExitStack() as ending:
        cluster.daemon_options = before.arguments
        daemons = Daemons(cluster, tmp_path)
        ending.callback(daemons.close)
        topic = cluster.create_topic("upgraded", {0: (1, 2, 3)}, {"min.insync.replicas": "2"})
        assert stored_id(cluster, topic) is None
        daemon = permanent(daemons)
        with Traffic(cluster.bootstrap_servers, {topic: 1}) as traffic:
            traffic.await_flow()
            for broker in cluster.brokers.values():
                broker.stop()
                broker.upgrade()
                broker.start()
                eventually(lambda: cluster.isr(topic, 0) == {1, 2, 3}, within_s=60)
            await_ids(cluster, topic, 1, 2, 3)
            traffic.await_flow()
            traffic.stop()
            audit = traffic.audited()
        assert audit.is_clean, str(audit)
        assert daemon.status()["tenure"]["held"]
