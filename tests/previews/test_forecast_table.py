"""The forecast that previews print, and where its facts come from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.core.model import BrokerId, LogDir, TopicPartition
from controller.core.pacing.controls import UNTHROTTLED, Controls, Limits, Pause, Pauses
from controller.core.requests.submissions import Window
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.doctor.snapshot import Snapshot
from controller.planning.forecast import BURST_S, PAST_FAST, PAST_SLOW
from controller.previews.plan_files import document_of
from tests.cli.builders import FakeCluster, Terminal, a_status
from tests.core.builders import replicas, tp

GB = 10**9
RATES = [{"broker": 3, "low_bytes_per_s": 20_000_000, "high_bytes_per_s": 60_000_000}]


def disks_with(sizes: dict[TopicPartition, int], used: int) -> Disks:
    """Return the answer of a broker with one directory."""
    directory = LogDir("/var/lib/kafka/data", 100 * GB, 100 * GB - used, len(sizes))
    placed = dict.fromkeys(sizes, "/var/lib/kafka/data")
    return Disks(frozenset(sizes), (), sizes, (directory,), placed)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal at two partitions of 6 GB on 1 and 2, and their plan to 2 and 3."""
    cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
    sizes = {tp(0): 6 * GB, tp(1): 6 * GB}
    read: dict[BrokerId, Disks | str] = {BrokerId(b): disks_with(sizes, 50 * GB) for b in (1, 2)}
    read[BrokerId(3)] = disks_with({}, 10 * GB)
    known = cluster.snapshot
    cluster.snapshot = replace(known, brokers=BrokerAnswers(disks=read))
    plan = {tp(0): replicas(2, 3), tp(1): replicas(2, 3)}
    (tmp_path / "plan.json").write_text(json.dumps(document_of(plan)))
    return Terminal(cluster, environ={"REASSIGNER_ZOOKEEPER": "zk", "PLAN": str(tmp_path)})


def preview(terminal: Terminal, *options: str) -> str:
    """Return what a dry run prints."""
    plan = f"{terminal.environ['PLAN']}/plan.json"
    result = terminal.run("execute", plan, "--dry-run", *options)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def document(terminal: Terminal, *options: str) -> dict[str, Any]:
    """Return the forecast as JSON."""
    found: dict[str, Any] = json.loads(preview(terminal, "--json", *options))["forecast"]
    return found


def test_people_read_tables_of_80_columns(terminal: Terminal) -> None:
    """Amounts, time, brokers and directories."""
    terminal.cluster.statuses = [a_status()]
    found = preview(terminal, "--throttle", "50MB")
    assert found == (
        "t-0: 1,2 -> 2,3 (adds 3, drops 1)\n"
        "t-1: 1,2 -> 2,3 (adds 3, drops 1)\n"
        "\n"
        "2 partitions in 4 steps: 2 replicas to copy (12 GB), 2 leaders to move\n"
        "Time: 4 min to 5 min (by the throttle; broker 3 is the busiest)\n"
        "\n"
        "broker  copies     in  serves    out  drops  freed  leaders\n"
        "1            0    0 B       2  12 GB      2  12 GB    +0 -2\n"
        "2            0    0 B       0    0 B      0    0 B    +2 -0\n"
        "3            2  12 GB       0    0 B      0    0 B    +0 -0\n"
        "\n"
        "directory                 in  freed    size    now   peak    end\n"
        "1 /var/lib/kafka/data    0 B  12 GB  100 GB  50.0%  50.0%  38.0%\n"
        "3 /var/lib/kafka/data  12 GB    0 B  100 GB  10.0%  22.0%  22.0%\n"
        "\n"
        "Nothing was written.\n"
    )
    assert max(map(len, found.splitlines())) <= 80


def test_programs_read_the_same(terminal: Terminal) -> None:
    """In bytes and seconds."""
    terminal.cluster.statuses = [a_status()]
    found = document(terminal, "--throttle", "50MB")
    assert {k: v for k, v in found.items() if not isinstance(v, list | dict)} == {
        "changes": 2,
        "steps": 4,
        "copies": 2,
        "bytes": 12 * GB,
        "sizes_unknown": 0,
        "leaders_moved": 2,
    }
    assert found["seconds"]["basis"] == ["throttle"]
    assert 200 < found["seconds"]["low"] < 240 < found["seconds"]["high"] < 320
    assert found["directories"][-1] == {
        "broker": 3,
        "path": "/var/lib/kafka/data",
        "bytes_in": 12 * GB,
        "bytes_dropped": 0,
        "total_bytes": 100 * GB,
        "used_bytes": 10 * GB,
        "peak_bytes": 22 * GB,
        "end_bytes": 22 * GB,
    }
    assert (found["waits"], found["notes"]) == ([], [])


def test_without_throttle_and_past_copies_no_time_is_invented(terminal: Terminal) -> None:
    """Neither is anything else that nobody answers for."""
    terminal.cluster.snapshot = replace(
        terminal.cluster.snapshot, brokers=BrokerAnswers(disks={BrokerId(3): "refused"})
    )
    found = preview(terminal)
    assert "Time: unknown: there is no throttle, and no past copies to go by" in found
    assert "Note: the log directories of broker 3 are unknown: refused" in found
    assert "Note: the sizes of 2 partitions are unknown and not counted" in found
    assert "2 replicas to copy (0 B and 2 of unknown size)" in found
    assert "Note: no daemon answers: its settings and the rates of past copies are unknown" in found


def test_a_daemon_knows_past_copies_limits_and_min_free(terminal: Terminal) -> None:
    """One after the other, at 20 to 60 MB per second; the disk must keep 80 GB."""
    disks = {"min_free": "80%", "min_free_bytes": 0, "min_free_share": 0.8}
    limits = {"max_partitions_in_flight": 1, "step_size": "all"}
    status = a_status(copy_rates=RATES, limits=limits, disks=disks)
    terminal.cluster.statuses = [status]
    found = document(terminal)
    assert (found["steps"], found["seconds"]["basis"]) == (2, ["past_copies"])
    assert [(w["by"], w["count"]) for w in found["waits"]] == [("disk_full", 1), ("limit", 1)]
    assert found["seconds"]["high"] is None
    terminal.cluster.statuses = [a_status(copy_rates=RATES)]
    seconds = document(terminal)["seconds"]
    assert 200 / PAST_FAST <= seconds["low"] <= 210 / PAST_FAST
    assert 600 / PAST_SLOW <= seconds["high"] <= 610 / PAST_SLOW


def test_live_controls_count(terminal: Terminal) -> None:
    """The common throttle, pauses and windows."""
    terminal.cluster.statuses = [a_status(partitions={"in_flight": 2, "waiting": 3})]
    terminal.cluster.controls = Controls(
        pauses=Pauses(everything=Pause(), brokers={BrokerId(3): Pause(), BrokerId(9): Pause()}),
        limits=Limits(window=Window(60, 120)),
        throttle=50_000_000,
    )
    found = preview(terminal)
    assert "Will wait for paused: all: everything is paused\n" in found
    opens = "outside of the window 01:00-02:00 UTC, which opens at 2025-06-16 01:00:00Z, in 10 h"
    assert f"Will wait for window: all: {opens}\n" in found
    assert "Will wait for paused: t-0, t-1: broker 3 is paused\n" in found
    assert "Note: the time does not count 5 partitions of other requests\n" in found
    assert "by the throttle" in found
    terminal.cluster.controls = Controls(throttle=UNTHROTTLED)
    assert "Time: unknown" in preview(terminal)


def test_what_producers_add_is_measured(terminal: Terminal) -> None:
    """Two looks, three seconds apart: 20 MB per second into each of two, of 50 MB per second."""
    known: Snapshot = terminal.cluster.snapshot
    sizes = dict.fromkeys((tp(0), tp(1)), 6 * GB + 60000000)
    grown = {**known.brokers.disks, BrokerId(1): disks_with(sizes, 50 * GB)}

    def grow(cluster: FakeCluster) -> None:
        cluster.snapshot = replace(known, brokers=BrokerAnswers(disks=grown))

    terminal.cluster.statuses = [a_status()]
    terminal.steps = [grow]
    seconds = document(terminal, "--throttle", "50MB")["seconds"]
    assert 12 * GB / 10_000_000 < seconds["high"] < 12 * GB / 2_000_000
    assert seconds["low"] < 12 * GB / 50_000_000


def test_the_daemon_knows_the_capacities_of_old_brokers(terminal: Terminal) -> None:
    """By its file of capacities; without it the sizes are unknown."""
    sizes = {tp(0): 6 * GB, tp(1): 6 * GB}
    old = replace(disks_with(sizes, 0), dirs=(LogDir("/var/lib/kafka/data", logs=2),))
    known = terminal.cluster.snapshot.brokers.disks
    terminal.cluster.snapshot = replace(
        terminal.cluster.snapshot, brokers=BrokerAnswers(disks={**known, BrokerId(3): old})
    )
    row = {"broker": 3, "path": "/var/lib/kafka/data", "total_bytes": 9 * GB, "usable_bytes": GB}
    terminal.cluster.statuses = [a_status(disks={"log_dirs": [row]})]
    assert document(terminal)["directories"][-1]["used_bytes"] == 8 * GB
    terminal.cluster.statuses = [a_status()]
    found = preview(terminal)
    assert "3 /var/lib/kafka/data  12 GB    0 B       -      -      -      -\n" in found
    assert "broker 3 does not report the size of its volumes (before Kafka 3.3)" in found


def test_a_copy_in_progress_counts_as_one_to_come(terminal: Terminal) -> None:
    """Its step is replaced; what it waits for is no lagging replica."""
    terminal.cluster.assign(tp(0), (1, 2, 3), adding=(3,))
    found = document(terminal, "--allow-replication-factor-change")
    assert (found["copies"], found["waits"]) == (2, [])


def test_named_directories_count(terminal: Terminal) -> None:
    """Of new replicas, and of those that change directories within their broker."""
    other = LogDir("/b", 100 * GB, 90 * GB, 7)
    read: dict[BrokerId, Disks | str] = {}
    for broker, disks in terminal.cluster.snapshot.brokers.disks.items():
        assert isinstance(disks, Disks)
        read[broker] = replace(disks, dirs=(*disks.dirs, other))
    terminal.cluster.snapshot = replace(
        terminal.cluster.snapshot, brokers=BrokerAnswers(disks=read)
    )
    terminal.cluster.statuses = [a_status()]
    entry = {"topic": "t", "partition": 0, "replicas": [2, 3], "log_dirs": ["/b", "/b"]}
    plan = Path(terminal.environ["PLAN"]) / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    found = document(terminal, "--throttle", "50MB", "--log-dirs-throttle", "10MB")
    rows = {(d["broker"], d["path"]): d["bytes_in"] for d in found["directories"]}
    assert (rows[2, "/b"], rows[3, "/b"]) == (6 * GB, 6 * GB)
    # Brokers pass on so much before their throttle holds.
    assert found["seconds"]["low"] > 6 * GB / 10_000_000 - BURST_S
    text = preview(terminal, "--throttle", "50MB")
    assert "1 replica to move to other directories (6 GB)\n" in text
    assert "without an upper bound" in text
    assert "t-0: 1,2 -> 2,3 (adds 3, drops 1, changes directories on 2)\n" in text
    plan.write_text(json.dumps({"version": 1, "partitions": [{**entry, "replicas": [1, 2]}]}))
    text = preview(terminal)
    assert "t-0: 1,2 -> 1,2 (changes directories on 1,2)\n" in text
    entries = json.loads(preview(terminal, "--json"))["entries"]
    assert [e["state"] for e in entries] == ["would_change"]


def test_the_queue_shows_the_same(terminal: Terminal) -> None:
    """With the common limits, as its entries have no options of their own."""
    terminal.cluster.statuses = [a_status()]
    plan = f"{terminal.environ['PLAN']}/plan.json"
    found = terminal.run("queue", "add", plan, "--dry-run").stdout
    assert "2 partitions in 4 steps: 2 replicas to copy (12 GB), 2 leaders to move\n" in found


def test_a_plan_that_changes_nothing_has_no_forecast(terminal: Terminal) -> None:
    """No broker is asked for it."""
    terminal.cluster.assign(tp(0), (2, 3)).assign(tp(1), (2, 3))
    found = preview(terminal)
    assert found == "t-0: is at 2,3 already\nt-1: is at 2,3 already\nNothing was written.\n"


def test_proposals_are_forecast(terminal: Terminal) -> None:
    """For people beside the plan, for programs in the document; not without sizes."""
    terminal.cluster.statuses = [a_status()]
    command = ("generate", "t", "--drain", "1")
    result = terminal.run(*command)
    assert "2 partitions in 4 steps: 2 replicas to copy (12 GB)" in result.stderr
    assert "directory" not in result.stdout
    found = json.loads(terminal.run(*command, "--json").stdout)
    assert found["forecast"]["bytes"] == 12 * GB
    assert "forecast" not in json.loads(terminal.run(*command, "--json", "--no-sizes").stdout)
