"""ZooKeeper servers that form an ensemble, and the expiry of another client's session."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from integration.rigs.reserved_ports import LOCALHOST, ReservedPort
from integration.rigs.servers import ZooKeeperServer

EXPIRY_TRIES: Final = 5
"""The number of attempts to attach a second client to a session that it is to end."""

_PASSWORD_BYTES: Final = 16
_SECRET: Final = 0xB3415C00
"""``ZooKeeperServer.superSecret``: from it and the id a session's password is derived."""


def ensemble(directory: Path, size: int, heap_mb: int) -> list[ZooKeeperServer]:
    """Return so many ZooKeeper servers that know each other; a single one is standalone."""
    if size == 1:
        return [ZooKeeperServer(directory / "zookeeper", heap_mb=heap_mb)]
    # Held as long as the servers: no other process gets the ports while one of them is down.
    peers = [(ReservedPort(), ReservedPort()) for _ in range(size)]
    members = {
        f"server.{n}": f"{LOCALHOST}:{quorum.number}:{election.number}"
        for n, (quorum, election) in enumerate(peers, 1)
    }
    settings = {**members, "initLimit": "20", "syncLimit": "10"}  # ticks
    return [_Member(directory, n, settings, ports) for n, ports in enumerate(peers, 1)]


class _Member(ZooKeeperServer):
    """One server of an ensemble."""

    def __init__(
        self,
        directory: Path,
        number: int,
        settings: dict[str, str],
        peers: tuple[ReservedPort, ReservedPort],
    ) -> None:
        name = f"zookeeper-{number}"
        super().__init__(directory / name, name=name, extra=settings)
        self.peer_ports = peers
        self.data_directory.mkdir()
        (self.data_directory / "myid").write_text(f"{number}\n")


def expire_session(hosts: str, session: int) -> None:
    """
    End the session of another client, which learns that it expired.

    A second client attaches to it, with the password ZooKeeper gave the first, and closes it. The
    first may take the session back just before that: then the second tries again.

    Args:
        hosts: Connect string.
        session: Its id, such as the owner of an ephemeral znode.

    Raises:
        KazooTimeoutError: the session was taken back each time.
    """
    for tries_left in reversed(range(EXPIRY_TRIES)):
        twin = KazooClient(hosts=hosts, timeout=4.0, client_id=(session, _password(session)))
        try:
            twin.start(timeout=30)
            attached, _password_again = twin.client_id
            break
        except KazooTimeoutError:
            if not tries_left:
                raise
        finally:
            # An open client would keep the session alive that it is to end.
            try:
                twin.stop()
            finally:
                twin.close()
    # A failed attempt may have closed the session: the next one gets a new session.
    is_first = tries_left == EXPIRY_TRIES - 1
    assert attached == session or not is_first, f"attached to {attached:#x}, not {session:#x}"


def _password(session: int) -> bytes:
    """Return what ``java.util.Random`` gives for the secret and the id, as ZooKeeper asks it."""
    state = (session ^ _SECRET ^ 0x5DEECE66D) & (1 << 48) - 1
    password = b""
    while len(password) < _PASSWORD_BYTES:
        state = state * 0x5DEECE66D + 0xB & (1 << 48) - 1
        password += struct.pack("<I", state >> 16)
    return password
