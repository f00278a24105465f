"""
The options of Java programs in tests: small heaps, fast starts, logs to their output.

Knows nothing of what the programs do; ``servers`` and ``kafka_tools`` do.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_LOGGING: Final = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.out
log4j.appender.out.threshold={threshold}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

# Start-up time counts more than peak speed: one compiler tier, one collector thread.
_QUICK: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Xss512k",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


class JavaMissingError(RuntimeError):
    """No Java on this machine."""


def java_command(
    main_class: str,
    *arguments: str,
    classpath: str,
    heap_mb: int,
    logging: Path,
    properties: dict[str, str] | None = None,
) -> list[str]:
    """
    Return the command line of a Java program.

    Raises:
        JavaMissingError: Neither ``JAVA_HOME`` nor the path leads to Java.
    """
    defined = {"log4j.configuration": logging.as_uri(), **(properties or {})}
    return [
        _java(),
        *_QUICK,
        f"-Xmx{heap_mb}m",
        *(f"-D{name}={value}" for name, value in defined.items()),
        "-cp",
        classpath,
        main_class,
        *arguments,
    ]


def write_logging(directory: Path, *, threshold: str = "INFO") -> Path:
    """Write a logging configuration for standard output and return its path."""
    path = directory / f"log4j-{threshold.lower()}.properties"
    path.write_text(_LOGGING.format(threshold=threshold))
    return path


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise JavaMissingError("Java 17 is needed to run ZooKeeper and Kafka")
    return java
