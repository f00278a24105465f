"""
The quick start, typed into terminals as it stands: every block of "Try it by hand", in order.

Each terminal is a bash on a pseudo-terminal, as a reader has it: commands draw tables, and `watch`
is left with Ctrl-C.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.rigs.processes import dying_with_parent

ROOT: Final = Path(__file__).resolve().parent.parent
SECTION: Final = "Try it by hand"
MAKE_CLUSTER: Final = f"{sys.executable} -m integration.playground --protocol"
"""What ``make cluster`` runs once the package is installed."""
CONTROL_C: Final = "\x03"
REQUEST: Final = "request_0000000000"
LASTS_S: Final = (20, 180)
"""Seconds between which the move lasts with everything that is done meanwhile."""


def blocks() -> list[list[str]]:
    """Return the commands of each block of the section."""
    text = (ROOT / "docs" / "guide" / "quickstart.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {SECTION}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^ *```\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    return [[line.strip() for line in block.splitlines()] for block in found]


class Terminal:
    """A shell in the directory of the repository."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self._screen = ""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REASSIGNER_")}
        self._process = subprocess.Popen(
            # With it as the controlling terminal, through which Ctrl-C arrives.
            dying_with_parent(["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"]),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env={**environment, "TERM": "xterm", "COLUMNS": "120", "LINES": "50", "PS1": "$ "},
        )
        os.close(theirs)
        self._number = 0

    def type(self, text: str) -> None:
        """Send keys."""
        os.write(self._ours, text.encode())

    def run(self, command: str, *, within_s: float = 120.0) -> tuple[int, str]:
        """Type a command, wait for its end; return its exit code and what it drew."""
        self.start(command)
        return self.ended(within_s=within_s)

    def start(self, command: str) -> None:
        """Type a command that runs on."""
        self._number += 1
        self._screen = ""
        self.type(f"{command}; echo ended-{self._number}-$?-\n")

    def ended(self, *, within_s: float = 120.0) -> tuple[int, str]:
        """Wait for the end of the command; return its exit code and what it drew."""
        found = self.seen(rf"ended-{self._number}-(\d+)-", within_s=within_s)
        return int(found[1]), self._screen

    def seen(self, pattern: str, *, within_s: float = 120.0) -> re.Match[str]:
        """Wait until the screen shows something."""
        deadline = time.monotonic() + within_s
        while True:
            found = re.search(pattern, self._screen)
            if found is not None:
                return found
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} within {within_s:.0f} s:\n{self._screen[-4000:]}"
            if select.select([self._ours], [], [], left)[0]:
                text = os.read(self._ours, 65536).decode(errors="replace")
                self._screen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)

    def close(self) -> None:
        """End the shell and what runs in it."""
        self.type(CONTROL_C)
        self._process.send_signal(signal.SIGHUP)
        self._process.wait(timeout=60)
        os.close(self._ours)


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Open a terminal; close it at the end."""
    opened = Terminal()
    try:
        yield opened
    finally:
        opened.close()


def done(terminal: Terminal, command: str, *codes: int, within_s: float = 120.0) -> str:
    """Type a command that ends with one of the codes, 0 by default; return what it drew."""
    code, said = terminal.run(command, within_s=within_s)
    assert code in (codes or (0,)), f"{command} ended with {code}:\n{said}"
    return said


@pytest.mark.acceptance
@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
def test_every_block_of_the_quick_start_works_as_written(protocol: str) -> None:
    """With both engines, and the move lasts long enough to be changed."""
    cluster, examine, plan, submit, change, check = blocks()
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(terminal()) for _ in range(3))
        assert cluster == ["make cluster"]
        first.start(f"{MAKE_CLUSTER} {protocol}")
        first.seen(r"Ctrl-C here ends the cluster", within_s=180)

        sourced, doctor, run = examine
        done(second, sourced)
        assert "no_daemon" in done(second, doctor)
        second.start(run)
        second.seen("leadership_gained", within_s=60)

        sourced, generate, dry_run = plan
        done(third, sourced)
        done(third, generate)
        assert "by the throttle" in done(third, dry_run)

        execute, watch = submit
        begun = time.monotonic()
        assert f"Accepted as {REQUEST}" in done(third, execute)
        third.start(watch)
        third.seen("copying")
        third.type(CONTROL_C)
        third.ended()

        status, pause, explain, resume, throttle, follow = change
        assert REQUEST in done(third, status, 2)
        for command in (pause, explain, resume, throttle):
            done(third, command)
        done(third, follow, within_s=240)
        assert LASTS_S[0] <= time.monotonic() - begun <= LASTS_S[1]

        verify, history, back = check
        done(third, verify)
        assert REQUEST in done(third, history)
        done(third, back, within_s=240)

        for opened in (second, first):
            opened.type(CONTROL_C)
            code, said = opened.ended(within_s=60)
            assert code == 0, said
    assert not (ROOT / "build" / "cluster.env").exists()
