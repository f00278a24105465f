"""Many partitions cancelled, partitions that cannot be, and what is kept of how all ended."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import (
    REASSIGNMENTS,
    Daemons,
    await_end,
    await_tenure,
    copies_held,
    is_reassigning,
    plan_of,
)
from integration.rigs.requests import (
    CANCEL,
    await_outcome,
    cancel,
    endings,
    reassigner,
    submit_request,
)
from integration.rigs.transaction_log import assignment_in, writes
from integration.rigs.waiting import eventually

SOON: Final = ("--tenure-linger", "1")
UNLIMITED: Final = (
    "--tenure",
    "permanent",
    "--max-partitions-in-flight",
    "2000",
    "--max-incoming-per-broker",
    "2000",
    "--max-outgoing-per-broker",
    "2000",
)
HOLDING_RECORDS: Final = 3
HOLDING_BYTES: Final = 5_000_000
"""In a partition that is held, one of many aside."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "count", [pytest.param(300), pytest.param(1_000, marks=pytest.mark.slow)], ids=["300", "1000"]
)
def test_the_first_write_of_every_rollback_is_out_within_a_second(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, count: int
) -> None:
    """All of them wait for ISR; measured by ZooKeeper's clock from the cancel znode on."""
    topic = make_topic({n: (n % 5 + 1,) for n in range(count)})
    home = {(topic, n): (n % 5 + 1,) for n in range(count)}
    targets = {(topic, n): (n % 5 + 1, (n + 1) % 5 + 1) for n in range(count)}
    daemon = daemons.start(*UNLIMITED)
    await_tenure(daemon)
    with copies_held(cluster, home, records=HOLDING_RECORDS):
        submit_request(cluster, targets)
        eventually(
            lambda: [p["phase"] for p in daemon.status()["in_flight"]] == ["A2-syncing"] * count,
            within_s=120,
            every_s=1.0,
            what="every partition waits for ISR",
        )
        cancelled = cancel(cluster)
        await_outcome(cluster, cancelled, within_s=120)
    await_end(cluster, home, within_s=60)
    history = writes(cluster)
    began = next(w for w in reversed(history) if w.path == CANCEL and w.data is not None)
    recorded: dict[str, int] = {}
    assigned: dict[int, int] = {}
    for write in history:
        if write.zxid <= began.zxid:
            continue
        if write.path.startswith(f"{REASSIGNMENTS}/{topic}/") and write.content.get("cancelled_by"):
            recorded.setdefault(write.path, write.at_ms - began.at_ms)
        elif write.path == f"/brokers/topics/{topic}" and write.data:
            for n in set(range(count)) - assigned.keys():
                said = assignment_in(write, n)
                if said is not None and (said.removing or said.replicas == home[topic, n]):
                    assigned[n] = write.at_ms - began.at_ms
    print(
        f"\n{count} partitions: turned round within {max(recorded.values())} ms, "
        f"in the topic znode within {max(assigned.values())} ms"
    )
    assert len(recorded) == count
    assert max(recorded.values()) < 1000


@pytest.mark.acceptance
def test_scope_all_undoes_a_request_that_has_ended(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its outcome has the originals; partitions reassigned again since stay, with the reason."""
    topic = make_topic({0: (1, 2), 1: (1, 2), 2: (1, 2)})
    home = {(topic, n): (1, 2) for n in range(3)}
    daemons.start(*SOON)
    request = submit_request(cluster, dict.fromkeys(home, (3, 4)))
    await_end(cluster, dict.fromkeys(home, (3, 4)), within_s=40)
    await_outcome(cluster, request, within_s=10)
    again = submit_request(cluster, {(topic, 2): (4, 5)})
    await_end(cluster, {(topic, 2): (4, 5)}, within_s=40)
    await_outcome(cluster, again, within_s=10)
    code, text = reassigner(cluster, "undo", request, "--wait")
    assert code == 3, text
    assert "2 finished ones moved back, 1 skipped" in text
    assert f"{topic}-2 could not be undone: it was moved again since {request}" in text
    await_end(cluster, {**home, (topic, 2): (4, 5)}, within_s=20)


def test_what_a_kafka_controller_began_is_cancelled_only_where_it_is_named(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """It is not ours: everything does not mean it, its topic does."""
    topic = make_topic({0: (1, 2)})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of({(topic, 0): (3, 4)})))
    with copies_held(cluster, [(topic, 0)]):
        code, text = cluster.reassign_partitions("--reassignment-json-file", str(plan), "--execute")
        assert code == 0, text
        await_tenure(daemons.start("--tenure", "permanent"))
        everything = cancel(cluster)
        assert await_outcome(cluster, everything, within_s=20)["total"] == 0
        assert cluster.replicas(topic, 0) == [3, 4, 1, 2]
        code, text = reassigner(cluster, "cancel", "--topic", topic, "--wait")
        assert (code, "1 rolled back" in text) == (0, True), text
        await_end(cluster, {(topic, 0): (1, 2)}, within_s=10)


def test_without_known_originals_a_cancel_is_skipped_and_the_reassignment_continues(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A record of a reassignment with an unknown original, as after Kafka 2.3."""
    topic = make_topic({0: (1, 2)})
    record: dict[str, object] = {"version": 1, "original": None, "target": [1, 4], "top": 2}
    record |= {"request": "request_9999999999", "route": "request", "legacy": False}
    cluster.zk.create(f"{REASSIGNMENTS}/{topic}/0", json.dumps(record).encode(), makepath=True)
    with copies_held(cluster, [(topic, 0)]):
        daemons.start(*SOON)
        eventually(lambda: is_reassigning(cluster, topic), within_s=20)
        cancelled = cancel(cluster)
        summary = await_outcome(cluster, cancelled, within_s=20)
        assert summary["fates"] == {"skipped": 1}
        ending = endings(cluster, cancelled)[f"{topic}-0"]
        assert ending == ("skipped", "its former replicas are unknown")
    await_end(cluster, {(topic, 0): (1, 4)}, within_s=60)


def test_a_partition_that_would_go_offline_is_skipped_and_its_reassignment_continues(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """No original replica is in ISR, a new one lives and leads."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (3, 4)}
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", "all"))
    with copies_held(cluster, targets, at={topic: "0:4"}):
        request = submit_request(cluster, targets)
        eventually(lambda: cluster.isr(topic, 0) == {1, 2, 3}, within_s=30)
        for dead, left in ((2, {1, 3}), (1, {3})):
            cluster.brokers[dead].kill()
            eventually(lambda isr=left: cluster.isr(topic, 0) == isr, within_s=20)  # type: ignore[misc]
        eventually(lambda: cluster.leader(topic, 0) == 3, within_s=20)
        cancelled = cancel(cluster)
        summary = await_outcome(cluster, cancelled, within_s=20)
        assert summary["fates"] == {"skipped": 1}
        _fate, why = endings(cluster, cancelled)[f"{topic}-0"]
        assert "it would go offline" in why
        cluster.start_brokers(1, 2)
    await_end(cluster, targets, within_s=60)
    assert await_outcome(cluster, request, within_s=10)["done"] == 1


@pytest.mark.parametrize(
    "content", [b"please", b'{"version":1,"topics":[]}', b'{"version":1,"topic":["t"]}', b"\xff"]
)
def test_a_cancel_that_is_not_understood_cancels_nothing(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, content: bytes
) -> None:
    """It is recorded with its bytes and deleted, and the reassignment continues."""
    topic = make_topic({0: (1, 2)})
    daemons.start(*SOON)
    with copies_held(cluster, [(topic, 0)]):
        submit_request(cluster, {(topic, 0): (1, 4)})
        eventually(lambda: is_reassigning(cluster, topic), within_s=20)
        _path, stat = cluster.zk.create(CANCEL, content, include_data=True)
        summary = await_outcome(cluster, f"cancel-{stat.czxid:016x}", within_s=10)
        assert [row["reason"] for row in summary["refused"]] == ["unreadable"]
        assert base64.b64decode(summary["raw"]) == content
        assert cluster.zk.exists(CANCEL) is None
        assert (cluster.read(f"{REASSIGNMENTS}/{topic}/0") or {})["target"] == [1, 4]
    await_end(cluster, {(topic, 0): (1, 4)}, within_s=60)


def test_outcomes_name_the_requester_the_reason_and_the_end_of_every_partition(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Read through ``list --history``, ``list REQUEST`` and ``explain``."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2)))
    daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "2")
    with copies_held(cluster, [(topic, 1), (topic, 2)]):
        request = submit_request(
            cluster,
            {
                (topic, 0): (1, 99),
                (topic, 1): (1, 3),
                (topic, 2): (1, 3),
                (topic, 3): (1, 3),
            },
            reason="disk 7 of rack b is full",
            requested_by="ann",
        )
        eventually(
            lambda: len((cluster.topic(topic) or {}).get("adding_replicas", {})) == 2, within_s=20
        )
        later = submit_request(cluster, {(topic, 2): (1, 4)}, requested_by="bob")
        await_outcome_of_change(cluster, topic)
        cancelled = cancel(cluster, requests=[request], reason="wrong rack", requested_by="eve")
        summary = await_outcome(cluster, request, within_s=20)
    await_end(cluster, {(topic, 1): (1, 2), (topic, 2): (1, 4), (topic, 3): (1, 2)}, within_s=60)
    await_outcome(cluster, later, within_s=10)
    assert (summary["total"], summary["done"]) == (4, 0)
    assert summary["fates"] == {"rolled_back": 1, "cancelled": 1, "superseded": 1}
    assert 0 < summary["submitted_ms"] <= summary["ended_ms"]
    rows = {
        row["id"]: row
        for row in json.loads(output_of(cluster, "list", "--history", "--json"))["requests"]
    }
    assert rows[request]["reason"] == "disk 7 of rack b is full"
    assert rows[request]["requested_by"] == "ann"
    assert (rows[request]["refused"], rows[request]["rolled_back"]) == (1, 1)
    assert (rows[later]["done"], rows[later]["requested_by"]) == (1, "bob")
    assert rows[later]["moved_bytes"] >= HOLDING_BYTES
    assert (rows[cancelled]["kind"], rows[cancelled]["reason"]) == ("cancel", "wrong rack")
    one = json.loads(output_of(cluster, "list", request, "--json"))
    fates = {row["partition"]: row["fate"] for row in one["endings"]}
    assert fates == {
        f"{topic}-1": "rolled_back",
        f"{topic}-2": "superseded",
        f"{topic}-3": "cancelled",
    }
    assert "broker 99 is not live" in output_of(cluster, "explain", f"{topic}-0")
    assert f"{topic}-1 was rolled back: by {cancelled}" in output_of(
        cluster, "explain", f"{topic}-1"
    )
    # A newer request accepted it: what became of it before is said no longer.
    assert "superseded" not in output_of(cluster, "explain", f"{topic}-2")


def await_outcome_of_change(cluster: Cluster, topic: str) -> None:
    """Wait until the change of partition 2 is under way."""
    eventually(
        lambda: (cluster.topic(topic) or {}).get("adding_replicas", {}).get("2") == [4],
        within_s=20,
    )


def output_of(cluster: Cluster, verb: str, *arguments: str) -> str:
    """Return what a verb prints, which must succeed."""
    code, text = reassigner(cluster, verb, *arguments)
    assert code == 0, text
    return text
