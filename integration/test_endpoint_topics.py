"""
Topics that clients create and extend during a tenure: the daemon does it as Kafka's controller.

That the controller epoch stays shows that no broker was the controller in between. Each row is a
cluster of one release, at the highest inter-broker protocol that it has, with the listeners and
locks of the row; what Kafka's controller answered and wrote for the same requests before the tenure
is the reference.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from controller.kafka_errors import REASSIGNMENT_IN_PROGRESS, TOPIC_AUTHORIZATION_FAILED
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.kafka_jars import KAFKA_2_8, KAFKA_3_2, KAFKA_3_9, Release
from integration.rigs.kafka_tools import TOPICS
from integration.rigs.locked_clusters import LockedCluster, LockedOptions
from integration.rigs.locks import CLIENT, CLIENTS, CONTROL, DAEMON, Locks
from integration.rigs.plans import Daemons, specs
from integration.rigs.running_daemons import await_shown, controller_epoch
from integration.rigs.servers import INTERNAL_LISTENER, BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import ROWS, tenure
from integration.test_locked_clusters import allow_as_documented

RACKS: Final = ("east", "west")


@dataclass(frozen=True, slots=True)
class Shape:
    """A release, and how clients and brokers reach its brokers and the daemon."""

    release: Release
    kind: str = ""
    has_two_listeners: bool = False
    locks: Locks | None = None

    @property
    def name(self) -> str:
        """The name of the row in the ids of tests."""
        return "-".join(filter(None, (self.release.kafka, self.kind)))

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        """Yield its cluster, with the access rights and settings that its daemons need."""
        is_internal = self.has_two_listeners and self.locks is None
        broker = BrokerOptions(
            release=self.release, inter_broker_protocol=None, internal=is_internal
        )
        shape: dict[str, Any] = {"brokers": 4, "broker": broker, "racks": RACKS}
        if self.locks is not None:
            options = LockedOptions(locks=self.locks, **shape)
            with LockedCluster.running(options) as locked:
                allow_as_documented(locked)
                locked.allow(DAEMON, "--cluster", "--operation", "DescribeConfigs")
                locked.allow(DAEMON, "--topic", "*", "--operation", "AlterConfigs")
                both = ("--endpoint-listener", f"{CONTROL},{CLIENTS}")
                locked.daemon_options = (
                    *locked.serve_clients(),
                    *(both if self.has_two_listeners else ()),
                )
                yield locked
            return
        with Cluster.running(ClusterOptions(**shape)) as found:
            if is_internal:
                both = ("--endpoint-listener", f"{INTERNAL_LISTENER},PLAINTEXT")
                found.daemon_options = (*both, "--inter-broker-listener", INTERNAL_LISTENER)
            yield found


PLAIN: Final = Locks(mechanism="PLAIN", zookeeper_sasl=None)
WITH_SCRAM: Final = Locks(zookeeper_sasl=None)
CONTROL_APART: Final = Locks(zookeeper_sasl=None, control_plane=True)
LOCKED: Final = [
    Shape(KAFKA_3_9, "tls-plain", locks=PLAIN),
    Shape(KAFKA_3_2, "tls-scram", locks=WITH_SCRAM),
    Shape(KAFKA_2_8, "tls-plain", locks=PLAIN),
    Shape(KAFKA_2_8, "tls-scram-two-listeners", has_two_listeners=True, locks=CONTROL_APART),
]
SHAPES: Final = [
    *(Shape(release) for release in ROWS),
    *(
        Shape(release, "two-listeners", has_two_listeners=True)
        for release in (KAFKA_3_9, KAFKA_3_2)
    ),
    *LOCKED,
]


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    shape: Shape = request.param
    with shape.running() as found:
        yield found


def named(prefix: str) -> str:
    """Return a name that no other test has."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def admin_of(cluster: Cluster, security: Mapping[str, str] | None = None) -> AdminClient:
    """Return a client that knows no controller yet, by default of one who may do everything."""
    given = cluster.client_security if security is None else security
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **given})


def create(admin: AdminClient, *topics: NewTopic, **options: bool) -> None:
    """Create topics by librdkafka in one request."""
    waits = {"operation_timeout": 30.0, "request_timeout": 60.0}
    made = admin.create_topics(list(topics), **waits, **options)
    for topic in topics:
        made[topic.topic].result(timeout=90)


def grow(admin: AdminClient, partitions: NewPartitions, **options: bool) -> None:
    """Add partitions to a topic by librdkafka."""
    waits = {"operation_timeout": 30.0, "request_timeout": 60.0}
    grown = admin.create_partitions([partitions], **waits, **options)
    grown[partitions.topic].result(timeout=90)


def use(cluster: Cluster, topic: str, partitions: int, *, is_first: bool = True) -> None:
    """
    Produce to each partition, and read it all back if nothing else was produced before.

    A topic is answered for when its leaders know it; the other brokers may show it later.
    """
    await_shown(cluster, topic)
    security = cluster.client_security
    with Traffic(cluster.bootstrap_servers, {topic: partitions}, security=security) as traffic:
        traffic.await_flow()
        traffic.stop()
    assert traffic.failed == {}
    if is_first:
        found = traffic.audited()
        assert found.is_clean, str(found)


def spans_racks(replicas: list[int]) -> bool:
    """Return whether a partition has a replica in each rack; brokers are dealt out in turn."""
    return {RACKS[(broker - 1) % len(RACKS)] for broker in replicas} == set(RACKS)


def shape(cluster: Cluster, topic: str) -> dict[str, Any]:
    """Return what of a topic's znodes does not depend on chance."""
    znode = cluster.topic(topic)
    assert znode is not None
    replicas = {number: len(rs) for number, rs in znode.pop("partitions").items()}
    has_id = len(znode.pop("topic_id", ""))
    states = [cluster.state(topic, int(number)) or {} for number in replicas]
    return {
        **znode,
        "partitions": replicas,
        "topic_id": has_id,
        "config": cluster.read(f"/config/topics/{topic}"),
        "states": [sorted(state) for state in states],
        "epochs": [state["leader_epoch"] for state in states],
    }


def test_topics_are_created_and_extended(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """By Kafka's tool and by librdkafka, with znodes as Kafka's controller leaves them."""
    theirs, by_tool, by_library = named("theirs"), named("tool"), named("library")
    sizes = ("--partitions", "3", "--replication-factor", "2")
    said = cluster.run_admin_tool(TOPICS, "--create", "--topic", theirs, *sizes)
    assert said.code == 0, said.stdout
    reference = shape(cluster, theirs)
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        said = cluster.run_admin_tool(TOPICS, "--create", "--topic", by_tool, *sizes)
        assert said.code == 0, said.stdout
        create(admin_of(cluster), NewTopic(by_library, 3, 2))
        assert shape(cluster, by_tool) == shape(cluster, by_library) == reference
        said = cluster.run_admin_tool(TOPICS, "--alter", "--topic", by_tool, "--partitions", "5")
        assert said.code == 0, said.stdout
        grow(admin_of(cluster), NewPartitions(by_library, 5))
        for topic in (by_tool, by_library):
            assert all(spans_racks(cluster.replicas(topic, number)) for number in range(5))
            use(cluster, topic, 5)
        assert controller_epoch(cluster) == epoch


def refusal(send: Callable[[], None]) -> tuple[int, str]:
    """Return the error of a request that fails."""
    with pytest.raises(KafkaException) as refused:
        send()
    error = refused.value.args[0]
    return error.code(), error.str()


def refusals(cluster: Cluster, existing: str) -> dict[str, tuple[int, str]]:
    """Return the errors of invalid requests; ``existing`` has two partitions and a dot."""
    unknown, twin = f"{existing}.x", existing.replace(".", "_")

    topics = {
        "exists": NewTopic(existing, 1, 1),
        "collides": NewTopic(twin, 1, 1),
        "name": NewTopic("no:name", 1, 1),
        "replicas": NewTopic(unknown, 1, 9),
        "setting": NewTopic(unknown, 1, 1, config={"no.setting": "1"}),
        "value": NewTopic(unknown, 1, 1, config={"retention.ms": "soon"}),
        "twice": NewTopic(unknown, 1, replica_assignment=[[1, 1]]),
        "uneven": NewTopic(unknown, 2, replica_assignment=[[1, 2], [1]]),
    }
    partitions = {
        "no topic": NewPartitions(unknown, 3),
        "equal": NewPartitions(existing, 2),
        "fewer": NewPartitions(existing, 1),
        "no broker": NewPartitions(existing, 3, replica_assignment=[[1, 99]]),
        "factor": NewPartitions(existing, 3, replica_assignment=[[1]]),
    }
    return {
        **{what: refusal(partial(create, admin_of(cluster), t)) for what, t in topics.items()},
        **{what: refusal(partial(grow, admin_of(cluster), p)) for what, p in partitions.items()},
    }


def test_requests_are_judged_as_kafkas_controller_judges_them(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its errors, and nothing is written; what is only validated is not written either."""
    existing = named("with.dot")
    create(admin_of(cluster), NewTopic(existing, 2, 2))
    reference = refusals(cluster, existing)
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        before = set(cluster.zk.get_children("/brokers/topics"))
        found = refusals(cluster, existing)
        assert {what: code for what, (code, _) in found.items()} == {
            what: code for what, (code, _) in reference.items()
        }
        texts = {what: (ours, reference[what]) for what, ours in found.items()}
        print("TEXTS", {what: pair for what, pair in texts.items() if pair[0] != pair[1]})
        moved = next(iter(specs(cluster))).rpartition("-")[0]
        in_motion = refusal(partial(grow, admin_of(cluster), NewPartitions(moved, 2)))
        assert in_motion[0] == REASSIGNMENT_IN_PROGRESS
        create(admin_of(cluster), NewTopic(named("dry"), 2, 2), validate_only=True)
        grow(admin_of(cluster), NewPartitions(existing, 5), validate_only=True)
        assert set(cluster.zk.get_children("/brokers/topics")) == before
        assert len((cluster.topic(existing) or {})["partitions"]) == 2
        assert controller_epoch(cluster) == epoch


def test_settings_and_assignments_are_written_as_the_client_wants_them(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Brokers use them at once; settings that a former topic left do not count."""
    placed, left = named("placed"), named("left")
    wanted = {"retention.ms": "12345", "min.insync.replicas": "2"}
    cluster.zk.create(f"/config/topics/{left}", b'{"version":1,"config":{"retention.ms":"1"}}')
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        replicas = [[4, 3], [1, 2]]
        create(admin_of(cluster), NewTopic(placed, 2, replica_assignment=replicas, config=wanted))
        assert [cluster.replicas(placed, n) for n in (0, 1)] == replicas
        assert cluster.read(f"/config/topics/{placed}") == {"version": 1, "config": wanted}
        admin, resource = admin_of(cluster), ConfigResource(ResourceType.TOPIC, placed)
        shown = admin.describe_configs([resource])[resource].result(timeout=20)
        assert {name: shown[name].value for name in wanted} == wanted
        grow(admin_of(cluster), NewPartitions(placed, 4, replica_assignment=[[2, 3], [3, 4]]))
        assert [cluster.replicas(placed, n) for n in (2, 3)] == [[2, 3], [3, 4]]
        create(admin_of(cluster), NewTopic(left, 1, 1))
        assert cluster.read(f"/config/topics/{left}") == {"version": 1, "config": {}}
        use(cluster, placed, 4)
        assert controller_epoch(cluster) == epoch


def test_kafkas_controller_takes_over_topics_that_the_daemon_created(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Also right after the creation, whatever was sent of it by then."""
    topics = [named("many") for _ in range(10)]
    with tenure(cluster, daemons, make_topic) as daemon:
        admin = admin_of(cluster)
        admin.create_topics([NewTopic(t, 3, 2) for t in topics], operation_timeout=30)
        eventually(lambda: cluster.topic(topics[-1]) is not None, within_s=20)
        daemon.kill()
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
        admin_of(cluster).list_topics(timeout=10)
        security = cluster.client_security
        with Traffic(
            cluster.bootstrap_servers, dict.fromkeys(topics, 3), security=security
        ) as traffic:
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        daemon.start()


@pytest.mark.parametrize("shared_cluster", LOCKED, ids=lambda shape: shape.name, indirect=True)
def test_only_those_who_may_create_and_alter_topics_do(
    cluster: LockedCluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Topic by topic, and as Kafka's controller does; a refusal moves no role."""
    prefix = named("guarded")
    existing, own, others = f"{prefix}-existing", f"{prefix}-own", f"{prefix}-others"
    security = cluster.keys.client_security(CLIENT)
    ours = partial(admin_of, cluster, security)
    create(admin_of(cluster), NewTopic(existing, 1, 1))
    below = ("--resource-pattern-type", "prefixed", "--topic", prefix)
    cluster.allow(CLIENT, *below, "--operation", "Describe")

    def refused() -> dict[str, tuple[int, str]]:
        return {
            "create": refusal(lambda: create(ours(), NewTopic(own, 1, 1))),
            "grow": refusal(lambda: grow(ours(), NewPartitions(existing, 2))),
        }

    reference = refused()
    assert {code for code, _ in reference.values()} == {TOPIC_AUTHORIZATION_FAILED}
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        assert refused() == reference
        sizes = ("--partitions", "1", "--replication-factor", "1")
        said = cluster.run_tool_as(CLIENT, TOPICS, "--create", "--topic", own, *sizes)
        assert said.code == 1
        assert "TopicAuthorizationException" in said.stdout
        assert [cluster.topic(name) for name in (own, others)] == [None, None]
        cluster.allow(CLIENT, "--topic", own, "--operation", "Create")
        cluster.allow(CLIENT, "--topic", existing, "--operation", "Alter")
        admin = ours()  # kept: without it, its requests end
        both = admin.create_topics([NewTopic(own, 1, 1), NewTopic(others, 1, 1)])
        both[own].result(timeout=90)
        code, _ = refusal(lambda: both[others].result(timeout=90))
        assert code == TOPIC_AUTHORIZATION_FAILED
        grow(ours(), NewPartitions(existing, 2))
        assert [cluster.topic(name) is not None for name in (own, others)] == [True, False]
        assert len((cluster.topic(existing) or {})["partitions"]) == 2
        assert controller_epoch(cluster) == epoch
