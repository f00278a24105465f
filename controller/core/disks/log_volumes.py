"""Volumes of log directories, and how long they keep the bytes of a deleted log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.model import LogDir

DELETE_DELAY_S: Final = 60.0
"""Kafka's default of ``file.delete.delay.ms``: how long a deleted log keeps its bytes."""
SAME_VOLUME_BYTES: Final = 64 * 2**20
"""
Directories of equal size whose free space differs by less than this count as one volume.

One answer reads them one after the other, while producers write.
"""


def volume_of(directory: LogDir, directories: Iterable[LogDir]) -> tuple[str, ...]:
    """Return the directories that seem to share the volume of this one, with itself."""
    if directory.total is None or directory.usable is None:
        return (directory.path,)
    usable = directory.usable
    return tuple(
        d.path
        for d in directories
        if d is directory
        or (
            d.total == directory.total
            and d.usable is not None
            and abs(d.usable - usable) < SAME_VOLUME_BYTES
        )
    )
