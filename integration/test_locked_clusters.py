"""
Clusters that require TLS and logins: the daemon does its whole work with the least permissions.

Each row of ``ROWS`` is one kind of locks. Everything that is true of all of them is tested in one
test for each row, as a cluster takes longer to start than its questions take.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, make_acl

from controller.cli.context import connect
from controller.cli.pipeline_snapshot import survey_cluster
from controller.setting_sources import load_settings
from integration.rigs.daemon_process import Daemon
from integration.rigs.kerberos import missing_programs
from integration.rigs.locked_clusters import ACLS, LockedCluster, LockedOptions
from integration.rigs.locks import BROKER, DAEMON, GSSAPI, PLANTED, Locks
from integration.rigs.operator_actions import plan_file
from integration.rigs.plans import (
    await_broker_controller,
    await_end,
    await_tenure,
    children,
    configured,
    fill,
    is_reassigning,
)
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

GUIDE: Final = Path(__file__).parents[1] / "docs" / "guide" / "security.md"
SESSION_S: Final = 4
OPTIONS: Final = (
    *("--zookeeper-session-timeout", str(SESSION_S)),
    *("--tenure-linger", "1"),
    *("--log-level", "debug"),
)
_LACKING: Final = [
    *missing_programs(),
    *(each for each in ("gssapi", "kerberos") if importlib.util.find_spec(each) is None),
]
NEEDS_KERBEROS: Final = pytest.mark.skipif(
    bool(_LACKING),
    reason=f"a Kerberos realm needs {', '.join(_LACKING)} (krb5-kdc, pip install '.[kerberos]')",
)
_REFUSED: Final = re.compile(r"Failed authentication with .*?\(channelId=([^)]+)\)")
HTTP_PATHS: Final = (
    *("/", "/status", "/metrics", "/healthz", "/readyz", "/history"),
    "/explain?partition=moved-0",
)

ROWS: Final[Mapping[str, Locks]] = {
    "scram": Locks(),
    "certificates": Locks(protocol="SSL", mechanism=None, zookeeper_sasl=None),
    "zookeeper-tls": Locks(mechanism="PLAIN", zookeeper_tls=True),
    "control-plane": Locks(mechanism="PLAIN", zookeeper_sasl=None, control_plane=True),
    "kerberos": Locks(mechanism=GSSAPI, zookeeper_sasl=GSSAPI),
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
        pytest.param("kerberos", "native", marks=NEEDS_KERBEROS),
        pytest.param("kerberos", "delegated", marks=NEEDS_KERBEROS),
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
        plan = plan_file(tmp_path, targets)
        security = cluster.client_security
        with Traffic(cluster.bootstrap_servers, {topic: 4}, security=security) as traffic:
            traffic.await_flow()
            first = cluster.make_daemon("first", *OPTIONS, "--engine", engine)
            first.start()
            fill(cluster, targets)
            for command in (("throttle", "10KB"), ("execute", plan)):
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
        said = cluster.reassigner("verify", plan)
        assert said.code == 0, said.stdout
        if cluster.locks.mechanism != GSSAPI:  # whose tickets are the environment's
            assert led_in_snapshot(cluster, topic) == {
                n: cluster.leader(topic, n) for n in range(4)
            }
        await_broker_controller(cluster, within_s=10)
        assert wrong_permissions(cluster) == {}
        assert leaks(first, second) == {}
        assert second.stop() == 0, second.log_tail()


# --- what is wrong, and what changes, while a daemon runs ----------------------------------------


def test_a_wrong_password_is_reported_and_seldom_tried() -> None:
    """
    All connections to all brokers share the pauses; the corrected file is used at once.

    The daemon waits for ZooKeeper in the same way, and commands say what is wrong.
    """
    with LockedCluster.running(LockedOptions()) as cluster:
        allow_as_documented(cluster)
        keys = cluster.keys
        keys.password_file.write_text(f"{PLANTED}-wrong")
        daemon = cluster.make_daemon("reassigner", *OPTIONS, "--tenure", "permanent")
        before = refused_logins(cluster)
        begun = time.monotonic()
        daemon.start()
        eventually(
            lambda: set(unreachable(daemon)) == {"1", "2", "3"}, within_s=20, what="it is reported"
        )
        time.sleep(max(0.0, begun + 14.0 - time.monotonic()))  # past two pauses, of 5 and 10 s
        assert all("Authentication failed" in why for why in unreachable(daemon).values())
        assert 1 <= refused_logins(cluster) - before <= 2
        before = refused_logins(cluster)
        said = cluster.reassigner(
            *("stock", "--bootstrap-server", cluster.bootstrap_servers, "--list")
        )
        assert said.code != 0
        assert "Authentication failed" in said.stdout
        assert 1 <= refused_logins(cluster) - before <= 2 * len(cluster.brokers)  # some under way
        keys.password_file.write_text(keys.passwords[DAEMON])
        eventually(lambda: not unreachable(daemon), within_s=5, what="the right one is used")
        assert daemon.stop() == 0, daemon.log_tail()

        keys.zookeeper_password_file.write_text(f"{PLANTED}-wrong")
        said = cluster.reassigner("list")
        assert said.code != 0
        assert "ZooKeeper" in said.stdout
        second = cluster.make_daemon("second", *OPTIONS)
        second.spawn()
        eventually(lambda: second.has_written("zookeeper login refused"), within_s=20)
        time.sleep(6)  # pauses of 1, 2 and 4 s
        refusals = second.log.read_text().count("zookeeper login refused")
        assert refusals <= 4
        assert second.is_alive
        keys.zookeeper_password_file.write_text(keys.zookeeper_passwords[BROKER])
        second.await_ready()
        assert leaks(daemon, second, said=said.stdout) == {}
        assert second.stop() == 0, second.log_tail()


@NEEDS_KERBEROS
def test_a_key_table_that_is_out_of_date_is_reported_and_seldom_tried() -> None:
    """The key distribution centre is asked as seldom as a broker; the new table is used at once."""
    locks = Locks(mechanism=GSSAPI, zookeeper_sasl=None)
    with LockedCluster.running(LockedOptions(locks=locks)) as cluster:
        allow_as_documented(cluster)
        realm = cluster.keys.realm
        assert realm is not None
        table = cluster.keys.daemon_key_table
        old = table.read_bytes()
        realm.change_key(table)
        new = table.read_bytes()
        table.write_bytes(old)
        before = realm.logins
        daemon = cluster.make_daemon("reassigner", *OPTIONS, "--tenure", "permanent")
        begun = time.monotonic()
        daemon.start()
        eventually(
            lambda: set(unreachable(daemon)) == {"1", "2", "3"}, within_s=20, what="it is reported"
        )
        time.sleep(max(0.0, begun + 14.0 - time.monotonic()))  # past two pauses, of 5 and 10 s
        assert all("Decrypt integrity check" in why for why in unreachable(daemon).values())
        assert 1 <= realm.logins - before <= 3
        table.write_bytes(new)
        eventually(lambda: not unreachable(daemon), within_s=10, what="the new one is used")
        assert daemon.stop() == 0, daemon.log_tail()


def test_a_changed_password_is_used_without_a_restart() -> None:
    """A broker that bounces asks for the new one; ZooKeeper gets a new one as well."""
    with LockedCluster.running(LockedOptions()) as cluster:
        allow_as_documented(cluster)
        keys = cluster.keys
        topic = cluster.create_topic("moved", {0: (1, 2)})
        daemon = cluster.make_daemon("reassigner", *OPTIONS, "--tenure", "permanent")
        daemon.start()
        await_tenure(daemon)
        old = keys.passwords[DAEMON]
        cluster.change_password(DAEMON)
        cluster.brokers[1].restart()
        eventually(lambda: "1" in unreachable(daemon), within_s=20, what="the old one is refused")
        keys.password_file.write_text(keys.passwords[DAEMON])
        eventually(lambda: not unreachable(daemon), within_s=10, what="the new one is used")
        move(cluster, topic, (3, 1))
        cluster.change_zookeeper_password()
        await_tenure(daemon, within_s=60)
        move(cluster, topic, (2, 3))
        assert old != keys.passwords[DAEMON]
        assert leaks(daemon) == {}
        assert daemon.stop() == 0, daemon.log_tail()


def test_rotated_certificates_are_used_and_bad_ones_are_reported() -> None:
    """
    An expired certificate of the daemon is refused by brokers, and a new one is taken at once.

    A broker whose certificate is for another host, or has expired, gets no request.
    """
    locks = ROWS["certificates"]
    with LockedCluster.running(LockedOptions(locks=locks)) as cluster:
        allow_as_documented(cluster)
        keys = cluster.keys
        daemon = cluster.make_daemon("reassigner", *OPTIONS, "--tenure", "permanent")
        daemon.start()
        await_tenure(daemon)
        keys.issue_daemon(valid_for=timedelta(minutes=-1))
        cluster.brokers[1].restart()
        await_reason(daemon, "1", "the broker refuses the daemon's certificate")
        keys.issue_daemon()
        eventually(lambda: not unreachable(daemon), within_s=10, what="the new one is used")

        keys.issue_broker(2, hosts=["elsewhere.example"])
        cluster.brokers[2].stop()
        cluster.brokers[2].spawn()
        await_reason(daemon, "2", "certificate is not valid for '127.0.0.1'")
        keys.issue_broker(3, valid_for=timedelta(seconds=25))
        expiry = time.monotonic() + 25
        cluster.brokers[3].restart()
        time.sleep(expiry - time.monotonic())
        assert daemon.stop() == 0, daemon.log_tail()
        second = cluster.make_daemon("second", *OPTIONS, "--tenure", "permanent")
        second.start()
        await_reason(second, "3", "certificate has expired")
        assert leaks(daemon, second) == {}
        assert second.stop() == 0, second.log_tail()


def led_in_snapshot(cluster: LockedCluster, topic: str) -> dict[int, int]:
    """Return the leaders of a topic as ``pipeline snapshot`` reads them, and read all sizes."""
    settings = {"REASSIGNER_ZOOKEEPER": cluster.zookeeper_connect, **cluster.daemon_settings}
    loaded = load_settings({}, settings, None)
    with connect(loaded) as operator:
        rows = survey_cluster(loaded, operator)
    assert {row[0] for row in rows.held_rows()} >= {topic}
    return {n: leader for name, n, leader, _ in rows.led_rows() if name == topic}


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
    creator += [make_acl("sasl", BROKER, all=True)] if locks.zookeeper_sasl else []
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


def unreachable(daemon: Daemon) -> dict[str, str]:
    """Return the brokers that a daemon cannot reach, and why, by its status."""
    return dict(daemon.status()["unreachable_brokers"])


def await_reason(daemon: Daemon, broker: str, reason: str) -> None:
    """Wait until the daemon cannot reach a broker for this reason."""
    eventually(
        lambda: reason in unreachable(daemon).get(broker, ""),
        within_s=30,
        what=lambda: f"broker {broker}: {reason}; found {unreachable(daemon)}",
        tolerating=(OSError,),
    )


def leaks(*daemons: Daemon, said: str = "") -> dict[str, str]:
    """Return where secrets show, present, former or wrong ones, with what is there."""
    shown = {"a command": said}
    for daemon in daemons:
        shown[f"log of {daemon.name}"] = daemon.log.read_text()
        for file in daemon.journal_directory.rglob("*"):
            if file.is_file():
                shown[str(file)] = file.read_text()
        if daemon.is_alive:
            shown["process list"] = Path(f"/proc/{daemon.pid}/cmdline").read_text()
            for path in HTTP_PATHS:
                shown[f"{daemon.name} {path}"] = daemon.get(path)[1]
    return {where: text for where, text in shown.items() if PLANTED in text}


def move(cluster: LockedCluster, topic: str, replicas: tuple[int, ...]) -> None:
    """Move the only partition of a topic, and wait until it has moved."""
    targets = {(topic, 0): replicas}
    said = cluster.reassigner("execute", plan_file(cluster.directory, targets))
    assert said.code == 0, said.stdout
    await_end(cluster, targets, within_s=60)


def refused_logins(cluster: LockedCluster) -> int:
    """Return on how many connections the brokers refused a login; they log some repeatedly."""
    logs = (broker.log.read_text() for broker in cluster.brokers.values())
    return len({channel for log in logs for channel in _REFUSED.findall(log)})
