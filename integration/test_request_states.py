"""
What pages and commands say of requests that are paused, blocked, cancelled, undone or drained.

With both engines; the daemon is killed before the end of an undo, and its successor says the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.operator_actions import await_moving, said
from integration.rigs.plans import Daemons, copies_held
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.waiting import eventually
from integration.test_drain import ROWS, drain_request

SOON: Final = ("--tenure-linger", "1", "--copy-refresh", "1")
BUSY: Final = 2


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of an engine."""
    with Cluster.running(request.param.options) as cluster:
        cluster.daemon_options = request.param.arguments
        yield cluster


@pytest.fixture(autouse=True)
def _nothing_turned(nothing_turned: None) -> None:
    """No test begins with the drains or pauses of another one."""


def known(daemon: Daemon, request: str) -> dict[str, Any]:
    """Return a request as in ``/status``; empty if it is not there."""
    return next((r for r in daemon.status()["requests"] if r["id"] == request), {})


def await_state(daemon: Daemon, request: str, state: str) -> dict[str, Any]:
    """Wait until a request has a state."""
    eventually(
        lambda: known(daemon, request).get("state") == state,
        within_s=60,
        what=lambda: f"{request} is {state}: {known(daemon, request)}",
    )
    return known(daemon, request)


def listed(cluster: Cluster, request: str) -> dict[str, Any]:
    """Return a request as in ``list --history``."""
    found = json.loads(said(cluster, "list", "--history", "--json"))["requests"]
    return next(r for r in found if r["id"] == request)


@pytest.mark.acceptance
@pytest.mark.timeout(400)
def test_an_undone_request_is_undone_on_every_screen(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its cancellation says so; both have pages, and a daemon after kill -9 says the same."""
    topic = make_topic({0: (1, 2), 1: (1, 2), 2: (1, 2)})
    daemon = daemons.start(*SOON)
    targets = {(topic, n): (3, 4) for n in range(3)}
    request = submit_request(cluster, targets)
    await_outcome(cluster, request, within_s=60)
    forecast = said(cluster, "undo", request, "--dry-run")
    assert "3 partitions in " in forecast, "as the page forecasts it"
    assert "6 replicas to copy" in forecast
    with copies_held(cluster, [(topic, 0)]):
        assert reassigner(cluster, "undo", request, "--timeout", "30").code == 0
        await_moving(cluster, [(topic, 0)])
        undo = json.loads(said(cluster, "list", "--json"))["requests"][0]["id"]
        assert undo.startswith("cancel-")
        found = await_state(daemon, request, "undoing")
        assert (found["undone_by"], found["partitions"]["undone"]) == (undo, 3)
        assert known(daemon, undo)["undoes"] == {request: 3}
        daemon.kill()
        daemon = daemons.start(*SOON)
    await_outcome(cluster, undo, within_s=90)
    ended = listed(cluster, request)
    assert (ended["state"], ended["undone_by"], ended["done"]) == ("undone", undo, 0)
    assert listed(cluster, undo)["undoes"] == {request: 3}
    eventually(
        lambda: daemon.status()["undone"] == {request: {"by": undo, "entries": 3, "open": False}},
        within_s=30,
        what=lambda: f"the successor knows: {daemon.status()['undone']}",
    )
    assert daemon.get(f"/history?request={undo}")[0] == HTTPStatus.OK
    assert f"undone by {undo}" in said(cluster, "list", request)
    assert "0 of 3 done, 3 undone" in said(cluster, "verify", request, code=4)


@pytest.mark.timeout(400)
def test_a_paused_request_is_paused_and_a_cancelled_one_is_counted_alike(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Steps in flight end; the page links its cancellation."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    daemon = daemons.start(*SOON, "--max-partitions-in-flight", "1")
    with copies_held(cluster, [(topic, 0), (topic, 1)]):
        request = submit_request(cluster, {(topic, n): (3, 4) for n in range(2)})
        await_state(daemon, request, "in_flight")
        said(cluster, "pause", "--request", request, "--reason", "lunch")
        await_state(daemon, request, "held")
        assert "paused: 1 of 2" in said(cluster, "status", code=BUSY)
        said(cluster, "resume", "--request", request)
        undo = json.loads(said(cluster, "cancel", request, "--json"))["cancellation"]
    await_outcome(cluster, undo, within_s=60)
    await_outcome(cluster, request, within_s=60)
    ended = listed(cluster, request)
    shown = await_state(daemon, request, "cancelled")["partitions"]
    assert ended["cancelled"] == shown["cancelled"] == shown["total"] == 2
    assert listed(cluster, undo)["cancels"] == {request: 2}
    assert daemon.get(f"/history?request={undo}")[0] == HTTPStatus.OK


@pytest.mark.timeout(400)
def test_the_drains_of_one_request_are_named_before_they_are_undone(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Each with its reason; a drain with nothing left to do stands, and is in the history."""
    topic = make_topic({0: (5, 1)})
    daemon = daemons.start(*SOON)
    said(cluster, "drain", "5", "--reason", "disk swap", "--wait")
    request = drain_request(cluster)
    assert await_state(daemon, request, "standing")["partitions"]["done"] == 1
    assert listed(cluster, request)["state"] == "standing"
    reassigner(cluster, "drain", "4", "--reason", "rack move")
    printed = said(cluster, "undo", request, "--dry-run")
    assert "would drain no longer: 2 (broker 4, drained since" in printed
    assert "disk swap" in printed
    printed = said(cluster, "undo", request, "--wait", "--timeout", "60")
    assert "This ends the drain of broker 5, drained since" in printed
    assert cluster.replicas(topic, 0) == [5, 1]
    assert said(cluster, "drain") == "no broker is drained\n"
