"""
The reassigner itself as a child process, started as an operator starts it.

Its options are ZooKeeper and where to listen; what it does is read from its HTTP endpoints and
its log.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from integration.rigs.failpoint_daemon import REACHED
from integration.rigs.failpoints import Failpoint
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.processes import ChildProcess, dying_with_parent
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort

_ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = "controller.cli"
"""The module of the command."""
_PREFIX: Final = "REASSIGNER_"
_ANSWER_WITHIN_S: Final = 5.0


class Daemon(ChildProcess):
    """
    One `reassigner run`.

    Args:
        zookeeper_connect: Connect string with chroot.
        directory: Its log and journal go here; several daemons may share it if named differently.
        options: Further command-line options.
        name: How messages and files call it.
        failpoint: ``die`` or ``freeze``, and the failpoint at which it does that to itself.
        module: The command itself, or a module that runs it and observes it from inside.
        settings: Further settings, by the name of their environment variable.
    """

    def __init__(  # noqa: PLR0913 - what a daemon is made of
        self,
        zookeeper_connect: str,
        directory: Path,
        *options: str,
        name: str = "reassigner",
        failpoint: tuple[str, Failpoint] | None = None,
        module: str = COMMAND,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = ReservedPort()
        self.journal_directory = directory / f"{name}-journal"
        program = [module]
        if failpoint is not None:
            program = ["integration.rigs.failpoint_daemon", ":".join(failpoint)]
        command = [
            sys.executable,
            "-m",
            *program,
            "run",
            "--zookeeper",
            zookeeper_connect,
            "--http",
            self.port.address,
            "--journal-dir",
            str(self.journal_directory),
            *options,
        ]
        self._failpoint = None if failpoint is None else failpoint[1]
        super().__init__(
            name,
            command,
            log=directory / f"{name}.log",
            environment={**_environment(), **(settings or {})},
            working_directory=_ROOT,
        )

    token: str = ""
    """Sent with each request, if it is set."""
    tls: ssl.SSLContext | None = None
    """Set for a daemon that speaks TLS, before it is started."""

    @property
    def url(self) -> str:
        """The address at which it serves HTTP."""
        return f"{'http' if self.tls is None else 'https'}://{self.port.address}"

    def is_ready(self) -> bool:
        """Ask ``/readyz``: leaders and standbys are both ready; and whether it has a status yet."""
        try:
            codes = [self.get(path)[0] for path in ("/readyz", "/status")]
        except (OSError, http.client.HTTPException):
            return False
        # A daemon with tokens is ready once it has a status, too.
        is_served = codes[1] in {http.HTTPStatus.OK, http.HTTPStatus.UNAUTHORIZED}
        return codes[0] == http.HTTPStatus.OK and is_served

    def has_reached_failpoint(self) -> bool:
        """Return whether it reached the failpoint at which it dies or freezes."""
        log = self.log.read_text() if self.log.exists() else ""
        return self._failpoint is not None and any(
            f'"{REACHED}"' in line and f'"{self._failpoint}"' in line for line in log.splitlines()
        )

    def get(self, path: str) -> tuple[int, str]:
        """
        Return code and body of an HTTP GET.

        Raises:
            OSError: It does not answer.
        """
        where: Final = (LOCALHOST, self.port.number)
        connection = (
            http.client.HTTPConnection(*where, timeout=_ANSWER_WITHIN_S)
            if self.tls is None
            else http.client.HTTPSConnection(*where, timeout=_ANSWER_WITHIN_S, context=self.tls)
        )
        try:
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        """
        Return ``/status``.

        Raises:
            OSError: It does not answer, or not yet: it is ready a moment before it has a status.
        """
        code, body = self.get("/status")
        if code == http.HTTPStatus.SERVICE_UNAVAILABLE:
            raise ConnectionError(body)
        assert code == http.HTTPStatus.OK, f"/status answered {code}: {body}"
        content = json.loads(body)
        assert isinstance(content, dict), body
        return content


def run_reassigner(
    *arguments: str,
    within_s: float = 120.0,
    errors_too: bool = True,
    settings: Mapping[str, str] | None = None,
) -> ToolResult:
    """
    Run one verb of the CLI to its end.

    Args:
        arguments: Verb and options.
        within_s: It is killed and ``TimeoutExpired`` raised after this many seconds.
        errors_too: Whether its standard error is part of what is returned.
        settings: Settings, by the name of their environment variable.
    """
    done = subprocess.run(
        dying_with_parent([sys.executable, "-m", "controller.cli", *arguments]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors_too else subprocess.DEVNULL,
        text=True,
        env={**_environment(), **(settings or {})},
        cwd=_ROOT,
        timeout=within_s,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout)


def _environment() -> dict[str, str]:
    """Return ours without settings of the reassigner: what runs here says everything it means."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
