"""
Clusters that require TLS and logins: the daemon does its whole work with the least permissions.

Each row of ``ROWS`` is one kind of locks. Everything that is true of all of them is tested in one
test for each row, as a cluster takes longer to start than its questions take.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, make_acl

from integration.rigs.locked_clusters import ACLS, LockedCluster, LockedOptions
from integration.rigs.locks import BROKER, DIGEST, Locks
from integration.rigs.plans import (
    await_broker_controller,
    await_end,
    await_tenure,
    children,
    configured,
    fill,
    is_reassigning,
    plan_of,
)
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

GUIDE: Final = Path(__file__).parents[1] / "docs" / "guide" / "security.md"
SESSION_S: Final = 4
OPTIONS: Final = ("--zookeeper-session-timeout", str(SESSION_S), "--tenure-linger", "1")

ROWS: Final[Mapping[str, Locks]] = {
    "scram": Locks(),
    "certificates": Locks(protocol="SSL", mechanism=None, zookeeper_sasl=None),
    "zookeeper-tls": Locks(mechanism="PLAIN", zookeeper_tls=True),
    "control-plane": Locks(mechanism="PLAIN", zookeeper_sasl=None, control_plane=True),
}


@pytest.mark.parametrize(
    ("row", "engine"),
    [
        pytest.param("scram", "native", marks=pytest.mark.smoke),
        ("scram", "delegated"),
        ("certificates", "native"),
        ("certificates", "delegated"),
        ("zookeeper-tls", "native"),
        ("control-plane", "native"),
    ],
)
def test_a_plan_is_carried_out_behind_locks_through_crash_and_takeover(
    row: str, engine: str, tmp_path: Path
) -> None:
    """
    A daemon with the documented permissions moves partitions under load, and is killed on the way.

    Kafka's controller takes over, then another daemon does. No record is lost, and what the daemons
    wrote to ZooKeeper has the permissions of Kafka's own znodes.
    """
    with LockedCluster.running(LockedOptions(locks=ROWS[row])) as cluster:
        allow_as_documented(cluster)
        topic = cluster.create_topic("moved", dict.fromkeys(range(4), (1, 2)))
        targets = {(topic, n): (3, 1) if n % 2 else (2, 3) for n in range(4)}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(plan_of(targets)))
        security = cluster.client_security
        with Traffic(cluster.bootstrap_servers, {topic: 4}, security=security) as traffic:
            traffic.await_flow()
            first = cluster.make_daemon("first", *OPTIONS, "--engine", engine)
            first.start()
            fill(cluster, targets)
            for command in (("throttle", "10KB"), ("execute", str(plan))):
                said = cluster.reassigner(*command)
                assert said.code == 0, said.stdout
            eventually(lambda: is_reassigning(cluster, topic), within_s=20, what="it begins")
            eventually(lambda: configured(cluster, "brokers/3"), within_s=20, what="it is limited")
            assert wrong_permissions(cluster) == {}
            first.kill()
            await_broker_controller(cluster, within_s=3 * SESSION_S)
            second = cluster.make_daemon("second", *OPTIONS, "--engine", engine)
            second.start()
            if engine == "native":
                await_tenure(second)
            assert wrong_permissions(cluster) == {}
            said = cluster.reassigner("throttle", "100MB")
            assert said.code == 0, said.stdout
            await_end(cluster, targets, within_s=60)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
        said = cluster.reassigner("verify", str(plan))
        assert said.code == 0, said.stdout
        await_broker_controller(cluster, within_s=10)
        assert wrong_permissions(cluster) == {}
        assert second.stop() == 0, second.log_tail()


def allow_as_documented(cluster: LockedCluster) -> None:
    """Run the commands of the guide against the cluster."""
    for command in documented_commands():
        _script, *arguments = command
        result = cluster.run_admin_tool(ACLS, *arguments[4:])
        assert result.code == 0, result.stdout


def documented_commands() -> Iterator[list[str]]:
    """Yield the arguments of every ``kafka-acls.sh`` of the guide."""
    for block in GUIDE.read_text().split("```")[1::2]:
        for line in block.replace("\\\n", " ").splitlines():
            command = shlex.split(line)
            if command[:1] == ["kafka-acls.sh"]:
                assert command[1::2][:2] == ["--bootstrap-server", "--command-config"], command
                yield command


SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Kafka's ``ZkData.SensitiveRootPaths``."""


def wrong_permissions(cluster: LockedCluster) -> dict[str, list[ACL]]:
    """Return the znodes whose permissions are not those of ``kafka.zk.ZkData.defaultAcls``."""
    open_acl = [make_acl("world", "anyone", all=True)]
    locks = cluster.locks
    creator = [make_acl("x509", "CN=kafka-node", all=True)] if locks.zookeeper_tls else []
    creator += [make_acl("sasl", BROKER, all=True)] if locks.zookeeper_sasl == DIGEST else []
    shown = [*creator, make_acl("world", "anyone", read=True)]
    wrong: dict[str, list[ACL]] = {}
    for path, found in permissions(cluster, "/").items():
        expected = creator if path.startswith(SENSITIVE) else shown
        if path == "/consumers":  # of consumers before 0.9, and open to them
            continue
        if set(found) != set(expected if locks.zookeeper_sasl else open_acl):
            wrong[path] = found
    return wrong


def permissions(cluster: LockedCluster, path: str) -> dict[str, list[ACL]]:
    """Return the permissions of every znode below a path."""
    found: dict[str, list[ACL]] = {}
    unread = [path]
    while unread:
        parent = unread.pop()
        for name in children(cluster, parent):
            child = f"{parent.rstrip('/')}/{name}"
            try:
                found[child] = cluster.zk.get_acls(child)[0]
            except NoNodeError:  # deleted meanwhile
                continue
            unread.append(child)
    return found
