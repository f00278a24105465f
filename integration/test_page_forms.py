"""
Operators use the forms of the status page in a browser, on a cluster for each engine.

``tests/actions/test_surfaces.py`` compares the forms with the commands, in all cases.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.conftest import MakeTopic
from integration.rigs.browsers import Browser, Page
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.engine_matrix import ENGINES, Row
from integration.rigs.plans import Daemons
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.waiting import eventually
from integration.shown_moves import (
    THROTTLE,
    TOKEN,
    await_request,
    await_status,
    has_no_faults,
    journal,
    with_tokens,
    write,
)

PARTITIONS = 4
pytestmark = pytest.mark.timeout(300)
ACCESS = {"REASSIGNER_HTTP_TOKEN": TOKEN}


@pytest.fixture(scope="module", params=ENGINES, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row of each engine."""
    found: Row = request.param
    return found


@pytest.fixture
def cluster(row_cluster: Cluster) -> Cluster:
    """Give it to the other fixtures."""
    return row_cluster


@pytest.fixture
def topic(make_topic: MakeTopic, cluster: Cluster) -> str:
    """Give a topic with data."""
    name = make_topic(dict.fromkeys(range(PARTITIONS), (1, 2)))
    write(cluster, name, PARTITIONS)
    return name


@pytest.fixture
def daemon(daemons: Daemons, tmp_path: Path) -> Daemon:
    """Give a daemon with the token of an operator."""
    found = daemons.make(*with_tokens(tmp_path), "--copy-refresh", "1")
    found.token = TOKEN
    found.start()
    return found


def test_operator_drains_a_broker_in_the_browser(
    cluster: Cluster, topic: str, daemon: Daemon
) -> None:
    """After a log-in and the preview; the drain names its author and stands until stopped."""
    browser = Browser.required()
    with browser.window() as window:
        window.log_in(daemon.url, "wrong" * 5)
        assert "wrong token" in window.words
        has_no_faults(window)
        window.log_in(f"{daemon.url}/?still=1", TOKEN)
        assert "alice (operate)" in window.words
        window.follow("submit a plan")
        has_no_faults(window)
        window.check("broker-2", within="#drain")
        window.fill("reason", "<b>drain</b>", within="#drain")
        window.press("Preview the drain")
        assert "<b>drain</b>" in window.words
        assert f"{topic}-0: 1,2 -> 1," in window.words, window.words
        assert "replicas to copy" in window.words
        has_no_faults(window)
        window.press("Drain broker 2 as alice")
        assert "Broker 2 is being drained" in window.words
        (request,) = re.findall(r"drain-\w{16}", window.words)
        eventually(
            lambda: all(2 not in cluster.replicas(topic, n) for n in range(PARTITIONS)),
            within_s=180,
            what="broker 2 is empty",
        )
        eventually(
            lambda: "it can be shut down" in window.show(f"{daemon.url}/?still=1").words,
            within_s=20,
            what=lambda: f"the page says that broker 2 is empty: {window.words}",
        )
        window.follow("stop")
        window.press("Stop the drain")
        ended = await_outcome(cluster, request, within_s=30)
        assert (ended["requested_by"], ended["reason"]) == (
            "alice, on the status page",
            "<b>drain</b>",
        )
    (submitted,) = [x for x in journal(daemon) if x.get("action") == "submit"]
    assert (submitted["by"], submitted["request"], submitted["result"]) == (
        "alice",
        request,
        "done",
    )
    for text in (daemon.log.read_text(), (daemon.journal_directory / "journal.jsonl").read_text()):
        assert TOKEN not in text


def test_operator_sets_a_throttle_rebalances_and_undoes_it_in_the_browser(
    cluster: Cluster, topic: str, daemon: Daemon
) -> None:
    """Each by a form that is filled in; the page of a partition explains it meanwhile."""
    browser = Browser.required()
    before = {n: cluster.replicas(topic, n) for n in range(PARTITIONS)}
    with browser.window() as window:
        window.log_in(f"{daemon.url}/?still=1", TOKEN)
        window.follow("change")
        has_no_faults(window)
        window.fill("throttle", "2MB")
        window.fill("max-incoming", "3")
        window.press("Change")
        await_status(
            daemon,
            lambda s: s["controls"]["throttle"] == 2_000_000,
            within_s=20,
            what="the throttle is set",
        )
        assert daemon.status()["limits"]["max_incoming_per_broker"] == 3
        window.follow("rebalance")
        window.press("Preview the rebalance")
        assert "replicas to copy" in window.words
        window.press("Submit")
        (request,) = set(re.findall(r"request_\d{10}", window.words))
        await_status(
            daemon, lambda s: bool(s["in_flight"]), within_s=60, what="a partition is in flight"
        )
        name = "{topic}-{partition}".format_map(daemon.status()["in_flight"][0])
        window.show(f"{daemon.url}/partition?partition={name}")
        assert name in window.words
        assert request in window.words
        has_no_faults(window)
        await_outcome(cluster, request, within_s=180)
        assert {n: cluster.replicas(topic, n) for n in range(PARTITIONS)} != before
        await_request(daemon, request, lambda r: r["state"] == "done", within_s=20)
        window.show(f"{daemon.url}/history?request={request}")
        window.follow("undo")
        has_no_faults(window)
        window.fill("throttle", "50MB", within="#undo")
        window.press("Preview the undo")
        assert "would move back, finished already: " in window.words
        assert "Throttle: 50 MB/s for each broker" in window.words
        has_no_faults(window)
        window.press(f"Undo {request} as alice")
        assert f"{request} is being undone" in window.words
        eventually(
            lambda: {n: cluster.replicas(topic, n) for n in range(PARTITIONS)} == before,
            within_s=180,
            what="the partitions have the replicas of before",
        )
    assert run_reassigner("throttle", "none", "--zookeeper", cluster.zookeeper_connect).code == 0


def test_operator_moves_leaderships_off_a_broker_and_back_in_the_browser(
    cluster: Cluster, topic: str, daemon: Daemon
) -> None:
    """Without a copy; the table of brokers, ``status`` and ``doctor`` name the broker meanwhile."""
    browser = Browser.required()
    with browser.window() as window:
        window.log_in(f"{daemon.url}/plan", TOKEN)
        window.choose("task", "evacuate", within="#leaders")
        window.check("broker-1", within="#leaders")
        window.fill("reason", "<b>kernel</b>", within="#leaders")
        window.press("Preview the leaderships")
        assert f"{topic}-0: leader 1 -> 2, replicas 1,2 -> 2,1" in window.words
        has_no_faults(window)
        window.press("Move leaderships off broker 1 as alice")
        assert "Broker 1 is evacuated from leaderships" in window.words
        (request,) = set(re.findall(r"request_\d{10}", window.words))
        await_outcome(cluster, request, within_s=60)
        assert all(cluster.leader(topic, n) == 2 for n in range(PARTITIONS))
        named = "by alice, on the status page: <b>kernel</b>"
        eventually(
            lambda: named in window.show(f"{daemon.url}/?still=1").words,
            within_s=20,
            what=lambda: f"the page names the broker: {window.words}",
        )
        assert "broker 1: leaderships evacuated since " in window.words
        has_no_faults(window)
        for command in ("status", "doctor"):
            printed = run_reassigner(command, *_where(cluster), settings=ACCESS).stdout
            assert "kernel" in printed, printed
        window.follow("return them")
        window.press("Preview the leaderships")
        assert f"{topic}-0: leader 2 -> 1, replicas 2,1 -> 1,2" in window.words
        window.press("Return leaderships to broker 1 as alice")
        eventually(
            lambda: all(cluster.leader(topic, n) == 1 for n in range(PARTITIONS)),
            within_s=60,
            what="broker 1 leads again",
        )
        eventually(
            lambda: _is_returned(window, daemon), within_s=60, every_s=1, what="none is evacuated"
        )
    assert all(tuple(cluster.replicas(topic, n)) == (1, 2) for n in range(PARTITIONS))


def test_operator_changes_a_replication_factor_in_the_browser(
    cluster: Cluster, topic: str, daemon: Daemon
) -> None:
    """Of a topic that is chosen; the brokers' table and the page of a partition show the copies."""
    browser = Browser.required()
    with browser.window() as window:
        window.log_in(f"{daemon.url}/plan", TOKEN)
        window.check(f"topic-{topic}", within="#replication")
        window.fill("factor", "3", within="#replication")
        window.fill("throttle", str(THROTTLE), within="#replication")
        window.press("Preview the replication factor")
        assert "the replication factor of 4 partitions rises from 2 to 3" in window.words
        has_no_faults(window)
        window.press("Submit 4 entries as alice")
        (request,) = set(re.findall(r"request_\d{10}", window.words))
        await_status(
            daemon,
            lambda s: any(p["copies"] for p in s["in_flight"]),
            within_s=60,
            what="a replica is copied",
        )
        copied = next(p for p in daemon.status()["in_flight"] if p["copies"])
        window.show(f"{daemon.url}/partition?partition={topic}-{copied['partition']}")
        assert f"1 → {copied['copies'][0]['broker']}" in window.words
        eventually(
            lambda: "; sizes and disks" in window.show(f"{daemon.url}/?still=1").words,
            within_s=90,
            every_s=1,
            what="sizes of brokers are shown, with their age",
        )
        has_no_faults(window)
        assert run_reassigner(*_unthrottled(cluster, request)).code == 0
        await_outcome(cluster, request, within_s=120)
    assert all(len(cluster.replicas(topic, n)) == 3 for n in range(PARTITIONS))


def test_operator_quiesces_and_resumes_in_the_browser(
    cluster: Cluster, topic: str, daemon: Daemon
) -> None:
    """What is in flight is rolled back at once; the page says what is left, and resumes."""
    browser = Browser.required()
    targets = {(topic, n): (1, 3) for n in range(PARTITIONS)}
    request = submit_request(cluster, targets, throttle=THROTTLE // 20)
    await_request(daemon, request, lambda r: r["state"] == "in_flight", within_s=60)
    with browser.window() as window:
        window.log_in(f"{daemon.url}/plan", TOKEN)
        window.fill("reason", "migration", within="#quiesce")
        window.check("cancel", within="#quiesce")
        window.press("Preview the quiesce")
        assert "Not ready yet: " in window.words
        assert f"{topic}-0: is to be reassigned" in window.words
        has_no_faults(window)
        window.press("Quiesce as alice")
        assert "The reassigner is quiesced" in window.words
        await_outcome(cluster, request, within_s=90)
        assert all(tuple(cluster.replicas(topic, n)) == (1, 2) for n in range(PARTITIONS))
        eventually(
            lambda: "the reassigner is quiesced by alice" in window.show(daemon.url).words,
            within_s=20,
            what="the overview says it",
        )
        _await_ready(window, daemon)
        window.show(f"{daemon.url}/?still=1")
        has_no_faults(window)
        window.follow("resume")
        window.press("Resume")
        await_status(
            daemon,
            lambda s: s["controls"]["paused"]["quiesce"] is None,
            within_s=20,
            what="it is resumed",
        )


def _is_returned(window: Page, daemon: Daemon) -> bool:
    """Return whether broker 1 is evacuated no longer; a preview that finds all back ends it."""
    if not daemon.status()["evacuations"]:
        return True
    window.show(f"{daemon.url}/plan?kind=leaders&task=return&broker=1")
    window.press("Preview the leaderships")
    if "broker 1 is not evacuated" not in window.words:
        window.press("Return leaderships to broker 1 as alice")
    return False


def _await_ready(window: Page, daemon: Daemon) -> None:
    """Preview the quiesce that stands until nothing is left."""

    def is_ready() -> bool:
        window.show(f"{daemon.url}/plan")
        window.press("Preview the quiesce")
        return "Ready: nothing of the reassigner is left in the cluster." in window.words

    eventually(is_ready, within_s=60, every_s=1, what=lambda: f"it is ready: {window.words}")


def _unthrottled(cluster: Cluster, request: str) -> tuple[str, ...]:
    """Return the command that lets a request run at full speed."""
    return ("throttle", "none", "--request", request, *_where(cluster))


def _where(cluster: Cluster) -> tuple[str, str]:
    return ("--zookeeper", cluster.zookeeper_connect)
