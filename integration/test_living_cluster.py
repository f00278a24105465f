"""
A daemon is there first, then the cluster lives; each change is followed by a move that has to end.

Topics are created, grown, deleted and created anew with other partitions; brokers join and retire;
settings change; every broker and ZooKeeper restart. Whatever the daemon knew of the cluster when it
started, it has to learn what became of it, and carry out what is asked for next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pytest
from kazoo.exceptions import KazooException

from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    configure,
    specs,
)
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.waiting import eventually

ENDS_WITHIN_S: Final = 90.0
REFRESH_S: Final = 2
"""How long the daemon may use settings that it read."""
MARKS: Final[Mapping[str, Sequence[pytest.MarkDecorator]]] = {
    "delegated-3.9.1-full": [pytest.mark.smoke],
    "native-3.9.1-2.6": [pytest.mark.acceptance],
    "delegated-2.4.1-full": [],
}
LIVED_ON: Final = [row for row in ROWS if row.name in MARKS]
"""One row for each way in which a first state comes into being: by ZooKeeper or not, and by us."""
MARKED: Final = [pytest.param(row, marks=MARKS[row.name]) for row in LIVED_ON]
MANY: Final = 300
BELOW_MIN_ISR: Final = "below_min_insync_replicas"


def name_of(row: Row) -> str:
    """Return how tests call a row."""
    return row.name


@pytest.fixture(scope="module", params=LIVED_ON, ids=name_of)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a row; ``cluster`` repairs it after every test."""
    with Cluster.running(row.options) as cluster:
        yield cluster


@pytest.fixture
def daemon(row: Row, daemons: Daemons) -> Daemon:
    """Give a daemon that leads before anything else happens."""
    started = daemons.start(
        "--engine", row.wanted, "--tenure-linger", "1", "--config-refresh", f"{REFRESH_S}"
    )
    eventually(lambda: started.status()["engine"] == row.engine, within_s=20)
    return started


@pytest.fixture
def name(fresh_name: Callable[[], str], cluster: Cluster, daemons: Daemons) -> Iterator[str]:
    """Give the name of a topic that is deleted at the end, if there is one by then."""
    del daemons
    made = fresh_name()
    yield made
    cluster.heal()
    if cluster.topic(made) is not None:
        cluster.delete_topics(made)


def placed(count: int, *replicas: int, start: int = 0) -> dict[int, Sequence[int]]:
    """Return so many partitions on these brokers."""
    return {start + n: replicas for n in range(count)}


def moved(
    cluster: Cluster,
    name: str,
    targets: Mapping[int, Sequence[int]],
    *,
    any_leader: bool = False,
    within_s: float = ENDS_WITHIN_S,
) -> None:
    """Ask for these replicas, wait until they are there, and for the outcome: all of it done."""
    wanted: Targets = {(name, n): replicas for n, replicas in targets.items()}
    request = submit_request(cluster, wanted)
    await_end(cluster, wanted, within_s=within_s, any_leader=any_leader)
    outcome = await_outcome(cluster, request, within_s=20)
    assert (outcome["done"], outcome["refused"]) == (len(wanted), []), outcome


def deleted(cluster: Cluster, name: str) -> None:
    """Delete a topic and wait until nothing is left of it."""
    cluster.delete_topics(name)
    eventually(
        lambda: cluster.topic(name) is None,
        within_s=60,
        what=lambda: f"{name} is gone; {cluster.topic(name)}",
        tolerating=(KazooException,),
    )
    cluster.await_deletions()


@pytest.mark.parametrize("row", MARKED, indirect=True, ids=name_of, scope="module")
def test_a_topic_is_moved_when_created_when_grown_and_when_created_anew(
    cluster: Cluster, daemon: Daemon, name: str
) -> None:
    """Asked for at once, before anyone has seen that the partitions are there."""
    del daemon
    cluster.request_topic(name, placed(3, 1, 2))
    moved(cluster, name, placed(3, 3, 4))
    cluster.request_partitions(name, placed(2, 1, 5, start=3))
    moved(cluster, name, {**placed(3, 4, 5), **placed(2, 2, 3, start=3)})
    for count in (2, 6):
        deleted(cluster, name)
        cluster.request_topic(name, placed(count, 1, 2, 3))
        moved(cluster, name, placed(count, 3, 4, 5))


def test_a_topic_created_anew_while_no_daemon_runs_is_not_moved_by_an_older_request(
    cluster: Cluster, daemon: Daemon, name: str
) -> None:
    """The request waited with the original replicas of the deleted topic; it ends refused."""
    cluster.request_topic(name, placed(1, 1, 2))
    assert reassigner(cluster, "pause").code == 0
    request = submit_request(cluster, {(name, 0): [3, 4]})
    eventually(lambda: specs(cluster), within_s=20, what="the request is accepted")
    daemon.kill()
    await_broker_controller(cluster, within_s=30)
    deleted(cluster, name)
    cluster.request_topic(name, placed(1, 4, 5))
    daemon.start()
    assert reassigner(cluster, "resume").code == 0
    outcome = await_outcome(cluster, request, within_s=30)
    (refused,) = outcome["refused"]
    assert "deleted and created again" in refused["detail"], outcome
    assert cluster.replicas(name, 0) == [4, 5]
    moved(cluster, name, placed(1, 1, 3))


def test_a_young_topic_of_many_partitions_is_moved(
    cluster: Cluster, daemon: Daemon, name: str
) -> None:
    """Their first states are written one after another, for a second or more."""
    del daemon
    cluster.request_topic(name, placed(MANY, 1, 2))
    moved(cluster, name, placed(MANY, 2, 3), within_s=240)


def test_brokers_that_join_and_retire(cluster: Cluster, daemon: Daemon, name: str) -> None:
    """One that was away when the daemon began takes replicas; one that is emptied goes for good."""
    cluster.create_topic(name, placed(4, 1, 2, 3))
    cluster.brokers[5].stop()
    eventually(lambda: not cluster.is_registered(5), within_s=30)
    moved(cluster, name, placed(4, 2, 3, 4))
    cluster.start_brokers(5)
    moved(cluster, name, placed(4, 5, 3, 4))
    moved(cluster, name, placed(4, 5, 1, 2))
    for retired in (3, 4):
        cluster.brokers[retired].stop()
    cluster.request_partitions(name, placed(2, 1, 2, 5, start=4))
    moved(cluster, name, {**placed(4, 1, 2), **placed(2, 5, 1, start=4)})
    assert daemon.is_alive


def test_settings_that_change_hold_for_the_next_move(
    cluster: Cluster, daemon: Daemon, name: str
) -> None:
    """``min.insync.replicas`` of a topic younger than the daemon, raised and lowered again."""
    cluster.create_topic(name, placed(2, 1, 2, 3))
    moved(cluster, name, placed(2, 3, 4, 5))
    settings = {"min.insync.replicas": "2", "retention.ms": "86400000"}
    configure(cluster, f"topics/{name}", settings)
    # What was read before the change holds for as long.
    time.sleep(REFRESH_S + 0.5)
    moved(cluster, name, placed(2, 1, 2, 3))
    single: Targets = {(name, 0): (1,)}

    def refused() -> list[str]:
        found = await_outcome(cluster, submit_request(cluster, single), within_s=30)
        return [row["reason"] for row in found["refused"]]

    assert refused() == [BELOW_MIN_ISR]
    assert cluster.replicas(name, 0) == [1, 2, 3]
    configure(cluster, f"topics/{name}", {"min.insync.replicas": "1"})
    eventually(lambda: not refused(), within_s=60, every_s=5.0, what="the new setting is known")
    await_end(cluster, single, within_s=ENDS_WITHIN_S)
    assert daemon.is_alive


def test_every_broker_and_zookeeper_restart(cluster: Cluster, daemon: Daemon, name: str) -> None:
    """First one by one, then all at once, then ZooKeeper; a topic is made after each."""
    old = f"{name}-old"
    cluster.create_topic(old, placed(3, 1, 2, 3))
    for broker in cluster.brokers.values():
        broker.restart()
    moved(cluster, old, placed(3, 3, 4, 5), any_leader=True)
    cluster.request_topic(name, placed(2, 1, 2))
    moved(cluster, name, placed(2, 2, 3), any_leader=True)
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.heal()
    moved(cluster, old, placed(3, 1, 2, 3), any_leader=True)
    cluster.request_partitions(name, placed(1, 4, 5, start=2))
    moved(cluster, name, placed(3, 4, 1), any_leader=True)
    cluster.zookeeper.restart()
    eventually(
        lambda: cluster.controller() is not None,
        within_s=60,
        what="ZooKeeper serves and a controller leads",
        tolerating=(KazooException,),
    )
    moved(cluster, old, placed(3, 2, 3, 4), any_leader=True)
    deleted(cluster, name)
    cluster.request_topic(name, placed(4, 3, 5))
    moved(cluster, name, placed(4, 1, 2, 3), any_leader=True)
    assert daemon.is_alive
    deleted(cluster, old)
