"""The reads of ``explain`` and ``doctor``, on a real ZooKeeper."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.core.requests.outcomes import Summary
from controller.doctor.environment_checks import OPEN_ACL
from controller.errors import RefusedError
from controller.setting_sources import load_settings
from controller.zk.operator_client import OUTCOMES_MAX, OperatorClient
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_leader
from controller.znodes.histories import encode_outcome
from controller.znodes.reassignments import encode_orphan, encode_spec
from integration.rigs.real_store import Chroot
from integration.rigs.servers import ZooKeeperServer

ONE, TWO = TopicPartition("t-x", 0), TopicPartition("t-x", 1)


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Chroot]:
    """Give a cluster without brokers."""
    if not zookeeper.is_alive:
        zookeeper.start()
    found = Chroot(zookeeper.address, f"/kafka-{uuid.uuid4().hex[:8]}")
    for path in (paths.BROKER_IDS, paths.TOPICS, paths.DELETIONS):
        found.put(path)
    yield found
    found.close()


@pytest.fixture
def surveyor(place: Chroot) -> Iterator[OperatorClient]:
    """Give a connection as ``doctor`` has it."""
    with OperatorClient(load_settings({"zookeeper": place.hosts}, {})) as connected:
        yield connected


def test_orphans_of_one_partition_are_found_on_every_broker(
    surveyor: OperatorClient, place: Chroot
) -> None:
    """Others' are left out; what cannot be decoded is a reason."""
    assert surveyor.partitions.orphans_of(ONE) == ()
    orphan = Orphan(BrokerId(3), ONE, Zxid(7), "not live")
    place.put(paths.orphan_path(BrokerId(3), ONE), encode_orphan(orphan))
    place.put(paths.orphan_path(BrokerId(3), TWO), encode_orphan(orphan))
    place.put(paths.orphan_path(BrokerId(4), ONE), b"nonsense")
    first, second = surveyor.partitions.orphans_of(ONE)
    assert first == orphan
    assert isinstance(second, str)


def test_the_newest_outcomes_come_first_and_are_bounded(
    surveyor: OperatorClient, place: Chroot
) -> None:
    """By when they were written, whatever they are called."""
    assert surveyor.newest_outcomes() == ()
    names = [RequestId(f"r-{(n * 37) % 100:02}") for n in range(OUTCOMES_MAX + 5)]
    for name in names:
        place.put(
            paths.outcome_path(name),
            encode_outcome(Summary(request=name, kind="legacy", total=1, done=1)),
        )
    place.put(f"{paths.OUTCOMES}/unfinished")
    assert [o.request for o in surveyor.newest_outcomes()] == names[::-1][:OUTCOMES_MAX]


def test_an_empty_cluster_is_surveyed(surveyor: OperatorClient) -> None:
    """Most of what is looked for may not exist."""
    znodes = surveyor.survey.everything()
    assert (znodes.topics, znodes.specs, znodes.orphans) == ({}, {}, frozenset())
    assert (znodes.legacy, znodes.daemons, znodes.unreadable) == (None, (), {})
    assert znodes.acls == {paths.TOPICS: OPEN_ACL, "/admin": OPEN_ACL}


def test_what_may_not_be_read_is_noted_only_where_requested(
    surveyor: OperatorClient, place: Chroot
) -> None:
    """Znodes and listings; a verb that would act on what it reads has to stop there."""
    topic = {"version": 2, "partitions": {"0": [1]}}
    for name in ("seen", "veiled"):
        place.put(paths.topic_path(name), json.dumps(topic).encode())
    place.put(paths.ORPHANS)
    hidden = (paths.topic_path("veiled"), paths.ORPHANS)
    for path in hidden:
        place.client.set_acls(path, [make_acl("world", "anyone", admin=True, delete=True)])
    try:
        with pytest.raises(RefusedError):
            surveyor.partitions.readable_topics()
        with surveyor.noting_hidden() as noted:
            znodes = surveyor.survey.everything()
            assert set(znodes.topics) == {"seen"}
            assert set(hidden) <= set(noted)
        with pytest.raises(RefusedError):
            surveyor.survey.everything()
    finally:
        for path in hidden:
            place.client.set_acls(path, OPEN_ACL_UNSAFE)


def test_everything_is_surveyed(surveyor: OperatorClient, place: Chroot) -> None:
    """Read once, whatever of it can be understood, with the reasons for the rest."""
    topic = {"version": 2, "partitions": {"0": [1, 2], "1": [2]}, "adding_replicas": {"0": [2]}}
    state = {"version": 1, "leader": 1, "leader_epoch": 3, "isr": [1], "controller_epoch": 2}
    place.put(paths.topic_path("t-x"), json.dumps(topic).encode())
    place.put(paths.topic_path("broken"), b"nonsense")
    place.put(paths.state_path(ONE), json.dumps(state).encode())
    place.put(paths.state_path(TWO), b"nonsense")
    place.put(paths.broker_path(BrokerId(7)), b"{}")
    spec = ReassignmentSpec((BrokerId(2),), None, RequestId("legacy-1"), Route.LEGACY)
    place.put(paths.reassignment_path(ONE), encode_spec(spec))
    place.put(f"{paths.REASSIGNMENTS}/t-x/one", b"{}")
    orphan = Orphan(BrokerId(3), ONE, Zxid(7), "not live")
    place.put(paths.orphan_path(BrokerId(3), ONE), encode_orphan(orphan))
    place.put(paths.KILL_SWITCH)
    place.put(f"{paths.LEADER}/b__lock__0000000002", encode_leader("second:2"))
    place.put(f"{paths.LEADER}/c__lock__0000000001", encode_leader("first:1"))
    place.put(f"{paths.DELETIONS}/going")
    place.put(f"{paths.ISR_NOTIFICATIONS}/isr_change_0000000000")
    throttle = {"config": {"leader.replication.throttled.rate": "9", "log.retention.ms": "1"}}
    place.put(f"{paths.BROKER_CONFIGS}/1", json.dumps(throttle).encode())
    own = {"version": 1, "config": {"retention.ms": "7"}}
    place.put(f"{paths.TOPIC_CONFIGS}/t-x", json.dumps(own).encode())
    place.put(f"{paths.TOPIC_CONFIGS}/plain", b'{"version":1,"config":{}}')
    place.put(f"{paths.TOPIC_CONFIGS}/broken", b"nonsense")
    place.client.set_acls("/reassigner", [make_acl("world", "anyone", read=True, admin=True)])
    znodes = surveyor.survey.everything()
    assert set(znodes.topics) == {"t-x"}
    replicas, added = (BrokerId(1), BrokerId(2)), (BrokerId(2),)
    assert znodes.assignment(ONE) == PartitionAssignment(replicas, added)
    assert isinstance(znodes.states[ONE], PartitionState)
    assert set(znodes.specs) == {ONE}
    assert znodes.orphans == {orphan}
    assert set(znodes.unreadable) == {
        paths.topic_path("broken"),
        f"{paths.TOPIC_CONFIGS}/broken",
        paths.state_path(TWO),
        paths.broker_path(BrokerId(7)),
        f"{paths.REASSIGNMENTS}/t-x/one",
    }
    assert znodes.brokers[BrokerId(7)].has_features
    assert znodes.kill_switch
    assert znodes.daemons == ("first:1", "second:2")
    assert znodes.deletions == {"going"}
    assert znodes.notifications == {paths.ISR_NOTIFICATIONS: 1, paths.LOG_DIR_EVENTS: 0}
    assert znodes.broker_throttles == {"1": {"leader.replication.throttled.rate": "9"}}
    assert znodes.sizes[paths.topic_path("broken")] == len(b"nonsense")
    assert znodes.acls["/reassigner"] == ("world:anyone:ra",)
    assert surveyor.partitions.readable_topics() == znodes.topics
    assert surveyor.cluster.brokers() == znodes.brokers
    assert surveyor.throttles.settings(paths.TOPIC_CONFIGS) == {"t-x": {"retention.ms": "7"}}
