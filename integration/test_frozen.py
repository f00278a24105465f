"""
A daemon that is stopped between a write and its sends, and continues after a takeover.

It wakes in the middle of a batch, with requests in its hands that are no longer its own to send. It
must do no harm: no write, no request under its old epoch, no step undone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.failpoints import Failpoint
from integration.rigs.plans import (
    SESSION_S,
    Daemons,
    Targets,
    await_broker_controller,
    await_end,
    await_tenure,
    copies_held,
    is_planned,
    is_reassigning,
    plan_of,
    submit,
)
from integration.rigs.recovery_cells import await_frozen, nothing_lost
from integration.rigs.transaction_log import Write, writes
from integration.rigs.waiting import eventually
from integration.rigs.write_laws import CONTROLLER_ID

SAFE: Final = {"min.insync.replicas": "2"}
PERMANENT: Final = ("--tenure", "permanent")
TAKEN_OVER_WITHIN_S: Final = SESSION_S + 2
WAKES_AFTER_S: Final = 60.0
"""How long a daemon is stopped in the longest case."""
CELLS: Final = [
    pytest.param(Failpoint.A1_WRITTEN, "1", marks=pytest.mark.acceptance),
    (Failpoint.A2_LEADER_NOTIFIED, "1"),
    (Failpoint.NEXT_STEP_WRITTEN, "1"),
    (Failpoint.EXCLUSION_ACKNOWLEDGED, "1"),
    (Failpoint.B3_WRITTEN, "all"),
]


@pytest.mark.parametrize(("failpoint", "step_size"), CELLS)
def test_a_daemon_that_wakes_when_a_standby_has_finished_does_no_harm(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, failpoint: Failpoint, step_size: str
) -> None:
    """The standby carries the plan out; what the frozen one still held is never sent."""
    frozen_and_taken_over(cluster, make_topic, daemons, failpoint, step_size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "failpoint",
    [Failpoint.A1_WRITTEN, Failpoint.A2_LEADER_NOTIFIED, Failpoint.EXCLUSION_ACKNOWLEDGED],
)
def test_a_daemon_that_is_stopped_for_a_minute_in_the_middle_of_a_batch_does_no_harm(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, failpoint: Failpoint
) -> None:
    """A full minute: before the requests of a write, between two of them, before StopReplica."""
    frozen_and_taken_over(cluster, make_topic, daemons, failpoint, "1", at_least_s=WAKES_AFTER_S)


@pytest.mark.parametrize(("failpoint", "step_size"), CELLS)
def test_a_daemon_that_wakes_when_kafkas_controller_has_taken_over_does_no_harm(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, failpoint: Failpoint, step_size: str
) -> None:
    """A broker ends what is in flight; awake again, the daemon claims anew before all else."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2, 3)), SAFE)
    plans: deque[Targets] = deque(
        {(topic, n): to for n in range(4)} for to in ((5, 4, 3), (1, 2, 3))
    )
    options = ("--tenure-linger", "1", "--max-partitions-in-flight", "2", "--step-size", step_size)

    def plan_again() -> bool:
        """Hand in the next plan where a broker was faster with the last; whether it froze."""
        if frozen.has_reached_failpoint():
            return True
        if not is_planned(cluster):
            submit(cluster, plan_of(plans[0]))
            plans.rotate()
        return False

    with nothing_lost(cluster, {topic: 4}):
        frozen = daemons.start(*options, failpoint=("freeze", failpoint))
        eventually(plan_again, within_s=60, what=lambda: f"it freezes\n{frozen.log_tail()}")
        targets = plans[-1]
        logs = sizes(cluster, but=handed_over(cluster, topic, failpoint))
        await_broker_controller(cluster, within_s=TAKEN_OVER_WITHIN_S + 5)
        eventually(lambda: not is_reassigning(cluster, topic), within_s=60)
        frozen.thaw()
        await_end(cluster, targets, within_s=60, any_leader=True)
    assert refused(cluster, logs) == []


def test_a_standby_takes_over_within_its_session_timeout_and_two_seconds(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """From the kill to the new epoch, by ZooKeeper's own log; brokers may lead in between."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2, 3)), SAFE)
    targets = {(topic, n): (5, 4, 3) for n in range(4)}
    leader = daemons.start(*PERMANENT)
    await_tenure(leader)
    standby = daemons.start(*PERMANENT)
    with nothing_lost(cluster, {topic: 4}):
        with copies_held(cluster, targets):
            submit(cluster, plan_of(targets))
            eventually(lambda: is_reassigning(cluster, topic), within_s=20)
            died_at = time.time()
            leader.kill()
            await_tenure(standby, within_s=30)
        await_end(cluster, targets, within_s=60)
    claim = next(w for w in claims(cluster) if w.at_ms / 1000 >= died_at)
    took_s = claim.at_ms / 1000 - died_at
    print(f"\nthe standby claimed {took_s:.2f} s after the kill; the session is {SESSION_S} s")
    assert took_s <= TAKEN_OVER_WITHIN_S


# --- inside --------------------------------------------------------------------------------------


def frozen_and_taken_over(  # noqa: PLR0913 - the fixtures of its callers
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    failpoint: Failpoint,
    step_size: str,
    *,
    at_least_s: float = 0.0,
) -> None:
    """Freeze the leader at a boundary, let a standby finish, wake the leader and judge."""
    topic = make_topic(dict.fromkeys(range(4), (1, 2, 3)), SAFE)
    targets = {(topic, n): (5, 4, 3) for n in range(4)}
    options = (*PERMANENT, "--max-partitions-in-flight", "2", "--step-size", step_size)
    with nothing_lost(cluster, {topic: 4}):
        frozen = daemons.start(*options, failpoint=("freeze", failpoint))
        await_tenure(frozen)
        standby = daemons.start(*options)
        submit(cluster, plan_of(targets))
        await_frozen(frozen)
        begun = time.monotonic()
        logs = sizes(cluster, but=handed_over(cluster, topic, failpoint))
        await_tenure(standby, within_s=30)
        await_end(cluster, targets, within_s=60)
        eventually(lambda: time.monotonic() - begun >= at_least_s, within_s=at_least_s + 1)
        before = writes(cluster)
        frozen.thaw()
        eventually(
            lambda: frozen.status()["role"] == "standby",
            within_s=30,
            what="the frozen daemon knows that another one leads",
            tolerating=(OSError,),
        )
    assert standby.status()["tenure"]["held"]
    assert frozen.is_alive
    assert what_matters(writes(cluster)[len(before) :]) == []
    assert refused(cluster, logs) == []


def handed_over(cluster: Cluster, topic: str, failpoint: Failpoint) -> set[int]:
    """Return whose request left the loop just before, and may leave the process when it wakes."""
    is_between = failpoint is Failpoint.A2_LEADER_NOTIFIED
    leaders = (cluster.leader(topic, n) for n in range(4)) if is_between else ()
    return {leader for leader in leaders if leader is not None}


def sizes(cluster: Cluster, *, but: Collection[int]) -> dict[int, int]:
    """Return how much each broker has logged, these aside."""
    return {n: b.log.stat().st_size for n, b in cluster.brokers.items() if n not in but}


def refused(cluster: Cluster, logs: dict[int, int]) -> list[str]:
    """Return what brokers logged since about requests of ours under an epoch that is over."""
    return [
        line
        for n, size in logs.items()
        for line in cluster.brokers[n].log.read_bytes()[size:].decode(errors="replace").splitlines()
        if str(CONTROLLER_ID) in line and "controller epoch" in line and " is old" in line
    ]


def claims(cluster: Cluster) -> list[Write]:
    """Return every time that a daemon became the controller: from there on it may write."""
    history = writes(cluster)
    named = {
        write.session
        for write in history
        if write.path == "/controller" and write.content.get("brokerid") == CONTROLLER_ID
    }
    # A broker that loses ``/controller`` has a moment before the epoch is raised.
    return [w for w in history if w.path == "/controller_epoch" and w.session in named]


def what_matters(history: list[Write]) -> list[str]:
    """Return the writes to anything that a controller or a leading daemon writes."""
    # The first consumer of a cluster has this one made, whenever it looks for its group.
    not_ours = ("/reassigner/leader", "/brokers/topics/__consumer_offsets")
    ours = ("/brokers/topics/", "/admin/", "/controller", "/reassigner/")
    return [
        write.path
        for write in history
        if write.path.startswith(ours) and not write.path.startswith(not_ours)
    ]
