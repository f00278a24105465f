"""
Child processes that can be stopped, killed, frozen and started again, and do not outlive the tests.

The kernel kills every child when this process ends, frozen children included
(``die_with_parent``). Each child has a session of its own: Ctrl-C reaches the test run and not the
brokers.

Invariant: children are forked from one thread that lives as long as the process, because the
kernel's signal is bound to the forking thread; ``start`` may be called from any thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from integration.rigs.waiting import GaveUpError, eventually

_DIE_WITH_PARENT: Final = Path(__file__).with_name("die_with_parent.py")
_TAIL_CHARACTERS: Final = 2000


class ChildDiedError(RuntimeError):
    """A child ended before it was ready."""


class ChildProcess:
    """
    One program, started any number of times with the same arguments.

    Args:
        name: How messages call it.
        command: Program and arguments.
        log: Where its output goes, appended over restarts.
        environment: The whole environment; None inherits ours.
        working_directory: Where it runs; None means where we do.
        ready_within_s: How long ``start`` waits for ``is_ready``, in seconds.
    """

    def __init__(  # noqa: PLR0913 - what a process is made of
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        ready_within_s: float = 60.0,
    ) -> None:
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environment = None if environment is None else dict(environment)
        self._working_directory = working_directory
        self._ready_within_s = ready_within_s
        self._process: subprocess.Popen[bytes] | None = None

    def is_ready(self) -> bool:
        """Return whether it serves; servers know better than this."""
        return self.is_alive

    def start(self) -> None:
        """
        Start it and wait until it serves.

        Raises:
            ChildDiedError: It ended instead.
            GaveUpError: It was not ready in time.
        """
        self.spawn()
        self.await_ready()

    def spawn(self) -> None:
        """
        Start it without waiting, so that several can come up at once.

        Raises:
            ChildDiedError: It runs already.
        """
        if self.is_alive:
            raise ChildDiedError(f"{self.name} is not dead: it runs as {self.pid}")
        self._process = _spawner().submit(self._fork).result()

    def await_ready(self) -> None:
        """
        Wait until it serves.

        Raises:
            ChildDiedError: It ended instead.
            GaveUpError: It was not ready in time.
        """

        def ready_or_dead() -> bool:
            return not self.is_alive or self.is_ready()

        eventually(
            ready_or_dead,
            within_s=self._ready_within_s,
            what=lambda: f"{self.name} is ready; its log ends with\n{self.log_tail()}",
        )
        if not self.is_alive:
            raise ChildDiedError(f"{self.name} ended at once:\n{self.log_tail()}")

    def stop(self, within_s: float = 30.0) -> int:
        """Ask it to end (SIGTERM); kill it when it does not in time. Return the exit code."""
        self.signal(signal.SIGTERM)
        self.thaw()  # a frozen process acts on nothing but SIGKILL
        try:
            return self.wait(within_s)
        except GaveUpError:
            return self.kill()

    def kill(self) -> int:
        """Kill it (SIGKILL), frozen or not. Return the exit code."""
        self.signal(signal.SIGKILL)
        return self.wait(within_s=30.0)

    def restart(self) -> None:
        """Stop it in an orderly way and start it again, on the same ports and data."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Make it hang (SIGSTOP): connections stay open, nothing is answered, sessions expire."""
        self.signal(signal.SIGSTOP)
        if self._process is not None and self._process.poll() is None:
            # The kernel stops the threads a moment after the signal was sent.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """Continue a frozen process (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it is dead."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, within_s: float) -> int:
        """
        Wait for its end and return the exit code, negative for a signal; 0 if it was never started.

        Raises:
            GaveUpError: It still ran when the time was up.
        """
        if self._process is None:
            return 0
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            raise GaveUpError(f"{self.name} did not end within {within_s:g} s") from error

    @property
    def is_alive(self) -> bool:
        """True if the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id of the last start."""
        return None if self._process is None else self._process.pid

    def log_tail(self) -> str:
        """Return the end of what it wrote."""
        if not self.log.exists():
            return ""
        return self.log.read_text(errors="replace")[-_TAIL_CHARACTERS:]

    def has_written(self, text: str) -> bool:
        """Return whether something is anywhere in what it wrote."""
        return self.log.exists() and text in self.log.read_text(errors="replace")

    def _fork(self) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        try:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    dying_with_parent(self._command, ready_fd=writing),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    cwd=self._working_directory,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            pipe.read()  # ends when the program runs, or is dead already
        return process


def dying_with_parent(command: Sequence[str], *, ready_fd: int = -1) -> list[str]:
    """
    Return the command line of a process that dies with the thread that forks it.

    Args:
        command: Program and arguments.
        ready_fd: An inherited descriptor that closes when the program runs.
    """
    return [sys.executable, "-I", str(_DIE_WITH_PARENT), str(os.getpid()), str(ready_fd), *command]


def exit_on_sigterm() -> None:
    """Turn SIGTERM into SystemExit, so that ``with`` blocks clean up; main thread only."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


@cache
def _spawner() -> ThreadPoolExecutor:
    """Return the one thread that forks: it ends only with the interpreter."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
