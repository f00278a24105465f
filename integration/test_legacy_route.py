"""
Plans in ``/admin/reassign_partitions`` on real brokers: accepted, edited, refused, taken up late.

Where a test is about what the daemon makes of a plan, its tenure is permanent: under ``on_demand``
a Kafka controller may begin with a plan in the moment before the claim.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import (
    LEGACY_PLAN,
    Daemons,
    await_end,
    await_tenure,
    copies_held,
    is_reassigning,
    outcome,
    plan_of,
    specs,
    submit,
)
from integration.rigs.waiting import eventually

ONE_AT_A_TIME = ("--tenure", "permanent", "--max-partitions-in-flight", "1")


@pytest.mark.any_cluster
def test_a_plan_written_before_the_daemon_starts_is_taken_up(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A Kafka controller has begun it with all replicas at once: it is adopted and finished."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    targets = {(topic, 0): (3, 4, 5), (topic, 1): (2, 3, 4)}
    with copies_held(cluster, targets):
        submit(cluster, plan_of(targets))
        eventually(lambda: is_reassigning(cluster, topic), within_s=10)
        await_tenure(daemons.start("--tenure-linger", "1"))
    await_end(cluster, targets, within_s=60)


def test_an_operator_adds_entries_and_takes_out_what_has_not_begun(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """One partition is in flight: an added entry is accepted, a removed waiting one is dropped."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2)))
    moving, waiting, removed, added = ((topic, n) for n in range(4))
    await_tenure(daemons.start(*ONE_AT_A_TIME, "--legacy-mode", "mirror"))
    with copies_held(cluster, [moving]):
        request = submit(cluster, plan_of({moving: (1, 3), waiting: (1, 4), removed: (1, 5)}))
        eventually(lambda: is_reassigning(cluster, topic) and len(specs(cluster)) == 3, within_s=20)
        edited = plan_of({moving: (1, 3), waiting: (1, 4), added: (2, 5)})
        cluster.zk.set(LEGACY_PLAN, json.dumps(edited).encode())
        expected = {f"{topic}-{n}" for n in (0, 1, 3)}
        eventually(lambda: specs(cluster) == expected, within_s=20, what=f"goals are {expected}")
    targets = {moving: (1, 3), waiting: (1, 4), removed: (1, 2), added: (2, 5)}
    await_end(cluster, targets, within_s=60)
    assert reasons(outcome(cluster, request)) == {f"{topic}-2 -> [1,5]": "dropped_by_operator"}


def test_invalid_entries_are_refused_with_a_reason_while_the_good_ones_are_carried_out(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Each wrong entry of a plan is in the outcome, the log and the metrics; the others move."""
    topic = make_topic(dict.fromkeys(range(8), (1, 2)), {"min.insync.replicas": "2"})
    good: dict[tuple[str, int], tuple[int, ...]] = {(topic, 0): (3, 4), (topic, 1): (2, 5)}
    plan = plan_of(
        {
            **good,
            ("no-such-topic", 0): (1, 2),
            (topic, 99): (1, 2),
            (topic, 2): (1, 99),
            (topic, 3): (3, 3),
            (topic, 4): (),
            (topic, 5): (-1, 2),
            (topic, 6): (1,),
        }
    )
    plan["partitions"] += [
        {"topic": topic, "partition": "7", "replicas": [1, 3]},
        {"topic": topic, "partition": 10**30, "replicas": [1, 3]},
        {"topic": topic, "partition": 7, "replicas": [10**30, 3]},
        {"topic": topic, "partition": 7, "replicas": "1,3"},
        {"topic": topic, "partition": 7, "replicas": [1.5, None]},
        {"topic": 7, "partition": 7, "replicas": [1, 3]},
        {"topic": "../" + topic, "partition": 7, "replicas": [1, 3]},
        {"topic": topic, "partition": 7},
        ["not", "an", "entry"],
        None,
    ]
    daemon = daemons.start("--tenure", "permanent")
    await_tenure(daemon)
    request = submit(cluster, plan)
    untouched = {(topic, n): (1, 2) for n in range(2, 8)}
    await_end(cluster, {**good, **untouched}, within_s=40)
    summary = outcome(cluster, request)
    assert summary is not None
    assert summary["done"] == len(good)
    assert len(summary["refused"]) == len(plan["partitions"]) - len(good)
    assert all(row["reason"] and row["detail"] for row in summary["refused"])
    found = reasons(summary)
    assert found["no-such-topic-0 -> [1,2]"] == "unknown_partition"
    assert found[f"{topic}-99 -> [1,2]"] == "unknown_partition"
    assert found[f"{topic}-2 -> [1,99]"] == "unknown_broker"
    assert found[f"{topic}-6 -> [1]"] == "below_min_insync_replicas"
    assert list(found.values()).count("malformed") == len(summary["refused"]) - 4
    assert logged_refusals(daemon) == len(summary["refused"])
    assert 'reassigner_refusals_total{reason="unknown_broker"} 1.0' in daemon.get("/metrics")[1]


@pytest.mark.parametrize(
    "content",
    [b"not json", b"", b"\xff\xfe\x00", b'{"version":7,"partitions":[]}', b"[" * 100_000],
    ids=["text", "empty", "bytes", "future-version", "deep"],
)
def test_an_unreadable_plan_is_kept_aside_and_the_next_one_works(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, content: bytes
) -> None:
    """What is no plan is deleted, its bytes are in the outcome, and nothing stops."""
    topic = make_topic({0: (1, 2)})
    await_tenure(daemons.start("--tenure", "permanent"))
    request = submit(cluster, content)
    eventually(lambda: cluster.zk.exists(LEGACY_PLAN) is None, within_s=10)
    summary = outcome(cluster, request)
    assert summary is not None
    assert [row["reason"] for row in summary["refused"]] == ["unreadable"]
    assert base64.b64decode(summary["raw"]) == content
    targets = {(topic, 0): (2, 3)}
    submit(cluster, plan_of(targets))
    await_end(cluster, targets, within_s=30)


def reasons(summary: dict[str, Any] | None) -> dict[str, str]:
    """Return why each entry was refused, by its text."""
    return {row["entry"]: row["reason"] for row in (summary or {"refused": []})["refused"]}


def logged_refusals(daemon: Daemon) -> int:
    """Return how many refusals the log has."""
    lines = (json.loads(line) for line in daemon.log.read_text().splitlines() if line[:1] == "{")
    return sum(line.get("event") == "refused" for line in lines)
