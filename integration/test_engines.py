"""
The same product on every row: engine, Kafka release and inter-broker protocol.

Everything is asked for by requests, the route that both engines have; what came of it is read from
ZooKeeper and from the disks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    configured,
    copies_held,
    fill,
    holders,
    is_reassigning,
    outcome,
    plan_of,
    unconfigure,
)
from integration.rigs.requests import reassigner
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import assignments, writes
from integration.rigs.waiting import eventually

DURABLE = {"min.insync.replicas": "2"}
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REQUESTS = "/admin/reassignment_requests"
CANCEL = "/admin/cancel_reassignment_in_progress"
QUEUE = "/admin/reassign_partitions_queue"
LIMITS = "/reassigner/control/limits"
ORPHANS = "/reassigner/orphans"


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def row_cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    with Cluster.running(row.options) as cluster:
        yield cluster


@pytest.fixture
def cluster(row_cluster: Cluster) -> Iterator[Cluster]:
    """Give it with everything up: other fixtures build on it."""
    row_cluster.heal()
    for broker in row_cluster.brokers:
        unconfigure(row_cluster, f"brokers/{broker}", *RATES)
    yield row_cluster
    row_cluster.heal()


def request_moves(cluster: Cluster, targets: Targets, **options: object) -> str:
    """Submit a request and return its name."""
    content: dict[str, Any] = {"version": 1, "assignments": {}, **options}
    for (topic, partition), replicas in targets.items():
        content["assignments"].setdefault(topic, {})[str(partition)] = list(replicas)
    cluster.zk.ensure_path(REQUESTS)
    made = cluster.zk.create(f"{REQUESTS}/request_", json.dumps(content).encode(), sequence=True)
    return str(made.rpartition("/")[2])


def ended(cluster: Cluster, request: str, *, within_s: float = 30) -> Mapping[str, Any]:
    """Wait for the outcome of a request."""
    eventually(
        lambda: outcome(cluster, request) is not None,
        within_s=within_s,
        what=f"the outcome of {request}",
    )
    found = outcome(cluster, request)
    assert found is not None
    return found


def await_begun(cluster: Cluster, partitions: Iterable[tuple[str, int]]) -> None:
    """Wait until a step of each partition is under way."""
    wanted = list(partitions)

    def begun() -> bool:
        return all(
            str(n) in (cluster.topic(topic) or {}).get("adding_replicas", {}) for topic, n in wanted
        )

    eventually(begun, within_s=30, what="a step of each partition is in its topic znode")


def await_in_sync(cluster: Cluster, targets: Targets) -> None:
    """Wait until partitions have exactly their target, in sync; others may be in progress."""

    def reached() -> bool:
        return all(
            cluster.replicas(topic, n) == list(to) and cluster.isr(topic, n) == set(to)
            for (topic, n), to in targets.items()
        )

    eventually(reached, within_s=60, what=f"the replicas of {targets} are in sync")


def await_controller_other_than(cluster: Cluster, broker: int | None) -> None:
    """Wait until another process has the role."""
    eventually(lambda: cluster.controller() not in (None, broker), within_s=30)


def passed(cluster: Cluster, topic: str, partition: int = 0) -> list[tuple[int, ...]]:
    """Return what remained of the replicas after each step, without repeats."""
    rows = (a.remaining for a in assignments(writes(cluster), topic, partition))
    return [found for found, _ in groupby(rows)]


def test_a_request_under_load_is_carried_out_and_no_acknowledged_record_is_lost(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The engine is the one of the row, and says why; every step keeps the bound."""
    del tmp_path
    topics = [make_topic(dict.fromkeys(range(4), (1, 2, 3)), DURABLE) for _ in range(2)]
    partitions = dict.fromkeys(topics, 4)
    targets = {
        (topic, n): [(3, 4, 5), (5, 1, 4), (2, 4, 3)][(n + shift) % 3]
        for shift, topic in enumerate(topics)
        for n in range(4)
    }
    daemon = daemons.start(*row.arguments, "--tenure-linger", "1")
    with Traffic(cluster.bootstrap_servers, partitions) as traffic:
        traffic.await_flow()
        name = request_moves(cluster, targets)
        await_end(cluster, targets, within_s=120)
        traffic.await_flow()
        traffic.stop()
    status = daemon.status()
    assert status["engine"] == row.engine
    assert status["engine_because"]
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    assert ended(cluster, name)["done"] == len(targets)
    for topic, number in targets:
        rows = assignments(writes(cluster), topic, number)
        assert max(len(a.replicas) for a in rows) <= 4 + (row.engine == "native"), rows


def test_everything_in_flight_is_taken_back_by_a_cancellation(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """While the copies are held: the originals, in their order, are all that is left."""
    topic = make_topic({0: (1, 2, 3), 1: (2, 3, 1)}, DURABLE)
    targets = {(topic, 0): (4, 5, 1), (topic, 1): (4, 2, 5)}
    daemons.start(*row.arguments, "--tenure-linger", "1")
    with copies_held(cluster, targets):
        name = request_moves(cluster, targets)
        await_begun(cluster, targets)
        cluster.zk.create(CANCEL, b"")
        originals: Targets = {(topic, 0): (1, 2, 3), (topic, 1): (2, 3, 1)}
        await_end(cluster, originals, within_s=30)
        eventually(lambda: cluster.zk.exists(CANCEL) is None, within_s=20)
    assert ended(cluster, name)["fates"] == {"rolled_back": 2}


def test_a_later_request_takes_over_a_step_in_flight(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """What was being added and is not wanted any more goes at once, though the rest is held."""
    topic = make_topic({0: (1, 2)})
    daemons.start(*row.arguments, "--tenure-linger", "1")
    with copies_held(cluster, [(topic, 0)]):
        first = request_moves(cluster, {(topic, 0): (2, 3)})
        await_begun(cluster, [(topic, 0)])
        second = request_moves(cluster, {(topic, 0): (2, 4)})
        eventually(lambda: holders(cluster, topic, 0) == {1, 2, 4}, within_s=20)
    await_end(cluster, {(topic, 0): (2, 4)}, within_s=60)
    assert ended(cluster, first)["fates"] == {"superseded": 1}
    assert ended(cluster, second)["done"] == 1


def test_a_queued_entry_goes_before_the_step_in_flight_of_its_partition(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """KIP-236: the step is undone as far as the new target does not want it; the queue goes."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    daemons.start(*row.arguments, "--tenure-linger", "1")
    with copies_held(cluster, [(topic, 0)]):
        request_moves(cluster, {(topic, 0): (2, 3)})
        await_begun(cluster, [(topic, 0)])
        queued: Targets = {(topic, 0): (1, 4), (topic, 1): (2, 1)}
        cluster.zk.create(QUEUE, json.dumps(plan_of(queued)).encode())
        eventually(lambda: cluster.zk.exists(QUEUE) is None, within_s=20)
        eventually(lambda: 3 not in holders(cluster, topic, 0), within_s=20)
    await_end(cluster, queued, within_s=60)


def test_a_throttle_stands_before_the_first_copy_and_leaves_no_trace(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Slow, changed and then lifted while it runs; the settings are as they were."""
    topic = make_topic({0: (1, 2)}, {"retention.ms": "86400000"})
    fill(cluster, [(topic, 0)])
    targets: Targets = {(topic, 0): (2, 3)}
    before = configured(cluster, f"topics/{topic}")
    daemons.start(*row.arguments, "--tenure-linger", "1")
    name = request_moves(cluster, targets, throttle=1)
    await_begun(cluster, targets)
    rates = configured(cluster, "brokers/3")
    assert rates["follower.replication.throttled.rate"] == "1", rates
    listed = configured(cluster, f"topics/{topic}")["follower.replication.throttled.replicas"]
    assert listed == "0:3"
    missed = reassigner(cluster, "throttle", "none").stdout
    assert f"reassigner throttle none --request {name}" in missed, missed
    assert reassigner(cluster, "throttle", "2", "--request", name).code == 0
    eventually(
        lambda: configured(cluster, "brokers/3").get(RATES[1]) == "2",
        within_s=20,
        what="the rate is changed",
    )
    assert is_reassigning(cluster, topic)
    assert reassigner(cluster, "throttle", "none", "--request", name).code == 0
    eventually(lambda: not configured(cluster, "brokers/3"), within_s=20)
    await_end(cluster, targets, within_s=60)
    assert configured(cluster, f"topics/{topic}") == before
    lifted = [w for w in writes(cluster) if w.path == "/config/brokers/3"][-1]
    end = [w for w in writes(cluster) if w.path == f"/brokers/topics/{topic}"][-1]
    assert lifted.zxid < end.zxid, (
        "the throttle went with the request's end, not when it was lifted"
    )
    cluster.zk.delete(LIMITS)


def test_the_successor_of_a_killed_daemon_continues(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Kill -9 in the middle of a step, which ends without a daemon; then the rest."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2, 3)), DURABLE)
    targets = dict.fromkeys([(topic, n) for n in range(3)], (3, 4, 5))
    daemon = daemons.start(*row.arguments, "--tenure-linger", "1")
    with Traffic(cluster.bootstrap_servers, {topic: 3}) as traffic:
        with copies_held(cluster, targets):
            name = request_moves(cluster, targets)
            await_begun(cluster, targets)
            daemon.kill()
        await_broker_controller(cluster, within_s=30)
        may_forget = row.endpoint and row.release.may_forget_isr_changes
        if row.release.writes_steps and not may_forget:
            eventually(lambda: not is_reassigning(cluster, topic), within_s=60)
        daemon.start()
        await_end(cluster, targets, within_s=120)
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    assert ended(cluster, name)["done"] == len(targets)


def test_the_death_of_the_controller_and_of_the_leading_daemon_hold_nothing_up(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A standby takes over from the leader; under either engine some broker is controller later."""
    # A replica that dies while it is dropped would be an orphan: what is killed here stays one.
    stays = cluster.controller_broker()
    first, second, third, *_ = (b for b in cluster.brokers if b != stays)
    assert stays is not None
    topic = make_topic(dict.fromkeys(range(3), (first, second, stays)))
    targets = dict.fromkeys([(topic, n) for n in range(3)], (second, third, stays))
    leader = daemons.start(*row.arguments, "--tenure-linger", "1")
    daemons.start(*row.arguments, "--tenure-linger", "1")
    with copies_held(cluster, targets):
        name = request_moves(cluster, targets)
        await_begun(cluster, targets)
        broker = cluster.controller_broker()
        if broker is not None:
            cluster.brokers[broker].kill()
        leader.kill()
        await_controller_other_than(cluster, broker)
    cluster.heal()
    await_end(cluster, targets, within_s=180, any_leader=True)
    assert ended(cluster, name, within_s=60)["done"] == len(targets)


def test_a_cancellation_beside_an_older_one_of_everything_ends_only_what_it_names(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The older one still moves back what had finished; what was submitted since goes on."""
    first = make_topic({0: (1, 2), 1: (1, 2)})
    kept, named = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    late: Targets = {(kept, 0): (1, 4), (named, 0): (1, 3)}
    held = {first: "0:2,1:4", kept: "0:4", named: "0:3"}
    daemons.start(*row.arguments, "--tenure-linger", "1")
    with copies_held(cluster, [(first, 0), (first, 1), *late], at=held):
        request_moves(cluster, {(first, 0): (1, 3), (first, 1): (1, 4)})
        await_begun(cluster, [(first, 1)])
        await_in_sync(cluster, {(first, 0): (1, 3)})
        assert reassigner(cluster, "undo", "--everything", "--yes").code == 0
        await_begun(cluster, [(first, 0)])
        request = request_moves(cluster, late)
        await_begun(cluster, late)
        assert cluster.zk.exists(CANCEL) is not None
        done = reassigner(cluster, "cancel", "--partition", f"{named}-0")
        assert done.code == 0, done.stdout
        await_in_sync(cluster, {(named, 0): (1, 2)})
        assert is_reassigning(cluster, kept)
        assert cluster.zk.exists(CANCEL) is not None
    ends: Targets = {(first, 0): (1, 2), (first, 1): (1, 2), (kept, 0): (1, 4), (named, 0): (1, 2)}
    await_end(cluster, ends, within_s=60, any_leader=True)
    found = ended(cluster, request)
    assert (found["done"], found["fates"]) == (1, {"rolled_back": 1})


def test_a_broker_that_died_for_good_forbids_no_repair(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Neither a topic that died with it, nor what waits to be repaired; the brake is set live."""
    alone = make_topic({0: (5,)})
    one, two = make_topic({0: (1, 5)}, DURABLE), make_topic({0: (2, 5)}, DURABLE)
    served, healthy = make_topic({0: (1, 5)}, DURABLE), make_topic({0: (1, 2)})
    repairs: Targets = {(one, 0): (1, 3), (two, 0): (2, 4)}
    cluster.brokers[5].kill()
    for topic, broker in ((one, 1), (two, 2), (served, 1)):
        eventually(lambda t=topic, b=broker: cluster.isr(t, 0) == {b}, within_s=40)  # type: ignore[misc]
    daemon = daemons.start(*row.arguments, "--tenure-linger", "1")
    request_moves(cluster, {(healthy, 0): (1, 3)})
    eventually(
        lambda: daemon.status()["blocked"] == {"cluster_health": 1},
        within_s=30,
        what=lambda: f"the copy from broker 1 waits: {daemon.status()['blocked']}",
        tolerating=(OSError,),
    )
    request = request_moves(cluster, repairs)
    await_in_sync(cluster, repairs)
    assert ended(cluster, request)["done"] == 2
    why = reassigner(cluster, "explain", f"{healthy}-0").stdout
    assert "broker 1 serves partitions below min.insync.replicas" in why, why
    assert f"1 partition, {served}-0" in why
    assert "--under-min-isr warn" in why
    assert cluster.replicas(alone, 0) == [5]
    reassigner(cluster, "limits", "--under-min-isr", "warn")
    await_in_sync(cluster, {(healthy, 0): (1, 3)})
    reassigner(cluster, "limits", "--unset", "under-min-isr")
    cluster.start_brokers(5)
    if row.engine == "native":
        await_end(cluster, {**repairs, (healthy, 0): (1, 3)}, within_s=60, any_leader=True)
    elif cluster.zk.exists(ORPHANS) is not None:
        # Kafka's controller dropped these replicas while their broker was dead: the logs may stay.
        cluster.zk.delete(ORPHANS, recursive=True)


def test_a_completed_request_that_was_undone_or_superseded_is_verified_as_such(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The cluster is compared; a later plan says what it supersedes; no ended request is paused."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets: Targets = {(topic, 0): (1, 3), (topic, 1): (1, 3)}
    daemons.start(*row.arguments, "--tenure-linger", "1")
    request = request_moves(cluster, targets)
    await_end(cluster, targets, within_s=60, any_leader=True)
    assert ended(cluster, request)["done"] == 2
    assert reassigner(cluster, "verify", request).code == 0
    assert reassigner(cluster, "undo", request, "--wait").code == 0
    await_end(cluster, {(topic, 0): (1, 2), (topic, 1): (1, 2)}, within_s=60, any_leader=True)
    undone = reassigner(cluster, "verify", request)
    assert undone.code == 4, undone.stdout
    assert f"{topic}-0 was completed, and was undone since by cancel-" in undone.stdout
    assert "its replicas are 1,2 rather than 1,3" in undone.stdout
    refused = reassigner(cluster, "pause", "--request", request)
    assert (refused.code, "has ended" in refused.stdout) == (1, True), refused.stdout
    later = request_moves(cluster, {(topic, 0): (1, 4)})
    await_end(cluster, {(topic, 0): (1, 4)}, within_s=60, any_leader=True)
    assert ended(cluster, later)["done"] == 1
    with copies_held(cluster, [(topic, 0)]):
        plan = tmp_path / "plan.json"
        request_moves(cluster, {(topic, 0): (1, 5)})
        await_begun(cluster, [(topic, 0)])
        superseded = reassigner(cluster, "verify", later)
        assert superseded.code == 3, superseded.stdout
        assert f"{topic}-0 was completed, and is being reassigned by request_" in superseded.stdout
        plan.write_text(json.dumps(plan_of({(topic, 0): (1, 2)})))
        executed = reassigner(cluster, "execute", str(plan))
        assert executed.code == 0, executed.stdout
        assert "It supersedes 1 partition of request_" in executed.stdout
    await_end(cluster, {(topic, 0): (1, 2)}, within_s=60, any_leader=True)
