"""
Log directories on file systems of a limited size: memory file systems, mounted for one cluster.

Mounting needs the right to do so, which containers and users other than root often lack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

_MOUNTS: Final = Path("/proc/self/mounts")
_SAMPLED_EVERY_S: Final = 0.05


class MountRefusedError(Exception):
    """File systems cannot be mounted here."""


@contextmanager
def small_disks(directories: Iterable[Path], megabytes: int) -> Iterator[None]:
    """
    Mount a file system of this size on each directory, until the end of the context.

    Raises:
        MountRefusedError: it is not permitted.

    """
    mounted: list[Path] = []
    try:
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
            _mount(directory, megabytes)
            mounted.append(directory)
        yield
    finally:
        for directory in mounted:
            _unmount(directory)


def unmount_below(directory: Path) -> None:
    """Unmount what a run that was killed left mounted below a directory."""
    if not _MOUNTS.exists():
        return
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        place = Path(line.split(" ")[1])
        if place.is_relative_to(directory):
            _unmount(place)


def _mount(directory: Path, megabytes: int) -> None:
    mount = shutil.which("mount")
    if mount is None:
        raise MountRefusedError("there is no mount command")
    command = [mount, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise MountRefusedError(f"{' '.join(command)}: {done.stderr.strip()}")


def _unmount(directory: Path) -> None:
    umount = shutil.which("umount")
    if umount is not None:
        subprocess.run([umount, "--lazy", str(directory)], check=False, timeout=30)


class DiskWatch:
    """Samples the free space of directories, and keeps the least of each and the last."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = tuple(directories)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.free: dict[Path, int] = {d: free_bytes(d) for d in self._directories}
        """Bytes, in the last sample."""
        self.least_free: dict[Path, int] = dict(self.free)
        """Bytes."""

    def __enter__(self) -> Self:
        """Begin to sample."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the last sample."""
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(_SAMPLED_EVERY_S):
            for directory in self._directories:
                self.free[directory] = free_bytes(directory)
                self.least_free[directory] = min(self.least_free[directory], self.free[directory])


def free_bytes(directory: Path) -> int:
    """Return the free space of a file system."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
