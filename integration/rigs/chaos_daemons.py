"""The two daemons of a campaign: one leads, the other is a standby, and each may be dead."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import SERVED_INTERNALLY
from integration.rigs.plans import SESSION_S
from integration.rigs.servers import LINKED_LISTENER

_SIZE: Final = 2
_SIGNS: Final = ('"level": "error"', '"level": "critical"', "Traceback")
_LOST_SESSION: Final = '"event": "zookeeper session lost"'
"""Errors that operators see; here they are caused on purpose."""
_STEP_SIZES: Final = ("1", "1", "2", "all")
_IN_FLIGHT: Final = ("2", "5", "100")


class Fleet:
    """
    The daemons; a dead one is replaced by another with settings drawn anew.

    Args:
        cluster: Where they work, through the linked listener.
        directory: For their logs.
        dice: Where chance comes from.
        engine: The value of ``--engine``.
    """

    def __init__(
        self, cluster: Cluster, directory: Path, dice: random.Random, *, engine: str
    ) -> None:
        self._cluster = cluster
        serves = engine == "native" and cluster.options.broker.uses_alter_partition
        self._options = ("--engine", engine, *(SERVED_INTERNALLY if serves else ()))
        self._directory = directory
        self._dice = dice
        self._made = 0
        self.daemons = [self._make() for _ in range(_SIZE)]

    def start(self) -> None:
        """Start all of them."""
        for daemon in self.daemons:
            daemon.start()

    def replace_dead(self) -> None:
        """Start another daemon for each that is dead."""
        for n, daemon in enumerate(self.daemons):
            if not daemon.is_alive:
                daemon.port.close()
                self.daemons[n] = self._make()
                self.daemons[n].start()

    def leader(self) -> Daemon | None:
        """Return the daemon that leads, None when none says so."""
        for daemon in self.daemons:
            try:
                if daemon.is_alive and daemon.status()["role"] == "leader":
                    return daemon
            except (OSError, AssertionError):
                continue  # frozen, or just starting
        return None

    def thaw(self) -> None:
        """Continue every frozen daemon."""
        for daemon in self.daemons:
            daemon.thaw()

    def stop(self) -> list[str]:
        """Stop all of them; return in words what was wrong with their ends."""
        wrong = []
        for daemon in self.daemons:
            if daemon.is_alive and (code := daemon.stop()) != 0:
                wrong.append(f"{daemon.name} ended with {code}")
            daemon.port.close()
        return wrong

    def complaints(self) -> list[str]:
        """Return every line of their logs with an error of their own."""
        return [
            line[:2000]
            for log in sorted(self._directory.glob("*.log"))
            for line in log.read_text(errors="replace").splitlines()
            if any(sign in line for sign in _SIGNS) and _LOST_SESSION not in line
        ]

    def _make(self) -> Daemon:
        self._made += 1
        return Daemon(
            self._cluster.zookeeper_connect,
            self._directory,
            "--zookeeper-session-timeout",
            str(SESSION_S),
            "--inter-broker-listener",
            LINKED_LISTENER,
            *self._options,
            "--step-size",
            self._dice.choice(_STEP_SIZES),
            "--max-partitions-in-flight",
            self._dice.choice(_IN_FLIGHT),
            "--stop-replica-timeout",
            "10",
            "--tenure-linger",
            "2",
            name=f"reassigner-{self._made}",
        )
