"""
Daemons that die while they create or extend a topic for a client, on real brokers.

Kafka's controller is the successor, then a daemon again. Of a client's request either nothing is
there or all of it, with the settings that the client asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    NewPartitions,
    NewTopic,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.failpoints import NEW_PARTITIONS, Failpoint
from integration.rigs.kafka_jars import KAFKA_2_8, KAFKA_3_2, KAFKA_3_9, Release
from integration.rigs.plans import Daemons, await_broker_controller, await_tenure
from integration.rigs.recovery_cells import SESSION_S, await_death
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import PUBLIC, controllers_seen, sees_daemon
from integration.test_endpoint_topics import admin_of, create, grow, named, use

BEFORE: Final = 2
"""Partitions of a topic that is extended."""
AFTER: Final = 4
SETTINGS: Final = {"min.insync.replicas": "2", "retention.ms": "7200000"}
OPTIONS: Final = (
    *PUBLIC,
    *("--tenure", "permanent", "--zookeeper-session-timeout", str(SESSION_S)),
)


@pytest.fixture(scope="module", params=(KAFKA_3_9, KAFKA_3_2, KAFKA_2_8), ids=lambda r: r.kafka)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a release; its tests follow each other on it."""
    release: Release = request.param
    options = BrokerOptions(release=release, inter_broker_protocol=None)
    with Cluster.running(ClusterOptions(brokers=4, broker=options)) as found:
        yield found


@pytest.mark.parametrize("failpoint", NEW_PARTITIONS)
@pytest.mark.parametrize("request_type", ["create", "extend"])
def test_a_topic_is_absent_or_complete(
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    request_type: str,
    failpoint: Failpoint,
) -> None:
    """Under Kafka's controller, then under a daemon; the client may ask again."""
    is_new = request_type == "create"
    make_topic({0: (1,)})  # on which a broker validates settings: else the role is given back
    topic = named("new") if is_new else make_topic({0: (1, 2), 1: (2, 3)}, SETTINGS)
    doomed = daemons.start(*OPTIONS, failpoint=("die", failpoint))
    await_tenure(doomed)
    eventually(lambda: sees_daemon(cluster), within_s=30, what="clients see the daemon")
    admin = admin_of(cluster)  # kept: without it, its requests end
    answer = order(admin, topic, is_new=is_new)
    await_death(doomed)
    written = partitions_of(cluster, topic)
    is_written = failpoint is not Failpoint.BEFORE_TOPIC_WRITTEN
    assert written == (AFTER if is_written else 0 if is_new else BEFORE)
    with pytest.raises(KafkaException):
        answer.result(timeout=90)
    await_broker_controller(cluster, within_s=30)
    eventually(
        lambda: controllers_seen(cluster) == {cluster.controller()},
        within_s=30,
        what="clients see the broker that is the controller",
    )
    admin = admin_of(cluster)
    if is_written:
        with pytest.raises(KafkaException) as refused:
            order(admin, topic, is_new=is_new).result(timeout=90)
        exists = KafkaError.TOPIC_ALREADY_EXISTS if is_new else KafkaError.INVALID_PARTITIONS
        assert refused.value.args[0].code() == exists
    else:
        assert is_new == (cluster.read(f"/config/topics/{topic}") is None)
        order(admin, topic, is_new=is_new).result(timeout=90)
    await_complete(cluster, topic)
    use(cluster, topic, AFTER)
    daemon = daemons.start(*OPTIONS)
    await_tenure(daemon)
    use(cluster, topic, AFTER, is_first=False)
    await_complete(cluster, topic)
    other = named("next")
    create(admin_of(cluster), NewTopic(other, 1, 2))
    grow(admin_of(cluster), NewPartitions(topic, AFTER + 1))
    use(cluster, topic, AFTER + 1, is_first=False)
    daemon.stop()
    await_broker_controller(cluster, within_s=30)
    cluster.delete_topics(other, *([topic] if is_new else []))


def order(admin: AdminClient, topic: str, *, is_new: bool) -> Any:  # noqa: ANN401 - a future
    """Ask for the topic, or for more partitions of it; return the future of the answer."""
    if is_new:
        requested = NewTopic(topic, AFTER, 3, config=SETTINGS)
        return admin.create_topics([requested], operation_timeout=30, request_timeout=60)[topic]
    more = NewPartitions(topic, AFTER)
    return admin.create_partitions([more], operation_timeout=30, request_timeout=60)[topic]


def partitions_of(cluster: Cluster, topic: str) -> int:
    """Return how many partitions the topic znode has, 0 where there is none."""
    return len((cluster.topic(topic) or {"partitions": {}})["partitions"])


def await_complete(cluster: Cluster, topic: str) -> None:
    """Wait until every partition has a leader and all its replicas in sync; see the settings."""
    replicas = {n: cluster.replicas(topic, n) for n in range(AFTER)}
    assert all(replicas.values())
    cluster.await_in_sync(topic, replicas)
    assert (cluster.read(f"/config/topics/{topic}") or {})["config"] == SETTINGS
