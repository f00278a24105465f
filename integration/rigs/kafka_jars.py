"""
The jars of a Kafka release, resolved by Maven from a pom once and kept.

``pom.xml`` names broker, ZooKeeper and tools; that of the decoder gate only the client library.
Kept under the user's cache directory, keyed by the release and the pom's content: a changed pom
resolves anew, a fresh clone does not. Safe when several processes ask at once: one resolves, into a
directory that gets its final name only when it is complete; the others wait.

``python -m integration.rigs.kafka_jars`` resolves those of the present release and shows the
progress. It needs the standard library only, so that it can run while the package is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from integration.rigs.caches import alone, cache_directory

POM: Final = Path(__file__).with_name("pom.xml")
CLIENTS_POM: Final = Path(__file__).parents[1] / "decoder_gate" / "pom.xml"
RESOLVE_WITHIN_S: Final = 900
REPORT_EVERY_S: Final = 2.0
MAVEN_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""It runs for seconds: half of its processor time would be the optimising compiler's."""
DOWNLOADED: Final = "] Downloaded from "
"""In the line that Maven prints after each file."""


Report = Callable[[str], None]


def _no_report(_: str) -> None:
    """Report nothing."""


class JarsUnavailableError(RuntimeError):
    """Maven is missing, or could not resolve the jars."""


@dataclass(frozen=True, slots=True)
class Release:
    """The versions that resolve one Kafka release."""

    kafka: str
    scala: str
    zookeeper: str
    """The broker's client library, and the server when it runs from these jars."""

    @property
    def has_java_tools(self) -> bool:
        """True if the stock tools are the Java ones of ``kafka-tools``, no longer Scala."""
        return self._minor >= (3, 7)

    @property
    def reassigns_by_api(self) -> bool:
        """True if the reassignment tool speaks to brokers (KIP-455) rather than to ZooKeeper."""
        return self._minor >= (2, 6)

    @property
    def writes_steps(self) -> bool:
        """True if its controllers keep adding and removing replicas in topic znodes (KIP-455)."""
        return self._minor >= (2, 4)

    @property
    def may_forget_isr_changes(self) -> bool:
        """True if a leader may not repeat what it asked of a controller that died (AlterIsr)."""
        return (2, 7) <= self._minor < (3, 0)

    @property
    def lists_controllers(self) -> bool:
        """True if brokers that stop look their controller up in metadata, not in ZooKeeper."""
        return self._minor >= (3, 0)

    @property
    def _minor(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.kafka.split(".")[:2])


KAFKA_3_9: Final = Release("3.9.1", "2.13", "3.8.4")
KAFKA_3_5: Final = Release("3.5.2", "2.13", "3.6.4")
KAFKA_3_2: Final = Release("3.2.3", "2.13", "3.6.3")
KAFKA_2_8: Final = Release("2.8.2", "2.13", "3.5.9")
KAFKA_2_7: Final = Release("2.7.2", "2.13", "3.5.9")
# The ZooKeeper clients that these two shipped with cannot connect from Java 17.
KAFKA_2_4: Final = Release("2.4.1", "2.12", "3.5.9")
KAFKA_2_3: Final = Release("2.3.1", "2.12", "3.4.10")


def classpath(release: Release = KAFKA_3_9) -> str:
    """
    Return the class path of a release, resolving it first if this machine has not yet.

    Raises:
        JarsUnavailableError: Maven is missing, failed or took too long.
    """
    return str(jars_directory(release) / "*")


def jars_directory(release: Release = KAFKA_3_9, report: Report = _no_report) -> Path:
    """
    Return the directory that holds exactly the jars of a release; report the progress.

    Raises:
        JarsUnavailableError: Maven is missing, failed or took too long.
    """
    properties = {
        "kafka.version": release.kafka,
        "scala.binary": release.scala,
        "zookeeper.version": release.zookeeper,
    }
    name = f"kafka-{release.kafka}-{_key(POM, repr(release))}"
    return _resolved(name, POM, properties, report)


def clients_classpath(version: str) -> str:
    """
    Return the class path of the client library of a Kafka version.

    Raises:
        JarsUnavailableError: Maven is missing, failed or took too long.
    """
    name = f"kafka-clients-{version}-{_key(CLIENTS_POM, version)}"
    return str(_resolved(name, CLIENTS_POM, {"kafka.version": version}) / "*")


def _resolved(
    name: str, pom: Path, properties: Mapping[str, str], report: Report = _no_report
) -> Path:
    root = cache_directory("jars")
    directory = root / name
    if directory.is_dir():
        return directory
    with alone(root / "lock"):
        if not directory.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix="resolving-", dir=root))
            try:
                _resolve(pom, properties, scratch, report)
                scratch.chmod(0o755)
                scratch.rename(directory)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return directory


def _key(pom: Path, release: str) -> str:
    return hashlib.sha256(pom.read_bytes() + release.encode()).hexdigest()[:12]


def _resolve(pom: Path, properties: Mapping[str, str], into: Path, report: Report) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError("Maven (mvn) is needed once, to resolve Kafka's jars")
    command = [
        maven,
        "--batch-mode",
        f"--file={pom}",
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-DincludeScope=runtime",
        f"-DoutputDirectory={into}",
        "dependency:copy-dependencies",
    ]
    options = f"{MAVEN_JVM} {os.environ.get('MAVEN_OPTS', '')}"
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "MAVEN_OPTS": options},
    ) as process:
        end = Timer(RESOLVE_WITHIN_S, process.kill)
        end.start()
        try:
            last = _follow(process.stdout or (), report)
            code = process.wait()
        finally:
            end.cancel()
            process.kill()
    if code != 0 or not any(into.glob("kafka[_-]*.jar")):
        limit = f" after {RESOLVE_WITHIN_S} s" if code < 0 else ""
        raise JarsUnavailableError(f"Maven failed ({code}){limit}: {last}")


def _follow(lines: Iterable[str], report: Report) -> str:
    """Report the downloads; return the last lines."""
    last = deque[str](maxlen=30)
    downloaded, next_report = 0, time.monotonic() + REPORT_EVERY_S
    for line in lines:
        last.append(line)
        if DOWNLOADED not in line:
            continue
        downloaded += 1
        if time.monotonic() >= next_report:
            report(f"{downloaded} files downloaded")
            next_report = time.monotonic() + REPORT_EVERY_S
    return "".join(last)


def main() -> int:
    """Resolve the jars of the present release."""
    try:
        jars_directory(report=lambda text: print(f"--- Kafka's jars: {text}", flush=True))
    except JarsUnavailableError as error:
        print(f"--- Kafka's jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
