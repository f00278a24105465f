"""
Exec another program that the kernel kills when the process that started it ends.

Run as a script: ``python -I die_with_parent.py PARENT_PID READY_FD PROGRAM ARGUMENTS...``. It
imports nothing of the project, asks for SIGKILL at the parent's death
(``prctl(PR_SET_PDEATHSIG)``, kept over ``exec``) and execs: the process id stays that of the
program. A ``preexec_fn`` instead would run Python code between fork and exec of a process with
threads.

``READY_FD`` is the writing end of a pipe: it closes when the program runs, so that the parent can
wait for that (a child stopped earlier would survive its parent); -1: the parent does not wait.

To the kernel the parent is the *thread* that forked; ``processes`` forks from one that stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask for the signal, then exec the program; return only if the parent is dead already."""
    parent, ready, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if ready >= 0:
        os.set_inheritable(ready, False)  # noqa: FBT003 - the system's name for it
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        return  # it died before the signal was requested
    os.execvp(program[0], program)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
