"""
Throttles that a daemon left behind: found by ``doctor``, lifted by ``doctor --fix``.

First against a ZooKeeper alone, where others change what is to be lifted; then on real brokers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    ConfigResource,
)

from controller.core.model import BrokerId
from controller.core.pacing.throttle_settings import AppliedThrottle, broker_entity, topic_entity
from controller.errors import ReassignmentConflictError
from controller.setting_sources import load_settings
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths
from controller.znodes.entity_configs import encode_applied_throttle
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    await_leases_gone,
    await_moving,
    rates,
    said,
)
from integration.rigs.plans import (
    APPLIED_THROTTLES,
    REASSIGNMENTS,
    Daemons,
    await_end,
    configured,
    fill,
)
from integration.rigs.real_store import Chroot
from integration.rigs.requests import reassigner, submit_request
from integration.rigs.servers import ZooKeeperServer
from integration.rigs.waiting import eventually

FINDINGS = 2
BROKER = broker_entity(BrokerId(3))
TOPIC = topic_entity("t")


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Chroot]:
    """Give a cluster without brokers and without a daemon."""
    if not zookeeper.is_alive:
        zookeeper.start()
    found = Chroot(zookeeper.address, f"/kafka-{uuid.uuid4().hex[:8]}")
    needed = (paths.BROKER_IDS, paths.TOPICS, paths.CONFIG_CHANGES)
    for path in (*needed, paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS):
        found.put(path)
    yield found
    found.close()


@pytest.fixture
def doctor(place: Chroot) -> Iterator[OperatorClient]:
    """Give a connection as ``doctor`` has it."""
    with OperatorClient(load_settings({"zookeeper": place.hosts}, {})) as found:
        yield found


def leave(place: Chroot, lease: AppliedThrottle, **config: str) -> None:
    """Leave a lease behind, and settings as they stand by now; underscores are dots."""
    place.put(paths.applied_throttle_path(lease.entity), encode_applied_throttle(lease))
    values = {key.replace("_", "."): value for key, value in config.items()}
    content = {"version": 1, "config": values}
    place.put(paths.entity_config_path(lease.entity), json.dumps(content).encode())


def standing(place: Chroot, lease: AppliedThrottle) -> dict[str, str]:
    """Return the settings that stand."""
    data, _ = place.client.get(paths.entity_config_path(lease.entity))
    return dict(json.loads(data)["config"])


OF_BROKER = AppliedThrottle(
    BROKER, {LEADER_RATE: "7", FOLLOWER_RATE: "7"}, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE))
)
OF_TOPIC = AppliedThrottle(TOPIC, {FOLLOWER_REPLICAS: "0:3,1:4"}, {FOLLOWER_REPLICAS: "7:9"})


def test_what_we_set_goes_and_what_others_set_stays(place: Chroot, doctor: OperatorClient) -> None:
    """A rate that was changed from outside, entries of a list, settings of another kind."""
    leave(
        place,
        OF_BROKER,
        leader_replication_throttled_rate="7",
        follower_replication_throttled_rate="9",
        log_cleaner_threads="1",
    )
    leave(place, OF_TOPIC, follower_replication_throttled_replicas="7:9,0:3,1:4,2:5")
    applied_throttles = doctor.survey.everything().applied_throttles
    assert doctor.throttle_writes.lift(applied_throttles[BROKER]) == {LEADER_RATE: None}
    assert doctor.throttle_writes.lift(applied_throttles[TOPIC]) == {FOLLOWER_REPLICAS: "7:9,2:5"}
    assert standing(place, OF_BROKER) == {FOLLOWER_RATE: "9", "log.cleaner.threads": "1"}
    assert standing(place, OF_TOPIC) == {FOLLOWER_REPLICAS: "7:9,2:5"}
    announced = [
        json.loads(place.client.get(f"{paths.CONFIG_CHANGES}/{name}")[0])["entity_path"]
        for name in sorted(place.client.get_children(paths.CONFIG_CHANGES))
    ]
    assert announced == [BROKER, TOPIC]
    assert doctor.survey.everything().applied_throttles == {}


def test_a_topic_that_is_gone_leaves_only_its_lease_to_be_lifted(
    place: Chroot, doctor: OperatorClient
) -> None:
    """Its settings are not brought back to life."""
    place.put(paths.applied_throttle_path(TOPIC), encode_applied_throttle(OF_TOPIC))
    assert doctor.throttle_writes.lift(doctor.survey.everything().applied_throttles[TOPIC]) == {}
    assert place.client.exists(paths.entity_config_path(TOPIC)) is None
    assert doctor.survey.everything().applied_throttles == {}


def test_nothing_is_lifted_that_changed_since_it_was_looked_at(
    place: Chroot, doctor: OperatorClient
) -> None:
    """Nor by the side of a daemon that leads, nor where settings cannot be decoded."""
    leave(place, OF_BROKER, leader_replication_throttled_rate="7")
    lease = doctor.survey.everything().applied_throttles[BROKER]
    place.client.set(paths.applied_throttle_path(BROKER), encode_applied_throttle(OF_BROKER))
    assert doctor.throttle_writes.lift(lease) is None
    lease = doctor.survey.everything().applied_throttles[BROKER]
    place.put(f"{paths.LEADER}/daemon-0000000001", b"{}")
    assert doctor.throttle_writes.lift(lease) is None
    place.client.delete(f"{paths.LEADER}/daemon-0000000001")
    assert standing(place, OF_BROKER) == {LEADER_RATE: "7"}
    place.client.set(paths.entity_config_path(BROKER), b"nonsense")
    with pytest.raises(ReassignmentConflictError, match="cannot be changed"):
        doctor.throttle_writes.lift(lease)
    assert list(doctor.survey.everything().applied_throttles) == [BROKER]


# --- on real brokers -----------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_turned")
def test_throttles_of_a_daemon_that_never_came_back_are_found_and_lifted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Not while its work is recorded; then on topic and brokers, which apply it at once."""
    topic = make_topic({0: (1, 2)}, {"retention.ms": "86400000"})
    fill(cluster, [(topic, 0)])
    targets = {(topic, 0): (1, 2, 3)}
    before = configured(cluster, f"topics/{topic}")
    daemon = daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets, throttle=1)
    await_moving(cluster, targets)
    running = reassigner(cluster, "doctor", "--fix").stdout
    assert "Nothing was fixed: a daemon leads" in running
    daemon.kill()
    eventually(lambda: not cluster.zk.get_children(paths.LEADER), within_s=15)
    fixed = reassigner(cluster, "doctor", "--fix")
    assert "Nothing was fixed: no throttle" in fixed.stdout
    cluster.zk.delete(f"{REASSIGNMENTS}/{topic}/0")
    applied_throttles = {f"brokers:{n}" for n in (1, 2, 3)} | {f"topics:{topic}"}
    assert found(cluster) == {name.replace(":", "/") for name in applied_throttles}
    output = said(cluster, "doctor", "--fix", "--dry-run", code=FINDINGS)
    assert f"would remove the throttle of topics/{topic}" in output
    assert set(cluster.zk.get_children(APPLIED_THROTTLES)) == applied_throttles
    output = reassigner(cluster, "doctor", "--fix").stdout
    assert f"removed the throttle of brokers/3, {FOLLOWER_RATE} is deleted" in output
    assert cluster.zk.get_children(APPLIED_THROTTLES) == []
    assert configured(cluster, f"topics/{topic}") == before
    assert set(rates(cluster).values()) == {(None, None)}
    eventually(lambda: applied_rate(cluster, 3) is None, within_s=15, what="broker 3 applies it")
    # The step that was in flight is ended by the Kafka controller, unthrottled now.
    await_end(cluster, targets, within_s=60)


@pytest.mark.usefixtures("nothing_turned")
def test_throttles_without_a_reassignment_are_removed_by_the_next_daemon(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It need not be the controller for that."""
    topic = make_topic({0: (1, 2)})
    entity = topic_entity(topic)
    lease = AppliedThrottle(entity, {FOLLOWER_REPLICAS: "0:3"}, {FOLLOWER_REPLICAS: None})
    cluster.zk.ensure_path(APPLIED_THROTTLES)
    cluster.zk.create(paths.applied_throttle_path(entity), encode_applied_throttle(lease))
    content = {"version": 1, "config": {FOLLOWER_REPLICAS: "0:3"}}
    cluster.zk.set(paths.entity_config_path(entity), json.dumps(content).encode())
    daemon = daemons.start("--tenure-linger", "1")
    await_leases_gone(cluster)
    assert configured(cluster, entity) == {}
    assert not daemon.status()["tenure"]["held"]


def found(cluster: Cluster) -> set[str]:
    """Return the topics and brokers whose throttle ``doctor`` says was left behind."""
    document = json.loads(said(cluster, "doctor", "--json", code=FINDINGS))
    return {f["subject"] for f in document["findings"] if f["check"] == "orphan_throttle"}


def applied_rate(cluster: Cluster, broker: int) -> str | None:
    """Return a broker's rate as the broker itself reports it; None: it has none."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    (answer,) = cluster.admin.describe_configs([resource]).values()
    entry = answer.result(timeout=30).get(FOLLOWER_RATE)
    return None if entry is None or entry.is_default else str(entry.value)
