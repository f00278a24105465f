"""
Plans on a real cluster: written as an operator writes them, followed to their end, held on the way.

What "done" means is said once, here, and read from ZooKeeper and the disks alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    ConfigResource,
    ResourceType,
)
from kazoo.exceptions import KazooException, NoNodeError

from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import COMMAND, Daemon
from integration.rigs.failpoints import Failpoint
from integration.rigs.waiting import eventually

Targets = Mapping[tuple[str, int], Sequence[int]]
"""The replicas, in order, that each partition (topic, number) is to have."""

LEGACY_PLAN: Final = "/admin/reassign_partitions"
REASSIGNMENTS: Final = "/admin/reassignments"
OUTCOMES: Final = "/reassigner/outcomes"
ORPHANS: Final = "/reassigner/orphans"
APPLIED_THROTTLES: Final = "/reassigner/throttles"

SESSION_S: Final = 4
"""ZooKeeper session timeout of the daemons here."""

_TRICKLE: Final = 1
_RATE: Final = "follower.replication.throttled.rate"
UNLIMITED: Final = 1_000_000_000
_RECORD_BYTES: Final = 500_000
_HOLDING_RECORDS: Final = 10
"""A follower fetches 1 MB at once and is then throttled for the quota's window of 11 seconds."""


# --- plans -----------------------------------------------------------------------------------


def plan_of(targets: Targets) -> dict[str, Any]:
    """Return a plan in Kafka's own format."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in targets.items()
        ],
    }


def submit(cluster: Cluster, plan: Mapping[str, Any] | bytes) -> str:
    """Create the legacy znode, as Kafka's tool did up to 2.5; return its request's id."""
    data = plan if isinstance(plan, bytes) else json.dumps(plan).encode()
    cluster.zk.create(LEGACY_PLAN, data)
    stat = cluster.zk.exists(LEGACY_PLAN)
    if stat is not None:
        return f"legacy-{stat.czxid:016x}"
    # An unreadable plan may be gone by now: then its outcome is the newest of a legacy plan.
    return max(name for name in _outcomes(cluster) if name.startswith("legacy-"))


def outcome(cluster: Cluster, request: str) -> dict[str, Any] | None:
    """Return how a request ended, None while it has not."""
    return cluster.read(f"{OUTCOMES}/{request}/summary")


def orphans(cluster: Cluster) -> set[str]:
    """Return every orphan record as ``broker/topic-partition``."""
    return {
        f"{broker}/{replica}"
        for broker in children(cluster, ORPHANS)
        for replica in children(cluster, f"{ORPHANS}/{broker}")
    }


def specs(cluster: Cluster) -> set[str]:
    """Return every reassignment that is recorded as unfinished, as ``topic-partition``."""
    return {
        f"{topic}-{partition}"
        for topic in children(cluster, REASSIGNMENTS)
        for partition in children(cluster, f"{REASSIGNMENTS}/{topic}")
    }


def holders(cluster: Cluster, topic: str, partition: int) -> set[int]:
    """Return the brokers that have the partition's directory, ones being deleted aside."""
    name = f"{topic}-{partition}"
    return {broker for broker in cluster.brokers if name in cluster.replica_directories(broker)}


def is_planned(cluster: Cluster) -> bool:
    """Return whether anything of a plan is left."""
    return cluster.zk.exists(LEGACY_PLAN) is not None or bool(specs(cluster))


def is_reassigning(cluster: Cluster, topic: str) -> bool:
    """Return whether the topic znode names adding or removing replicas."""
    content = cluster.topic(topic) or {}
    return bool(content.get("adding_replicas") or content.get("removing_replicas"))


def what_is_missing(cluster: Cluster, targets: Targets, *, any_leader: bool = False) -> list[str]:
    """
    Return in words what distinguishes the cluster from one where the plan is carried out.

    With ``any_leader`` the preferred one need not lead: a Kafka controller does not see to that.
    """
    missing = list(_wrong_partitions(cluster, targets, any_leader=any_leader))
    missing += [
        f"{topic} still names adding or removing replicas"
        for topic in {topic for topic, _ in targets}
        if is_reassigning(cluster, topic)
    ]
    if cluster.zk.exists(LEGACY_PLAN) is not None:
        missing.append(f"{LEGACY_PLAN} exists")
    missing += [f"{REASSIGNMENTS} holds {spec}" for spec in specs(cluster)]
    missing += [f"{ORPHANS} holds {orphan}" for orphan in orphans(cluster)]
    return missing


def await_end(
    cluster: Cluster, targets: Targets, *, within_s: float, any_leader: bool = False
) -> None:
    """
    Wait until a plan is carried out: assignments, ISR, leaders, disks and our own records.

    Args:
        cluster: Where.
        targets: What the plan says.
        within_s: How long to wait.
        any_leader: Take any of the replicas for the leader, not the first alone: what a broker led
            that dies when its partitions have ended does not come back to it by itself.
    """

    def missing() -> list[str]:
        return what_is_missing(cluster, targets, any_leader=any_leader)

    eventually(
        lambda: not missing(),
        within_s=within_s,
        every_s=0.2,
        what=lambda: "the plan is carried out; " + "; ".join(missing()),
        tolerating=(KazooException,),
    )


def _wrong_partitions(cluster: Cluster, targets: Targets, *, any_leader: bool) -> Iterator[str]:
    for (topic, partition), replicas in targets.items():
        name, state = f"{topic}-{partition}", cluster.state(topic, partition)
        if cluster.replicas(topic, partition) != list(replicas):
            yield f"{name} has replicas {cluster.replicas(topic, partition)}"
        elif state is None or set(state["isr"]) != set(replicas):
            yield f"{name} has state {state}"
        elif state["leader"] not in (replicas if any_leader else replicas[:1]):
            yield f"{name} is led by {state['leader']}"
        elif holders(cluster, topic, partition) != set(replicas):
            yield f"{name} is on the disks of {holders(cluster, topic, partition)}"


def _outcomes(cluster: Cluster) -> list[str]:
    return sorted(children(cluster, OUTCOMES))


def children(cluster: Cluster, path: str) -> list[str]:
    """Return the names of a znode's children, none where there is no znode."""
    try:
        return list(cluster.zk.get_children(path))
    except NoNodeError:
        return []


# --- holding copies on their way --------------------------------------------------------------


@contextmanager
def copies_held(
    cluster: Cluster,
    partitions: Iterable[tuple[str, int]],
    *,
    at: Mapping[str, str] | None = None,
    records: int = _HOLDING_RECORDS,
) -> Iterator[Callable[[], None]]:
    """
    Keep new replicas of these partitions from getting in sync, for half a minute at least.

    Yields a function that ends that; it ends at the latest afterwards. The setting goes through
    znodes, as that works with any controller.

    Args:
        cluster: Where.
        partitions: They get data, as much as it takes.
        at: By topic, which replicas are held, as ``partition:broker,...``; else all of them.
        records: Half a megabyte each; with many partitions three of each do.
    """
    held = list(partitions)
    fill(cluster, held, records)
    limit_copies(cluster, {topic for topic, _ in held}, _TRICKLE, at or {})
    _await_limited(cluster, _TRICKLE)
    try:
        yield lambda: limit_copies(cluster, (), UNLIMITED)
    finally:
        limit_copies(cluster, (), UNLIMITED)


def limit_copies(
    cluster: Cluster,
    topics: Iterable[str],
    bytes_per_s: int,
    at: Mapping[str, str] | None = None,
) -> None:
    """Limit what every broker copies per second of these topics and those limited before."""
    for topic in topics:
        which = (at or {}).get(topic, "*")
        configure(cluster, f"topics/{topic}", {"follower.replication.throttled.replicas": which})
    rate = {_RATE: str(bytes_per_s)}
    for broker in cluster.brokers:
        configure(cluster, f"brokers/{broker}", rate)


def _await_limited(cluster: Cluster, bytes_per_s: int) -> None:
    """Wait until every broker has heard of its rate, and so of the topics announced before it."""

    def have_heard() -> bool:
        brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in cluster.brokers]
        answers = [f for b in brokers for f in cluster.admin.describe_configs([b]).values()]
        found = [answer.result(timeout=10).get(_RATE) for answer in answers]
        # Older releases hide the values of settings that they do not know.
        return all(entry and entry.value in {None, str(bytes_per_s)} for entry in found)

    what = "every broker has heard what to limit"
    eventually(have_heard, within_s=60, what=what, tolerating=(KafkaException,))


def fill(
    cluster: Cluster,
    partitions: Iterable[tuple[str, int]],
    records: int = _HOLDING_RECORDS,
    record_bytes: int = _RECORD_BYTES,
) -> None:
    """
    Write 5 MB into each partition: more than passes before a throttle is felt.

    Every record is a batch of its own, which is the least that a replica fetches at once.
    """
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}
    settings["batch.size"] = str(record_bytes)
    producer = Producer({**settings, **cluster.client_security, **QUIET})
    for topic, partition in partitions:
        for key in range(records):
            producer.produce(topic, b"x" * record_bytes, f"{-1 - key}".encode(), partition)
        producer.poll(0)
    left = producer.flush(60)
    assert left == 0, f"{left} records are not written"


def configured(cluster: Cluster, entity: str) -> dict[str, str]:
    """Return the dynamic settings of ``topics/<name>`` or ``brokers/<id>``."""
    content = cluster.read(f"/config/{entity}") or {}
    return dict(content.get("config", {}))


def configure(cluster: Cluster, entity: str, config: Mapping[str, str]) -> None:
    """Add dynamic settings and announce them, as brokers themselves do."""
    _replace_config(cluster, entity, {**configured(cluster, entity), **config})


def unconfigure(cluster: Cluster, entity: str, *keys: str) -> None:
    """Take dynamic settings out, if they are there, and announce it."""
    before = configured(cluster, entity)
    after = {key: value for key, value in before.items() if key not in keys}
    if after != before:
        _replace_config(cluster, entity, after)


def _replace_config(cluster: Cluster, entity: str, config: Mapping[str, str]) -> None:
    path = f"/config/{entity}"
    cluster.zk.ensure_path(path)
    cluster.zk.set(path, json.dumps({"version": 1, "config": config}).encode())
    change = json.dumps({"version": 2, "entity_path": entity})
    cluster.zk.create("/config/changes/config_change_", change.encode(), sequence=True)


# --- daemons ---------------------------------------------------------------------------------


class Daemons:
    """
    The daemons of one test.

    Args:
        cluster: What they work on.
        directory: For their logs.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._started: list[Daemon] = []

    def start(
        self,
        *options: str,
        failpoint: tuple[str, Failpoint] | None = None,
        module: str = COMMAND,
    ) -> Daemon:
        """Start a daemon with these options and wait until it is ready."""
        daemon = self.make(*options, failpoint=failpoint, module=module)
        daemon.start()
        return daemon

    def make(
        self,
        *options: str,
        failpoint: tuple[str, Failpoint] | None = None,
        module: str = COMMAND,
    ) -> Daemon:
        """Return a daemon that is not started yet; later options win over earlier ones."""
        daemon = Daemon(
            self._cluster.zookeeper_connect,
            self._directory,
            "--zookeeper-session-timeout",
            str(SESSION_S),
            *self._cluster.daemon_options,
            *options,
            name=f"reassigner-{len(self._started) + 1}",
            failpoint=failpoint,
            module=module,
            settings=self._cluster.daemon_settings,
        )
        self._started.append(daemon)
        return daemon

    def close(self) -> None:
        """Stop every daemon, wait until a broker is the controller, and judge all they wrote."""
        for daemon in self._started:
            if daemon.is_alive:
                daemon.stop(within_s=20)
            daemon.port.close()
        await_broker_controller(self._cluster, within_s=30)
        assert_conforming(self._cluster, self._directory)


def await_broker_controller(cluster: Cluster, *, within_s: float) -> float:
    """Wait until a broker is the controller; return the seconds it took."""
    begun = time.monotonic()
    eventually(
        lambda: cluster.controller_broker() is not None,
        within_s=within_s,
        every_s=0.05,
        what="a broker is the controller",
    )
    return time.monotonic() - begun


def await_tenure(daemon: Daemon, *, within_s: float = 20.0) -> None:
    """Wait until a daemon says that it is the controller."""
    eventually(
        lambda: daemon.status()["tenure"]["held"],
        within_s=within_s,
        what=lambda: f"{daemon.name} is the controller; its log ends with\n{daemon.log_tail()}",
        tolerating=(OSError,),
    )
