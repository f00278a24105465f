"""The reads and writes of the operator's commands, on a real ZooKeeper."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from kazoo.security import make_acl

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
)
from controller.core.requests.outcomes import Summary
from controller.errors import (
    InvalidInputError,
    ReassignmentConflictError,
    RefusedError,
    SessionSuspendedError,
)
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths
from controller.znodes.histories import encode_outcome
from controller.znodes.reassignments import encode_spec
from integration.rigs.real_store import Chroot, rigs_in
from integration.rigs.servers import ZooKeeperServer

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
PLAN = {ONE: (BrokerId(1), BrokerId(2))}
GOAL = ReassignmentSpec((BrokerId(2),), None, RequestId("legacy-1"), Route.LEGACY)
MORE = {TWO: (BrokerId(2), BrokerId(3))}


def settings_for(hosts: str) -> Settings:
    """Return settings for this ZooKeeper."""
    return load_settings({"zookeeper": hosts}, {})


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
def operator(place: Chroot) -> Iterator[OperatorClient]:
    """Give a connection as a verb has it."""
    with OperatorClient(settings_for(place.hosts)) as connected:
        yield connected


def test_a_plan_is_created_once(operator: OperatorClient, place: Chroot) -> None:
    """The second one is refused, and the first one stands."""
    czxid = operator.writes.create_plan(PLAN)
    with pytest.raises(ReassignmentConflictError, match="exists already"):
        operator.writes.create_plan(MORE)
    plan = operator.requests.plan()
    assert plan is not None
    assert (plan.czxid, plan.entries) == (czxid, PLAN)
    data, _ = place.client.get(paths.LEGACY_PLAN)
    assert json.loads(data) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}],
    }


def test_a_plan_is_extended_and_keeps_its_identity(operator: OperatorClient) -> None:
    """The znode is changed, not made anew."""
    czxid = operator.writes.create_plan(PLAN)
    assert operator.writes.extend_plan(MORE) == czxid
    plan = operator.requests.plan()
    assert plan is not None
    assert plan.entries == PLAN | MORE
    assert plan.version == 1


def test_extending_where_nothing_is_creates(operator: OperatorClient) -> None:
    """The plan ended between our look and our write."""
    operator.writes.extend_plan(PLAN)
    plan = operator.requests.plan()
    assert plan is not None
    assert plan.entries == PLAN


def test_extending_loses_no_race(operator: OperatorClient, place: Chroot) -> None:
    """Six people add an entry each, at the same time; none gets lost."""
    operator.writes.create_plan(PLAN)

    def add(number: int) -> None:
        with OperatorClient(settings_for(place.hosts)) as other:
            other.writes.extend_plan({TopicPartition("t", number): (BrokerId(1),)})

    threads = [threading.Thread(target=add, args=(n,)) for n in range(10, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plan = operator.requests.plan()
    assert plan is not None
    assert sorted(p.partition for p in plan.entries) == [0, *range(10, 16)]


def test_what_cannot_be_read_is_not_overwritten(operator: OperatorClient, place: Chroot) -> None:
    """An operator may want to see it."""
    place.put(paths.LEGACY_PLAN, b"nonsense")
    with pytest.raises(ReassignmentConflictError, match="cannot be added to"):
        operator.writes.extend_plan(PLAN)


def test_a_plan_too_large_for_a_znode_is_refused(operator: OperatorClient) -> None:
    """Before ZooKeeper would drop the connection for it."""
    huge = {TopicPartition("t" * 200, n): (BrokerId(1),) for n in range(5000)}
    with pytest.raises(InvalidInputError, match="split it"):
        operator.writes.create_plan(huge)


def test_a_new_plan_has_the_permissions_of_its_parent(
    operator: OperatorClient, place: Chroot
) -> None:
    """Else a broker that is the controller could not delete it."""
    acl = [make_acl("world", "anyone", read=True, write=True, create=True, delete=True, admin=True)]
    place.client.set_acls("/admin", acl)
    operator.writes.create_plan(PLAN)
    assert place.client.get_acls(paths.LEGACY_PLAN)[0] == acl


def test_missing_permissions_are_reported(operator: OperatorClient, place: Chroot) -> None:
    """In words that lead to the setting."""
    place.client.set_acls("/admin", [make_acl("world", "anyone", read=True, admin=True)])
    with pytest.raises(RefusedError, match="authenticate as the brokers do"):
        operator.writes.create_plan(PLAN)


def test_topics_records_and_brokers_are_read(operator: OperatorClient, place: Chroot) -> None:
    """What is missing is None, what is broken is a reason."""
    topic = {"version": 2, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}}
    place.put(paths.topic_path("t"), json.dumps(topic).encode())
    place.put(paths.topic_path("broken"), b"nonsense")
    topics = operator.partitions.topics(["t", "broken", "none", "t"])
    found = topics["t"]
    assert isinstance(found, TopicAssignment)
    assert found.partitions == {
        0: PartitionAssignment((BrokerId(1), BrokerId(2)), (BrokerId(2),), ())
    }
    assert isinstance(topics["broken"], str)
    assert topics["none"] is None
    place.put(paths.reassignment_path(ONE), encode_spec(GOAL))
    specs = operator.partitions.specs([ONE, TWO])
    assert isinstance(specs[ONE], ReassignmentSpec)
    assert specs[TWO] is None
    place.put(f"{paths.BROKER_IDS}/7", b"{}")
    assert operator.cluster.broker_ids() == {7}


def test_thousands_of_partitions_are_read_at_once(operator: OperatorClient) -> None:
    """One round trip for each would take minutes over a slow line."""
    began = time.monotonic()
    specs = operator.partitions.specs(TopicPartition("t", n) for n in range(5000))
    assert len(specs) == 5000
    assert time.monotonic() - began < 10


def test_an_outcome_is_read(operator: OperatorClient, place: Chroot) -> None:
    """None while the request has not ended."""
    request = RequestId("legacy-000000000000002a")
    assert operator.outcomes.outcome(request) is None
    refusal = Refusal(request, "t-0 -> [9]", RefusalReason.UNKNOWN_BROKER, "broker 9 is not live")
    summary = Summary(request=request, kind="legacy", total=4, done=3, refused=(refusal,))
    place.put(paths.outcome_path(request), encode_outcome(summary))
    outcome = operator.outcomes.outcome(request)
    assert outcome == summary


def test_the_leader_is_found_and_not_the_standby(operator: OperatorClient, place: Chroot) -> None:
    """The first in the queue leads."""
    assert operator.cluster.leader_address() is None
    with rigs_in(place) as build:
        build(http="first:1")
        deadline = time.monotonic() + 10
        while operator.cluster.leader_address() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        build(http="second:2")
        time.sleep(0.5)
        assert operator.cluster.leader_address() == "first:1"


def test_a_wrong_chroot_is_reported(zookeeper: ZooKeeperServer) -> None:
    """There is a ZooKeeper but no Kafka cluster."""
    with pytest.raises(InvalidInputError, match="is the chroot right"):
        OperatorClient(settings_for(f"{zookeeper.address}/nowhere")).__enter__()


def test_an_unreachable_zookeeper_is_reported_in_time() -> None:
    """Bounded, and naming where it was looked for."""
    began = time.monotonic()
    with pytest.raises(SessionSuspendedError, match=r"localhost:1 cannot be reached within 1 s"):
        OperatorClient(settings_for("localhost:1"), connect_s=1.0).__enter__()
    assert time.monotonic() - began < 5


def test_a_zookeeper_that_stops_answering_is_reported(
    place: Chroot, zookeeper: ZooKeeperServer
) -> None:
    """Not a stack trace, and not for ever."""
    with OperatorClient(settings_for(place.hosts), connect_s=8.0) as operator:
        zookeeper.freeze()
        try:
            with pytest.raises(SessionSuspendedError, match="does not answer"):
                operator.requests.plan()
        finally:
            zookeeper.thaw()


def test_no_plan_is_none(operator: OperatorClient) -> None:
    """Also when it was deleted a moment ago."""
    assert operator.requests.plan() is None
