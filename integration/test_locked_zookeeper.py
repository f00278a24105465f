"""A ZooKeeper that requires logins and TLS: what the daemon's session does with right and wrong."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.security import CREATOR_ALL_ACL, make_acl
from structlog.testing import capture_logs

from controller.clocks import MonotonicClock
from controller.errors import RefusedError, SessionSuspendedError
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.sessions import Session, build_client
from controller.znodes import paths
from integration.rigs.kerberos import missing_programs
from integration.rigs.locks import BROKER, GSSAPI, PLANTED, Keys, Locks
from integration.rigs.servers import ZooKeeperServer
from integration.rigs.waiting import eventually

ROWS: Final[Mapping[str, Locks]] = {
    "login": Locks(),
    "login-and-tls": Locks(zookeeper_tls=True),
}
LACKING: Final = [
    *missing_programs(),
    *(each for each in ("gssapi", "kerberos") if importlib.util.find_spec(each) is None),
]


@contextmanager
def locked(directory: Path, locks: Locks) -> Iterator[tuple[ZooKeeperServer, Keys]]:
    """Give a ZooKeeper behind locks, and its keys."""
    keys = Keys(directory / "keys", locks)
    server = ZooKeeperServer(
        directory / "zookeeper",
        extra=keys.zookeeper_settings(),
        properties=keys.zookeeper_properties(),
        tls=keys.context if locks.zookeeper_tls else None,
        client=keys.zookeeper_client(),
    )
    try:
        server.start()
        for path in paths.CLUSTER_ROOTS:
            server.make_path(f"/kafka{path}")
        yield server, keys
    finally:
        server.kill()
        server.port.close()
        keys.close()


def settings_of(server: ZooKeeperServer, keys: Keys) -> Settings:
    """Return the daemon's settings."""
    options = {"zookeeper": f"{server.address}/kafka", "zookeeper_session_timeout_s": 4.0}
    return load_settings(options, keys.daemon_settings())


@contextmanager
def starting(settings: Settings) -> Iterator[Session]:
    """Give a session that waits for its connection on a thread of its own."""
    session = Session(build_client(settings, MonotonicClock()))
    thread = threading.Thread(target=lambda: session.start(within_s=60.0))
    thread.start()
    try:
        yield session
    finally:
        thread.join()
        session.stop()


@pytest.mark.parametrize("row", ROWS)
def test_a_wrong_password_is_retried_with_pauses_and_the_right_one_used_at_once(
    tmp_path: Path, row: str
) -> None:
    """A command ends instead; a password that changes while the session lasts is used as well."""
    with locked(tmp_path, ROWS[row]) as (server, keys), capture_logs() as lines:
        right = keys.zookeeper_password_file.read_text()
        keys.zookeeper_password_file.write_text(f"{PLANTED}-wrong")
        settings = settings_of(server, keys)
        with starting(settings) as session:
            time.sleep(6.0)  # past the pauses of 1 and 2 s, in the one of 4 s
            refused = [line for line in lines if line["event"] == "zookeeper login refused"]
            assert 1 <= len(refused) <= 3
            assert not session.is_connected
            with pytest.raises(RefusedError, match="ZooKeeper"), ZooKeeperConnection(settings):
                pass
            keys.zookeeper_password_file.write_text(right)
            eventually(lambda: session.acls, within_s=10, what="the right password is used")
            keys.change_zookeeper_password()
            server.restart()
            eventually(lambda: session.is_connected, within_s=20, what="the new one is used")
            with ZooKeeperConnection(settings) as connection:
                assert connection.exists("/brokers/ids")
        assert PLANTED not in str(lines)


def test_a_server_of_another_authority_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Trusting the system's authorities as well would let any of them in."""
    with locked(tmp_path, ROWS["login-and-tls"]) as (server, keys):
        settings = settings_of(server, keys)
        other = Keys(tmp_path / "other", Locks()).authority.file
        assert settings.zookeeper_tls_cafile is not None
        settings.zookeeper_tls_cafile.write_bytes(other.read_bytes())
        with (
            pytest.raises(SessionSuspendedError, match="certificate verify failed"),
            ZooKeeperConnection(settings, connect_s=3.0),
        ):
            pass


@pytest.mark.skipif(
    bool(LACKING),
    reason=f"a Kerberos realm needs {', '.join(LACKING)} (krb5-kdc, pip install '.[kerberos]')",
)
def test_a_ticket_of_the_key_table_is_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without host and realm, the daemon's principal is the brokers'."""
    with locked(tmp_path, Locks(mechanism=GSSAPI, zookeeper_sasl=GSSAPI)) as (server, keys):
        for name, value in keys.daemon_settings().items():
            if name.startswith("KRB5"):
                monkeypatch.setenv(name, value)
        with starting(settings_of(server, keys)) as session:
            eventually(lambda: session.acls, within_s=30, what="it is logged in")
            session.client.create("/own", b"", acl=CREATOR_ALL_ACL)
            acl, _ = session.client.get_acls("/own")
            assert acl == [make_acl("sasl", BROKER, all=True)]
