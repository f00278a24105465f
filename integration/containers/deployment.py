"""
What the compose file describes, brought up from images of this machine and taken down again.

Services start in the order of their dependencies and are waited for by their health checks, as
``docker compose up --wait`` does; Podman without systemd does not do it by itself.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from integration.containers.engines import ContainersUnavailableError, Engine
from integration.containers.images import ROOT
from integration.rigs.waiting import eventually

DAEMONS: Final = {"reassigner": 8095, "standby": 8096}
"""The services that run the daemon, with the ports of this machine that lead to them."""
PROMETHEUS: Final = 9090
LABEL: Final = "reassigner-test"
"""The label of containers that tests start beside those of the compose file."""
_PROJECT: Final = "reassigner-test"
_DATA: Final = (
    "zookeeper-data",
    "zookeeper-log",
    *(f"kafka-{number}" for number in range(1, 6)),
)
_FILES: Final = ("docker-compose.yml", "integration/containers/compose.yml")
_HEALTHY_WITHIN_S: Final = 300.0
_ANSWER_WITHIN_S: Final = 10.0

log = logging.getLogger("containers")


class Deployment:
    """
    The containers of the compose file.

    Args:
        engine: Which runs them.
        images: By the variables of the compose file; services without an image are left out.
        directory: For the data of ZooKeeper and the brokers.
    """

    def __init__(self, engine: Engine, images: Mapping[str, str], directory: Path) -> None:
        self.engine = engine
        self.images = dict(images)
        self.data = directory / "data"
        self._environment = {**images, "DATA": str(self.data)}
        document = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
        self.services: dict[str, dict[str, Any]] = {
            name: service
            for name, service in document["services"].items()
            if re.findall(r"\$\{(\w+_IMAGE)", service["image"])[0] in images
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Bring everything up; take it down afterwards."""
        self.make_room()
        self.data.mkdir(parents=True)
        for name in _DATA:
            (self.data / name).mkdir()
            (self.data / name).chmod(0o777)  # the servers are not root
        try:
            self.up()
            yield
        finally:
            begun = time.monotonic()
            self._give_data_back()
            self.down()
            log.info("taken down in %.0f s", time.monotonic() - begun)

    def up(self) -> None:
        """Start each service once those that it depends on are healthy."""
        begun = time.monotonic()
        started: set[str] = set()
        while started != set(self.services):
            ready = [
                name
                for name, service in self.services.items()
                if name not in started and set(service.get("depends_on", {})) <= started
            ]
            self.compose("up", "--detach", "--no-build", "--no-deps", *ready)
            self.await_healthy(*ready)
            started |= set(ready)
            log.info("healthy after %.0f s: %s", time.monotonic() - begun, ", ".join(ready))

    def down(self) -> None:
        """Remove every container, the volumes and the network."""
        self.compose("down", "--volumes")
        labelled = self.engine.run("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
        for container in labelled:
            self.engine.run("rm", "--force", "--volumes", container)

    def compose(self, *arguments: str) -> str:
        """
        Return what a sub-command of compose wrote.

        Raises:
            EngineError: It failed.
        """
        where = [part for file in _FILES for part in ("--file", str(ROOT / file))]
        return self.engine.compose(
            "--project-name", _PROJECT, *where, *arguments, environment=self._environment
        )

    # --- one service ---------------------------------------------------------------------------

    def container(self, service: str) -> str:
        """Return the container of a service."""
        (found,) = self._containers(service)
        return found

    @property
    def network(self) -> str:
        """The network of the containers."""
        return f"{_PROJECT}_default"

    def await_healthy(self, *services: str) -> None:
        """Wait until the health checks of services pass."""
        for service in services:
            self._await_healthy(service)

    def start(self, service: str) -> None:
        """Start a service that ended, and wait until it is healthy."""
        if not self.is_running(service):
            self.engine.run("start", self.container(service))
        self.await_healthy(service)

    def stop(self, service: str) -> tuple[int, float]:
        """Ask a service to end (SIGTERM); return its exit code and the seconds that it took."""
        begun = time.monotonic()
        self.engine.run("stop", "--time", "30", self.container(service))
        return self.exit_code(service), time.monotonic() - begun

    def kill(self, service: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the first process of a service."""
        self.engine.run("kill", "--signal", str(int(number)), self.container(service))

    def exec(self, service: str, *command: str, stdin: str = "") -> tuple[int, str]:
        """Run a command in the container of a service; return its exit code and output."""
        done = self.engine.tried(
            "exec", "--interactive", self.container(service), *command, stdin=stdin, within_s=180.0
        )
        return done.code, done.stdout

    def is_running(self, service: str) -> bool:
        """Return whether the first process of a service runs."""
        return self._state(service)["Running"] is True

    def exit_code(self, service: str) -> int:
        """Return the exit code of a service that ended."""
        return int(self._state(service)["ExitCode"])

    def logs(self, service: str) -> str:
        """Return what a service wrote."""
        return self.engine.tried("logs", self.container(service)).stdout

    def _containers(self, service: str) -> list[str]:
        names = (f"project={_PROJECT}", f"service={service}")
        filters = [p for n in names for p in ("--filter", f"label=com.docker.compose.{n}")]
        return self.engine.run("ps", "--all", "--quiet", *filters).split()

    def _await_healthy(self, service: str) -> None:
        container = self.container(service)
        eventually(
            lambda: self.engine.is_healthy(container),
            within_s=_HEALTHY_WITHIN_S,
            every_s=0.5,
            what=lambda: f"{service} is healthy; it wrote\n{self.logs(service)[-2000:]}",
        )

    def _state(self, service: str) -> dict[str, Any]:
        text = self.engine.run("inspect", "--format", "{{json .State}}", self.container(service))
        state: dict[str, Any] = json.loads(text)
        return state

    # --- before and after ----------------------------------------------------------------------

    def make_room(self) -> None:
        """
        Remove what a killed run left.

        Raises:
            ContainersUnavailableError: A port of the compose file is in use.
        """
        self.down()
        taken = [
            port
            for service in self.services.values()
            for port in (int(entry.split(":")[1]) for entry in service["ports"])
            if not _is_free(port)
        ]
        if taken:
            raise ContainersUnavailableError(f"these ports are in use on this machine: {taken}")

    def _give_data_back(self) -> None:
        """Let whoever runs the tests delete what the servers wrote under their own users."""
        places = {
            service: [mount.split(":")[1] for mount in mounts["volumes"]]
            for service, mounts in yaml.safe_load((ROOT / _FILES[1]).read_text())[
                "services"
            ].items()
        }
        for service, paths in places.items():
            for container in self._containers(service):  # none where the start failed before it
                command = ("exec", "--user", "0", container, "chmod", "-R", "a+rwX")
                self.engine.tried(*command, *paths)


def get(port: int, path: str) -> str:
    """
    Return the body of an HTTP GET on this machine.

    Raises:
        OSError: Nothing answers there, or with an error.
    """
    url = f"http://localhost:{port}{path}"
    with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN_S) as response:
        body: bytes = response.read()
    return body.decode()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
