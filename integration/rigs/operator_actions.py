"""
Actions of operators on a real cluster, and the daemon's reactions.

Requests and queues are znodes as any client may write them; controls are changed by the command
line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import APPLIED_THROTTLES, Targets, plan_of, unconfigure
from integration.rigs.requests import CANCEL, await_outcome, reassigner
from integration.rigs.transaction_log import Write, assignment_in
from integration.rigs.waiting import eventually

QUEUE: Final = "/admin/reassign_partitions_queue"
KILL_SWITCH: Final = "/admin/reassign_cancel"
CONTROL: Final = "/reassigner/control"

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


def enqueue(cluster: Cluster, plan: Mapping[str, Any] | bytes) -> str:
    """Write the queue; return the id of its request."""
    data = plan if isinstance(plan, bytes) else json.dumps(plan).encode()
    _, stat = cluster.zk.create(QUEUE, data, include_data=True)
    return f"queue-{stat.czxid:016x}"


def plan_file(directory: Path, targets: Targets) -> str:
    """Write a plan into a file of its own; return its name."""
    file = directory / f"plan-{len(list(directory.glob('plan-*.json')))}.json"
    file.write_text(json.dumps(plan_of(targets)))
    return str(file)


def said(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    """Run a verb against the cluster; return what it said, which ended with this code."""
    result = reassigner(cluster, *arguments)
    assert result.code == code, result.stdout
    return result.stdout


def forget(cluster: Cluster) -> None:
    """Take out what operators turned, and the rates that tests leave on brokers."""
    for broker in cluster.brokers:
        unconfigure(cluster, f"brokers/{broker}", LEADER_RATE, FOLLOWER_RATE)
    for path in (CONTROL, KILL_SWITCH, QUEUE, CANCEL):
        if cluster.zk.exists(path) is not None:
            cluster.zk.delete(path, recursive=True)


# --- what became of it ---------------------------------------------------------------------------


def ended(cluster: Cluster, request: str, *, within_s: float = 30) -> dict[str, Any]:
    """Wait until a request has ended; return its outcome."""
    return await_outcome(cluster, request, within_s=within_s)


def moving(cluster: Cluster, *topics: str) -> set[tuple[str, int]]:
    """Return the partitions of which a topic znode names adding or removing replicas."""
    found: set[tuple[str, int]] = set()
    for topic in topics:
        content = cluster.topic(topic) or {}
        for key in ("adding_replicas", "removing_replicas"):
            found |= {(topic, int(number)) for number in content.get(key, {})}
    return found


def await_moving(
    cluster: Cluster, partitions: Iterable[tuple[str, int]], *, within_s: float = 30
) -> None:
    """Wait until exactly these partitions of their topics have a step under way."""
    wanted = set(partitions)
    topics = {topic for topic, _ in wanted}
    eventually(
        lambda: moving(cluster, *topics) == wanted,
        within_s=within_s,
        what=lambda: f"{sorted(wanted)} are moving; {sorted(moving(cluster, *topics))} are",
    )


def await_count(cluster: Cluster, topic: str, count: int, *, within_s: float = 30) -> None:
    """Wait until so many partitions of a topic have a step under way."""
    eventually(
        lambda: len(moving(cluster, topic)) == count,
        within_s=within_s,
        what=lambda: f"{count} partitions move; {sorted(moving(cluster, topic))} do",
    )


def begun_in_order(history: Iterable[Write], topics: Iterable[str]) -> list[tuple[str, int]]:
    """Return the partitions of topics in the order of their first steps."""
    begun: dict[tuple[str, int], None] = {}
    paths = {f"/brokers/topics/{topic}": topic for topic in topics}
    for write in history:
        topic = paths.get(write.path)
        if topic is None or write.data is None:
            continue
        for number in write.content["partitions"]:
            assignment = assignment_in(write, int(number))
            if assignment is not None and (assignment.adding or assignment.removing):
                begun.setdefault((topic, int(number)))
    return list(begun)


STEP: Final = ("adding_replicas", "removing_replicas")
COPY: Final = ("adding_replicas",)


def most_at_once(history: Iterable[Write], topic: str, what: Iterable[str] = STEP) -> int:
    """Return how many partitions of a topic ever had a step, or a copy, under way at once."""
    most = 0
    for write in history:
        if write.path == f"/brokers/topics/{topic}" and write.data is not None:
            content = write.content
            some: set[str] = set()
            for key in what:
                some |= content.get(key, {}).keys()
            most = max(most, len(some))
    return most


def lines(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    """Return the daemon's log lines of an event."""
    parsed = (json.loads(x) for x in daemon.log.read_text().splitlines() if x[:1] == "{")
    return [line for line in parsed if line.get("event") == event]


def rates(cluster: Cluster) -> dict[int, tuple[str | None, str | None]]:
    """Return the throttle rates of each broker, the leader's and the follower's."""
    found: dict[int, tuple[str | None, str | None]] = {}
    for broker in cluster.brokers:
        config: Mapping[str, str] = (cluster.read(f"/config/brokers/{broker}") or {}).get(
            "config", {}
        )
        found[broker] = (config.get(LEADER_RATE), config.get(FOLLOWER_RATE))
    return found


def await_leases_gone(cluster: Cluster) -> None:
    """Wait until no applied throttle is left in Kafka's settings."""
    eventually(
        lambda: (
            cluster.zk.exists(APPLIED_THROTTLES) is None
            or not cluster.zk.get_children(APPLIED_THROTTLES)
        ),
        within_s=15,
        what="every throttle record is gone",
    )
