"""
A plan that is in the middle of its steps under load, and the verdict when it has ended.

What every fault has in common: before it, records flow and partitions copy; after it, the plan is
carried out exactly, no broker has a directory or a record too many, and no record is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import Targets, await_end, copies_held, plan_of, submit
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

DURABLE: Final = {"min.insync.replicas": "2"}
IN_FLIGHT: Final = 3
STEPS: Final = ("--max-partitions-in-flight", str(IN_FLIGHT))
"""Fewer than the plan has, so that some partitions are in a step and some are pending."""

_PARTITIONS: Final = 6
_ENDS_WITHIN_S: Final = 150.0


class Trial(NamedTuple):
    """One plan on its way."""

    topic: str
    targets: Targets
    traffic: Traffic
    release: Callable[[], None]
    """Lets the copies go that were held until now."""

    def flows(self, *, but: Collection[int] = ()) -> None:
        """Wait until every partition takes more records, except these."""
        self.traffic.await_flow((t, n) for t, n in self.targets if n not in but)


def a_plan(make_topic: MakeTopic) -> tuple[str, Targets]:
    """
    Return a topic of six partitions and a plan that moves all of them in two steps or more.

    Broker 1 leads and leaves everywhere, 2 and 3 leave one half each, 4 and 5 arrive everywhere.
    """
    topic = make_topic(dict.fromkeys(range(_PARTITIONS), (1, 2, 3)), DURABLE)
    return topic, {(topic, n): (3, 4, 5) if n % 2 else (2, 5, 4) for n in range(_PARTITIONS)}


@contextmanager
def in_the_middle(
    cluster: Cluster, topic: str, targets: Targets, *, in_flight: int = IN_FLIGHT
) -> Iterator[Trial]:
    """
    Yield a plan, under load, of which so many partitions are in the middle of a step.

    The copies are held until they are released or the block ends. After the block every
    broken process has to run again; then the plan's end is awaited and judged.
    """
    partitions = {topic: len((cluster.topic(topic) or {"partitions": ()})["partitions"])}
    # Partitions that a fault concerns may wait for its end; where none may, ``flows`` fails.
    with Traffic(cluster.bootstrap_servers, partitions, give_up_after_s=_ENDS_WITHIN_S) as traffic:
        with copies_held(cluster, targets, at={topic: _arriving(cluster, targets)}) as release:
            trial = Trial(topic, targets, traffic, release)
            trial.flows()
            submit(cluster, plan_of(targets))
            eventually(
                # Kafka's controller may have begun more of them before the daemon claimed the role.
                lambda: len(adding(cluster, topic)) >= in_flight,
                within_s=30,
                every_s=0.02,
                what=f"{in_flight} partitions are in flight",
            )
            try:
                yield trial
            except BaseException:
                cluster.heal()  # or nothing could be cleaned up
                raise
        await_end(cluster, targets, within_s=_ENDS_WITHIN_S, any_leader=True)
        trial.flows()
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)


def _arriving(cluster: Cluster, targets: Targets) -> str:
    """
    Return the replicas that a plan brings, as throttled replicas are listed.

    One that is there already falls out of the ISR at a change of leader if it is throttled: until
    it has fetched all of the new one's log it counts as lagging.
    """
    return ",".join(
        f"{n}:{replica}"
        for (topic, n), replicas in targets.items()
        for replica in replicas
        if replica not in cluster.replicas(topic, n)
    )


def adding(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    """Return which replicas are being added, by partition."""
    found: Mapping[str, list[int]] = (cluster.topic(topic) or {}).get("adding_replicas", {})
    return {int(number): list(replicas) for number, replicas in found.items()}


def removing(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    """Return which replicas are being removed, by partition."""
    found: Mapping[str, list[int]] = (cluster.topic(topic) or {}).get("removing_replicas", {})
    return {int(number): list(replicas) for number, replicas in found.items()}


def in_flight(daemon: Daemon) -> dict[int, dict[str, Any]]:
    """Return what the daemon says of each partition of its one topic that is in flight."""
    return {of["partition"]: of for of in daemon.status()["in_flight"]}


def controller_session(cluster: Cluster) -> int:
    """Return the session of the controller."""
    stat = cluster.zk.exists("/controller")
    assert stat is not None, "there is no controller"
    return int(stat.ephemeralOwner)
