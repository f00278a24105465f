"""A broker is killed and comes back in the middle of a plan, whatever its part in it."""

from __future__ import annotations

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.failpoints import Failpoint
from integration.rigs.plans import (
    Daemons,
    await_broker_controller,
    await_end,
    await_tenure,
    orphans,
    plan_of,
    submit,
)
from integration.rigs.plans_under_load import STEPS, Trial, a_plan, adding, in_flight, in_the_middle
from integration.rigs.recovery_cells import await_frozen
from integration.rigs.waiting import eventually

GONE_WITHIN_S = 15


@pytest.mark.acceptance
def test_a_target_that_dies_while_it_copies_is_waited_for(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Its partitions say whom they wait for; when it is back, they end as planned."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", *STEPS)
    await_tenure(daemon)
    with in_the_middle(cluster, topic, targets) as trial:
        dead = min(adding(cluster, topic).values())[0]
        waiting = {n for n, replicas in adding(cluster, topic).items() if dead in replicas}
        kill(cluster, dead)
        eventually(
            lambda: all("not live" in str(in_flight(daemon)[n]["blocked_on"]) for n in waiting),
            within_s=10,
            what=lambda: f"{waiting} wait for broker {dead}: {in_flight(daemon)}",
        )
        trial.flows()
        cluster.start_brokers(dead)


@pytest.mark.parametrize("size", ["1", "all"])
def test_a_dropped_replica_that_dies_holds_nothing_up_and_is_deleted_in_the_end(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, size: str
) -> None:
    """Partitions that drop it end without it; they leave a record, and no directory for long."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", size, *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        kill(cluster, 2)
        trial.release()
        dropped = [n for (_, n), replicas in targets.items() if 2 not in replicas]
        eventually(
            lambda: (
                {f"2/{topic}-{n}" for n in dropped} <= orphans(cluster)
                and all(cluster.replicas(topic, n) == list(targets[topic, n]) for n in dropped)
            ),
            within_s=90,
            what=lambda: f"{dropped} end without broker 2; orphans: {orphans(cluster)}",
        )
        trial.flows()
        cluster.start_brokers(2)


@pytest.mark.parametrize("size", ["1", "all"])
def test_a_leader_that_dies_is_replaced_and_the_plan_continues(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, size: str
) -> None:
    """Every partition gets another leader within the dead one's session time-out and a little."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", size, *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        kill(cluster, 1)
        eventually(
            lambda: all(cluster.leader(topic, n) not in {None, 1} for _, n in targets),
            within_s=5,
            what="every partition has another leader",
        )
        trial.flows()
        trial.release()
        some_move_on(cluster, trial)
        cluster.start_brokers(1)


def test_the_broker_that_was_the_controller_before_us_may_die_and_come_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It comes back as an ordinary broker while the role is ours, and gets it back in the end."""
    topic, targets = a_plan(make_topic)
    former = cluster.controller_broker()
    assert former is not None
    await_tenure(daemons.start("--tenure", "permanent", *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        kill(cluster, former)
        trial.flows()
        cluster.start_brokers(former)
        assert cluster.controller_broker() is None
    daemons.close()
    await_broker_controller(cluster, within_s=10)


def test_a_broker_that_hangs_past_its_session_is_taken_for_dead_and_taken_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A frozen leader wakes up believing that it leads: nothing it was sent is acknowledged."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        cluster.brokers[1].freeze()
        eventually(lambda: not cluster.is_registered(1), within_s=GONE_WITHIN_S)
        trial.flows()
        cluster.brokers[1].thaw()
        eventually(lambda: cluster.is_registered(1), within_s=30)
        trial.flows()


def test_a_broker_that_wakes_without_its_session_still_gets_its_replicas(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """It handles the LeaderAndIsr first, and cannot read the topic's settings from ZooKeeper."""
    topic = make_topic(dict.fromkeys(range(8), (1, 2)))
    targets = {(topic, n): (1, 2, 5) for n in range(8)}
    daemon = daemons.start("--tenure", "permanent", failpoint=("freeze", Failpoint.A1_WRITTEN))
    await_tenure(daemon)
    submit(cluster, plan_of(targets))
    await_frozen(daemon)
    cluster.brokers[5].freeze()
    daemon.thaw()
    eventually(lambda: not cluster.is_registered(5), within_s=GONE_WITHIN_S)
    cluster.brokers[5].thaw()
    await_end(cluster, targets, within_s=60, any_leader=True)


def kill(cluster: Cluster, broker: int) -> None:
    """Kill a broker and wait until ZooKeeper knows."""
    cluster.brokers[broker].kill()
    eventually(lambda: not cluster.is_registered(broker), within_s=GONE_WITHIN_S)


def some_move_on(cluster: Cluster, trial: Trial) -> None:
    """Wait until a partition is in another step than at first."""
    begun = adding(cluster, trial.topic)
    eventually(
        lambda: adding(cluster, trial.topic) != begun, within_s=60, what="a partition moves on"
    )
