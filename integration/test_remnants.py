"""Replicas that another controller dropped: excluded, deleted, free for the next reassignment."""

from __future__ import annotations

import json

import pytest

from controller.core.model import BrokerId, TopicPartition, Zxid
from controller.core.reassignments.model import Orphan
from controller.znodes import paths
from controller.znodes.reassignments import encode_orphan
from integration.conftest import MakeTopic
from integration.rigs.clients import unnoticed
from integration.rigs.cluster import Cluster
from integration.rigs.plans import Daemons, await_end, holders, orphans
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually


@pytest.mark.parametrize("target", [None, [1, 2, 3], [2, 4]])
def test_a_replica_that_a_controller_dropped_in_the_topic_znode_alone(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, target: list[int] | None
) -> None:
    """As KAFKA-12315 leaves it: its broker fetches on and is in the ISR, and is recorded to go."""
    topic = make_topic({0: [1, 2, 3]}, {"min.insync.replicas": "2"})
    with unnoticed(cluster, {topic: 1}, pause_s=15.0):
        eventually(lambda: set(cluster.isr(topic, 0)) == {1, 2, 3}, within_s=20)
        _drop_in_the_topic_znode_alone(cluster, topic, replicas=[1, 2], dropped=BrokerId(3))
        daemons.start("--tenure", "permanent")
        if target is not None:
            submit_request(cluster, {(topic, 0): target})
        await_end(cluster, {(topic, 0): target or [1, 2]}, within_s=60, any_leader=True)
    assert set(cluster.isr(topic, 0)) == set(target or [1, 2])
    assert orphans(cluster) == set()
    assert holders(cluster, topic, 0) == set(target or [1, 2])


def _drop_in_the_topic_znode_alone(
    cluster: Cluster, topic: str, *, replicas: list[int], dropped: BrokerId
) -> None:
    path = paths.topic_path(topic)
    data, stat = cluster.zk.get(path)
    cluster.zk.set(path, json.dumps({**json.loads(data), "partitions": {"0": replicas}}).encode())
    partition = TopicPartition(topic, 0)
    orphan = Orphan(dropped, partition, Zxid(stat.czxid), "dropped by another controller")
    cluster.zk.create(paths.orphan_path(dropped, partition), encode_orphan(orphan), makepath=True)
