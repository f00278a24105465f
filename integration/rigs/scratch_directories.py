"""
Temporary directories that are gone after the run, or at the latest when the next run begins.

A killed run cannot clean up. So each directory holds a locked file; the kernel drops the lock with
the process, and the next process that makes a directory removes those whose lock is free.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from integration.rigs.small_disks import unmount_below

_PREFIX: Final = "kafka-reassigner-"
_LOCK: Final = ".in-use"


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yield a new directory, removed at the end; remove those that dead runs left."""
    _sweep()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    unnamed = directory / (_LOCK + ".new")
    with unnamed.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(directory / _LOCK)  # named only when locked: a sweep never sees it free
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _sweep() -> None:
    for name in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with name.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unmount_below(name.parent)
                shutil.rmtree(name.parent, ignore_errors=True)
        except OSError:
            continue  # in use, of another user, or just removed by another process
