"""
Drained brokers become empty and stay so, with both engines.

A producer creates topics meanwhile, the daemon is killed, the drained broker is dead, reassignments
lead to it. What is left on a broker is read from ZooKeeper, what was acknowledged from its leaders.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    NewPartitions,
    NewTopic,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.operator_actions import await_moving, said
from integration.rigs.plans import Daemons, children, copies_held, fill, holders, specs
from integration.rigs.requests import await_outcome, endings, reassigner, submit_request
from integration.rigs.running_daemons import strike
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import tenure

ROWS: Final = (Row("native", KAFKA_3_9, "2.6"), Row("delegated", KAFKA_3_9, None))
SERVED: Final = Row("native", KAFKA_3_9, None, wanted="native")
"""The daemon serves its clients."""
EXTRA: Final = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "2",
    "num.partitions": "2",
}
SOON: Final = ("--tenure-linger", "1")
DRAINED: Final = 5
EMPTY: Final = f"broker {DRAINED} is empty: it can be shut down"
ERROR, LEFT = 1, 2
PARTITIONS: Final = 6
RECORDS: Final = 30
RECORD_BYTES: Final = 100_000
THROTTLE: Final = "600KB"
QUIET_S: Final = 15.0
"""How long nothing may appear on the empty broker."""


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of an engine, whose brokers create topics for producers."""
    row: Row = request.param
    broker = replace(row.options.broker, extra=EXTRA, log_dirs=2)
    with Cluster.running(replace(row.options, broker=broker)) as cluster:
        cluster.daemon_options = row.arguments
        yield cluster


@pytest.fixture(autouse=True)
def _nothing_turned(nothing_turned: None) -> None:
    """No test begins with the drains of another one."""


class NewTopics:
    """A producer of one record a second, each for a topic that is created for it."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._prefix = prefix
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET}
        self._producer = Producer(settings)
        self._consumer = Consumer({**settings, "group.id": prefix})
        self.acknowledged: list[str] = []
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; see that every record was acknowledged."""
        self._ending.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self.failed == []

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(1.0):
            self._producer.produce(f"{self._prefix}-{number}", b"x", on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        found = self.acknowledged if error is None else self.failed
        found.append(f"{message.topic()}" if error is None else f"{message.topic()}: {error}")

    def count_records(self) -> int:
        """Return how many records can be read in the topics."""
        found = 0
        for topic in self.acknowledged:
            for number in range(int(EXTRA["num.partitions"])):
                ends = self._consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
                found += ends[1] - ends[0]
        return found


def on_broker(cluster: Cluster, topics: Iterable[str], broker: int = DRAINED) -> list[str]:
    """Return the partitions of topics with a replica on a broker."""
    found = ((topic, (cluster.topic(topic) or {}).get("partitions", {})) for topic in topics)
    return [f"{topic}-{n}" for topic, of in found for n, rs in of.items() if broker in rs]


def await_off(cluster: Cluster, topics: Iterable[str], *, within_s: float) -> None:
    """Wait until topics have no replica on the drained broker."""
    wanted = list(topics)
    eventually(
        lambda: not on_broker(cluster, wanted),
        within_s=within_s,
        what=lambda: f"broker {DRAINED} is empty; it has {on_broker(cluster, wanted)}",
    )


def loaded(cluster: Cluster, make_topic: MakeTopic) -> str:
    """
    Create a topic with a replica of each partition on the drained broker, and with data.

    One broker leads them: its throttle is what takes time, wherever the replicas go.
    """
    topic = make_topic(dict.fromkeys(range(PARTITIONS), (1, DRAINED)))
    fill(cluster, [(topic, n) for n in range(PARTITIONS)], RECORDS, RECORD_BYTES)
    return topic


def drain_request(cluster: Cluster) -> str:
    """Return the request of the drains."""
    _, stat = cluster.zk.get("/reassigner/control/drains")
    return f"drain-{stat.czxid:016x}"


def timed_drain(cluster: Cluster, topic: str) -> float:
    """Drain the broker; return the seconds until a topic has left it."""
    begun = time.monotonic()
    said(cluster, "drain", str(DRAINED), "--throttle", THROTTLE, code=LEFT)
    await_off(cluster, [topic], within_s=240)
    return time.monotonic() - begun


def topics_of(cluster: Cluster) -> list[str]:
    """Return all topics."""
    return children(cluster, "/brokers/topics")


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_topics_that_are_created_meanwhile_leave_the_broker_too(
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    fresh_name: Callable[[], str],
    record_property: Callable[[str, object], None],
) -> None:
    """A producer creates one a second; that delays the others little, and nothing is lost."""
    first = loaded(cluster, make_topic)
    daemons.start(*SOON)
    with Traffic(cluster.bootstrap_servers, {first: PARTITIONS}) as traffic:
        quiet = timed_drain(cluster, first)
        traffic.stop()
    assert said(cluster, "drain", str(DRAINED), "--wait").splitlines()[-1] == EMPTY
    said(cluster, "drain", "--stop")
    second = loaded(cluster, make_topic)
    with (
        Traffic(cluster.bootstrap_servers, {second: PARTITIONS}) as traffic,
        NewTopics(cluster, fresh_name()) as producer,
    ):
        eventually(lambda: len(producer.acknowledged) > 1, within_s=60, what="topics appear")
        busy = timed_drain(cluster, second)
        reached = len(producer.acknowledged)
        eventually(lambda: len(producer.acknowledged) > reached + 3, within_s=60, what="more")
        traffic.await_flow()
        traffic.stop()
    assert said(cluster, "drain", str(DRAINED), "--wait").splitlines()[-1] == EMPTY
    until = time.monotonic() + QUIET_S
    while time.monotonic() < until:
        assert on_broker(cluster, topics_of(cluster)) == []
        time.sleep(1)
    assert len(set(producer.acknowledged)) == producer.count_records()
    assert traffic.audited().missing == ()
    request = drain_request(cluster)
    said(cluster, "drain", "--stop", str(DRAINED))
    summary = await_outcome(cluster, request, within_s=30)
    assert (summary["kind"], summary["total"]) == ("drain", summary["done"])
    followed = summary["done"] - PARTITIONS
    assert followed > 0
    for name, value in (("quiet_s", quiet), ("busy_s", busy), ("followed", followed)):
        record_property(name, round(value, 1))
    print(
        f"\nquiet {quiet:.1f} s, with a new topic a second {busy:.1f} s: {busy / quiet:.2f} times; "
        f"{len(producer.acknowledged)} topics created, {followed} of their partitions drained"
    )
    assert busy < 3 * quiet + 20, "as long as that on a busy machine"


@pytest.mark.acceptance
@pytest.mark.timeout(400)
def test_a_dead_broker_is_drained_though_the_daemon_is_killed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Another daemon continues; the broker may come back, and gets nothing."""
    topic = loaded(cluster, make_topic)
    strike(cluster, DRAINED)
    daemon = daemons.start(*SOON, "--max-partitions-in-flight", "2")
    text = said(cluster, "drain", str(DRAINED), "--throttle", THROTTLE, code=LEFT)
    assert f"broker {DRAINED}, which is not live, is being drained since" in text
    eventually(
        lambda: 0 < len(on_broker(cluster, [topic])) < PARTITIONS,
        within_s=120,
        what="a part has left the broker",
    )
    daemon.kill()
    left = len(on_broker(cluster, [topic]))
    assert left, "there is something to continue"
    daemons.start(*SOON)
    last = said(cluster, "drain", str(DRAINED), "--wait").splitlines()[-1]
    assert last == f"broker {DRAINED} is empty: it need not return"
    assert on_broker(cluster, [topic]) == []
    assert all(len(cluster.isr(topic, n)) == 2 for n in range(PARTITIONS))
    cluster.start_brokers(DRAINED)
    time.sleep(QUIET_S)
    assert on_broker(cluster, topics_of(cluster)) == []
    assert said(cluster, "drain").splitlines()[-1] == EMPTY


@pytest.mark.timeout(400)
def test_what_leads_to_the_broker_is_retargeted_and_nothing_new_is_accepted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The directory that a reassignment names for a replica that stays is kept."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    daemons.start(*SOON)
    directory = str(cluster.brokers[3].log_dirs[1])
    with copies_held(cluster, [(topic, 0)]):
        entry = {"topic": topic, "partition": 0, "replicas": [3, DRAINED]}
        plan = {"version": 1, "partitions": [{**entry, "log_dirs": [directory, "any"]}]}
        request = submit_request(cluster, plan)
        await_moving(cluster, [(topic, 0)])
        assert reassigner(cluster, "drain", str(DRAINED), "--reason", "disk swap").code != ERROR
        drain = drain_request(cluster)
        record = f"/admin/reassignments/{topic}/0"
        eventually(
            lambda: (cluster.read(record) or {}).get("request") == drain,
            within_s=30,
            what=lambda: f"{record} is of {drain}: {cluster.read(record)}",
        )
        found = cluster.read(record) or {}
        assert DRAINED not in found["target"]
        assert found["target"][0] == 3
        assert found["log_dirs"] == [directory, "any"]
        assert "superseded" in endings(cluster, request)[f"{topic}-0"]
    await_off(cluster, [topic], within_s=120)
    eventually(lambda: not specs(cluster), within_s=90, what=lambda: f"{specs(cluster)} end")
    assert said(cluster, "drain", str(DRAINED), "--wait").splitlines()[-1] == EMPTY
    assert f"{topic}-0" in {p.name for p in cluster.brokers[3].log_dirs[1].iterdir()}
    assert DRAINED not in holders(cluster, topic, 0)
    refused = await_outcome(
        cluster, submit_request(cluster, {(topic, 1): (2, DRAINED)}), within_s=30
    )
    assert "is drained" in refused["refused"][0]["detail"]
    for arguments in (("drain", "9"), ("drain", "--stop", "9"), ("drain", "5", "9")):
        assert reassigner(cluster, *arguments).code == ERROR
    assert said(cluster, "drain", "--stop").splitlines()[0].startswith("broker 5 is drained no")
    assert said(cluster, "drain") == "no broker is drained\n"


@pytest.mark.parametrize("shared_cluster", [SERVED], ids=["public"], indirect=True)
def test_topics_of_a_public_endpoint_avoid_the_broker(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, fresh_name: Callable[[], str]
) -> None:
    """Also new partitions of a topic that exists; where too few others live, it is used."""
    name, wide = fresh_name(), fresh_name()
    with tenure(cluster, daemons, make_topic):
        assert said(cluster, "drain", str(DRAINED)).splitlines()[-1] == EMPTY
        created = [NewTopic(name, 6, 2), NewTopic(wide, 1, 5)]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        for done in admin.create_topics(created, request_timeout=30).values():
            done.result(30)
        assert on_broker(cluster, [name]) == []
        assert on_broker(cluster, [wide]) == [f"{wide}-0"]
        grown = admin.create_partitions([NewPartitions(name, 12)], request_timeout=30)
        grown[name].result(30)
        assert len((cluster.topic(name) or {})["partitions"]) == 12
        assert on_broker(cluster, [name]) == []
        last = said(cluster, "drain", str(DRAINED), "--wait", code=LEFT).splitlines()[-1]
        assert f"{wide}-0 blocked: it has 5 replicas" in last
