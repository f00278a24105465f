"""
Where what is expensive to make is kept between runs: below the user's cache directory.

Things there are named by what they are made of, so a fresh clone finds them and a changed recipe
makes new ones.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory(name: str) -> Path:
    """Return the directory of one kind of thing; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kafka-reassigner" / name


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds a lock file, and hold it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # released with the file, also if the process dies
        yield
