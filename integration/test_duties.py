"""
The duties of a controller for every partition, on real brokers.

Reassignments are tested elsewhere. A producer and a consumer group work meanwhile and must not
notice (``clients.unnoticed``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.conftest import MakeTopic
from integration.rigs.clients import accepts_records, records_of, unnoticed
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import configure
from integration.rigs.running_daemons import (
    await_quiet,
    await_shown,
    children,
    is_done,
    permanent_tenure,
    requests_sent,
    strike,
    submit,
)
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

ISR_NOTIFICATIONS = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
PREFERRED_ELECTION = "/admin/preferred_replica_election"

SAFE = {"min.insync.replicas": "2"}
UNCLEAN = "unclean.leader.election.enable"
ROTATED = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """Give three brokers with two disks each that create topics when asked for them."""
    options = ClusterOptions(
        brokers=3,
        broker=BrokerOptions(
            log_dirs=2,
            # A frozen follower falls out of the ISR long before its session ends.
            replica_lag_time_max_ms=2_000,
            zookeeper_session_timeout_ms=18_000,
            extra={
                "auto.create.topics.enable": "true",
                "default.replication.factor": "3",
                "num.partitions": "2",
            },
        ),
    )
    with Cluster.running(options) as cluster:
        yield cluster


# --- brokers come and go -------------------------------------------------------------------------


def test_a_killed_broker_is_replaced_as_leader_and_gets_all_metadata_when_it_returns(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Two seconds after its session ended others lead; back, it is in sync and knows all."""
    topic = make_topic(ROTATED, SAFE)
    with (
        permanent_tenure(cluster) as daemon,
        unnoticed(cluster, {topic: 3}, pause_s=25),
    ):
        cluster.brokers[1].kill()
        eventually(lambda: not cluster.is_registered(1), within_s=20, every_s=0.02)
        eventually(
            lambda: all(
                cluster.leader(topic, n) in {2, 3} and cluster.isr(topic, n) == {2, 3}
                for n in ROTATED
            ),
            within_s=2,
        )
        await_shown(cluster, topic)
        cluster.brokers[1].start()
        eventually(lambda: all(cluster.isr(topic, n) == {1, 2, 3} for n in ROTATED), within_s=40)
        await_shown(cluster, topic)
        await_quiet(daemon)


def test_a_broker_that_bounced_unseen_is_failed_and_welcomed(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Only the czxid of its registration shows it: it must not lead without its metadata."""
    topic, alone = make_topic(ROTATED, SAFE), make_topic({0: [1]})
    with (
        permanent_tenure(cluster, "--zookeeper-session-timeout", "60") as daemon,
        unnoticed(cluster, {topic: 3}, pause_s=40),
    ):
        before = cluster.state(alone, 0)
        assert before is not None
        daemon.freeze()
        strike(cluster, 1)
        cluster.brokers[1].start()
        daemon.thaw()
        eventually(lambda: cluster.leader(topic, 0) in {2, 3}, within_s=10)
        eventually(
            lambda: (cluster.state(alone, 0) or before)["leader_epoch"] > before["leader_epoch"],
            within_s=10,
        )
        assert cluster.leader(alone, 0) == 1
        assert accepts_records(cluster, alone)
        eventually(lambda: all(cluster.isr(topic, n) == {1, 2, 3} for n in ROTATED), within_s=40)
        await_shown(cluster, topic, alone)
        await_quiet(daemon)


def test_when_all_replicas_in_sync_died_the_first_to_return_leads(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Each of the ISR has every acknowledged record, so it is kept while all are dead."""
    topic = make_topic({0: [1, 2]})
    with permanent_tenure(cluster), unnoticed(cluster, {topic: 1}, pause_s=50):
        strike(cluster, 1, 2)
        eventually(lambda: (cluster.state(topic, 0) or {})["leader"] == -1, within_s=10)
        assert cluster.isr(topic, 0) == {1, 2}
        cluster.brokers[2].start()
        eventually(lambda: cluster.leader(topic, 0) == 2, within_s=10)
        assert cluster.isr(topic, 0) == {2}
        cluster.brokers[1].start()
        eventually(lambda: cluster.isr(topic, 0) == {1, 2}, within_s=40)
        assert cluster.leader(topic, 0) == 2
        await_shown(cluster, topic)


def test_a_replica_out_of_sync_leads_only_where_the_topic_allows_it(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """It takes over with an ISR of its own, or waits for the one that has every record."""
    careful = make_topic({0: [1, 2]})
    careless = make_topic({0: [1, 2]}, {UNCLEAN: "true"})
    both = (careful, careless)
    with permanent_tenure(cluster) as daemon:
        strike(cluster, 2)
        eventually(lambda: all(cluster.isr(t, 0) == {1} for t in both), within_s=10)
        assert all(accepts_records(cluster, t) for t in both)
        strike(cluster, 1)
        eventually(lambda: not any(cluster.leader(t, 0) for t in both), within_s=10)
        cluster.brokers[2].start()
        eventually(lambda: cluster.leader(careless, 0) == 2, within_s=15)
        assert cluster.isr(careless, 0) == {2}
        assert accepts_records(cluster, careless)
        await_quiet(daemon)
        assert cluster.leader(careful, 0) is None
        assert cluster.isr(careful, 0) == {1}
        cluster.brokers[1].start()
        eventually(lambda: cluster.leader(careful, 0) == 1, within_s=10)
        eventually(lambda: all(cluster.isr(t, 0) == {1, 2} for t in both), within_s=40)
        assert all(accepts_records(cluster, t) for t in both)
        await_shown(cluster, *both)


def test_an_unclean_election_that_was_forbidden_in_time_does_not_happen(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """The daemon has read that it is permitted; what is set when the leader is lost counts."""
    forbidden, permitted = both = [make_topic({0: [1, 2]}, {UNCLEAN: "true"}) for _ in range(2)]
    targets = {topic: {0: [1, 3]} for topic in both}
    records = 5
    with permanent_tenure(cluster) as daemon:
        submit(cluster, targets)
        eventually(lambda: is_done(cluster, targets), within_s=60, what="the settings are known")
        strike(cluster, 3)
        eventually(lambda: all(cluster.isr(t, 0) == {1} for t in both), within_s=10)
        assert all(accepts_records(cluster, t) for t in both for _ in range(records))
        configure(cluster, f"topics/{forbidden}", {UNCLEAN: "false"})
        strike(cluster, 1)
        eventually(lambda: not any(cluster.leader(t, 0) for t in both), within_s=10)
        cluster.brokers[3].start()
        eventually(lambda: cluster.leader(permitted, 0) == 3, within_s=15)
        assert cluster.isr(permitted, 0) == {3}
        assert accepts_records(cluster, permitted)
        await_quiet(daemon)
        assert cluster.leader(forbidden, 0) is None
        assert cluster.isr(forbidden, 0) == {1}
        cluster.brokers[1].start()
        eventually(lambda: cluster.leader(forbidden, 0) == 1, within_s=10)
        eventually(lambda: all(cluster.isr(t, 0) == {1, 3} for t in both), within_s=40)
        assert records_of(cluster, forbidden) == records
        await_shown(cluster, *both)


# --- topics and partitions appear ----------------------------------------------------------------


def test_a_topic_that_a_broker_creates_on_request_becomes_usable(
    small: Cluster, fresh_name: Callable[[], str]
) -> None:
    """The broker only writes the topic znode; a producer waits for us, and not for long."""
    topic = fresh_name()
    with permanent_tenure(small) as daemon:
        assert small.topic(topic) is None
        assert accepts_records(small, topic)
        assert len((small.topic(topic) or {})["partitions"]) == 2
        assert small.isr(topic, 1) == {1, 2, 3}
        await_shown(small, topic)
        await_quiet(daemon)


def test_partitions_written_as_brokers_write_them_become_usable(
    small: Cluster, fresh_name: Callable[[], str]
) -> None:
    """A topic znode that appears, and one that is rewritten with more partitions."""
    bystander, topic = small.create_topic(fresh_name(), {0: [2, 3, 1]}, SAFE), fresh_name()
    with (
        permanent_tenure(small) as daemon,
        unnoticed(small, {bystander: 1}, pause_s=10),
    ):
        small.zk.create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        small.zk.create(f"/brokers/topics/{topic}", _topic_document({0: [1, 2, 3]}))
        eventually(lambda: small.isr(topic, 0) == {1, 2, 3}, within_s=5)
        assert accepts_records(small, topic)
        small.zk.set(f"/brokers/topics/{topic}", _topic_document({0: [1, 2, 3], 1: [3, 1]}))
        eventually(lambda: small.leader(topic, 1) == 3, within_s=5)
        assert small.isr(topic, 1) == {1, 3}
        assert (small.state(topic, 1) or {})["leader_epoch"] == 0
        await_shown(small, topic)
        assert accepts_records(small, topic, 1)
        await_quiet(daemon)


# --- what brokers announce -----------------------------------------------------------------------


def test_clients_see_what_leaders_did_to_their_isr(
    small: Cluster, fresh_name: Callable[[], str]
) -> None:
    """Leaders announce that a follower fell behind and caught up; the announcements are taken."""
    topic = small.create_topic(fresh_name(), {0: [1, 2, 3]}, SAFE)
    with (
        permanent_tenure(small) as daemon,
        unnoticed(small, {topic: 1}, pause_s=15),
    ):
        small.brokers[3].freeze()
        eventually(lambda: small.isr(topic, 0) == {1, 2}, within_s=15)
        small.brokers[3].thaw()
        eventually(lambda: small.isr(topic, 0) == {1, 2, 3}, within_s=15)
        await_shown(small, topic)
        eventually(lambda: not children(small, ISR_NOTIFICATIONS), within_s=15)
        await_quiet(daemon)
        assert not children(small, ISR_NOTIFICATIONS)


def test_leadership_leaves_a_disk_that_failed(
    small: Cluster, fresh_name: Callable[[], str]
) -> None:
    """The broker lives on; what it led on that disk is led by others, and then there is silence."""
    topic = small.create_topic(fresh_name(), {n: [1, 2, 3] for n in range(4)}, SAFE)
    with permanent_tenure(small) as daemon, unnoticed(small, {topic: 4}, pause_s=20):
        disk = _disk_of(small, 1, f"{topic}-0")
        lost = {n for n in range(4) if (disk / f"{topic}-{n}").is_dir()}
        sent = requests_sent(daemon)
        with _failed_disk(small, 1, disk):
            eventually(
                lambda: all(small.isr(topic, n) == {2, 3} for n in lost),
                within_s=30,
                what=f"broker 1 is in no ISR of {sorted(lost)}",
            )
            assert all(small.leader(topic, n) in {2, 3} for n in lost)
            assert all(small.leader(topic, n) == 1 for n in set(range(4)) - lost)
            assert small.is_registered(1)
            eventually(lambda: not children(small, LOG_DIR_EVENTS), within_s=10)
            await_quiet(daemon)
            assert requests_sent(daemon) - sent < 60
        eventually(lambda: all(small.isr(topic, n) == {1, 2, 3} for n in range(4)), within_s=40)
        await_shown(small, topic)


# --- elections on request ------------------------------------------------------------------------


def test_a_preferred_election_is_held_and_its_request_deleted(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Leaders move to the first replica in one go; clients follow them."""
    topic = make_topic(ROTATED, SAFE)
    reordered = {topic: {n: [*replicas[1:], replicas[0]] for n, replicas in ROTATED.items()}}
    with (
        permanent_tenure(cluster, "--no-preferred-election") as daemon,
        unnoticed(cluster, {topic: 3}, pause_s=10),
    ):
        submit(cluster, reordered)
        eventually(lambda: is_done(cluster, reordered), within_s=20)
        assert [cluster.leader(topic, n) for n in ROTATED] == [1, 2, 3]
        wanted = [{"topic": topic, "partition": n} for n in (0, 1)]
        document = {"version": 1, "partitions": [*wanted, {"topic": "unknown", "partition": 7}]}
        cluster.zk.create(PREFERRED_ELECTION, json.dumps(document).encode())
        eventually(lambda: cluster.zk.exists(PREFERRED_ELECTION) is None, within_s=10)
        assert [cluster.leader(topic, n) for n in ROTATED] == [2, 3, 3]
        await_shown(cluster, topic)
        await_quiet(daemon)


def test_leaderships_return_to_their_preferred_brokers_where_that_is_requested(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """As under Kafka's controller, with its percentage; the default leaves them where they are."""
    topic = make_topic(ROTATED, SAFE)
    requested = ("--auto-leader-rebalance", "--leader-imbalance-check-interval", "3")
    with (
        permanent_tenure(cluster, *requested) as daemon,
        unnoticed(cluster, {topic: 3}, pause_s=25),
    ):
        strike(cluster, 1)
        eventually(lambda: cluster.leader(topic, 0) in {2, 3}, within_s=10)
        cluster.brokers[1].start()
        eventually(lambda: all(cluster.isr(topic, n) == {1, 2, 3} for n in ROTATED), within_s=40)
        eventually(lambda: [cluster.leader(topic, n) for n in ROTATED] == [1, 2, 3], within_s=15)
        await_shown(cluster, topic)
        await_quiet(daemon)


# --- inside --------------------------------------------------------------------------------------


def _topic_document(partitions: dict[int, list[int]]) -> bytes:
    """Return a topic znode as brokers with the old protocol write it."""
    document = {
        "version": 2,
        "partitions": {str(n): replicas for n, replicas in partitions.items()},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    return json.dumps(document).encode()


def _disk_of(cluster: Cluster, broker_id: int, replica: str) -> Path:
    """Return the disk of a broker that holds a replica's directory."""
    found = [disk for disk in cluster.brokers[broker_id].log_dirs if (disk / replica).is_dir()]
    assert len(found) == 1, found
    return found[0]


@contextmanager
def _failed_disk(cluster: Cluster, broker_id: int, disk: Path) -> Iterator[None]:
    """Make a disk unusable under a running broker; repair it and restart the broker afterwards."""
    aside = disk.with_name(disk.name + "-aside")
    disk.rename(aside)
    disk.write_text("this is not a directory")
    try:
        yield
    finally:
        cluster.brokers[broker_id].stop()
        disk.unlink()
        shutil.move(aside, disk)
        cluster.brokers[broker_id].start()
