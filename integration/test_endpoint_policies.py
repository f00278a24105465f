"""
Topics of clients where a policy decides, a class of the operator's inside the brokers.

The daemon gives the role back for each request that the policy has to judge. Kafka's controller
creates the topic or refuses it, the daemon claims the role again, and the plan ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from controller.kafka_errors import POLICY_VIOLATION
from integration.conftest import MakeTopic
from integration.rigs import topic_policy
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.kafka_jars import KAFKA_2_8, KAFKA_3_9, Release
from integration.rigs.kafka_tools import TOPICS
from integration.rigs.plans import Daemons
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import sees_daemon, tenure
from integration.test_endpoint_topics import admin_of, create, grow, named, refusal, use

OF_TOPICS: Final = "create.topic.policy.class.name"
OF_SETTINGS: Final = "alter.config.policy.class.name"
PERMANENT: Final = ("--tenure", "permanent")
"""The copy that is held may end before all is asked."""
ROWS: Final = {
    OF_TOPICS: [(KAFKA_3_9, OF_TOPICS), (KAFKA_2_8, OF_TOPICS)],
    OF_SETTINGS: [(KAFKA_3_9, OF_SETTINGS)],
}


@pytest.fixture(scope="module")
def shared_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Give the cluster of a release whose brokers have one policy."""
    release: Release
    release, setting = request.param
    options = BrokerOptions(release=release, inter_broker_protocol=None)
    options = replace(
        options,
        extra={setting: topic_policy.CLASS},
        classes=topic_policy.compiled(release, tmp_path_factory.mktemp("classes")),
    )
    with Cluster.running(ClusterOptions(brokers=4, broker=options)) as found:
        yield found


def name_of(row: tuple[Release, str]) -> str:
    """Return the name of a row in the ids of tests."""
    release, setting = row
    return f"{release.kafka}-{setting.partition('.')[0]}"


@pytest.mark.parametrize("shared_cluster", ROWS[OF_TOPICS], ids=name_of, indirect=True)
def test_a_policy_for_new_topics_is_consulted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """By Kafka's controller, and for new topics alone: the daemon extends them by itself."""
    allowed, forbidden = named("allowed"), named("forbidden")
    sizes = ("--partitions", "2", "--replication-factor", "2")
    setting = ("--config", "retention.ms=5000")
    with tenure(cluster, daemons, make_topic, *PERMANENT):
        epoch = controller_epoch(cluster)
        said = cluster.run_admin_tool(TOPICS, "--create", "--topic", allowed, *sizes, *setting)
        assert said.code == 0, said.stdout
        assert (cluster.read(f"/config/topics/{allowed}") or {})["config"] == {
            "retention.ms": "5000"
        }
        assert controller_epoch(cluster) > epoch
        await_daemon(cluster)
        error, text = refusal(lambda: create(admin_of(cluster), NewTopic(forbidden, 1, 1)))
        assert (error, text) == (POLICY_VIOLATION, "This name is forbidden.")
        await_daemon(cluster)
        said = cluster.run_admin_tool(TOPICS, "--create", "--topic", forbidden, *sizes)
        assert said.code == 1
        assert "PolicyViolationException: This name is forbidden." in said.stdout
        assert cluster.topic(forbidden) is None
        await_daemon(cluster)
        epoch = controller_epoch(cluster)
        grow(admin_of(cluster), NewPartitions(allowed, 3))
        use(cluster, allowed, 3)
        assert controller_epoch(cluster) == epoch


@pytest.mark.parametrize("shared_cluster", ROWS[OF_SETTINGS], ids=name_of, indirect=True)
def test_a_policy_for_settings_decides_where_it_does_with_kafkas_controller(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Not where a topic is created: there the daemon cannot have its settings validated alone."""
    plain, with_settings = named("plain"), named("set")
    with tenure(cluster, daemons, make_topic, *PERMANENT):
        epoch = controller_epoch(cluster)
        create(admin_of(cluster), NewTopic(plain, 1, 2))
        assert controller_epoch(cluster) == epoch
        shorter = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
        altered = ConfigResource(ResourceType.TOPIC, plain, incremental_configs=[shorter])
        admin = admin_of(cluster)  # kept: without it, its requests end

        def error() -> int:
            answer = admin.incremental_alter_configs([altered])[altered]
            return refusal(lambda: answer.result(timeout=60))[0]

        # The broker that gets it may hear of the topic a moment after the client that created it.
        eventually(lambda: error() == POLICY_VIOLATION, within_s=30, what="the policy decides")
        assert controller_epoch(cluster) == epoch
        wanted = {"retention.ms": "1"}
        create(admin_of(cluster), NewTopic(with_settings, 1, 2, config=wanted))
        assert (cluster.read(f"/config/topics/{with_settings}") or {})["config"] == wanted
        assert controller_epoch(cluster) > epoch
        await_daemon(cluster)


def await_daemon(cluster: Cluster) -> None:
    """Wait until the daemon has the role again."""
    eventually(lambda: sees_daemon(cluster), within_s=90, what="the daemon has the role again")
