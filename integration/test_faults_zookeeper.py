"""ZooKeeper ends the daemon's session, or is gone for a while, in the middle of a plan."""

from __future__ import annotations

import pytest
from kazoo.exceptions import KazooException

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.plans import Daemons, await_tenure
from integration.rigs.plans_under_load import (
    STEPS,
    a_plan,
    adding,
    controller_session,
    in_the_middle,
)
from integration.rigs.running_daemons import CONTROLLER_ID, controller_epoch
from integration.rigs.waiting import eventually
from integration.rigs.zookeeper_ensembles import expire_session


@pytest.mark.parametrize(
    "size",
    [
        pytest.param("1", marks=pytest.mark.smoke),
        pytest.param("all", marks=pytest.mark.acceptance),
    ],
)
def test_a_daemon_whose_session_expires_claims_anew_and_finishes(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, size: str
) -> None:
    """The session ends under a healthy daemon: it opens another, and continues."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure-linger", "1", "--step-size", size, *STEPS)
    with in_the_middle(cluster, topic, targets) as trial:
        await_tenure(daemon)  # Kafka's controller may have begun the partitions in flight
        session, epoch = controller_session(cluster), controller_epoch(cluster)
        expire_session(cluster.zookeeper_connect, session)
        eventually(
            lambda: (
                cluster.controller() == CONTROLLER_ID and controller_session(cluster) != session
            ),
            within_s=20,
            what="the daemon is the controller once more, in another session",
        )
        await_tenure(daemon)
        assert controller_epoch(cluster) > epoch
        trial.flows()
    assert daemon.is_alive


@pytest.mark.acceptance
def test_a_plan_continues_after_zookeeper_was_killed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Same data after kill -9: sessions live on, and so does the step that was in flight."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", *STEPS)
    await_tenure(daemon)
    with in_the_middle(cluster, topic, targets) as trial:
        cluster.zookeeper.kill()
        trial.flows()
        cluster.zookeeper.start()
        eventually(
            lambda: cluster.controller() is not None,
            within_s=30,
            what="ZooKeeper answers",
            tolerating=(KazooException,),
        )
        await_tenure(daemon, within_s=30)


def test_a_plan_continues_after_zookeeper_was_away_for_longer_than_a_session(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Copies end while ZooKeeper is away; the daemon finds them when it is back."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure-linger", "1", *STEPS)
    with in_the_middle(cluster, topic, targets) as trial:
        begun = adding(cluster, topic)
        trial.release()
        cluster.zookeeper.freeze()
        eventually(
            lambda: not daemon.status()["tenure"]["held"],
            within_s=20,
            what="the daemon does not count on a role it cannot see",
        )
        trial.flows()
        cluster.zookeeper.thaw()
        eventually(
            lambda: adding(cluster, topic) != begun,
            within_s=60,
            what="the plan continues",
            tolerating=(KazooException,),
        )
