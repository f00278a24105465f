"""Throttles taken away on a real ZooKeeper, but for those that a daemon holds."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping

import pytest

from controller.core.model import BrokerId
from controller.core.pacing.throttle_settings import broker_entity, topic_entity
from controller.errors import ReassignmentConflictError
from controller.setting_sources import load_settings
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths
from integration.rigs.real_store import Chroot
from integration.rigs.servers import ZooKeeperServer

RATES = {"leader.replication.throttled.rate": "1", "follower.replication.throttled.rate": "1"}
LISTS = {"leader.replication.throttled.replicas": "*"}
OTHER = {"retention.ms": "1000"}


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Chroot]:
    """Give a cluster without brokers."""
    if not zookeeper.is_alive:
        zookeeper.start()
    found = Chroot(zookeeper.address, f"/kafka-{uuid.uuid4().hex[:8]}")
    for path in (paths.BROKER_IDS, paths.TOPICS, paths.CONFIG_CHANGES):
        found.put(path)
    yield found
    found.close()


@pytest.fixture
def operator(place: Chroot) -> Iterator[OperatorClient]:
    """Give a connection as a verb has it."""
    with OperatorClient(load_settings({"zookeeper": place.hosts}, {})) as connected:
        yield connected


def configure(place: Chroot, entity: str, config: Mapping[str, str]) -> None:
    """Give an entity settings."""
    place.put(f"/config/{entity}", json.dumps({"version": 1, "config": config}).encode())


def configured(place: Chroot, entity: str) -> dict[str, str]:
    """Return an entity's settings."""
    found: dict[str, str] = json.loads(place.client.get(f"/config/{entity}")[0])["config"]
    return found


def announced(place: Chroot) -> list[str]:
    """Return the change notifications of settings."""
    names = sorted(place.client.get_children(paths.CONFIG_CHANGES))
    found = [json.loads(place.client.get(f"{paths.CONFIG_CHANGES}/{n}")[0]) for n in names]
    return [change["entity_path"] for change in found]


def test_throttles_go_and_brokers_hear_of_it(operator: OperatorClient, place: Chroot) -> None:
    """Other settings stay; what has no throttle is not touched."""
    configure(place, "brokers/1", RATES)
    configure(place, "topics/t", {**LISTS, **OTHER})
    configure(place, "topics/u", OTHER)
    gone = operator.throttle_writes.clear(brokers=[BrokerId(1), BrokerId(2)], topics=["t", "u"])
    assert gone == {broker_entity(BrokerId(1)), topic_entity("t")}
    assert configured(place, "brokers/1") == {}
    assert configured(place, "topics/t") == OTHER
    assert announced(place) == ["brokers/1", "topics/t"]


def test_what_a_daemon_holds_stays(operator: OperatorClient, place: Chroot) -> None:
    """It restores by itself what stood there before."""
    configure(place, "topics/t", LISTS)
    place.put(paths.applied_throttle_path(topic_entity("t")), b"{}")
    assert operator.throttle_writes.clear(topics=["t"]) == frozenset()
    assert configured(place, "topics/t") == LISTS
    assert announced(place) == []


def test_settings_that_cannot_be_understood_stay(operator: OperatorClient, place: Chroot) -> None:
    """And get a change notification."""
    place.put("/config/topics/t", b"nonsense")
    with pytest.raises(ReassignmentConflictError, match="/config/topics/t cannot be changed"):
        operator.throttle_writes.clear(topics=["t"])
    assert place.client.get("/config/topics/t")[0] == b"nonsense"


def test_the_id_of_the_cluster_is_read(operator: OperatorClient, place: Chroot) -> None:
    """None where there is none."""
    assert operator.cluster.cluster_id() is None
    place.put(paths.CLUSTER_ID, b'{"version":"1","id":"abc"}')
    assert operator.cluster.cluster_id() == "abc"
