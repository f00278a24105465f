"""The controller changes again and again in the middle of a plan."""

from __future__ import annotations

from functools import partial

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import SESSION_S, Daemons, await_tenure
from integration.rigs.plans_under_load import STEPS, a_plan, in_the_middle
from integration.rigs.running_daemons import CONTROLLER_ID, controller_epoch
from integration.rigs.waiting import eventually

TAKES_OVER_WITHIN_S = SESSION_S + 2


@pytest.mark.parametrize("size", ["1", "all"])
def test_of_two_daemons_the_leader_is_killed_again_and_again(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, size: str
) -> None:
    """Each time the other takes over in time, and the dead one comes back as the standby."""
    topic, targets = a_plan(make_topic)
    options = ("--tenure", "permanent", "--step-size", size, *STEPS)
    leader, standby = daemons.start(*options), daemons.make(*options)
    await_tenure(leader)
    standby.start()
    with in_the_middle(cluster, topic, targets) as trial:
        for round_number in range(4):
            if round_number == 2:
                trial.release()
            leader.kill()
            await_tenure(standby, within_s=TAKES_OVER_WITHIN_S)
            leader.start()
            eventually(partial(stands_by, leader), within_s=20, what="the other one stands by")
            leader, standby = standby, leader
        trial.flows()


@pytest.mark.acceptance
def test_a_role_that_is_seized_again_and_again_is_claimed_again_and_again(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A broker becomes the controller in the middle of steps; the daemon takes it up from there."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure-linger", "1", *STEPS)
    with in_the_middle(cluster, topic, targets) as trial:
        for round_number in range(3):
            if round_number == 2:
                trial.release()
            await_tenure(daemon)
            epoch = controller_epoch(cluster)
            cluster.zk.delete("/controller")
            eventually(
                partial(has_changed_hands, cluster, epoch),
                within_s=20,
                every_s=0.02,
                what="a broker takes the role, then the daemon again",
            )
        trial.flows()


def stands_by(daemon: Daemon) -> bool:
    """Return whether a daemon waits for another's end."""
    return bool(daemon.status()["role"] == "standby")


def has_changed_hands(cluster: Cluster, epoch: int) -> bool:
    """Return whether a broker and then a daemon of ours became the controller after an epoch."""
    return controller_epoch(cluster) >= epoch + 2 and cluster.controller() == CONTROLLER_ID
