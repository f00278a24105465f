"""
Pauses and allowed hours on real brokers: nothing begins, what is in flight ends, and it lasts.

That nothing began meanwhile is read from ZooKeeper's transaction log.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.operator_actions import await_moving, begun_in_order, lines, moving, said
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    copies_held,
    fill,
    is_reassigning,
)
from integration.rigs.requests import submit_request
from integration.rigs.transaction_log import writes
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_turned")

LIMITS, PAUSES = "/reassigner/control/limits", "/reassigner/control/pauses"
REFUSED = 3


def waits_for(daemon: Daemon, topic: str) -> dict[str, Any]:
    """Return what the partitions of a topic wait for that have not begun, as the status says it."""
    return next(
        (row["blocked_on"] for row in daemon.status()["waiting"] if row["topic"] == topic), {}
    )


def await_wait(daemon: Daemon, topic: str, by: str, *, within_s: float = 20) -> str:
    """Wait until partitions of a topic wait for this; return the words for it."""
    eventually(
        lambda: waits_for(daemon, topic).get("by") == by,
        within_s=within_s,
        what=lambda: f"{topic} waits for {by}: {daemon.status()['waiting']}",
    )
    return str(waits_for(daemon, topic)["detail"])


def test_a_pause_of_everything_outlasts_the_daemon_and_lets_the_step_in_flight_end(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Killed and started again it begins nothing; after resume it continues where it was."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    targets = {(topic, n): (3, 4) for n in range(3)}
    daemon = daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "1")
    with copies_held(cluster, targets):
        submit_request(cluster, targets)
        await_moving(cluster, [(topic, 0)])
        said(cluster, "pause", "--reason", "disk swap", "--requested-by", "ann")
        daemon.kill()
        await_broker_controller(cluster, within_s=15)
        daemon.start()
    eventually(lambda: not is_reassigning(cluster, topic), within_s=40, what="the step ended")
    words = await_wait(daemon, topic, "paused")
    assert words == "everything is paused by ann: disk swap"
    await_broker_controller(cluster, within_s=20)
    assert begun_in_order(writes(cluster), [topic]) == [(topic, 0)]
    assert cluster.replicas(topic, 0) == [1, 2, 3]
    said(cluster, "resume")
    await_end(cluster, targets, within_s=60)


@pytest.mark.acceptance
def test_a_paused_request_waits_while_another_continues(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A resume of everything does not lift it, a resume of the request does."""
    paused, free = (make_topic(dict.fromkeys(range(2), (1, 2))) for _ in range(2))
    plans: list[Targets] = [{(t, n): (1, 3) for n in range(2)} for t in (paused, free)]
    daemon = daemons.start("--tenure-linger", "1")
    said(cluster, "pause")
    request = submit_request(cluster, plans[0])
    submit_request(cluster, plans[1])
    said(cluster, "pause", "--request", request)
    said(cluster, "resume")
    eventually(lambda: cluster.replicas(free, 1) == [1, 3], within_s=30, what="the other ended")
    assert await_wait(daemon, paused, "paused").startswith(f"{request} is paused")
    assert begun_in_order(writes(cluster), [paused]) == []
    said(cluster, "resume", "--request", request)
    for plan in plans:
        await_end(cluster, plan, within_s=60)


def test_nothing_is_copied_to_or_from_a_paused_broker(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Reassignments on other brokers continue."""
    into, out_of, beside = (make_topic({0: ids}) for ids in ((1, 2), (5, 2), (1, 2)))
    targets = {(into, 0): (1, 5), (out_of, 0): (5, 3), (beside, 0): (1, 4)}
    said(cluster, "pause", "--broker", "5")
    daemon = daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets)
    eventually(lambda: cluster.replicas(beside, 0) == [1, 4], within_s=30, what="the other ended")
    for topic in (into, out_of):
        words = await_wait(daemon, topic, "paused")
        assert words.startswith("broker 5 is paused")
        assert begun_in_order(writes(cluster), [topic]) == []
    said(cluster, "resume", "--broker", "5")
    await_end(cluster, targets, within_s=60)


def test_controls_that_cannot_be_understood_change_nothing(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The former value holds; a daemon that never read one pauses everything."""
    topic = make_topic(dict.fromkeys(range(3), (1, 2)))
    targets = {(topic, n): (1, 3 + n) for n in range(3)}
    said(cluster, "limits", "--max-partitions-in-flight", "1")
    daemon = daemons.start("--tenure-linger", "1")
    with copies_held(cluster, targets):
        submit_request(cluster, targets)
        await_moving(cluster, [(topic, 0)])
        for path in (LIMITS, PAUSES):
            cluster.zk.ensure_path(path)
            cluster.zk.set(path, b'{"version":1,"everythin":{}}')
        unreadable = eventually(
            lambda: found if len(found := lines(daemon, "control_unreadable")) > 1 else None,
            within_s=20,
            what="the log has both",
        )
        assert {line["name"] for line in unreadable or ()} == {LIMITS, PAUSES}
        assert "cannot be changed" in said(cluster, "pause", code=REFUSED)
        assert "cannot be changed" in said(cluster, "limits", "--max-incoming", "1", code=REFUSED)
        assert moving(cluster, topic) == {(topic, 0)}, "one is in flight, as before"
        daemon.kill()
        daemon.start()
        words = await_wait(daemon, topic, "paused", within_s=30)
        assert words.startswith(f"everything is paused: {PAUSES} cannot be decoded")
        for path in (LIMITS, PAUSES):
            cluster.zk.delete(path)
    await_end(cluster, targets, within_s=60)


@pytest.mark.slow
def test_a_window_opens_and_closes_and_what_is_in_flight_then_ends(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Before it nothing begins and a broker is the controller; after it nothing new begins."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets = {(topic, n): (1, 2, 3) for n in range(2)}
    fill(cluster, [(topic, 0)] * 3)  # so that the first lasts longer than the window
    daemon = daemons.start("--tenure-linger", "1", "--max-partitions-in-flight", "1")
    with copies_held(cluster, targets) as let_go:
        opens_s = (int(time.time() + 15) // 60 + 1) * 60
        closes_s = opens_s + 60
        request = submit_request(cluster, targets, window=f"{clock(opens_s)}-{clock(closes_s)}")
        words = await_wait(daemon, topic, "window")
        opens = f"{clock(opens_s)}-{clock(closes_s)} UTC, which opens at 20"
        assert words.startswith(f"outside of the window {opens}")
        assert words.endswith(f" {clock(opens_s)}Z")
        if time.time() < opens_s - 2:
            await_broker_controller(cluster, within_s=10)
        await_moving(cluster, [(topic, 0)], within_s=100)
        assert time.time() >= opens_s
        eventually(lambda: time.time() > closes_s + 1, within_s=80, what="the window closed")
        assert is_reassigning(cluster, topic)
        let_go()
        eventually(
            lambda: cluster.replicas(topic, 0) == [1, 2, 3] and not is_reassigning(cluster, topic),
            within_s=60,
            what="what was in flight ended",
        )
    await_wait(daemon, topic, "window")
    assert begun_in_order(writes(cluster), [topic]) == [(topic, 0)]
    now_s = time.time()
    hours = f"{clock(now_s - 60)}-{clock(now_s + 1800)}"
    said(cluster, "limits", "--request", request, "--window", hours)
    await_end(cluster, targets, within_s=60)


def clock(unix_s: float) -> str:
    """Return a time of day as windows name it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%H:%M")
