"""
Cancellations on real brokers: everything leads back to where it was, in its old order.

Copies are held where a move is to be caught in the middle: of all replicas, or of one broker's
only, so that the steps before it are behind.
"""

from __future__ import annotations

from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import (
    LEGACY_PLAN,
    REASSIGNMENTS,
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    await_tenure,
    copies_held,
    is_reassigning,
    plan_of,
    submit,
)
from integration.rigs.requests import (
    CANCEL,
    await_outcome,
    cancel,
    endings,
    reassigner,
    submit_request,
)
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import Assignment, assignments, writes
from integration.rigs.waiting import eventually

SOON: Final = ("--tenure-linger", "1")
DURABLE: Final = {"min.insync.replicas": "2"}
LONG_HOLDING_RECORDS: Final = 30
"""Of half a megabyte: they hold copies while a command starts on a busy machine."""


@pytest.mark.smoke
def test_an_empty_node_cancels_everything_and_a_second_cancel_finds_nothing(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """What moves goes back, what waits never begins, the znode goes, by whichever route."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2, 3)), DURABLE)
    home = {(topic, n): (1, 2, 3) for n in range(4)}
    daemon = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "2")
    await_tenure(daemon)
    with copies_held(cluster, list(home)[:2]):
        plan = submit(cluster, plan_of({(topic, 0): (4, 2, 3)}))
        await_adding(cluster, topic, 0)
        requested = submit_request(cluster, {(topic, n): (1, 4, 5) for n in range(1, 4)})
        await_adding(cluster, topic, 1, 0)
        cancelled = cancel(cluster)
        summary = await_outcome(cluster, cancelled, within_s=15)
        assert cluster.zk.exists(CANCEL) is None
        assert cluster.zk.exists(LEGACY_PLAN) is None
        await_end(cluster, home, within_s=10)
    assert summary["fates"] == {"rolled_back": 2, "cancelled": 2}
    assert await_outcome(cluster, plan, within_s=10)["fates"] == {"rolled_back": 1}
    fates = {"rolled_back": 1, "cancelled": 2}
    assert await_outcome(cluster, requested, within_s=10)["fates"] == fates
    assert endings(cluster, requested)[f"{topic}-3"] == ("cancelled", f"by {cancelled}")
    again = await_outcome(cluster, cancel(cluster), within_s=10)
    assert (again["total"], again["fates"]) == (0, {})
    code, text = reassigner(cluster, "cancel", "--everything", "--yes")
    assert (code, "nothing to cancel" in text) == (0, True), text


def test_only_the_selected_requests_topics_and_partitions_are_cancelled(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The others go on to their targets."""
    one, two, three = (make_topic({0: (1, 2), 1: (1, 2)}) for _ in range(3))
    daemons.start(*SOON)
    moving = [(topic, n) for topic in (one, two, three) for n in range(2)]
    with copies_held(cluster, moving):
        by_id = submit_request(cluster, {(one, 0): (3, 4)})
        submit_request(cluster, {(one, 1): (3, 4), **dict.fromkeys(moving[2:], (3, 4))})
        await_adding(cluster, one, 0, 1)
        await_adding(cluster, two, 0, 1)
        await_adding(cluster, three, 0, 1)
        code, text = reassigner(
            cluster, "cancel", by_id, "--topic", two, "--partition", f"{three}-1", "--wait"
        )
        assert (code, "4 rolled back" in text) == (0, True), text
        back = [(one, 0), (two, 0), (two, 1), (three, 1)]
        assert all(cluster.replicas(*p) == [1, 2] for p in back)
        assert is_reassigning(cluster, one)
        assert is_reassigning(cluster, three)
    stay = {(one, 1): (3, 4), (three, 0): (3, 4)}
    await_end(cluster, {**dict.fromkeys(back, (1, 2)), **stay}, within_s=60)


def test_a_move_that_only_adds_and_one_that_only_removes_are_cancelled(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The stock tool of 3.9 skips the first kind; the second is caught before it is confirmed."""
    topic = make_topic({0: (1, 2, 3), 1: (1, 2, 3)})
    home: Targets = {(topic, 0): (1, 2, 3), (topic, 1): (1, 2, 3)}
    daemon = daemons.start("--tenure", "permanent")
    await_tenure(daemon)
    with copies_held(cluster, [(topic, 0)]):
        submit_request(cluster, {(topic, 0): (1, 2, 3, 4)})
        await_adding(cluster, topic, 0)
        cluster.brokers[3].freeze()
        submit_request(cluster, {(topic, 1): (1, 2)})
        eventually(
            lambda: "1" in (cluster.topic(topic) or {}).get("removing_replicas", {}),
            within_s=10,
            every_s=0.02,
        )
        eventually(lambda: cluster.isr(topic, 1) == {1, 2}, within_s=5, every_s=0.02)
        cancelled = cancel(cluster)
        cluster.brokers[3].thaw()
        eventually(lambda: cluster.replicas(topic, 0) == [1, 2, 3], within_s=20)
    await_end(cluster, home, within_s=60)
    assert await_outcome(cluster, cancelled, within_s=10)["fates"] == {"rolled_back": 2}
    assert assignments(writes(cluster), topic, 0)[1:3] == [
        Assignment((1, 2, 3, 4), (4,)),
        Assignment((1, 2, 3, 4), (4,), (4,)),
    ]


def test_the_original_order_is_restored_after_several_steps_under_load(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """An original is gone already and a target replica in sync; no acknowledged record is lost."""
    topic, home, targets = several_steps(make_topic)
    daemons.start(*SOON)
    with Traffic(cluster.bootstrap_servers, {topic: 4}) as traffic:
        with copies_held(cluster, targets, at={topic: held_at(5)}):
            traffic.await_flow()
            request = submit_request(cluster, targets)
            await_second_step(cluster, topic)
            cancelled = cancel(cluster, requests=[request])
            summary = await_outcome(cluster, cancelled, within_s=40)
            assert summary["fates"] == {"rolled_back": 4}
        await_end(cluster, home, within_s=60)
        traffic.await_flow()
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)
    history = writes(cluster)
    for n in range(4):
        went = assignments(history, topic, n)
        assert max(len(a.remaining) for a in went) == 4
        assert went[-1] == Assignment((1, 2, 3))


def test_a_killed_daemon_s_rollback_is_finished_by_the_next(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Kill -9 while an original replica is copied back; a Kafka controller leads in between."""
    topic, home, targets = several_steps(make_topic)
    daemon = daemons.start(*SOON)
    with copies_held(cluster, targets, at={topic: held_at(2, 5)}):
        submit_request(cluster, targets)
        await_second_step(cluster, topic)
        cancelled = cancel(cluster)
        eventually(
            lambda: all(2 in adding(cluster, topic, n) for n in range(4)),
            within_s=30,
            what="the original replica is copied back",
        )
        daemon.kill()
        await_broker_controller(cluster, within_s=20)
        assert cluster.zk.exists(CANCEL) is not None
        daemon.start()
        await_tenure(daemon)
    await_end(cluster, home, within_s=60)
    assert await_outcome(cluster, cancelled, within_s=20)["fates"] == {"rolled_back": 4}
    assert cluster.zk.exists(CANCEL) is None


def test_a_second_cancel_while_one_runs_is_added_to_it(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """One znode, one outcome; the addition begins at once and the first rollback continues."""
    topic, home, targets = several_steps(make_topic)
    other = make_topic({0: (1, 2)})
    daemons.start(*SOON)
    held = [*targets, (other, 0)]
    with copies_held(cluster, held, at={topic: held_at(2, 5)}, records=LONG_HOLDING_RECORDS):
        first = submit_request(cluster, targets)
        second = submit_request(cluster, {(other, 0): (1, 4)})
        await_second_step(cluster, topic)
        cancelled = cancel(cluster, requests=[first], reason="one")
        eventually(lambda: all(2 in adding(cluster, topic, n) for n in range(4)), within_s=30)
        code, text = reassigner(cluster, "cancel", second, "--reason", "two")
        assert code == 0, text
        eventually(lambda: cluster.replicas(other, 0) == [1, 2], within_s=20)
        assert cluster.zk.exists(CANCEL).version == 1
    await_end(cluster, {**home, (other, 0): (1, 2)}, within_s=60)
    summary = await_outcome(cluster, cancelled, within_s=20)
    assert summary["fates"] == {"rolled_back": 5}
    assert summary["reason"] == "one; two"


def test_scope_all_moves_back_what_was_finished(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Of a request of which one partition is done and one is on its way, both come home."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    daemons.start(*SOON)
    with copies_held(cluster, [(topic, 1)], at={topic: "1:4"}):
        request = submit_request(cluster, {(topic, 0): (3, 4), (topic, 1): (2, 4)})
        await_adding(cluster, topic, 1)
        eventually(lambda: cluster.isr(topic, 0) == {3, 4}, within_s=20)
        eventually(lambda: cluster.zk.exists(f"{REASSIGNMENTS}/{topic}/0") is None, within_s=20)
        code, text = reassigner(cluster, "undo", request, "--throttle", "50MB", "--wait")
        assert code == 0, text
        assert "1 rolled back, 1 finished ones moved back" in text
        await_end(cluster, {(topic, 0): (1, 2), (topic, 1): (1, 2)}, within_s=10)


def several_steps(make_topic: MakeTopic) -> tuple[str, Targets, Targets]:
    """Return a topic of four partitions, where they are, and a plan whose second step adds 5."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2, 3)), DURABLE)
    home = {(topic, n): (1, 2, 3) for n in range(4)}
    return topic, home, dict.fromkeys(home, (3, 4, 5))


def held_at(*brokers: int) -> str:
    """Return the replicas of four partitions on these brokers, as a throttle lists them."""
    return ",".join(f"{n}:{broker}" for n in range(4) for broker in brokers)


def adding(cluster: Cluster, topic: str, partition: int) -> list[int]:
    """Return what is being added to a partition."""
    named = (cluster.topic(topic) or {}).get("adding_replicas", {})
    return list(named.get(str(partition), ()))


def await_adding(cluster: Cluster, topic: str, *partitions: int) -> None:
    """Wait until these partitions have a step under way that adds a replica."""
    eventually(
        lambda: all(adding(cluster, topic, n) for n in partitions),
        within_s=20,
        every_s=0.02,
        what=lambda: f"a step of {topic} {partitions} began; it is {cluster.topic(topic)}",
    )


def await_second_step(cluster: Cluster, topic: str) -> None:
    """Wait until all four partitions have 4 in sync, 2 dropped, and copy 5."""
    eventually(
        lambda: all(cluster.replicas(topic, n) == [1, 3, 4, 5] for n in range(4)),
        within_s=40,
        what=lambda: f"the second step is under way; it is {cluster.topic(topic)}",
    )
