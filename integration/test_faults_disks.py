"""A log directory of a broker fails in the middle of a plan, and is back in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import Daemons, await_tenure, holders, orphans
from integration.rigs.plans_under_load import STEPS, a_plan, adding, in_flight, in_the_middle
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Give five brokers with two disks each."""
    with Cluster.running(ClusterOptions(broker=BrokerOptions(log_dirs=2))) as cluster:
        yield cluster


def test_a_failed_disk_holds_up_only_the_copies_it_received(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """They name it as the reason, the broker's other disk continues; repaired, all end."""
    topic, targets = a_plan(make_topic)
    daemon = daemons.start("--tenure", "permanent", "--max-partitions-in-flight", "6")
    await_tenure(daemon)
    with in_the_middle(cluster, topic, targets, in_flight=6) as trial:
        receiving = min(adding(cluster, topic).values())[0]
        copies = {n for n, replicas in adding(cluster, topic).items() if receiving in replicas}
        eventually(
            lambda: all(receiving in holders(cluster, topic, n) for n in copies),
            within_s=10,
            what=f"broker {receiving} receives {copies}",
        )
        lost = fail_the_disk_of(cluster, receiving, topic, min(copies)) & copies
        eventually(
            lambda: all("not live" in blocked(daemon.status(), n) for n in lost),
            within_s=20,
            what=lambda: f"{lost} wait for a disk of {receiving}: {in_flight(daemon)}",
        )
        assert all("not live" not in blocked(daemon.status(), n) for n in copies - lost)
        trial.release()
        eventually(
            lambda: all(receiving in cluster.isr(topic, n) for n in copies - lost),
            within_s=60,
            what=f"{copies - lost} are copied to the other disk of {receiving}",
        )
        trial.flows()
        repair(cluster, receiving)


@pytest.mark.parametrize("size", ["1", "all"])
def test_a_dropped_replica_on_a_failed_disk_is_deleted_when_the_disk_is_back(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, size: str
) -> None:
    """Its partition ends without it and leaves a record, as for a broker that is dead."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", "--step-size", size, *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        dropped = {n for (_, n), replicas in targets.items() if 2 not in replicas}
        lost = fail_the_disk_of(cluster, 2, topic, min(dropped)) & dropped
        trial.release()
        eventually(
            lambda: (
                {f"2/{topic}-{n}" for n in lost} <= orphans(cluster)
                and all(cluster.replicas(topic, n) == list(targets[topic, n]) for n in lost)
            ),
            within_s=90,
            what=lambda: f"{lost} end without broker 2; orphans: {orphans(cluster)}",
        )
        trial.flows()
        repair(cluster, 2)


@pytest.mark.acceptance
def test_a_leader_whose_disk_fails_is_replaced(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The broker lives on; its partitions on that disk get leaders elsewhere, and all end."""
    topic, targets = a_plan(make_topic)
    await_tenure(daemons.start("--tenure", "permanent", *STEPS))
    with in_the_middle(cluster, topic, targets) as trial:
        lost = fail_the_disk_of(cluster, 1, topic, 0)
        eventually(
            lambda: all(cluster.leader(topic, n) not in {None, 1} for n in lost),
            within_s=20,
            what=f"{lost} have other leaders",
        )
        trial.flows()
        repair(cluster, 1)


def fail_the_disk_of(cluster: Cluster, broker: int, topic: str, partition: int) -> set[int]:
    """Make the disk fail where a broker has a partition; return the topic's partitions there."""
    process = cluster.brokers[broker]
    having: list[int] = eventually(
        lambda: [
            n
            for n, log_dir in enumerate(process.log_dirs)
            if (log_dir / f"{topic}-{partition}").is_dir()
        ],
        within_s=10,
        what=f"broker {broker} has {topic}-{partition}",
    )
    number = having[0]
    there = {entry.name for entry in process.log_dirs[number].iterdir()}
    process.fail_disk(number)
    return {n for n in range(6) if f"{topic}-{n}" in there}


def repair(cluster: Cluster, broker: int) -> None:
    """Restart a broker with the disks it had."""
    process = cluster.brokers[broker]
    process.stop()
    process.repair_disks()
    cluster.start_brokers(broker)


def blocked(status: dict[str, object], partition: int) -> str:
    """Return what one partition in flight waits for, in words."""
    found = status["in_flight"]
    assert isinstance(found, list)
    return next((str(of["blocked_on"]) for of in found if of["partition"] == partition), "")
