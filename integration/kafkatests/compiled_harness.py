"""
Kafka's test classes and the hooks of ``harness``, as what a JVM takes.

Kept under the user's cache directory, keyed by what they are made of, as the jars of
``integration.rigs.kafka_jars``.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.rigs.caches import alone, cache_directory
from integration.rigs.kafka_jars import JarsUnavailableError

HARNESS: Final = Path(__file__).with_name("harness")
_POM: Final = Path(__file__).with_name("pom.xml")
_MANIFEST: Final = "Premain-Class: kafkatests.Agent\nCan-Retransform-Classes: true\n"


@dataclass(frozen=True, slots=True)
class CompiledHarness:
    """What the JVM of a test class starts with."""

    jar: Path
    """The hooks, which are the agent of the JVM as well."""
    classpath: str
    """The test classes of the release and what they need."""


def compiled_harness(kafka: str) -> CompiledHarness:
    """
    Return the hooks for a release of Kafka, and its test classes; make what is missing.

    Raises:
        JarsUnavailableError: Maven or a JDK is missing, or failed.
    """
    root = cache_directory("kafkatests")
    with alone(root / "lock"):
        classpath = _resolved(root, kafka)
        return CompiledHarness(_compiled(root, kafka, classpath), classpath)


def _resolved(root: Path, kafka: str) -> str:
    """Return the class path of the test classes of a release."""
    path = root / f"classpath-{kafka}-{_key(_POM.read_bytes())}.txt"
    if not path.exists():
        since_3_7 = tuple(int(part) for part in kafka.split(".")[:2]) >= (3, 7)
        unfinished = path.with_suffix(".unfinished")
        _call(
            "mvn",
            "-q",
            "-B",
            f"--file={_POM}",
            f"-Dkafka.version={kafka}",
            *(["--activate-profiles=modules-of-3.7"] if since_3_7 else []),
            "dependency:build-classpath",
            f"-Dmdep.outputFile={unfinished}",
        )
        unfinished.rename(path)
    return path.read_text().strip()


def _compiled(root: Path, kafka: str, classpath: str) -> Path:
    """Return the jar of the hooks, compiled against the test classes of a release."""
    sources = HARNESS / "src"
    programs = sorted(sources.rglob("*.java"))
    services = sorted((sources / "META-INF").rglob("*.*"))
    content = b"".join(path.read_bytes() for path in [*programs, *services])
    jar = root / f"harness-{kafka}-{_key(content)}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=root) as name:
            scratch = Path(name)
            classes = scratch / "classes"
            _call(
                "javac",
                "-nowarn",
                "-proc:none",
                "-cp",
                classpath,
                "-d",
                str(classes),
                *map(str, programs),
            )
            shutil.copytree(sources / "META-INF", classes / "META-INF")
            manifest = scratch / "manifest.txt"
            manifest.write_text(_MANIFEST)
            unfinished = scratch / "harness.jar"
            _call("jar", "cfm", str(unfinished), str(manifest), "-C", str(classes), ".")
            unfinished.rename(jar)
    return jar


def _key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _call(program: str, *arguments: str) -> None:
    path = shutil.which(program)
    if path is None:
        raise JarsUnavailableError(f"{program} is needed to make Kafka's tests run")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-2000:]
        raise JarsUnavailableError(f"{program} failed ({done.returncode}): {output}")
