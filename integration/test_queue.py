"""
The queue of KIP-236 on real brokers, and what requests do to each other: priorities, conflicts.

The order of what happened is read from ZooKeeper's transaction log.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import (
    KILL_SWITCH,
    QUEUE,
    await_moving,
    begun_in_order,
    ended,
    enqueue,
    most_at_once,
    plan_file,
    said,
)
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_end,
    await_tenure,
    copies_held,
    is_reassigning,
    plan_of,
    submit,
)
from integration.rigs.requests import CANCEL, submit_request
from integration.rigs.transaction_log import Assignment, assignments, writes
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

IN_PROGRESS, REFUSED = 2, 3


def lengths_of_queue(cluster: Cluster, since: int) -> list[int | None]:
    """Return how many entries the queue ever had, one after the other; None: it was deleted."""
    return [
        None if write.data is None else len(write.content["partitions"])
        for write in writes(cluster)
        if write.path == QUEUE and write.zxid >= since
    ]


@pytest.mark.smoke
def test_the_queue_is_drained_as_capacity_allows(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """Two slots: two entries leave, the others as those end; the znode goes with the last."""
    topic = make_topic(dict.fromkeys(range(5), (1, 2)))
    targets = {(topic, n): (1, 3 + n % 3) for n in range(5)}
    first_two = [(topic, 0), (topic, 1)]
    daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "2")
    with copies_held(cluster, first_two):
        queued = said(cluster, "queue", "add", plan_file(tmp_path, targets))
        request = queued.partition("Queued as ")[2].partition(":")[0]
        await_moving(cluster, first_two)
        listed = json.loads(said(cluster, "queue", "list", "--json", code=IN_PROGRESS))
        assert listed["request"] == request
        assert [p["partition"] for p in listed["partitions"]] == [2, 3, 4]
        czxid = int(request.removeprefix("queue-"), 16)
    await_end(cluster, targets, within_s=60)
    assert ended(cluster, request)["done"] == len(targets)
    lengths = lengths_of_queue(cluster, czxid)
    assert (lengths[0], lengths[-1]) == (5, None)
    assert lengths == sorted(lengths, key=lambda n: -1 if n is None else n, reverse=True)
    history = writes(cluster)
    assert most_at_once(history, topic) == 2
    assert set(begun_in_order(history, [topic])[:2]) == set(first_two)
    assert cluster.zk.exists(QUEUE) is None


@pytest.mark.parametrize("route", ["request", "legacy"])
def test_an_entry_for_a_partition_in_flight_first_undoes_the_step_then_takes_the_new_target(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, route: str
) -> None:
    """KIP-236, whatever route it is moved by; what had it before says that it was superseded."""
    topic = make_topic({0: (1, 2)})
    before, after = {(topic, 0): (1, 3)}, {(topic, 0): (1, 4)}
    # With the role taken before, no Kafka controller begins the legacy plan in its own way.
    await_tenure(daemons.start("--tenure", "permanent"))
    with copies_held(cluster, before):
        if route == "request":
            began = submit_request(cluster, before)
        else:
            began = submit(cluster, plan_of(before))
        await_moving(cluster, before)
        queued = enqueue(cluster, plan_of(after))
    await_end(cluster, after, within_s=60)
    assert ended(cluster, queued)["done"] == 1
    assert ended(cluster, began)["fates"] == {"superseded": 1}
    went = assignments(writes(cluster), topic, 0)
    undone = Assignment((1, 2, 3), (3,), (3,))
    assert went[:3] == [Assignment((1, 2)), Assignment((1, 2, 3), (3,)), undone]
    assert all(3 not in assignment.remaining for assignment in went[2:])
    assert all(4 not in assignment.replicas for assignment in went[:3])


def test_an_entry_for_a_partition_that_is_rolled_back_takes_it_over(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The way back is left for the new target; the cancellation is complete with that."""
    topic = make_topic({0: (1, 2)})
    first, last = {(topic, 0): (3, 4)}, {(topic, 0): (1, 5)}
    daemons.start("--tenure-linger", "1")
    with copies_held(cluster, first) as let_go:
        request = submit_request(cluster, first)
        await_moving(cluster, first)
        said(cluster, "pause")
        let_go()
        eventually(
            lambda: cluster.replicas(topic, 0) == [1, 2, 3] and not is_reassigning(cluster, topic),
            within_s=60,
            what="the first step ended",
        )
    with copies_held(cluster, first):
        said(cluster, "resume")
        eventually(lambda: 4 in cluster.replicas(topic, 0), within_s=30, what="4 is added")
        assert 2 not in cluster.isr(topic, 0)
        said(cluster, "cancel", request)
        eventually(
            lambda: (cluster.topic(topic) or {}).get("adding_replicas") == {"0": [2]},
            within_s=30,
            what=lambda: f"2 is copied back: {cluster.topic(topic)}",
        )
        queued = enqueue(cluster, plan_of(last))
        eventually(lambda: cluster.zk.exists(QUEUE) is None, within_s=10, what="it is taken")
    await_end(cluster, last, within_s=90)
    assert ended(cluster, queued)["done"] == 1
    assert ended(cluster, request)["fates"] == {"superseded": 1}
    assert cluster.zk.exists(CANCEL) is None


def test_a_queue_with_malformed_content_is_reported_and_deleted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its valid entries are carried out; malformed content is kept in the outcome."""
    topic = make_topic({0: (1, 2)})
    good = {(topic, 0): (1, 3)}
    plan = plan_of({**good, (topic, 7): (1, 2)})
    plan["partitions"].append({"topic": topic, "partition": "x", "replicas": [1]})
    daemons.start("--tenure-linger", "1")
    partly = ended(cluster, enqueue(cluster, plan))
    assert (partly["total"], partly["done"]) == (3, 1)
    reasons = sorted(refusal["reason"] for refusal in partly["refused"])
    assert reasons == ["malformed", "unknown_partition"]
    await_end(cluster, good, within_s=30)
    wholly = ended(cluster, enqueue(cluster, b"nonsense"))
    assert [r["reason"] for r in wholly["refused"]] == ["unreadable"]
    assert b64decode(wholly["raw"]) == b"nonsense"
    assert cluster.zk.exists(QUEUE) is None


def test_a_request_of_higher_priority_goes_before_what_waits(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """As it was submitted, or as it was turned since; what is in flight is not pushed out."""
    low, high, turned = (make_topic(dict.fromkeys(range(2), (1, 2))) for _ in range(3))
    plans: list[Targets] = [{(t, 0): (1, 3), (t, 1): (1, 4)} for t in (low, high, turned)]
    daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "1")
    with copies_held(cluster, [(low, 0)]):
        requests = [submit_request(cluster, plans[0])]
        await_moving(cluster, [(low, 0)])
        requests.append(submit_request(cluster, plans[1], priority=5))
        requests.append(submit_request(cluster, plans[2]))
        said(cluster, "limits", "--request", requests[2], "--priority", "9")
    for plan in plans:
        await_end(cluster, plan, within_s=60)
    assert all(ended(cluster, request)["done"] == 2 for request in requests)
    assert begun_in_order(writes(cluster), [low, high, turned]) == [
        (low, 0),
        (turned, 0),
        (turned, 1),
        (high, 0),
        (high, 1),
        (low, 1),
    ]


def test_the_verbs_add_list_remove_and_clear_what_waits(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """While everything is paused nothing leaves the queue; no other is written meanwhile."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    targets = {(topic, n): (1, 3) for n in range(3)}
    file = plan_file(tmp_path, targets)
    said(cluster, "pause", "--reason", "maintenance")
    daemons.start("--tenure-linger", "1")
    stock = ("stock", "--reassignment-json-file", file)
    assert '"replicas":[1,2]' in said(cluster, *stock, "--generate-queue")
    assert "Queued as queue-" in said(cluster, *stock, "--execute-queue")
    assert "exists already" in said(cluster, "queue", "add", file, code=REFUSED)
    said(cluster, *stock, "--verify-queue", code=IN_PROGRESS)
    assert "3 partitions in the queue" in said(cluster, "queue", "list", code=IN_PROGRESS)
    said(cluster, "queue", "remove", f"{topic}-1")
    assert "Not in the queue" in said(cluster, "queue", "remove", f"{topic}-1", code=REFUSED)
    assert f"{topic}-1" not in said(cluster, "queue", "list", code=IN_PROGRESS)
    said(cluster, "queue", "clear")
    assert said(cluster, "queue", "list") == "The queue is empty.\n"
    said(cluster, "disable")
    assert KILL_SWITCH in said(cluster, "queue", "add", file, code=REFUSED)
    said(cluster, "enable")
    said(cluster, "queue", "add", file)
    said(cluster, "resume")
    await_end(cluster, targets, within_s=60)
    assert said(cluster, *stock, "--verify-queue").count(topic) >= 1


def test_conflicts_are_shown_before_anything_is_submitted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """What a request or the queue would take over, what would be refused; nothing is written."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    requested, legacy = {(topic, 0): (1, 3)}, {(topic, 1): (1, 3)}
    file = plan_file(tmp_path, {(topic, n): (1, 4) for n in range(3)})
    daemons.start("--tenure-linger", "1")
    with copies_held(cluster, [*requested, *legacy]):
        by_request, by_znode = submit_request(cluster, requested), submit(cluster, plan_of(legacy))
        await_moving(cluster, [*requested, *legacy])
        previewed = said(cluster, "execute", file, "--dry-run", code=REFUSED)
        taken_over = f"would supersede 1 partition of {by_request}: {topic}-0"
        assert taken_over in previewed
        refused = f"would be refused: 1 partition of request {by_znode}, which has another route"
        assert f"{refused}: {topic}-1" in previewed
        queued = said(cluster, "queue", "add", file, "--dry-run")
        assert taken_over in queued
        assert f"would supersede 1 partition of request {by_znode}: {topic}-1" in queued
        assert cluster.zk.exists(QUEUE) is None
    await_end(cluster, {**requested, **legacy}, within_s=60)
    assert cluster.replicas(topic, 2) == [1, 2]
