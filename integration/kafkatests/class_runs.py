"""One test class of Kafka in a JVM of its own, with or without the daemon, and its results."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Final

from integration.kafkatests.compiled_harness import HARNESS, CompiledHarness

ENDS_WITHIN_S: Final = 45 * 60.0
_STOPS_WITHIN_S: Final = 60.0
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.nio.file",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.regex",
    "java.base/java.util.stream",
    "java.security.jgss/sun.security.krb5",
)
"""Packages that Kafka's tests reach into."""


class Mode(StrEnum):
    """Who is the controller."""

    BASELINE = "baseline"
    """A broker; there is no daemon."""
    DAEMON = "daemon"
    """The daemon: native engine, permanent tenure, public endpoint."""
    IDLE = "idle"
    """A broker; the daemon runs beside with its defaults."""


@dataclass(frozen=True, slots=True)
class Result:
    """How one test ended."""

    verdict: str
    """``pass``, ``FAIL`` or ``skip``."""
    seconds: float = 0.0
    reason: str = ""
    """Of a failure; of a pass, why a broker served a part of it in the place of the daemon."""


@dataclass(frozen=True, slots=True)
class ClassRun:
    """How the classes of one run are started."""

    kafka: str
    harness: CompiledHarness
    work: Path
    """Logs of brokers and of daemons go here."""
    reassigner: str
    """The command."""
    options: str = ""
    """Further options of ``reassigner run``."""
    without_ids: bool = False
    """Topics that the tests write to ZooKeeper get no topic ids."""

    def results(
        self, mode: Mode, name: str, methods: Collection[str], excluded: Collection[str]
    ) -> dict[str, Result]:
        """
        Run a class and return the result of each test.

        Args:
            mode: Who is the controller.
            name: The class.
            methods: Only these, unless empty.
            excluded: Not these, where the daemon is the controller.
        """
        unwanted = set(excluded) if mode is Mode.DAEMON else set()
        wanted = [method for method in methods if method not in unwanted]
        if methods and not wanted:
            return {}
        logs = self._new_folder(mode, name)
        results = logs / "results.tsv"
        left_out = (f"-{method}" for method in sorted(unwanted))
        code = self._run(mode, logs, [str(results), name, *wanted, *left_out])
        ended: dict[str, Result] = {}
        if results.exists():
            for line in results.read_text().splitlines():
                _, test, verdict, milliseconds, reason = line.split("\t", 4)
                ended[test] = Result(verdict, int(milliseconds) / 1000, reason)
        if code != 0:
            reason = f"exit code {code}, see {logs}/output.log"
            ended["(the whole class)"] = Result("FAIL", reason=reason)
        return ended

    def _new_folder(self, mode: Mode, name: str) -> Path:
        parent = self.work / "logs" / self.kafka / mode
        parent.mkdir(parents=True, exist_ok=True)
        for n in count(1):
            folder = parent / (name if n == 1 else f"{name}.{n}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
        raise AssertionError("unreachable")

    def _run(self, mode: Mode, logs: Path, arguments: list[str]) -> int:
        defined = {
            "kafkatests.mode": mode,
            "kafkatests.without.ids": str(self.without_ids).lower(),
            "kafkatests.reassigner": self.reassigner,
            "kafkatests.logs": logs,
            "kafkatests.options": self.options,
            "log4j.configuration": (HARNESS / "log4j.properties").as_uri(),
        }
        command = [
            "java",
            "-Xmx3g",
            "-Xss4m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            f"-javaagent:{self.harness.jar}",
            *(f"-D{name}={value}" for name, value in defined.items()),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            "-cp",
            f"{self.harness.jar}:{self.harness.classpath}",
            "kafkatests.Runner",
            *arguments,
        ]
        current = self.work / "cwd"
        current.mkdir(exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REASSIGNER_")}
        with (logs / "output.log").open("w") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=current, env=environment
            )
            try:
                return process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                return _stopped(process)
            finally:
                _stopped(process)


def _stopped(process: subprocess.Popen[bytes]) -> int:
    """End a JVM, which ends its daemon first, and return its exit code."""
    process.terminate()
    try:
        return process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
