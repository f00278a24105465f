"""
Topics that are deleted and created again just before the daemon claims the role.

The znodes of the later topic have the versions of the former one's: only czxid and topic id differ.
The daemon hears late of it, so that it claims while it still knows the former one.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import NATIVE
from integration.rigs.late_topics_daemon import LATE_S
from integration.rigs.plans import Daemons, await_broker_controller, await_end
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.waiting import eventually

LATE_DAEMON = "integration.rigs.late_topics_daemon"

pytestmark = pytest.mark.parametrize(
    "native_cluster", NATIVE, ids=[row.name for row in NATIVE], indirect=True
)


@pytest.fixture
def cluster(native_cluster: Cluster) -> Cluster:
    """Give the cluster of a row with everything up."""
    native_cluster.heal()
    return native_cluster


def topic_id(cluster: Cluster, topic: str) -> str | None:
    """Return the id in the topic znode."""
    found: dict[str, Any] = cluster.topic(topic) or {}
    return found.get("topic_id")


def test_topic_that_is_created_again_just_before_a_claim_is_moved_as_it_is(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It keeps its partitions and its id, and no former partition gets a state."""
    topic = make_topic({0: (1, 2), 1: (2, 1), 2: (1, 2)})
    other = make_topic({0: (1, 2, 3)})
    former_id = topic_id(cluster, topic)
    daemons.start("--tenure-linger", "1", module=LATE_DAEMON)
    await_broker_controller(cluster, within_s=20)
    time.sleep(LATE_S + 1)  # what it hears of the new topics
    cluster.delete_topics(topic)
    cluster.await_deletions()
    gone_at = time.monotonic()
    cluster.request_topic(topic, {0: (2, 1)})
    # The tool names the later topic, and the role is claimed for it.
    targets = {(topic, 0): (1, 3), (other, 0): (1, 2, 4)}
    request = submit_request(cluster, targets)
    ended = await_outcome(cluster, request, within_s=60)
    was_late = time.monotonic() < gone_at + LATE_S
    assert was_late, "the daemon has heard of the deletion before the request ended"
    assert ended["refused"] == [], ended
    await_end(cluster, targets, within_s=60)
    await_broker_controller(cluster, within_s=30)
    data, stat = cluster.zk.get(f"/brokers/topics/{topic}")
    assert json.loads(data)["partitions"] == {"0": [1, 3]}
    assert cluster.zk.get_children(f"/brokers/topics/{topic}/partitions") == ["0"]
    later_id = topic_id(cluster, topic)
    assert (later_id is None) == (former_id is None)
    assert later_id is None or later_id != former_id
    eventually(lambda: cluster.isr(topic, 0) == {1, 3}, within_s=20)
    assert stat.version > 0
