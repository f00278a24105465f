"""
Containers with systemd as their first process, which stand for machines.

They are privileged, as a machine is. Where the kernel lets no systemd run in a container, the tests
are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from integration.containers.deployment import LABEL, Deployment
from integration.containers.engines import Engine, EngineError
from integration.rigs.waiting import GaveUpError, eventually

UNIT: Final = "reassigner.service"
SETTINGS: Final = 'zookeeper = "zookeeper:2181/kafka"\ninter_broker_listener = "INTERNAL"\n'
"""Of a daemon for the cluster of the compose file."""
_FETCH: Final = """\
from urllib.request import urlopen
for path in ("readyz", "status"):
    print(urlopen(f"http://127.0.0.1:8095/{path}", timeout=5).read().decode())"""


class Machine:
    """
    A container in which systemd runs.

    Args:
        engine: Which runs it.
        container: Its id.
    """

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self.container = container

    @classmethod
    @contextmanager
    def running(cls, deployment: Deployment, image: str) -> Iterator[Machine]:
        """Start one in the network of the deployment; skip the test where systemd does not run."""
        engine = deployment.engine
        as_machine = ("--privileged", *(("--systemd=always",) if "podman" in engine.name else ()))
        where = ("--network", deployment.network, "--label", LABEL)
        container = engine.run("run", "--detach", *as_machine, *where, image).strip()
        found = cls(engine, container)
        try:
            try:
                eventually(found._is_up, within_s=30, every_s=0.5)
            except (GaveUpError, EngineError) as error:
                pytest.skip(f"systemd does not run in a container here: {error}")
            yield found
        finally:
            engine.run("rm", "--force", "--volumes", container)

    def _is_up(self) -> bool:
        return self.shell("systemctl is-system-running").strip() in {"running", "degraded"}

    def shell(self, command: str) -> str:
        """Return what a command wrote, both streams; its exit code does not matter."""
        return self._engine.tried("exec", self.container, "sh", "-c", f"{command} 2>&1").stdout

    def state(self, name: str) -> str:
        """Return a property of the unit."""
        return self.shell(f"systemctl show {UNIT} --property {name} --value").strip()

    def log(self) -> str:
        """Return what the daemon wrote."""
        return self.shell(f"journalctl --unit {UNIT} --output cat --no-pager")

    def served(self) -> str:
        """Return ``/readyz`` and ``/status`` as seen on the machine."""
        return self.shell(f"/opt/reassigner/bin/python -c '{_FETCH}'")

    def await_ready(self) -> None:
        """Wait until the daemon has a ZooKeeper session."""
        eventually(
            lambda: '"role"' in self.served(),
            within_s=40,
            every_s=0.5,
            what=lambda: f"the daemon is ready: {self.log()[-2000:]}",
        )
