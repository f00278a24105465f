"""
The kill switch on real brokers: no reassignment begins while it is on, those in flight continue.

What a daemon wrote is read from ZooKeeper's transaction log, so "never" means never.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.operator_actions import (
    KILL_SWITCH,
    QUEUE,
    await_moving,
    begun_in_order,
    ended,
    enqueue,
    moving,
    plan_file,
    said,
)
from integration.rigs.plans import LEGACY_PLAN, Daemons, await_end, copies_held, plan_of, submit
from integration.rigs.requests import submit_request
from integration.rigs.transaction_log import writes
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

REFUSED = 3
WHY = f"reassignments are disabled: {KILL_SWITCH} exists"


def start(daemons: Daemons, *options: str) -> Daemon:
    """Start a daemon that gives the role back soon."""
    return daemons.start("--tenure-linger", "1", *options)


@pytest.mark.acceptance
def test_new_work_is_refused_with_the_reason_and_reassignments_in_flight_continue(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """By every route; and once it is enabled, new work is taken again."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    begun, new = {(topic, 0): (3, 4)}, {(topic, 1): (1, 4)}
    start(daemons)
    with copies_held(cluster, begun):
        first = submit_request(cluster, begun)
        await_moving(cluster, begun)
        said(cluster, "disable", "--reason", "incident 42", "--requested-by", "ann")
        refused = ended(cluster, submit_request(cluster, new, requested_by="bob"))
        assert (refused["done"], refused["requested_by"]) == (0, "bob")
        assert [(r["reason"], r["detail"]) for r in refused["refused"]] == [("disabled", WHY)]
        legacy = ended(cluster, submit(cluster, plan_of({(topic, 2): (1, 5)})))
        assert [(r["reason"], r["detail"]) for r in legacy["refused"]] == [("disabled", WHY)]
        output = said(cluster, "execute", plan_file(tmp_path, new), code=REFUSED)
        assert "by ann: incident 42" in output
        assert moving(cluster, topic) == {(topic, 0)}
    await_end(cluster, begun, within_s=60)
    assert ended(cluster, first)["done"] == 1
    assert begun_in_order(writes(cluster), [topic]) == [(topic, 0)]
    said(cluster, "enable")
    submit_request(cluster, new)
    await_end(cluster, {**begun, **new}, within_s=30)


def test_without_the_role_new_work_is_refused_as_well(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Nothing of Kafka's has to be written for that, so the controller is left alone."""
    topic = make_topic({0: (1, 2)})
    said(cluster, "disable")
    daemon = start(daemons)
    broker = cluster.controller_broker()
    assert broker is not None
    refused = ended(cluster, submit_request(cluster, {(topic, 0): (1, 3)}))
    assert [r["reason"] for r in refused["refused"]] == ["disabled"]
    assert not daemon.status()["tenure"]["held"]
    assert cluster.controller_broker() == broker


def test_the_switch_is_on_whatever_stands_in_it(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It may be made by hand before any daemon runs; deleted by hand it is off."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (1, 3)}
    cluster.zk.create(KILL_SWITCH, b"\xff\x00 nonsense")
    request = submit_request(cluster, targets)
    start(daemons)
    assert [r["reason"] for r in ended(cluster, request)["refused"]] == ["disabled"]
    cluster.zk.delete(KILL_SWITCH)
    assert ended(cluster, submit_request(cluster, targets))["done"] == 1


def test_what_is_accepted_but_has_not_begun_waits_until_it_is_enabled(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """All steps of what began are made; the others say what they wait for."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    begun = {(topic, 0): (3, 4)}
    rest = {(topic, 1): (1, 4), (topic, 2): (1, 5)}
    daemon = start(daemons, "--max-partitions-in-flight", "1")
    with copies_held(cluster, begun):
        submit_request(cluster, {**begun, **rest})
        await_moving(cluster, begun)
        said(cluster, "disable")
        queued = enqueue(cluster, plan_of({(topic, 0): (1, 2)}))
    eventually(lambda: cluster.replicas(topic, 0) == [3, 4], within_s=60, what="the first ended")
    eventually(
        lambda: {w["blocked_on"]["by"] for w in daemon.status()["waiting"]} == {"kill_switch"},
        within_s=20,
        what=lambda: f"the kill switch is reported: {daemon.status()['waiting']}",
    )
    assert daemon.status()["partitions"]["waiting"] == len(rest)
    assert begun_in_order(writes(cluster), [topic]) == [(topic, 0)]
    assert len((cluster.read(QUEUE) or {})["partitions"]) == 1, "the queue stands still"
    said(cluster, "enable")
    await_end(cluster, {**rest, (topic, 0): (1, 2)}, within_s=60)
    assert ended(cluster, queued)["done"] == 1


def test_legacy_entries_have_the_keys_of_kafka_only(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A Kafka controller cannot read a plan with the ``original_replicas`` of KIP-236."""
    topic = make_topic({0: (1, 2), 1: (2, 1)})
    targets = {(topic, 0): (3, 4), (topic, 1): (2, 5)}
    start(daemons)
    with copies_held(cluster, targets):
        submit(cluster, plan_of(targets))
        await_moving(cluster, targets)
    await_end(cluster, targets, within_s=60)
    entries = [
        entry
        for write in writes(cluster)
        if write.path == LEGACY_PLAN and write.data is not None
        for entry in json.loads(write.data)["partitions"]
        if entry["topic"] == topic
    ]
    assert {entry["partition"] for entry in entries} == {0, 1}
    assert all(entry.keys() == {"topic", "partition", "replicas"} for entry in entries)
