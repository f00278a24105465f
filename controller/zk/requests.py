"""
What operators ask for, as events: requests, cancellations, the kill switch, the queue, controls.

Everything here is watched, as anybody may write it. What is kept of it is ``histories``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from controller.core.controls import Controls, Limits, Pauses
from controller.core.events import (
    CancellationRead,
    ControlsRead,
    KillSwitchRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.submissions import Submission
from controller.zk.readers import Reader, Watch, warn_unreadable
from controller.znodes import paths
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.controls import decode_limits, decode_pauses, decode_throttle
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.requests import decode_submission

Value = TypeVar("Value")


class Requests:
    """Reads one of them at a time."""

    def __init__(self, reader: Reader) -> None:
        """Read by this reader."""
        self._reader = reader

    def listed(self, watcher: Watch) -> SubmissionsListed:
        """List the requests; what is no request is left where it is."""
        names = self._reader.children_watched(paths.REQUESTS, watcher)
        for name in names:
            if not paths.is_submission(name):
                warn_unreadable(paths.submission_path(name), "it is not named like a request")
        return SubmissionsListed(frozenset(filter(paths.is_submission, names)))

    def read(self, names: Sequence[str]) -> SubmissionsRead:
        """Read requests as submitted."""
        read: dict[str, Submission | None] = {}
        for name, znode in self._reader.get_many(names, paths.submission_path):
            read[name] = (
                None
                if znode is None
                else decode_submission(
                    name, znode.data, znode.version, znode.czxid, znode.created_ms
                )
            )
        return SubmissionsRead(read)

    def cancellation(self, watcher: Watch) -> CancellationRead:
        """Read what is to be cancelled."""
        znode = self._reader.get_watched(paths.CANCEL, watcher)
        if znode is None:
            return CancellationRead(None)
        return CancellationRead(
            decode_cancellation(
                znode.data, znode.version, znode.czxid, znode.created_ms, znode.mzxid
            )
        )

    def kill_switch(self, watcher: Watch) -> KillSwitchRead:
        """Look whether work may begin."""
        return KillSwitchRead(self._reader.exists(paths.KILL_SWITCH, watcher))

    def queue(self, watcher: Watch) -> QueueRead:
        """Read the queue."""
        znode = self._reader.get_watched(paths.QUEUE, watcher)
        if znode is None:
            return QueueRead(None)
        return QueueRead(decode_legacy_plan(znode.data, znode.version, znode.czxid))

    def controls(self, watcher: Watch) -> ControlsRead:
        """Read what operators turned."""
        unreadable: dict[str, str] = {}

        def read(path: str, decode: Callable[[bytes], Value | str]) -> Value | None:
            znode = self._reader.get_watched(path, watcher)
            value = None if znode is None else decode(znode.data)
            if isinstance(value, str):
                unreadable[path] = value
                warn_unreadable(path, value)
                return None
            return value

        pauses = read(paths.PAUSES, decode_pauses)
        limits = read(paths.LIMITS, decode_limits)
        throttle = read(paths.THROTTLE, decode_throttle)
        return ControlsRead(Controls(pauses or Pauses(), limits or Limits(), throttle, unreadable))
