"""
The proof of recovery on real brokers: daemons that die at a boundary, and what takes over.

The simulation (``tests/sim/recoveries``) has every cell of the table; here the same cells run under
a producer that counts what was acknowledged. What is judged is read from ZooKeeper, the disks and
the daemons' logs.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.failpoints import Failpoint
from integration.rigs.plans import (
    LEGACY_PLAN,
    Targets,
    await_broker_controller,
    holders,
    is_planned,
    is_reassigning,
    orphans,
    specs,
)
from integration.rigs.seized_controllers import CONTROLLER
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from tests.sim.shapes import STEPWISE_BOUNDARIES

SESSION_S: Final = 2
"""ZooKeeper session timeout of the daemons here: many die, and each is waited for."""
OPTIONS: Final = (
    "--zookeeper-session-timeout",
    str(SESSION_S),
    "--tenure-linger",
    "1",
    "--max-partitions-in-flight",
    "2",
    # Steps have to begin towards a frozen broker, which does not report its free space.
    "--min-free",
    "none",
)
DIES_WITHIN_S: Final = 60.0
HEIR_WITHIN_S: Final = 30.0
ENDS_WITHIN_S: Final = 150.0
"""More than the minute after a tenure in which orphans are no reason for the next one."""


class Hand(StrEnum):
    """The successor of a daemon that died."""

    RESTARTED = "restarted"
    STANDBY = "standby"
    KAFKA = "kafka-then-a-daemon"
    """Judged when Kafka's controller has nothing left to do, and again after a later daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A plan whose way leads over a boundary, and what has to happen to the cluster for that."""

    name: str
    failpoints: tuple[Failpoint, ...]
    replicas: Sequence[int] = (1, 2, 3)
    targets: Mapping[int, Sequence[int]]
    options: tuple[str, ...] = ()


STEPWISE: Final = Shape(
    name="one",
    failpoints=STEPWISE_BOUNDARIES,
    targets={0: (5, 4, 3), 1: (4, 1, 5), 2: (5, 4, 1)},
)
AT_ONCE: Final = Shape(
    name="all",
    failpoints=(
        Failpoint.B3_WRITTEN,
        Failpoint.B3_LEADER_NOTIFIED,
        Failpoint.B3_UPDATE_METADATA_SENT,
    ),
    targets={0: (5, 4, 3), 1: (4, 1, 5), 2: (5, 4, 1)},
    options=("--step-size", "all"),
)
GROWING: Final = Shape(
    name="grow",
    failpoints=(Failpoint.B8_LEADER_NOTIFIED,),
    replicas=(1, 2),
    targets={0: (1, 2, 3)},
)
PAUSED: Final = Shape(
    name="pause",
    failpoints=(Failpoint.STEP_ENDED,),
    targets={0: (5, 4, 3)},
)
DELETING: Final = Shape(
    name="delete",
    failpoints=(
        Failpoint.TOPIC_DELETION_BEGUN,
        Failpoint.TOPIC_UPDATE_METADATA_SENT,
        Failpoint.TOPIC_STOP_REPLICA_SENT,
        Failpoint.TOPIC_DELETE_SENT,
        Failpoint.BEFORE_TOPIC_DELETED,
        Failpoint.TOPIC_DELETED,
    ),
    targets={0: (5, 4, 3)},
)
RESUMING: Final = Shape(
    name="again",
    failpoints=(Failpoint.A1_REPEATED,),
    targets={0: (5, 4, 3), 1: (5, 1, 4)},
)
ORPHANING: Final = Shape(
    name="dead",
    failpoints=(Failpoint.ORPHAN_RECORDED, Failpoint.ORPHAN_DELETE_SENT, Failpoint.ORPHAN_ENDED),
    targets={0: (1, 4, 5)},
)
SHAPES: Final = (STEPWISE, AT_ONCE, GROWING, PAUSED, DELETING, RESUMING, ORPHANING)


def await_death(daemon: Daemon, *, within_s: float = DIES_WITHIN_S) -> None:
    """Wait until a daemon died, and make sure that it did at its boundary."""
    eventually(
        lambda: not daemon.is_alive,
        within_s=within_s,
        every_s=0.02,
        what=lambda: f"{daemon.name} dies at its boundary; its log ends with\n{daemon.log_tail()}",
    )
    assert daemon.wait(1.0) == -signal.SIGKILL, daemon.log_tail()
    assert daemon.has_reached_failpoint(), daemon.log_tail()


def await_frozen(daemon: Daemon) -> None:
    """Wait until a daemon has stopped itself."""
    eventually(
        daemon.has_reached_failpoint,
        within_s=60,
        what=lambda: f"{daemon.name} freezes; its log ends with\n{daemon.log_tail()}",
    )


@contextmanager
def brokers_held_back(cluster: Cluster, dead: Daemon) -> Iterator[None]:
    """
    Keep a dead daemon's role from the brokers until a daemon takes it or the block ends.

    Before the dead session ends, one of ours replaces its ``/controller``: brokers see a controller
    and wait, a daemon replaces it as it does a broker's. Where the machine was too slow for that,
    brokers are not held back.
    """
    client = KazooClient(cluster.zookeeper_connect)
    client.start(timeout=30)
    try:
        stat = client.exists("/controller")
        # The log ends with the death; the session was heard of within a third of its time-out.
        if stat is not None and time.time() - dead.log.stat().st_mtime < SESSION_S * 2 / 3:
            multi = client.transaction()
            multi.delete("/controller", version=stat.version)
            now_ms = str(int(time.time() * 1000))
            document = {"version": 1, "brokerid": CONTROLLER, "timestamp": now_ms}
            multi.create("/controller", json.dumps(document).encode(), ephemeral=True)
            failed = [result for result in multi.commit() if isinstance(result, Exception)]
            assert not failed, failed
        yield
    finally:
        client.stop()
        client.close()


def await_heir(cluster: Cluster) -> None:
    """Wait until a daemon has taken what is held back, if there is anything left to do."""
    if is_planned(cluster) or orphans(cluster):
        eventually(
            lambda: cluster.controller() != CONTROLLER,
            within_s=HEIR_WITHIN_S,
            every_s=0.02,
            what="a daemon takes over before any broker",
        )


@contextmanager
def nothing_lost(cluster: Cluster, partitions: Mapping[str, int]) -> Iterator[Traffic]:
    """Produce meanwhile; at the end all partitions take records and none acknowledged is lost."""
    with Traffic(cluster.bootstrap_servers, partitions) as traffic:
        traffic.await_flow()
        yield traffic
        traffic.await_flow()
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_clean, str(found)


@dataclass(frozen=True, slots=True)
class Left:
    """The znodes that a dead daemon left."""

    specs: set[str]
    orphans: set[str]
    promised: Mapping[int, list[int]]
    """The replicas that Kafka's controller makes of it, by partition."""

    @classmethod
    def behind(cls, cluster: Cluster, topic: str) -> Left:
        """Read it; before the dead daemon's session ends, no other controller writes."""
        plan = cluster.read(LEGACY_PLAN) or {"partitions": []}
        listed = {
            entry["partition"]: entry["replicas"]
            for entry in plan["partitions"]
            if entry["topic"] == topic
        }
        content = cluster.topic(topic) or {}
        removing = content.get("removing_replicas", {})
        promised = {
            int(n): listed.get(int(n), [r for r in replicas if r not in removing.get(n, [])])
            for n, replicas in content["partitions"].items()
        }
        return cls(specs(cluster), orphans(cluster), promised)


def judge_kafkas_end(cluster: Cluster, topic: str, left: Left) -> None:
    """Wait until Kafka's controller made of the znodes what they said, and left our records."""
    await_broker_controller(cluster, within_s=SESSION_S + 15)

    def is_ended() -> bool:
        return not is_reassigning(cluster, topic) and all(
            cluster.replicas(topic, n) == replicas and cluster.isr(topic, n) == set(replicas)
            for n, replicas in left.promised.items()
        )

    def seen() -> str:
        found = {n: (cluster.replicas(topic, n), cluster.isr(topic, n)) for n in left.promised}
        return f"Kafka's controller ends with {dict(left.promised)}; there is {found}"

    eventually(is_ended, within_s=60, what=seen, tolerating=(KazooException,))
    assert specs(cluster) == left.specs
    assert orphans(cluster) == left.orphans
    recorded = {name.partition("/")[2] for name in left.orphans} | left.specs

    def stray() -> set[str]:
        return {
            f"{broker}/{topic}-{n}"
            for n, replicas in left.promised.items()
            if f"{topic}-{n}" not in recorded
            for broker in holders(cluster, topic, n) - set(replicas)
        }

    eventually(lambda: not stray(), within_s=30, what=lambda: f"no stray directory: {stray()}")


def options_of(shape: Shape) -> tuple[str, ...]:
    """Return the options of the daemons that carry out the shape's plan."""
    return (*OPTIONS, *shape.options)


def holds_the_role(failpoint: Failpoint) -> bool:
    """
    Return whether the daemon that dies has to be the controller before the plan is there.

    A broker in charge may begin an entry, all replicas at once, before the claim. Where the claim
    itself is tried, that has to be.
    """
    return failpoint not in (Failpoint.CLAIMED, Failpoint.LIVE_BROKERS_NOTIFIED)


def targets_of(shape: Shape, topic: str) -> Targets:
    """Return the shape's plan for a topic."""
    return {(topic, n): replicas for n, replicas in shape.targets.items()}
