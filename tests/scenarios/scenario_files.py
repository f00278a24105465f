"""
The format of scenario files: commands, each with the output that is expected of it.

A file is a comment, then blocks that a blank line separates: a command of one or several lines, a
line ``----``, and the expected output. The format is that of the data-driven tests of etcd/raft.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

SEPARATOR: Final = "----"
NO_OUTPUT: Final = "ok"


class Command(NamedTuple):
    """One command: its name, its arguments in order, and its ``key=value`` arguments."""

    name: str
    words: tuple[str, ...]
    values: dict[str, str]

    @property
    def entries(self) -> dict[str, str]:
        """The arguments that name a partition, such as ``t-0=1,2,4``."""
        return {k: v for k, v in self.values.items() if k.rpartition("-")[2].isdigit()}

    @property
    def options(self) -> dict[str, str]:
        """The other ``key=value`` arguments."""
        return {k: v for k, v in self.values.items() if k not in self.entries}


class Block(NamedTuple):
    """A command as written, and the output that is expected."""

    comment: str
    command: str
    expected: str


def read_blocks(path: Path) -> list[Block]:
    """
    Read a scenario file.

    Raises:
        ValueError: A block has no separator.

    """
    blocks = []
    comments: list[str] = []
    for paragraph in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = paragraph.splitlines()
        while lines and lines[0].startswith("#"):
            comments.append(lines.pop(0))
        if not lines:
            comments.append("")
            continue
        if SEPARATOR not in lines:
            raise ValueError(f"{path.name}: no line {SEPARATOR} follows {lines[0]!r}")
        at = lines.index(SEPARATOR)
        command, expected = "\n".join(lines[:at]), "\n".join(lines[at + 1 :])
        blocks.append(Block("\n".join(comments), command, expected))
        comments = []
    return blocks


def parse_command(text: str) -> Command:
    """Split a command into words; its lines count as one."""
    name, *arguments = text.split()
    words = tuple(a for a in arguments if "=" not in a)
    pairs = (a.partition("=") for a in arguments if "=" in a)
    return Command(name, words, {key: value for key, _, value in pairs})


def format_blocks(blocks: Sequence[Block]) -> str:
    """Return the text of a scenario file."""
    parts = []
    for block in blocks:
        comment = f"{block.comment}\n" if block.comment else ""
        parts.append(f"{comment}{block.command}\n{SEPARATOR}\n{block.expected}\n")
    return "\n".join(parts)
