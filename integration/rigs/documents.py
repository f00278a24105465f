"""
The commands that a document lists, and what each does when it is run as written.

A command is a line of a shell block, or text in backticks that begins with a program. Lines that
end with a backslash and loops are one command.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.rigs.processes import dying_with_parent

PROGRAMS: Final = frozenset(
    {
        ".",
        "apt",
        "curl",
        "docker",
        "export",
        "for",
        "helm",
        "kafka-acls.sh",
        "kafka-reassign-partitions.sh",
        "kubectl",
        "make",
        "pip",
        "promtool",
        "python",
        "python3.11",
        "reassigner",
        "spark-submit",
        "systemctl",
    }
)
_BLOCK: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`([^`]+)`")
_SHELLS: Final = frozenset({"", "sh", "bash", "console"})
_ASSIGNED: Final = re.compile(r"^(\w+=\S+ )+(\\\n)?")
_COMMENT: Final = re.compile(r"\s+#\s.*$")


def listed_commands(text: str) -> list[str]:
    """Return the commands of a Markdown document, each once, without comments."""
    found: dict[str, None] = {}
    for language, body in _BLOCK.findall(text):
        if language in _SHELLS and not body.lstrip().startswith("#!"):
            found |= dict.fromkeys(_of_block(body, is_shell=language == "sh"))
    for code in _INLINE.findall(_BLOCK.sub("", text)):
        words = " ".join(code.split())
        if " " in words and _program_of(words) in PROGRAMS:
            found[words] = None
    return list(found)


def _of_block(body: str, *, is_shell: bool) -> Iterator[str]:
    """Yield the commands of a block; without ``is_shell``, other lines are output or content."""
    lines = [line.strip() for line in body.splitlines()]
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    pending: list[str] = []
    for line in prompted or lines:
        pending.append(_COMMENT.sub("", line))
        if pending[0].startswith("for ") and line != "done":
            continue
        if line.endswith("\\"):
            continue
        command = "\n".join(pending)
        pending = []
        if is_shell or _program_of(command) in PROGRAMS:
            yield command


def _program_of(command: str) -> str:
    """Return the program, without the variables that are set for it and its directory."""
    words = _ASSIGNED.sub("", command).split()
    return words[0].rpartition("/")[2] if words else ""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    output: str
    """Standard output and standard error."""


def run_in_shell(
    command: str,
    exports: list[str],
    environment: Mapping[str, str],
    directory: Path,
    *,
    interrupt_after_s: float | None = None,
) -> Done:
    """
    Run a command in a shell of its own.

    Args:
        command: The command.
        exports: What was exported before, as in the shell of a reader.
        environment: The environment of the shell.
        directory: Where it runs.
        interrupt_after_s: Seconds after which it gets Ctrl-C; None: it ends by itself.

    """
    if interrupt_after_s is not None:
        command = f"timeout --preserve-status --signal INT {interrupt_after_s:g} {command}"
    script = "\n".join(("set -o pipefail", *exports, command))
    ended = subprocess.run(
        dying_with_parent(["bash", "-c", script]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(environment),
        cwd=directory,
        timeout=300,
        check=False,
    )
    return Done(ended.returncode, ended.stdout)
