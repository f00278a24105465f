"""
Topics that clients delete during a tenure: the daemon answers as Kafka's controller.

Each row is a cluster of one release, at the highest inter-broker protocol that it has; what Kafka's
controller answered to the same requests before the tenure is the reference.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    NewTopic,
)
from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse
from kafka.protocol.api_key import ApiKey

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.controller_wire import ControllerWire
from integration.rigs.failpoints import REQUESTED_DELETIONS, Failpoint
from integration.rigs.kafka_jars import KAFKA_2_7, KAFKA_3_9, Release
from integration.rigs.kafka_tools import TOPICS
from integration.rigs.locked_clusters import LockedCluster, LockedOptions
from integration.rigs.locks import DAEMON, Locks
from integration.rigs.plans import (
    Daemons,
    await_broker_controller,
    await_tenure,
    copies_held,
    fill,
    is_reassigning,
    plan_of,
)
from integration.rigs.recovery_cells import SESSION_S, await_death
from integration.rigs.requests import submit_request
from integration.rigs.running_daemons import controller_epoch, strike
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import DAEMON_ID, PUBLIC, ROWS, sees_daemon, tenure
from integration.test_endpoint_topics import admin_of, create, named, use
from integration.test_locked_clusters import allow_as_documented

DELETIONS: Final = "/admin/delete_topics"
ZERO: Final = uuid.UUID(int=0)
FIRST_BY_ID: Final = 6
"""The first version of DeleteTopics that names topics by their ids."""
VERSIONS: Final = range(1, FIRST_BY_ID + 1)
TIMEOUT_MS: Final = 30_000
DELETED_WITHIN_S: Final = 15.0
"""In which two clients are answered; half of the time that they wait by default."""


@pytest.fixture(scope="module", params=ROWS, ids=lambda release: release.kafka)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a release; its tests follow each other on it."""
    release: Release = request.param
    options = BrokerOptions(release=release, inter_broker_protocol=None)
    with Cluster.running(ClusterOptions(brokers=4, broker=options)) as found:
        yield found


def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic by librdkafka, and wait until it is gone."""
    admin, waits = admin_of(cluster), {"operation_timeout": 50.0, "request_timeout": 60.0}
    admin.delete_topics([topic], **waits)[topic].result(timeout=90)


def delete_by_tool(cluster: Cluster, *topics: str) -> None:
    """Delete topics by Kafka's tool, which is Java's client."""
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    listed = ",".join(topics)
    said = cluster.run_tool(TOPICS, *where, "--delete", "--topic", listed)
    assert said.code == 0, said.stdout


def logs_of(cluster: Cluster, brokers: Iterable[int], *topics: str) -> list[str]:
    """Return the directories of topics on brokers, except those about to be removed."""
    found = [name for broker in brokers for name in cluster.replica_directories(broker)]
    return [name for name in found if name.rpartition("-")[0] in topics]


def await_gone(cluster: Cluster, *topics: str) -> None:
    """Wait until nothing is left of topics: neither znodes nor logs nor requests to delete them."""

    def is_gone() -> bool:
        znodes = [cluster.topic(t) or cluster.read(f"/config/topics/{t}") for t in topics]
        left = logs_of(cluster, cluster.brokers, *topics)
        return not any(znodes) and not left and not cluster.zk.get_children(DELETIONS)

    eventually(is_gone, within_s=60, what=f"{topics} are gone")


Named = str | uuid.UUID | tuple[str | None, uuid.UUID]
"""A topic as a request names it: by its name, by its id, or by both."""


Row = tuple[str | None, uuid.UUID | None, int]
"""Name, id and error of a topic in an answer."""


class Wire:
    """Sends DeleteTopics of chosen versions to the controller that clients see."""

    def __init__(self, cluster: Cluster) -> None:
        """Find the controller."""
        self._controller = ControllerWire(cluster)
        self.highest = self._controller.highest(ApiKey.DeleteTopics)

    def send(self, version: int, *topics: Named, timeout_ms: int = TIMEOUT_MS) -> list[Row]:
        """Return the rows of the answer."""
        pairs = [
            t if isinstance(t, tuple) else (t, ZERO) if isinstance(t, str) else (None, t)
            for t in topics
        ]
        if version < FIRST_BY_ID:
            names = [name for name, _ in pairs if name is not None]
            named: dict[str, Any] = {"topic_names": names}
        else:
            named = {"topics": pairs}
        body = DeleteTopicsRequest(version=version, timeout_ms=timeout_ms, **named)
        found = self._controller.send(body, DeleteTopicsResponse)
        return [
            (row.name, getattr(row, "topic_id", None) or None, row.error_code)
            for row in found.responses
        ]


def id_of(cluster: Cluster, topic: str) -> uuid.UUID:
    """Return the id of a topic."""
    text = (cluster.topic(topic) or {})["topic_id"]
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


@dataclass(slots=True)
class Verdicts:
    """The answers to requests of one version, without what depends on chance."""

    cluster: Cluster
    wire: Wire
    version: int
    found: dict[str, list[tuple[str | None, str | None, int]]]
    known: dict[str, str] = field(default_factory=dict)
    ids: dict[uuid.UUID, str] = field(default_factory=dict)

    def make(self, name: str) -> str:
        """Create a topic that answers show under a name."""
        topic = named("doomed")
        create(admin_of(self.cluster), NewTopic(topic, 2, 2))
        self.known[topic] = name
        if self.version >= FIRST_BY_ID:
            self.ids[id_of(self.cluster, topic)] = name
        return topic

    def send(self, what: str, *topics: Named, timeout_ms: int = TIMEOUT_MS) -> None:
        """Note the answer to a request."""
        rows = self.wire.send(self.version, *topics, timeout_ms=timeout_ms)
        self.found[f"v{self.version} {what}"] = [
            (
                None if name is None else self.known.get(name, name),
                None if topic_id in {None, ZERO} else self.ids.get(topic_id, str(topic_id)),
                error,
            )
            for name, topic_id, error in rows
        ]

    def collect(self) -> None:
        """Ask for what is right and what is wrong."""
        one, two, three = (self.make(name) for name in ("one", "two", "three"))
        unknown = "no-such-topic"
        self.send("unknown", unknown)
        self.send("invalid", "no:topic", "")
        self.send("none")
        self.send("doubled and unknown", one, one, unknown, unknown)
        self.send("no time", two, timeout_ms=0)
        await_gone(self.cluster, one, two)
        self.send("again", one)
        if self.version >= FIRST_BY_ID:
            by_name = {name: topic_id for topic_id, name in self.ids.items()}
            self.send("unknown id", uuid.UUID(int=99), by_name["one"])
            self.send("both", (three, by_name["three"]), unknown)
            self.send("neither", (None, ZERO))
            self.send("by id", by_name["three"])
        else:
            self.send("last", three)
        await_gone(self.cluster, three)


def verdicts(cluster: Cluster, versions: Iterable[int]) -> dict[str, Any]:
    """Return the answers to requests of all these versions."""
    wire, found = Wire(cluster), dict[str, Any]()
    for version in versions:
        if version <= wire.highest:
            Verdicts(cluster, wire, version, found).collect()
    return found


def test_topics_are_deleted(cluster: Cluster, make_topic: MakeTopic, daemons: Daemons) -> None:
    """By Kafka's tool and by librdkafka; the names can be used again when they are gone."""
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        topics = [named("gone") for _ in range(3)]
        for topic in topics:
            create(admin_of(cluster), NewTopic(topic, 3, 2))
            use(cluster, topic, 3)
        delete_by_tool(cluster, *topics[:2])
        delete(cluster, topics[2])
        await_gone(cluster, *topics)
        for topic in topics:
            create(admin_of(cluster), NewTopic(topic, 2, 2))
            use(cluster, topic, 2)
        delete(cluster, topics[0])
        delete_by_tool(cluster, *topics[1:])
        await_gone(cluster, *topics)
        assert cluster.controller() == DAEMON_ID
        assert controller_epoch(cluster) == epoch


def test_steps_of_a_topic_end_before_it_is_deleted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The client waits for them; no further step begins."""
    targets = {0: (3, 4), 1: (4, 3)}
    with tenure(cluster, daemons, make_topic, "--tenure-linger", "30"):
        topic = make_topic(dict.fromkeys(targets, (1, 2)))
        moved = {(topic, number): replicas for number, replicas in targets.items()}
        with copies_held(cluster, moved) as let_go, ThreadPoolExecutor(1) as pool:
            submit_request(cluster, moved)
            eventually(lambda: is_reassigning(cluster, topic), within_s=30)
            epoch = controller_epoch(cluster)
            deleted = pool.submit(delete, cluster, topic)
            eventually(lambda: cluster.zk.exists(f"{DELETIONS}/{topic}"), within_s=20)
            time.sleep(3)
            assert is_reassigning(cluster, topic)
            assert not deleted.done()
            let_go()
            deleted.result(timeout=60)
        await_gone(cluster, topic)
        assert controller_epoch(cluster) == epoch


def test_clients_are_answered_while_a_broker_with_a_replica_is_dead(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """As by Kafka's controller: live brokers delete at once, the other one when it is back."""
    with tenure(cluster, daemons, make_topic, "--tenure-linger", "30"):
        topics = [named("gone") for _ in range(2)]
        for topic in topics:
            cluster.create_topic(topic, {0: (1, 2, 4), 1: (2, 4, 1)})
            use(cluster, topic, 2)
        strike(cluster, 4)
        epoch = controller_epoch(cluster)
        begun = time.monotonic()
        delete_by_tool(cluster, topics[0])
        delete(cluster, topics[1])
        assert time.monotonic() - begun < DELETED_WITHIN_S
        eventually(lambda: not logs_of(cluster, (1, 2, 3), *topics), within_s=10)
        assert logs_of(cluster, (4,), *topics)
        assert all(map(cluster.topic, topics))
        with pytest.raises(KafkaException, match="already exists"):
            create(admin_of(cluster), NewTopic(topics[0], 1, 1))
        with pytest.raises(KafkaException, match="Unknown topic"):
            delete(cluster, topics[0])
        cluster.brokers[4].start()
        await_gone(cluster, *topics)
        create(admin_of(cluster), *(NewTopic(topic, 2, 2) for topic in topics))
        for topic in topics:
            use(cluster, topic, 2)
        assert controller_epoch(cluster) == epoch


@pytest.mark.parametrize("failpoint", REQUESTED_DELETIONS)
def test_deletion_is_carried_out_if_it_was_written(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, failpoint: Failpoint
) -> None:
    """By Kafka's controller, after the daemon died with the client's request; else nothing is."""
    topics = [named("gone") for _ in range(5)]
    create(admin_of(cluster), *(NewTopic(topic, 3, 3) for topic in topics))
    make_topic({0: (1, 2)})
    session = ("--zookeeper-session-timeout", str(SESSION_S))
    doomed = daemons.start(*PUBLIC, "--tenure", "permanent", *session, failpoint=("die", failpoint))
    await_tenure(doomed)
    eventually(lambda: sees_daemon(cluster), within_s=30, what="clients see the daemon")
    admin = admin_of(cluster)  # kept: without it, its requests end
    answers = admin.delete_topics(topics, operation_timeout=30, request_timeout=60)
    await_death(doomed)
    marked = set(cluster.zk.get_children(DELETIONS))
    assert marked == (set() if failpoint is Failpoint.BEFORE_DELETION_REQUESTED else set(topics))
    for answer in answers.values():
        with pytest.raises(KafkaException):
            answer.result(timeout=90)
    await_broker_controller(cluster, within_s=30)
    if not marked:
        assert all(map(cluster.topic, topics))
        delete_by_tool(cluster, *topics)
    await_gone(cluster, *topics)


def test_requests_are_judged_as_kafkas_controller_judges_them(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """In every version that brokers have, over a connection of the test's own."""
    reference = verdicts(cluster, VERSIONS)
    print("REFERENCE", reference)
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        assert verdicts(cluster, VERSIONS) == reference
        assert controller_epoch(cluster) == epoch


def compared(options: BrokerOptions, *topics: Named) -> dict[int, list[Row]]:
    """Return what both controllers answer in each version, which has to be the same."""
    with Cluster.running(ClusterOptions(brokers=4, broker=options)) as cluster:
        cluster.create_topic("kept", {0: (1, 2)})
        wire = Wire(cluster)
        reference = {v: wire.send(v, *topics) for v in VERSIONS if v <= wire.highest}
        daemons = Daemons(cluster, cluster.directory)

        def make_topic(
            assignment: Mapping[int, Sequence[int]], config: Mapping[str, str] | None = None
        ) -> str:
            return cluster.create_topic("moved", assignment, config)

        with tenure(cluster, daemons, make_topic):
            epoch = controller_epoch(cluster)
            wire = Wire(cluster)
            assert {v: wire.send(v, *topics) for v in reference} == reference
            assert controller_epoch(cluster) == epoch
            assert cluster.topic("kept") is not None
            assert not cluster.zk.get_children(DELETIONS)
        daemons.close()
    return reference


@pytest.mark.parametrize("release", [KAFKA_3_9, KAFKA_2_7], ids=lambda release: release.kafka)
def test_disabled_deletion_is_refused(release: Release) -> None:
    """As Kafka's controller refuses it; nothing is requested."""
    off = {"delete.topic.enable": "false"}
    options = BrokerOptions(release=release, inter_broker_protocol=None, extra=off)
    found = compared(options, "kept", "no-such-topic")
    errors = {version: {error for _, _, error in rows} for version, rows in found.items()}
    assert errors == {version: {73 if version >= 3 else 42} for version in found}


def test_ids_are_unknown_where_topics_have_none() -> None:
    """Below inter-broker protocol 2.8."""
    options = BrokerOptions(release=KAFKA_3_9, inter_broker_protocol="2.7")
    found = compared(options, uuid.UUID(int=99), "no-such-topic")
    assert [error for _, _, error in found[FIRST_BY_ID]] == [100, 3]


def attempt(cluster: LockedCluster, *topics: str) -> dict[str, int]:
    """Return the error for each topic that the daemon's user deletes by librdkafka; 0 if none."""
    admin = admin_of(cluster, cluster.keys.client_security(DAEMON))
    found = {}
    for topic, deleted in admin.delete_topics(list(topics), operation_timeout=50.0).items():
        try:
            deleted.result(timeout=90)
        except KafkaException as refused:
            found[topic] = refused.args[0].code()
        else:
            found[topic] = 0
    return found


def attempts(cluster: LockedCluster, prefix: str) -> list[list[int]]:
    """Return the errors for a user without rights, who may see a topic, and who may delete one."""
    ours, theirs, seen = (f"{prefix}-{name}" for name in ("ours", "theirs", "seen"))
    for topic in (ours, theirs, seen):
        cluster.create_topic(topic, {0: (1, 2)})
    found = [[*attempt(cluster, ours, "no-such-topic").values()]]
    cluster.allow(DAEMON, "--topic", seen, "--operation", "Describe")
    cluster.allow(DAEMON, "--topic", ours, "--operation", "Delete")
    found.append([*attempt(cluster, seen, ours, theirs).values()])
    cluster.allow(DAEMON, "--topic", f"{prefix}-none", "--operation", "Delete")
    found.append([*attempt(cluster, f"{prefix}-none").values()])
    await_gone(cluster, ours)
    assert all(cluster.topic(topic) for topic in (seen, theirs))
    return found


def test_rights_decide_which_topics_are_deleted(tmp_path: Path) -> None:
    """As brokers know them, over a relayed login."""
    locks = Locks(zookeeper_sasl=None)
    broker = BrokerOptions(inter_broker_protocol=None)
    with LockedCluster.running(LockedOptions(locks=locks, broker=broker)) as cluster:
        allow_as_documented(cluster)
        cluster.allow(DAEMON, "--cluster", "--operation", "DescribeConfigs")
        reference = attempts(cluster, "before")
        assert reference == [[29, 29], [29, 0, 29], [3]]
        topic = cluster.create_topic("moved", {0: (1, 2)})
        fill(cluster, [(topic, 0)])
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(plan_of({(topic, 0): (2, 3)})))
        daemon = cluster.make_daemon("first", *PUBLIC, *cluster.serve_clients())
        daemon.start()
        for command in (("throttle", "1KB"), ("execute", str(plan))):
            said = cluster.reassigner(*command)
            assert said.code == 0, said.stdout
        await_tenure(daemon)
        eventually(lambda: sees_daemon(cluster), within_s=20)
        epoch = controller_epoch(cluster)
        assert attempts(cluster, "during") == reference
        assert cluster.controller() == DAEMON_ID
        assert controller_epoch(cluster) == epoch
        assert daemon.stop() == 0, daemon.log_tail()
