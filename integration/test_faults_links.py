"""The network between the daemon and one broker is cut in the middle of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import Daemons, Targets, await_tenure
from integration.rigs.plans_under_load import DURABLE, in_the_middle
from integration.rigs.servers import LINKED_LISTENER, BrokerOptions
from integration.rigs.tcp_proxies import Link
from integration.rigs.waiting import eventually

CUT: Final = 4
"""The broker that the daemon cannot reach; its clients and the other brokers can."""
ASSIGNED: Final = {
    0: (1, 2, 3),
    1: (3, 2, 1),
    2: (1, 2, 3),
    3: (3, 2, 1),
    4: (CUT, 2, 3),
    5: (CUT, 2, 1),
    6: (1, 2, CUT),
    7: (2, 1, CUT),
}
TARGETS: Final = {
    0: (1, 2, 5),
    1: (5, 3, 2),
    2: (1, 2, CUT),  # arrives there
    3: (CUT, 5, 1),
    4: (CUT, 2, 5),  # is led from there
    5: (5, 2, 1),
    6: (1, 2, 5),  # leaves it
    7: (5, 1, 2),
}


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Give five brokers, each with a listener of its own for the daemon."""
    with Cluster.running(ClusterOptions(broker=BrokerOptions(linked=True))) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "cut", [pytest.param(Link.refuse, marks=pytest.mark.acceptance), Link.swallow]
)
def test_only_the_partitions_of_a_broker_out_of_reach_wait(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, cut: Callable[[Link], None]
) -> None:
    """The others end meanwhile; when the network is whole again, so do these."""
    topic, targets = a_plan_around_one_broker(make_topic)
    unconcerned = [n for n in ASSIGNED if CUT not in {*ASSIGNED[n], *TARGETS[n]}]
    daemon = daemons.start(
        "--tenure", "permanent", "--inter-broker-listener", LINKED_LISTENER, "--step-size", "1"
    )
    await_tenure(daemon)
    link = cluster.brokers[CUT].link
    assert link is not None
    with in_the_middle(cluster, topic, targets, in_flight=len(targets)) as trial:
        cut(link)
        trial.release()
        eventually(
            lambda: all(
                cluster.replicas(topic, n) == list(TARGETS[n])
                and cluster.isr(topic, n) == set(TARGETS[n])
                for n in unconcerned
            ),
            within_s=60,
            what=f"{unconcerned} end without broker {CUT}",
        )
        led = [n for n in ASSIGNED if ASSIGNED[n][0] == CUT]
        # Without its own leadership, or a write to a partition it leads, it has no followers.
        trial.flows(but={*led, *(n for n in TARGETS if TARGETS[n][0] == CUT)})
        assert all(cluster.replicas(topic, n) != list(TARGETS[n]) for n in led)
        assert cluster.is_registered(CUT)
        link.repair()


def a_plan_around_one_broker(make_topic: MakeTopic) -> tuple[str, Targets]:
    """Return a topic and a plan of which some partitions concern the one broker."""
    topic = make_topic(ASSIGNED, DURABLE)
    return topic, {(topic, n): replicas for n, replicas in TARGETS.items()}
