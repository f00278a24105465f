"""A Spark cluster of its own: a standalone master and some workers, with the scripts of pyspark."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort
from integration.rigs.waiting import eventually

_PACKAGE: Final = "org.apache.spark.deploy"
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_PROC: Final = Path("/proc")


class StandaloneSpark:
    """A running master with its workers, of one core each."""

    def __init__(self, url: str, page: str, workers: list[ChildProcess]) -> None:
        self.url: Final = url
        """As ``--master`` takes it."""
        self._page: Final = page
        self._workers: Final = workers
        self.executor_bytes = 0
        """The most memory that an executor used, of those that were looked at."""

    @classmethod
    @contextmanager
    def running(
        cls, directory: Path, *, workers: int = 2, memory: str = "1g"
    ) -> Iterator[StandaloneSpark]:
        """Start a master and workers, which lend so much memory to executors."""
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOCALHOST,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        directory.mkdir(parents=True, exist_ok=True)
        port, page = ReservedPort(), ReservedPort()

        def process(name: str, kind: str, *arguments: str) -> ChildProcess:
            return ChildProcess(
                name,
                [str(home / "bin" / "spark-class"), f"{_PACKAGE}.{kind}", *arguments],
                log=directory / f"{name}.log",
                environment=environment,
            )

        where = ("--host", LOCALHOST)
        ports = ("--port", f"{port.number}", "--webui-port", f"{page.number}")
        master = process("master", "master.Master", *where, *ports)
        url = f"spark://{port.address}"
        lent = ("--cores", "1", "--memory", memory)
        found = [
            process(
                f"worker-{n}",
                "worker.Worker",
                *(*where, "--webui-port", "0", *lent),
                *("--work-dir", str(directory / f"work-{n}"), url),
            )
            for n in range(workers)
        ]
        with ExitStack() as stack:
            stack.callback(port.close)
            stack.callback(page.close)
            for one in (master, *found):
                stack.callback(one.stop)
                one.start()
            spark = cls(url, f"http://{page.address}/json/", found)
            eventually(
                lambda: spark.alive_workers() == workers, within_s=120, tolerating=(OSError,)
            )
            yield spark

    def alive_workers(self) -> int:
        """Return the number of workers that the master knows and that live."""
        with urllib.request.urlopen(self._page, timeout=10) as answer:  # noqa: S310 - our own
            state: dict[str, Any] = json.load(answer)
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])

    def executors(self) -> list[int]:
        """Return the process ids of the executors."""
        parents = {worker.pid for worker in self._workers}
        found = []
        for path in _PROC.glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes().decode(errors="replace")
                status = (path / "status").read_text()
            except OSError:
                continue
            lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            if _EXECUTOR in command and int(lines["PPid"]) in parents:
                found.append(int(path.name))
                most = int(lines.get("VmHWM", "0 kB").split()[0]) * 1024
                self.executor_bytes = max(self.executor_bytes, most)
        return sorted(found)

    def kill_executor(self, number: int) -> int | None:
        """Kill one executor (SIGKILL), counted in turn; return its process id."""
        running = self.executors()
        if not running:
            return None
        chosen = running[number % len(running)]
        os.kill(chosen, signal.SIGKILL)
        return chosen
