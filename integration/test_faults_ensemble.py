"""An ensemble of three ZooKeepers loses a member in the middle of a plan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import Daemons, await_tenure
from integration.rigs.plans_under_load import STEPS, a_plan, in_the_middle
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.servers import ZooKeeperServer
from integration.rigs.waiting import eventually


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Give five brokers on three ZooKeepers."""
    with Cluster.running(ClusterOptions(zookeepers=3)) as cluster:
        yield cluster


def test_the_loss_of_a_follower_of_the_ensemble_goes_unnoticed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its clients move to another member with the same session: no new epoch."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        epoch = controller_epoch(cluster)
        for follower in members(cluster, "follower"):
            follower.kill()
            trial.flows()
            follower.start()
        trial.release()
    assert controller_epoch(cluster) == epoch


@pytest.mark.acceptance
def test_the_loss_of_the_leader_of_the_ensemble_is_survived_again_and_again(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Another member leads within seconds; what was not written is written then."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", *STEPS)
    await_tenure(daemon)
    with in_the_middle(cluster, topic, targets) as trial:
        for _ in range(2):
            (leader,) = members(cluster, "leader")
            trial.release()
            leader.kill()
            eventually(
                lambda: len(members(cluster, "leader")) == 1,
                within_s=30,
                what="another member leads",
            )
            trial.flows()
            leader.start()
        await_tenure(daemon, within_s=30)


def members(cluster: Cluster, mode: str) -> list[ZooKeeperServer]:
    """Return the members that serve as a leader, or as followers."""
    return [server for server in cluster.zookeepers if server.mode() == mode]
