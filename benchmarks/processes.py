"""The processor time and the memory of a process so far, from the kernel."""

from __future__ import annotations

import os
from pathlib import Path


def processor_s(pid: int | None) -> float:
    """
    Return the processor seconds of a process's threads, in its own code and in the kernel.

    Raises:
        OSError: there is no such process; it has ended, or was never started (None).

    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid: int | None, key: str) -> float:
    """
    Return one line of what a process holds: ``VmRSS`` now, ``VmHWM`` at its peak.

    Raises:
        OSError: there is no such process.

    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(li for li in status.splitlines() if li.startswith(f"{key}:"))
    return float(line.split()[1])
