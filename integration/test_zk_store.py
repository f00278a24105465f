"""The store on a real ZooKeeper: the contract, and what only a real one can show."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

import pytest
from kazoo.exceptions import KazooException
from kazoo.security import make_acl, make_digest_acl

from controller.clocks import MonotonicClock
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import (
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    LeadershipLost,
)
from controller.core.topics.records import TopicsRead
from controller.errors import CommitUnknownError, ControllerMovedError
from controller.reactor.ports import Committed, Create, Operation, SetData, ZnodeFamily
from controller.setting_sources import load_settings
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.operator_client import OperatorClient
from controller.zk.session_reads import Reader
from controller.zk.sessions import LOOK_S
from controller.znodes import paths
from controller.znodes.topics import encode_state, encode_topic
from integration.rigs.real_store import SESSION_TIMEOUT_S, Chroot, ZkRig, rigs_in
from integration.rigs.scratch_directories import scratch_directory
from integration.rigs.servers import ZooKeeperServer
from integration.rigs.waiting import eventually
from tests.contracts.leadership_contract import LeadershipContract
from tests.contracts.request_contract import RequestContract
from tests.contracts.rigs import StoreRig
from tests.contracts.store_contract import StoreContract

Build = Callable[..., ZkRig]

ZOOKEEPER_MAX_S: Final = 60.0
"""``maxSessionTimeout`` of the servers here."""
BUSY_S: Final = 0.5
DEFAULT_LIMIT: Final = 1 << 20
"""What ZooKeeper takes by default."""


@pytest.fixture
def build(zookeeper: ZooKeeperServer) -> Iterator[Build]:
    """Give what builds daemons' stores in a place of their own."""
    if not zookeeper.is_alive:
        zookeeper.start()
    with rigs_in(Chroot(zookeeper.address, f"/kafka-{uuid.uuid4().hex[:8]}")) as builder:
        yield builder


class TestZkStore(StoreContract, RequestContract):
    """The contract on a real ZooKeeper."""

    @pytest.fixture
    def store_factory(self, build: Build) -> Callable[[], StoreRig]:
        """Return what builds a rig."""
        return build


class TestZkLeadership(LeadershipContract):
    """The contract of several daemons on a real ZooKeeper."""

    @pytest.fixture
    def daemon_factory(self, build: Build) -> Callable[[], StoreRig]:
        """Return what builds a rig of a daemon that competes."""
        numbers = count(1)
        return lambda: build(http=f"127.0.0.1:{next(numbers)}")


@pytest.fixture
def claimed(build: Build) -> ZkRig:
    """Give a store that holds the claim."""
    return _claimed(build)


def _claimed(build: Build, *, session_timeout_s: float = SESSION_TIMEOUT_S) -> ZkRig:
    rig = build(session_timeout_s=session_timeout_s)
    rig.put(paths.CONTROLLER_EPOCH, b"5")
    rig.store.claim_controller()
    rig.wait_for(ControllerClaimed)
    return rig


# --- speed ---------------------------------------------------------------------------------------


def test_a_legacy_plan_is_seen_within_milliseconds(build: Build) -> None:
    """A Kafka controller watches the znode, too: the first controller carries it out."""
    rig = build()
    rig.store.read(ZnodeFamily.LEGACY_PLAN)
    rig.wait_for(LegacyPlanRead)
    delays = []
    for _ in range(20):
        rig.put(paths.LEGACY_PLAN, b'{"version":1,"partitions":[]}')
        created = time.monotonic()
        rig.wait_for(LegacyPlanRead, lambda e: e.plan is not None)
        delays.append(time.monotonic() - created)
        rig.remove(paths.LEGACY_PLAN)
        rig.wait_for(LegacyPlanRead, lambda e: e.plan is None)
    assert sorted(delays)[len(delays) // 2] < 0.02


def test_commits_and_reads_are_pipelined(claimed: ZkRig) -> None:
    """Thousands of states a second, written and read, on a machine as small as this."""
    partitions = [TopicPartition("t", n) for n in range(3000)]
    state = encode_state(leader=1, leader_epoch=0, isr=(1,), controller_epoch=6)
    claimed.put(paths.topic_path("t"))
    began = time.monotonic()
    creations = [Create(paths.state_path(p), state) for p in partitions]
    multis = [creations[n : n + 300] for n in range(0, len(creations), 300)]
    assert claimed.store.commit(multis) == [Committed()] * len(multis)
    claimed.store.read_states(partitions, watch=True, read_generation=1)
    states = dict(claimed.wait_for(StatesRead).states)
    states |= claimed.wait_for(StatesRead).states
    assert len(states) == len(partitions)
    assert time.monotonic() - began < 15


# --- broken connections --------------------------------------------------------------------------


def test_a_commit_without_a_connection_is_unknown(build: Build, zookeeper: ZooKeeperServer) -> None:
    """What is durable is unknown; the claim itself outlives a short interruption."""
    claimed = _claimed(build, session_timeout_s=60)
    claimed.store.read(ZnodeFamily.LEGACY_PLAN)
    claimed.wait_for(LegacyPlanRead)
    zookeeper.kill()
    try:
        with pytest.raises(CommitUnknownError):
            claimed.store.commit([[Create("/a", b"")]])
    finally:
        zookeeper.start()
    eventually(
        lambda: claimed.place.client.create(paths.LEGACY_PLAN, b"{}", makepath=True),
        within_s=60,
        what="ZooKeeper takes requests again",
        tolerating=(KazooException,),
    )
    claimed.session.wait(60)
    claimed.wait_for(LegacyPlanRead, lambda e: e.plan is not None)
    assert claimed.is_quiet(Deposed)
    assert claimed.store.commit([[Create("/b", b"")]]) == [Committed()]


def test_a_silent_zookeeper_ends_the_claim(claimed: ZkRig, zookeeper: ZooKeeperServer) -> None:
    """Another controller may be in charge as soon as the session may be over."""
    claimed.store.commit([[Create("/before", b"")]])
    heard_at = time.monotonic()
    zookeeper.freeze()
    try:
        with pytest.raises((CommitUnknownError, ControllerMovedError)):
            claimed.store.commit([[Create("/a", b"")]])
        claimed.wait_for(Deposed)
        assert time.monotonic() - heard_at < SESSION_TIMEOUT_S + LOOK_S + BUSY_S
    finally:
        zookeeper.thaw()
    claimed.session.wait(30)
    eventually(
        lambda: claimed.get(paths.CONTROLLER) is None,
        within_s=4 * SESSION_TIMEOUT_S,
        what="/controller is gone, by us or by the session's end",
        tolerating=(KazooException,),
    )


def test_resigning_while_zookeeper_is_away_is_made_good(
    claimed: ZkRig, zookeeper: ZooKeeperServer
) -> None:
    """Brokers could not elect while our znode exists without a claim."""
    zookeeper.kill()
    try:
        claimed.store.resign_controller()
        claimed.wait_for(Deposed)
    finally:
        zookeeper.start()
    eventually(
        lambda: claimed.get(paths.CONTROLLER) is None,
        within_s=4 * SESSION_TIMEOUT_S,
        what="/controller is deleted once ZooKeeper is back",
        tolerating=(KazooException,),
    )


def test_the_session_lasts_as_long_as_zookeeper_grants(build: Build) -> None:
    """Not as long as was asked for: the servers cap it (``maxSessionTimeout``)."""
    rig = build(session_timeout_s=3600.0)
    assert rig.session.timeout_s == ZOOKEEPER_MAX_S
    assert rig.session.lease.ends - MonotonicClock().now() <= ZOOKEEPER_MAX_S


# --- sizes -------------------------------------------------------------------------------------


def test_a_topic_beyond_the_default_limit_is_served_where_zookeeper_takes_it() -> None:
    """Its servers' ``jute.maxbuffer`` is raised, and so is our setting; reads have no limit."""
    there = PartitionAssignment(tuple(BrokerId(n) for n in (1001, 1002, 1003)))
    moving = PartitionAssignment(
        tuple(BrokerId(n) for n in (1001, 1002, 1003, 1004)), (BrokerId(1004),)
    )
    topic = TopicAssignment(dict.fromkeys(range(60_000), there), ZkVersion(0), Zxid(0))
    path = paths.topic_path("huge")
    with scratch_directory() as directory:
        server = ZooKeeperServer(directory / "zookeeper", jute_maxbuffer=4 << 20)
        server.start()
        try:
            place = Chroot(server.address, "/kafka")
            raised = {"zookeeper": place.hosts, "zookeeper_jute_maxbuffer": 4 << 20}
            settings = load_settings(raised, {})
            with rigs_in(place) as build:
                rig = build(request_bytes=settings.request_bytes)
                rig.put(path, encode_topic(topic))
                rig.put(paths.CONTROLLER_EPOCH, b"5")
                rig.store.claim_controller()
                rig.wait_for(ControllerClaimed)
                rig.store.read_topics(["huge"], read_generation=0)
                read = rig.wait_for(TopicsRead).topics["huge"]
                assert isinstance(read, TopicAssignment)
                assert read.partitions == topic.partitions
                changed = replace(read, partitions={**read.partitions, 7: moving})
                data = encode_topic(changed)
                assert len(data) > DEFAULT_LIMIT
                written: list[list[Operation]] = [[SetData(path, data, read.version)]]
                assert rig.store.commit(written) == [Committed()]
                again = rig.wait_for(TopicsRead).topics["huge"]
                assert isinstance(again, TopicAssignment)
                assert again.partitions[7] == moving
                plan = {TopicPartition("t" * 200, n): there.replicas for n in range(5000)}
                with OperatorClient(settings) as operator:
                    operator.writes.create_plan(plan)
                assert len(place.client.get(paths.LEGACY_PLAN)[0]) > DEFAULT_LIMIT
        finally:
            server.kill()
            server.port.close()


# --- permissions ---------------------------------------------------------------------------------


def test_what_is_created_gets_the_permissions_of_the_cluster(build: Build) -> None:
    """Parents and the controller's znode included; else brokers could not change them."""
    place = build().place
    place.client.add_auth("digest", "kafka:secret")
    acl = [make_digest_acl("kafka", "secret", all=True), make_acl("world", "anyone", read=True)]
    place.client.set_acls(paths.TOPICS, acl)
    place.put(paths.CONTROLLER_EPOCH, b"5")
    rig = build(digest="kafka:secret")
    rig.store.claim_controller()
    rig.wait_for(ControllerClaimed)
    spec = paths.reassignment_path(TopicPartition("t", 0))
    assert rig.store.commit([[Create(spec, b"")]]) == [Committed()]
    for path in (spec, paths.REASSIGNMENTS, paths.CONTROLLER):
        assert place.client.get_acls(path)[0] == acl


def test_settings_of_brokers_are_readable_by_the_cluster_alone(build: Build) -> None:
    """They may hold passwords; what exists keeps the permissions that it has."""
    place = build().place
    place.client.add_auth("digest", "kafka:secret")
    mine = make_digest_acl("kafka", "secret", all=True)
    acl = [mine, make_acl("world", "anyone", read=True)]
    place.client.set_acls(paths.TOPICS, acl)
    place.put(paths.CONTROLLER_EPOCH, b"5")
    of_others = [*acl, make_digest_acl("auditor", "secret", read=True)]
    created, existing, topics = "/config/brokers/1", "/config/brokers/2", "/config/topics/t"
    place.client.create(existing, b"{}", acl=of_others, makepath=True)
    place.put("/config/topics")
    rig = build(digest="kafka:secret")
    rig.store.claim_controller()
    rig.wait_for(ControllerClaimed)
    writes: list[list[Operation]] = [
        [Create(created, b"{}"), Create(topics, b"{}")],
        [SetData(existing, b'{"version":1}', ZkVersion(0))],
    ]
    assert rig.store.commit(writes) == [Committed(), Committed()]
    assert place.client.get_acls(created)[0] == [mine]
    assert place.client.get_acls(topics)[0] == acl
    assert place.client.get_acls(existing)[0] == of_others
    assert place.client.get(existing)[0] == b'{"version":1}'


def test_insufficient_permissions_fail_the_claim_with_a_reason(build: Build) -> None:
    """The claim fails with a reason rather than hanging."""
    place = build().place
    place.client.add_auth("digest", "kafka:secret")
    place.put(paths.CONTROLLER_EPOCH, b"5")
    acl = [make_digest_acl("kafka", "secret", all=True), make_acl("world", "anyone", read=True)]
    place.client.set_acls(paths.CONTROLLER_EPOCH, acl)
    stranger = build()
    stranger.store.claim_controller()
    assert "NoAuth" in stranger.wait_for(ClaimFailed).reason


# --- several daemons -----------------------------------------------------------------------------


@pytest.fixture
def leader(build: Build) -> ZkRig:
    """Give a daemon that leads, beside which others may run."""
    rig = build(http="127.0.0.1:1")
    rig.put(paths.CONTROLLER_EPOCH, b"5")
    rig.wait_for(LeadershipGained)
    return rig


def test_the_leader_can_be_found(leader: ZkRig, build: Build) -> None:
    """By the CLI, through ZooKeeper; standbys do not count."""
    standby = build(http="127.0.0.1:2")
    eventually(
        lambda: len(leader.place.client.get_children(paths.LEADER)) == 2,
        within_s=10,
        what="two candidates",
    )
    assert standby.is_quiet(LeadershipGained)
    cluster = ClusterZnodes(Reader(standby.session))
    assert cluster.leader_address() == "127.0.0.1:1"
    assert cluster.daemons() == ("127.0.0.1:1", "127.0.0.1:2")


def test_a_clean_stop_hands_over_at_once(leader: ZkRig, build: Build) -> None:
    """Long before the session would have expired."""
    standby = build(http="127.0.0.1:2")
    assert standby.is_quiet(LeadershipGained)
    assert leader.leadership is not None
    leader.leadership.stop()
    leader.wait_for(LeadershipLost)
    standby.wait_for(LeadershipGained)


def test_a_raised_epoch_ends_leadership_and_claim(leader: ZkRig) -> None:
    """Another controller raised it; a controller that may not write must not stay."""
    leader.store.claim_controller()
    leader.wait_for(ControllerClaimed)
    epoch = leader.get(paths.EPOCH)
    assert epoch is not None
    leader.put(paths.EPOCH, b"99")
    leader.wait_for(LeadershipLost)
    leader.wait_for(Deposed)
    assert leader.get(paths.CONTROLLER) is None
    leader.wait_for(LeadershipGained)
    assert leader.get(paths.EPOCH) == (b"100", epoch[1] + 2)
