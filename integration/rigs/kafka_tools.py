"""
The stock command-line tools, run as an operator would run them.

Their text is returned as it is; what it means is for the caller. Each run costs the start of a JVM.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import Release, classpath
from integration.rigs.processes import dying_with_parent

REASSIGN_PARTITIONS: Final = "reassign.ReassignPartitionsCommand"
TOPICS: Final = "TopicCommand"


class ToolResult(NamedTuple):
    """The result of a tool."""

    code: int
    stdout: str
    """Both streams, as a rule: the tools are not consistent about which they complain on."""


def run_tool(
    main_class: str,
    *arguments: str,
    release: Release,
    directory: Path,
    within_s: float = 120.0,
    errors_too: bool = True,
) -> ToolResult:
    """
    Run a Java program of a release and return its exit code and output.

    Args:
        main_class: Fully qualified, or one of the tools named in this module.
        arguments: Passed on.
        release: Whose jars.
        directory: Where the logging configuration is written.
        within_s: The tool is killed and ``TimeoutExpired`` raised after this many seconds.
        errors_too: Whether its standard error is part of what is returned.
    """
    command = java_command(
        _qualified(main_class, release),
        *arguments,
        classpath=classpath(release),
        heap_mb=256,
        logging=write_logging(directory, threshold="ERROR"),
    )
    done = subprocess.run(
        dying_with_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors_too else subprocess.DEVNULL,
        text=True,
        timeout=within_s,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout)


def _qualified(tool: str, release: Release) -> str:
    if tool.startswith(("org.", "kafka.")):
        return tool
    if release.has_java_tools:
        return f"org.apache.kafka.tools.{tool}"
    return f"kafka.admin.{tool.rpartition('.')[2]}"
