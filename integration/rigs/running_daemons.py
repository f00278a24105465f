"""
The daemon in charge of a real cluster, and what its tests ask of brokers meanwhile.

Nothing here looks into the daemon other than by HTTP and its log.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient
from kazoo.exceptions import NoNodeError

from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import Daemon
from integration.rigs.waiting import eventually

CONTROLLER_ID: Final = 1_000_000
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"

_SENT: Final = re.compile(r"^reassigner_requests_sent_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)
_QUIET_SAMPLES: Final = 6


@contextmanager
def running_daemon(cluster: Cluster, *options: str) -> Iterator[Daemon]:
    """
    Yield a daemon that is ready.

    Afterwards it ended well, the role is a broker's again, and all that it wrote was permitted.
    """
    name = f"reassigner-{uuid.uuid4().hex[:6]}"
    everything = (*cluster.daemon_options, *options)
    daemon = Daemon(cluster.zookeeper_connect, cluster.directory, *everything, name=name)
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log_tail()
        log = daemon.log.read_text()
        assert '"level": "error"' not in log, log
        assert "Traceback" not in log, log
        eventually(cluster.controller_broker, within_s=20, what="a broker takes the role back")
        assert_conforming(cluster, daemon.journal_directory)
    except BaseException:
        print(daemon.log.read_text())  # the directory does not outlive the run
        raise
    finally:
        daemon.stop()  # a killed one would keep the role from the next test until its session ends
        daemon.port.close()


@contextmanager
def permanent_tenure(cluster: Cluster, *options: str) -> Iterator[Daemon]:
    """Yield a daemon that is the controller and stays it."""
    with running_daemon(cluster, "--tenure", "permanent", *options) as daemon:
        await_claim(cluster)
        yield daemon


def await_claim(cluster: Cluster, within_s: float = 20.0) -> None:
    """
    Wait until the role is ours.

    Taken from a broker, ``/controller`` names us before the epoch is ours, too.
    """

    def is_claimed() -> bool:
        if cluster.controller() != CONTROLLER_ID:
            return False
        taken, counted = (cluster.zk.exists(p) for p in ("/controller", "/controller_epoch"))
        return taken is not None and counted is not None and counted.mzxid >= taken.czxid

    eventually(
        is_claimed,
        within_s=within_s,
        every_s=0.02,
        what="the daemon claims the role",
    )


def controller_epoch(cluster: Cluster) -> int:
    """Return how often the role changed hands so far."""
    data, _ = cluster.zk.get("/controller_epoch")
    return int(data)


def submit(cluster: Cluster, targets: Mapping[str, Mapping[int, Sequence[int]]]) -> None:
    """Write a plan as the stock tool of old did: target replicas by topic and partition."""
    entries = [
        {"topic": topic, "partition": n, "replicas": list(replicas)}
        for topic, partitions in targets.items()
        for n, replicas in partitions.items()
    ]
    document = {"version": 1, "partitions": entries}
    cluster.zk.create(REASSIGN_PARTITIONS, json.dumps(document).encode())


def is_done(cluster: Cluster, targets: Mapping[str, Mapping[int, Sequence[int]]]) -> bool:
    """Return whether a plan is carried out: replicas, ISR, and no trace in any znode."""
    if cluster.zk.exists(REASSIGN_PARTITIONS) is not None:
        return False
    for topic, partitions in targets.items():
        found = cluster.topic(topic) or {}
        if found.get("adding_replicas") or found.get("removing_replicas"):
            return False
        for n, replicas in partitions.items():
            if cluster.replicas(topic, n) != list(replicas):
                return False
            if cluster.isr(topic, n) != set(replicas):
                return False
    return True


def strike(cluster: Cluster, *broker_ids: int) -> None:
    """Kill brokers and end their registrations at once, as if their sessions were over."""
    for broker_id in broker_ids:
        cluster.brokers[broker_id].kill()
    multi = cluster.zk.transaction()
    for broker_id in broker_ids:
        multi.delete(f"/brokers/ids/{broker_id}")
    failed = [result for result in multi.commit() if isinstance(result, Exception)]
    assert not failed, failed


def shows(cluster: Cluster, broker_id: int, topic: str) -> bool:
    """Return whether one broker's metadata of a topic is what ZooKeeper says."""
    servers = cluster.brokers[broker_id].address
    requested = AdminClient({"bootstrap.servers": servers, **cluster.client_security, **QUIET})
    found = requested.list_topics(timeout=10).topics.get(topic)
    if found is None:
        return False
    written = (cluster.topic(topic) or {"partitions": {}})["partitions"]
    return {str(n) for n in found.partitions} == set(written) and all(
        of.leader == cluster.leader(topic, n)
        and set(of.isrs) == cluster.isr(topic, n)
        and list(of.replicas) == written[str(n)]
        for n, of in found.partitions.items()
    )


def await_shown(cluster: Cluster, *topics: str, within_s: float = 20.0) -> None:
    """Wait until the metadata of every live broker is what ZooKeeper says."""
    for broker_id, broker in cluster.brokers.items():
        if not broker.is_alive:
            continue
        for topic in topics:
            eventually(
                partial(shows, cluster, broker_id, topic),
                within_s=within_s,
                every_s=0.25,
                what=f"broker {broker_id} shows {topic} as it is",
            )


def answered(daemon: Daemon, request: str) -> int:
    """Return how many requests of a kind, such as ``AlterPartition``, a daemon answered."""
    _, text = daemon.get("/metrics")
    label = f'reassigner_endpoint_requests_total{{request="{request}",result="answered"}} '
    found = [line for line in text.splitlines() if line.startswith(label)]
    return int(float(found[0].rpartition(" ")[2])) if found else 0


def requests_sent(daemon: Daemon) -> int:
    """Return how many requests the daemon sent to brokers so far."""
    _, text = daemon.get("/metrics")
    return sum(int(float(number)) for number in _SENT.findall(text))


def await_quiet(daemon: Daemon, within_s: float = 40.0) -> None:
    """Wait until the daemon has sent nothing for three seconds: what it does comes to an end."""
    samples: list[int] = []

    def is_quiet() -> bool:
        samples.append(requests_sent(daemon))
        last = samples[-_QUIET_SAMPLES:]
        return len(last) == _QUIET_SAMPLES and len(set(last)) == 1

    eventually(is_quiet, within_s=within_s, every_s=0.5, what=lambda: f"it is quiet: {samples}")


def children(cluster: Cluster, path: str) -> list[str]:
    """Return a znode's children, none where there is no znode."""
    try:
        return list(cluster.zk.get_children(path))
    except NoNodeError:
        return []
