"""``watch`` beside a running daemon: what it draws, what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise
from typing import Any

import pytest
from rich.console import Console

from controller.cli.progress_display import parts_of
from controller.cli.status_text import work_line
from controller.cli.terminal import drawn
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import Daemons, Targets, await_end
from integration.rigs.processes import dying_with_parent
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually
from integration.shown_moves import THROTTLE, await_request, write

PARTITIONS = 4
REFRESH = ("--copy-refresh", "1", "--max-partitions-in-flight", "2", "--tenure-linger", "1")


@pytest.fixture
def targets(make_topic: MakeTopic, cluster: Cluster) -> Targets:
    """Give a topic with 6 MB in each partition, and where it is to go."""
    topic = make_topic(dict.fromkeys(range(PARTITIONS), (1, 2)))
    write(cluster, topic, PARTITIONS)
    return {(topic, n): (1, 3 + n % 3) for n in range(PARTITIONS)}


def test_every_number_of_a_running_move_is_drawn(
    cluster: Cluster, targets: Targets, daemons: Daemons
) -> None:
    """Requests with bytes and a range for the end, brokers, partitions, and why they wait."""
    daemon = daemons.start(*REFRESH)
    request = submit_request(cluster, targets, throttle=THROTTLE)
    await_request(daemon, request, lambda r: r["eta_s"] is not None, within_s=120)
    status = eventually(
        lambda: _busy_status(daemon), within_s=30, what="copies have a rate and others wait"
    )
    assert status is not None
    text = _drawn(status)
    row_of = partial(_row, text)
    size, rate = r"[\d.]+( [KM]?B)?/24(\.\d)? MB", r"[\d.]+ [KM]?B/s"
    assert re.search(rf" \d+% +0/4 +2 +2 +{size} +{rate} +\S", row_of(request)), text
    in_flight = {f"{p['topic']}-{p['partition']}" for p in status["in_flight"]}
    assert len(in_flight) == 2
    for name in in_flight:
        assert re.search(r" 1/\d +copying to [345] ", row_of(name)), text
    assert re.search(rf"^ *1 +0 B/s +2 +{rate} +{rate} *$", text, re.MULTILINE), text
    assert re.search(rf"^ *[345] +\d +[\d.]+ MB +{rate} +0 B/s +{rate} *$", text, re.MULTILINE), (
        text
    )
    assert "2 blocked" in text
    assert re.search(r"^limit +2 +\S", text, re.MULTILINE), text
    printed = run_reassigner("watch", request, *_connect(cluster), within_s=300)
    assert printed.code == 0, printed.stdout
    lines = printed.stdout.splitlines()
    assert lines[-1] == f"{request} has ended: 4 of 4 done"
    assert all(before != line for before, line in pairwise(lines)), "a line that says nothing new"
    assert any(re.match(r"broker 1: in 0, out \d \(.*B/s\)$", line) for line in lines), lines
    await_end(cluster, targets, within_s=60)
    idle = run_reassigner("watch", "--until-idle", *_connect(cluster))
    assert idle.code == 0, idle.stdout
    assert idle.stdout.splitlines()[-1] == "0 partitions in flight, 0 waiting"


def test_a_cancelled_request_ends_the_watch_with_four(
    cluster: Cluster, targets: Targets, daemons: Daemons
) -> None:
    """And Ctrl-C before that with two, without a word about it to the daemon."""
    daemon = daemons.start(*REFRESH)
    request = submit_request(cluster, targets, throttle=THROTTLE)
    await_request(daemon, request, lambda r: r["state"] == "in_flight", within_s=60)
    assert _interrupted(cluster, request) == 2
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(run_reassigner, "watch", request, "--json", *_connect(cluster))
        cancelled = run_reassigner("cancel", request, "--wait", *_connect(cluster))
        assert cancelled.code == 0, cancelled.stdout
        watched = watching.result()
    assert watched.code == 4, watched.stdout
    for line in watched.stdout.splitlines():
        assert {r["id"] for r in json.loads(line).get("requests", ())} <= {request}


def _busy_status(daemon: Daemon) -> dict[str, Any] | None:
    """Return a status in which copies have a rate and something waits for its turn."""
    status = daemon.status()
    serving = [b for b in status["broker_loads"] if b["out_bytes_per_s"] and b["outgoing"] == 2]
    is_whole = serving and len(status["in_flight"]) == 2 and status["blocked"].get("limit")
    return status if is_whole else None


def _row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{name} "))


def _drawn(status: dict[str, Any]) -> str:
    console = Console(width=250)
    with console.capture() as capture:
        console.print(*map(drawn, parts_of(work_line(status), 0, 0, status)), sep="\n")
    return capture.get()


def _connect(cluster: Cluster) -> tuple[str, str]:
    return ("--zookeeper", cluster.zookeeper_connect)


def _interrupted(cluster: Cluster, request: str) -> int:
    """Watch a request until it has said something, press Ctrl-C, and return the exit code."""
    command = [sys.executable, "-m", "controller.cli", "watch", request, *_connect(cluster)]
    with subprocess.Popen(
        dying_with_parent(command), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        # What clients wait for stands before it.
        assert any(request in line for line in islice(watching.stdout, 3))
        watching.send_signal(signal.SIGINT)
        return watching.wait(30)
