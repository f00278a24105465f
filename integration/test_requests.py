"""
Requests on real brokers: accepted, carried out side by side, changed on the way, refused in part.

What stood in ZooKeeper at each moment is read from its transaction log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import (
    REASSIGNMENTS,
    Daemons,
    await_broker_controller,
    await_end,
    await_tenure,
    children,
    copies_held,
    holders,
    is_reassigning,
    outcome,
    plan_of,
    specs,
    submit,
)
from integration.rigs.recovery_cells import nothing_lost
from integration.rigs.requests import (
    REQUESTS,
    await_outcome,
    endings,
    reassigner,
    request_of,
    submit_request,
)
from integration.rigs.transaction_log import Assignment, Write, assignments, writes
from integration.rigs.waiting import eventually

SOON: Final = ("--tenure-linger", "1")
REFUSED: Final = 3
MANY: Final = 3_000
EACH: Final = 500
"""Partitions of a topic; a Kafka controller takes long to create more at once."""
FILLERS: Final = 45_000
"""Entries of no partition that exists: with them a plan is larger than one znode may be."""


@pytest.mark.any_cluster
@pytest.mark.acceptance
def test_several_requests_at_once_are_accepted_then_deleted(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """In every form; each partition is durable below the goals before its request's znode goes."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2)))
    daemons.start(*SOON)
    targets = {(topic, 0): (1, 3), (topic, 1): (4, 2), (topic, 2): (5, 3), (topic, 3): (2, 1)}
    first, second, third, fourth = ({p: to} for p, to in targets.items())
    names = [
        submit_request(cluster, first),
        submit_request(cluster, plan_of(second)),
        submit_request(cluster, request_of(third)["assignments"]),
        submit_request(cluster, {**request_of(fourth), "legacy": True}),
    ]
    await_end(cluster, targets, within_s=40)
    for name in names:
        summary = await_outcome(cluster, name, within_s=10)
        assert (summary["kind"], summary["total"], summary["done"]) == ("request", 1, 1)
    assert cluster.zk.get_children(REQUESTS) == []
    history = writes(cluster)
    for number, name in enumerate(names):
        accepted = first_write(history, f"{REASSIGNMENTS}/{topic}/{number}")
        assert accepted.content["request"] == name
        assert accepted.zxid <= deletion(history, f"{REQUESTS}/{name}").zxid
    await_broker_controller(cluster, within_s=15)


@pytest.mark.any_cluster
def test_execute_submits_a_plan_and_follows_it_to_its_end(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """It prints the way back before; ``verify`` agrees afterwards, by file and by id."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets = {(topic, 0): (3, 4), (topic, 1): (2, 1)}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of(targets)))
    daemons.start(*SOON)
    code, text = reassigner(cluster, "execute", str(plan), "--wait", "--requested-by", "ann")
    assert code == 0, text
    assert json.dumps(plan_of(dict.fromkeys(targets, (1, 2))), separators=(",", ":")) in text
    await_end(cluster, targets, within_s=10)
    (request,) = {word.strip(":.,;`") for word in text.split() if word.startswith("request_")}
    assert await_outcome(cluster, request, within_s=10)["requested_by"] == "ann"
    for what in (str(plan), request):
        code, text = reassigner(cluster, "verify", what)
        assert code == 0, text


def test_a_dry_run_says_what_acceptance_says(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """By the brokers' effective settings, such as ``min.insync.replicas``."""
    topic = make_topic({0: (1, 2), 1: (1, 2)}, {"min.insync.replicas": "2"})
    targets = {(topic, 0): (3,), (topic, 1): (2, 3)}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of(targets)))
    command = ("execute", str(plan), "--allow-replication-factor-change")
    code, preview = reassigner(cluster, *command, "--dry-run")
    why = "1 replica, fewer than min.insync.replicas (2): producers would fail"
    assert code == REFUSED, preview
    assert f"{topic}-0 would be refused: {why}" in preview
    assert preview.count("would be refused") == 1
    assert not children(cluster, REQUESTS)
    daemons.start(*SOON)
    code, text = reassigner(cluster, *command, "--wait")
    assert code == REFUSED, text
    assert f"{topic}-0 -> [3] was refused: {why}" in text


@pytest.mark.any_cluster
def test_requests_made_while_no_daemon_ran_are_carried_out(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """They wait in ZooKeeper; a Kafka controller does not see them."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets = {(topic, 0): (3, 4), (topic, 1): (2, 5)}
    names = [submit_request(cluster, {p: to}) for p, to in targets.items()]
    daemons.start(*SOON)
    await_end(cluster, targets, within_s=40)
    assert [await_outcome(cluster, n, within_s=10)["done"] for n in names] == [1, 1]


@pytest.mark.acceptance
def test_a_change_in_flight_takes_the_drop_set_of_kip_236(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """[1,2] to [2,3], in flight changed to [2,4]: broker 3 goes at once, czxid stays."""
    topic = make_topic({0: (1, 2)})
    spec = f"{REASSIGNMENTS}/{topic}/0"
    daemons.start(*SOON)
    with copies_held(cluster, [(topic, 0)]):
        first = submit_request(cluster, {(topic, 0): (2, 3)})
        eventually(lambda: 3 in holders(cluster, topic, 0), within_s=20)
        before = cluster.zk.exists(spec)
        assert before.mzxid == before.czxid
        second = submit_request(cluster, {(topic, 0): (2, 4)})
        eventually(
            lambda: holders(cluster, topic, 0) == {1, 2, 4}, within_s=20, what="3 went, 4 came"
        )
        changed = cluster.zk.exists(spec)
        assert changed.czxid == before.czxid
        assert changed.mzxid > changed.czxid
        assert cluster.read(spec)["original"] == [1, 2]  # type: ignore[index]
        assert cluster.isr(topic, 0) == {1, 2}
    await_end(cluster, {(topic, 0): (2, 4)}, within_s=60)
    assert assignments(writes(cluster), topic, 0) == [
        Assignment((1, 2)),
        Assignment((1, 2, 3), (3,)),
        Assignment((1, 2, 3), (3,), (3,)),
        Assignment((1, 2, 4), (4,)),
        Assignment((2, 4, 1), (), (1,)),
        Assignment((2, 4)),
    ]
    assert await_outcome(cluster, first, within_s=10)["fates"] == {"superseded": 1}
    assert await_outcome(cluster, second, within_s=10)["done"] == 1


@pytest.mark.acceptance
def test_the_legacy_route_and_requests_never_mix_on_one_partition(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """In both directions: the first route keeps the partition, the other is refused."""
    topic = make_topic({0: (1, 2), 1: (1, 2), 2: (1, 2)})
    by_plan, by_request, free = ((topic, n) for n in range(3))
    await_tenure(daemons.start("--tenure", "permanent"))
    with copies_held(cluster, [by_plan, by_request]):
        requested = submit_request(cluster, {by_request: (1, 3)})
        eventually(lambda: len(specs(cluster)) == 1, within_s=20)
        plan = submit(cluster, plan_of({by_plan: (1, 4), by_request: (1, 5)}))
        eventually(lambda: len(specs(cluster)) == 2, within_s=20)
        late = submit_request(cluster, {by_plan: (1, 5), free: (2, 3)})
        refused = eventually(lambda: refusals(cluster, late), within_s=20)
        assert refused == {f"{topic}-0 -> [1,5]": "in_flight_by_other_route"}
    await_end(cluster, {by_plan: (1, 4), by_request: (1, 3), free: (2, 3)}, within_s=60)
    assert await_outcome(cluster, requested, within_s=10)["done"] == 1
    for request, other in ((plan, requested), (late, plan)):
        summary = await_outcome(cluster, request, within_s=10)
        assert (summary["total"], summary["done"]) == (2, 1)
        (row,) = summary["refused"]
        assert row["reason"] == "in_flight_by_other_route"
        assert other in row["detail"]


def test_a_partly_bad_request_does_its_good_part(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """And says which entries it refused."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2)))
    daemons.start(*SOON)
    document = request_of({(topic, 0): (1, 3), (topic, 1): (1, 99), (topic, 77): (1, 2)})
    document["assignments"][topic]["2"] = "1,2"
    document["assignments"]["no-such-topic"] = {"0": [1, 2]}
    request = submit_request(cluster, document)
    await_end(cluster, {(topic, 0): (1, 3), (topic, 1): (1, 2), (topic, 2): (1, 2)}, within_s=40)
    summary = await_outcome(cluster, request, within_s=10)
    assert (summary["total"], summary["done"]) == (5, 1)
    assert sorted(row["reason"] for row in summary["refused"]) == [
        "malformed",
        "unknown_broker",
        "unknown_partition",
        "unknown_partition",
    ]


def test_an_atomic_request_with_one_bad_entry_starts_nothing(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its good entries are refused with it; one without a bad entry is carried out."""
    topic = make_topic({0: (1, 2), 1: (1, 2), 2: (1, 2)})
    daemons.start(*SOON)
    good, bad = {(topic, 0): (3, 4), (topic, 1): (3, 4)}, {(topic, 9): (1, 2)}
    refused = submit_request(cluster, {**good, **bad}, atomic=True)
    summary = await_outcome(cluster, refused, within_s=30)
    assert (summary["total"], summary["done"]) == (3, 0)
    assert {row["reason"] for row in summary["refused"]} == {"unknown_partition", "atomic"}
    assert assignments(writes(cluster), topic, 0) == [Assignment((1, 2))]
    request = submit_request(cluster, good, atomic=True)
    await_end(cluster, good, within_s=40)
    assert await_outcome(cluster, request, within_s=10)["done"] == 2


def test_the_parts_of_a_request_are_one_request(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It has one id and one outcome, and does not end before its last part is there."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    daemon = daemons.start(*SOON)
    whole = {"part_of": "the-whole", "parts": 2, "reason": "two parts", "requested_by": "ann"}
    first = submit_request(cluster, {(topic, 0): (1, 3)}, **whole)
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=40)
    assert outcome(cluster, "the-whole") is None
    second = submit_request(cluster, {(topic, 1): (4, 2)}, **whole)
    await_end(cluster, {(topic, 1): (4, 2)}, within_s=40)
    summary = await_outcome(cluster, "the-whole", within_s=10)
    assert (summary["total"], summary["done"]) == (2, 2)
    assert (summary["reason"], summary["requested_by"]) == ("two parts", "ann")

    def logged() -> dict[str, int]:
        return {r["id"]: r["partitions"]["total"] for r in daemon.status()["requests"]}

    # Logged from time to time, after the outcome is written.
    eventually(lambda: logged().get("the-whole") == 2, within_s=10, what="both parts are logged")
    assert not logged().keys() & {first, second}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_plan_too_large_for_one_znode_is_one_request(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """``execute`` splits it; there is one id, one progress, one cancel and one outcome."""
    home = {n: (n % 5 + 1,) for n in range(EACH)}
    topics = [make_topic(home) for _ in range(MANY // EACH)]
    there = {(topic, n): at for topic in topics for n, at in home.items()}
    moving = {(topics[0], n): (n % 5 + 1, (n + 1) % 5 + 1) for n in range(3)}
    absent = {(topics[0], EACH + n): (1, 2, 3) for n in range(FILLERS)}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of({**there, **moving, **absent})))
    daemon = daemons.start(*SOON)
    submitted_before = {w.path for w in writes(cluster) if w.path.startswith(f"{REQUESTS}/")}
    with copies_held(cluster, moving):
        options = ("--timeout", "240", "--reason", "large", "--allow-replication-factor-change")
        code, text = reassigner(cluster, "execute", str(plan), *options)
        assert code == 3, text[-2000:]
        (shown,) = daemon.status()["requests"]
        counts = shown["partitions"]
        assert (counts["total"], counts["done"]) == (MANY + FILLERS, MANY - 3)
        assert counts["refused"] == FILLERS
        submitted = {w.path for w in writes(cluster) if w.path.startswith(f"{REQUESTS}/")}
        assert len(submitted - submitted_before) >= 2
        code, text = reassigner(cluster, "cancel", shown["id"], "--wait")
        assert code == 0, text
    summary = await_outcome(cluster, shown["id"], within_s=30)
    assert (summary["total"], summary["done"]) == (MANY + FILLERS, MANY - 3)
    assert summary["fates"] == {"rolled_back": 3}
    assert len(summary["refused"]) + summary["refused_left_out"] == FILLERS
    await_end(cluster, {moved: there[moved] for moved in moving}, within_s=30)


@pytest.mark.acceptance
def test_failover_case_2_of_kip_236_requests_made_while_no_daemon_led(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A killed daemon's successor takes up what was asked for meanwhile, also of what moves."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)), {"min.insync.replicas": "2"})
    daemon = daemons.start(*SOON)
    targets = {(topic, 0): (1, 3), (topic, 1): (1, 4), (topic, 2): (5, 2)}
    with nothing_lost(cluster, {topic: 3}):
        with copies_held(cluster, [(topic, 0), (topic, 1)]):
            before = submit_request(cluster, {(topic, 0): (1, 3), (topic, 1): (1, 3)})
            eventually(lambda: is_reassigning(cluster, topic), within_s=20)
            daemon.kill()
            await_broker_controller(cluster, within_s=20)
            change = submit_request(cluster, {(topic, 1): (1, 4)})
            new = submit_request(cluster, {(topic, 2): (5, 2)})
            daemon.start()
            eventually(lambda: not cluster.zk.get_children(REQUESTS), within_s=30)
        await_end(cluster, targets, within_s=60)
    assert await_outcome(cluster, before, within_s=10)["fates"] == {"superseded": 1}
    assert await_outcome(cluster, change, within_s=10)["done"] == 1
    assert await_outcome(cluster, new, within_s=10)["done"] == 1
    assert endings(cluster, before)[f"{topic}-1"] == ("superseded", f"by {change}")


def refusals(cluster: Cluster, request: str) -> dict[str, Any]:
    """Return why each entry of a request was refused so far, by its text."""
    _code, text = reassigner(cluster, "list", request, "--json")
    return {row["entry"]: row["reason"] for row in json.loads(text).get("refused", ())}


def first_write(history: list[Write], path: str) -> Write:
    """Return the creation of a znode."""
    return next(w for w in history if w.path == path and w.data is not None)


def deletion(history: list[Write], path: str) -> Write:
    """Return the deletion of a znode."""
    return next(w for w in history if w.path == path and w.data is None)
